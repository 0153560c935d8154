--- What the scripts of this folder share.

local check = {}

local function fail(message, level)
   error(message, (level or 1) + 2)
end

local function show(value)
   return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

function check.equal(got, expected, what)
   if got ~= expected or math.type(got) ~= math.type(expected) then
      fail(("%sexpected %s, got %s"):format(what and what .. ": " or "", show(expected), show(got)))
   end
end

function check.near(got, expected, tolerance, what)
   if type(got) ~= "number" or not (got == expected or math.abs(got - expected) <= (tolerance or 1e-12)) then
      fail(("%sexpected %.17g, got %s"):format(what and what .. ": " or "", expected, show(got)))
   end
end

function check.list(got, expected, what)
   local left, right = table.concat(got, " "), table.concat(expected, " ")
   if left ~= right then
      fail(("%sexpected %s, got %s"):format(what and what .. ": " or "", right, left))
   end
end

function check.is(value, what)
   if not value then
      fail(what or "expected something true")
   end
end

--- f raises exactly `text`, placed at a line of the calling script. Returns the line.
function check.raises(text, f, ...)
   local ok, message = pcall(f, ...)
   if ok then
      fail("expected an error: " .. text)
   end
   local place, rest = tostring(message):match("^(.-:%d+): (.*)$")
   if rest ~= text then
      fail(("expected the error\n   %s\ngot\n   %s"):format(text, tostring(message)))
   end
   local source = debug.getinfo(2, "S").short_src
   if place:match("^(.*):%d+$") ~= source then
      fail(("the error is placed at %s, not in %s"):format(place, source))
   end
   return math.tointeger(place:match(":(%d+)$"))
end

--- f raises something that contains `text`.
function check.raises_with(text, f, ...)
   local ok, message = pcall(f, ...)
   if ok then
      fail("expected an error with: " .. text)
   end
   if not tostring(message):find(text, 1, true) then
      fail(("expected an error with\n   %s\ngot\n   %s"):format(text, tostring(message)))
   end
end

--- nil, a message that contains `text`, the code.
function check.fails(code, text, value, message, got)
   if value ~= nil or got ~= code or not tostring(message):find(text, 1, true) then
      fail(("expected nil, …%s…, %s; got %s, %s, %s"):format(text, code, show(value), show(message), show(got)))
   end
end

--- A row of n probabilities, in the proportions of what `weight` draws; one token's where it draws zeros only.
function check.row(n, weight)
   local row, sum = {}, 0
   for i = 1, n do
      row[i] = weight()
      sum = sum + row[i]
   end
   if sum == 0 then
      row[1], sum = 1, 1
   end
   for i = 1, n do
      row[i] = row[i] / sum
   end
   return row
end

--- What a line of shell, made as string.format makes it, prints.
function check.shell(text, ...)
   local pipe <close> = assert(io.popen(text:format(...)))
   return pipe:read("a")
end

--- The program beside the test's own (…/release/tests/lua/test_run → …/coppice); nil: it is not built.
function check.program(core)
   local exe = io.popen("readlink /proc/" .. io.open("/proc/self/stat"):read("n") .. "/exe"):read("l")
   local program = exe and exe:gsub("/[^/]*/tests/lua/test_run$", "/coppice")
   return program and core.system.kind(program) == "file" and program or nil
end

--- The names that are global now, so that a test can see that nothing was added.
function check.globals()
   local names = {}
   for name in pairs(_G) do
      names[#names + 1] = tostring(name)
   end
   table.sort(names)
   return table.concat(names, " ")
end

return check
