--- coppice repl: Lua, line by line, with cop in scope. On a terminal lines are edited, kept and completed
-- (lua/edit.c); elsewhere they come from standard input, and nothing but results is printed.

local cop, core = ...

local cli = core.use("cli")
local verb = { specs = {} }

--- Where lines are kept: of the user's state, as the desktop conventions have it.
local function history_path()
   local home = os.getenv("HOME")
   local state = os.getenv("XDG_STATE_HOME") or home and home .. "/.local/state"
   local folder = state and state:sub(1, 1) == "/" and state .. "/coppice"
   return folder and core.system.folder(folder) and folder .. "/history" or nil
end

--- A chunk of lines: an expression, or statements. → function | nil, message, whether more lines may help
local function compile(text, globals)
   local f = load("return " .. text, "=line", "t", globals)
   if f then
      return f
   end
   local problem
   f, problem = load(text, "=line", "t", globals)
   return f, problem, problem and problem:find("<eof>$") ~= nil
end

local function complain(message)
   local text = type(message) == "string" and message or core.use("inspect")(message)
   io.stderr:write((text:gsub("^line:1: ", ""):gsub("\n.*", "")), "\n")
   io.stderr:flush()
end

local function show(globals, results)
   if results.n == 0 then
      return
   end
   globals._ = results[1]
   local texts = {}
   for i = 1, results.n do
      texts[i] = core.use("inspect")(results[i])
   end
   print(table.concat(texts, "\t"))
end

--- → whether all went well
local function evaluate(f, globals, call)
   local results = table.pack(call(f))
   if not results[1] then
      complain(results[2])
      return false
   end
   local shown, problem = pcall(show, globals, table.pack(table.unpack(results, 2, results.n)))
   if not shown then
      complain(problem)
   end
   return shown
end

--- next_line(prompt) → a line, false: forget what there is, nil: the end. → whether all went well
local function loop(next_line, globals, call)
   local text, all_well = nil, true
   while true do
      local line = next_line(text and ">> " or "> ")
      if line == nil then
         break
      elseif not line then
         text = nil
      else
         text = text and text .. "\n" .. line or line
         local f, problem, is_open = compile(text, globals)
         if f then
            all_well, text = evaluate(f, globals, call) and all_well, nil
         elseif not is_open then
            complain(problem)
            all_well, text = false, nil
         end
      end
   end
   if text then
      complain("the last lines are unfinished: " .. text:gsub("\n.*", " …"))
   end
   return all_well and not text
end

--- All names that a line can use.
local function visible(globals)
   local names = {}
   for _, t in ipairs { _G, globals } do
      for key, value in next, t do
         names[key] = value
      end
   end
   return names
end

local function greet()
   print(("Coppice %s, %s. cop.help() lists what there is, Tab completes, _ is the last result; Ctrl-C stops,"
      .. " Ctrl-D ends."):format(cop.version, _VERSION))
end

function verb.main(words)
   local o = cli.parse("repl", words, verb.specs)
   if o[1] then
      cli.fail("coppice repl: what is \"%s\"? It takes lines; coppice run %s runs a script", o[1], o[1])
   end
   local globals = setmetatable({ cop = cop }, { __index = _G })
   local edit = core.edit or { call = pcall }
   local is_person = core.system.is_terminal("stdin") and core.system.is_terminal("stdout")
   if is_person and edit.line then
      edit.open(history_path(), function(text) return core.use("completion").edit(text, visible(globals)) end)
      greet()
      loop(edit.line, globals, edit.call)
      print()
      return 0
   end
   return loop(function() return io.read("l") end, globals, edit.call) and 0 or 1
end

return verb
