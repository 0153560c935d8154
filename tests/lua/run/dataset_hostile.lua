--- Hostile datasets: one clear message, or an item that is whole. Never an error, never half a text.

local check, test, core = ...
local cop = require("coppice")
local formats = core.use("dataset_formats")
local folder = test.folder()

local function open(text, options)
   options = options or {}
   options.path = folder .. "/" .. (options.path or "bad.jsonl")
   local file = assert(io.open(options.path, "wb"))
   file:write(text)
   file:close()
   return cop.dataset(options)
end

local good = '{"question_id": 1, "turns": ["a"]}\n'

local function refused(text, line, options)
   check.fails("format", "bad.jsonl, line 2: " .. text, open(good .. line, options))
end

-- ---- Wrong types, missing fields -----------------------------------------------------------------
refused("\"turns\" must be a list of strings, got text", '{"question_id": 2, "turns": "a"}')
refused("\"turns\" must be a list of strings, got an object", '{"question_id": 2, "turns": {"1": "a"}}')
refused("\"turns\" must be a list of strings, got nothing", '{"question_id": 2, "turn": ["a"]}')
refused("\"turns\" must be a list of strings, got an empty list", '{"turns": []}')
refused("\"turns\" must be a list of strings, entry 2 is a number", '{"turns": ["a", 7]}')
refused("\"turns\" must be a list of strings, entry 1 is null", '{"turns": [null]}')
refused("\"turns\": entry 1 is empty", '{"turns": [""]}')
refused("field \"question_id\" must be text or a number, got true or false", '{"question_id": true, "turns": ["a"]}')
refused("field \"category\" must be text or a number, got a list", '{"category": ["x"], "turns": ["a"]}')
refused("field \"category\" must be at most 200 bytes of printable text",
   '{"category": "\\u001b[2J", "turns": ["a"]}')
refused("field \"question_id\" must be at most 200 bytes",
   '{"question_id": "' .. ("x"):rep(201) .. '", "turns": ["a"]}')
refused("field \"reference\" must be text or a list, got a number", '{"reference": 4, "turns": ["a"]}')
refused("a record must be an object, got text", '"turns"')
refused("a record must be an object, got null", 'null')
refused("a record must be an object, got true or false", 'false')
refused("field \"question_id\": 1 is the id of line 1 already", good)
check.equal(#assert(open(good .. good, { duplicate_ids = true })), 2)
check.fails("format", "line 1: field \"prompt\" must be text, got a number", open('{"prompt": 7}'))
check.fails("format", "line 1: field \"prompt\" is empty", open('{"prompt": ""}'))

-- Names and values from the file are short and printable in messages.
local names = {}
for i = 1, 40 do
   names[i] = ('"\\u001b[%02d%s": 1'):format(i, ("n"):rep(100))
end
local _, message = open("{" .. table.concat(names, ", ") .. "}")
check.is(not message:find("%c") and #message < 900 and message:find("and 28 more", 1, true), message)

-- ---- Broken JSON, depth, bytes -------------------------------------------------------------------
refused("JSON ends too early", '{"question_id": 2, "turns": ["a"')
refused("bad JSON", '{"question_id": 2, "turns": ["a"]} x')
refused("", ("["):rep(100000))
refused("", '{"a": ' .. ("["):rep(100000))
refused("", ('{"a": '):rep(100000))
refused("bad JSON at byte 13: a string that is not UTF-8 (field \"turns\")", '{"turns": ["\xff"]}')
refused("bad JSON at byte 58: a string that is not UTF-8 (field \"turns\")",
   '{"question_id": 2, "category": "a \\"b\\": c", "turns": ["x\xff"]}')
refused("", '{"turns": ["\xc0\xaf"]}')
refused("", '{"turns": ["\xed\xa0\x80"]}')
refused("", "\0\0\0")
local d = assert(open('{"turns": ["' .. ("z"):rep(10 << 20) .. '"]}\n{"turns": ["a\\u0000b"]}\r\n'
   .. '{"turns": ["\\udc00\\ud83d"]}\n{"turns": ["a\0b"]}'))
check.equal(#d, 4)
check.equal(#d[1].turns[1], 10 << 20)
check.equal(d[2].turns[1], "a\0b")
check.equal(d[3].turns[1], "\u{FFFD}\u{FFFD}")
check.equal(d[4].turns[1], "a\0b")
local began = os.clock()
check.fails("format", "line 1: ", open(('['):rep(1 << 20)))
check.fails("format", "line 1: ", open('["' .. ('\\"'):rep(1 << 20)))
check.is(os.clock() - began < 5, "a list is scanned once")

-- ---- Files that are something else ---------------------------------------------------------------
local function utf16(text)
   return (text:gsub(".", "%0\0"))
end
check.fails("format", "line 1: the file is UTF-16 or UTF-32 text: save it as UTF-8", open("\xFF\xFE" .. utf16(good)))
check.fails("format", "is UTF-16 or UTF-32", open(utf16(good)))
check.fails("format", "is UTF-16 or UTF-32", open(utf16("words\n"), { path = "w.txt" }))
check.fails("format", "is compressed by gzip", open("\x1F\x8B\8\0"))
check.fails("format", "w.txt, line 2: not UTF-8 at byte 3", open("fine\nab\xff\n", { path = "w.txt" }))
check.fails("format", "holds no records", open(""))
check.fails("format", "holds no records", open("\xEF\xBB\xBF"))

-- ---- 100,000 mutated lines -----------------------------------------------------------------------
local lines = {
   '{"question_id": 81, "category": "w", "turns": ["Say \\u00e9.", "Why\\ud83e\\udd99?"], "reference": ["r", ["s"]]}',
   '{"question": "Two and two?", "answer": "2+2=<<2+2=4>>4\\n#### 4", "id": 7}',
   '{"task_id": "T/0", "prompt": "def f():\\n", "entry_point": "f", "canonical_solution": " return 1", "test": "t"}',
   '{"id": "a", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]}',
   '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\\u0000"}], "category": null}',
   '{"instruction": "Sort.", "input": "b a", "output": "a b"}',
   '{"prompt": "p", "id": 1e3, "category": "c", "reference": "r", "deep": [[[{"a": [1, -0.5, true]}]]]}',
}
local pieces = { '"', "\\", "{", "}", "[", "]", ",", ":", "null", "1e999", '"turns"', "\\ud800", "\xff", "\0", "[[[[",
   '""', "[]", "{}", "-", '"from"', "\xE2\x80\xA8" }
local state = 1
local function below(n)
   state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
   return (state >> 33) % n
end

local function mutated(line)
   for _ = 0, below(3) do
      local at, how = below(#line + 1) + 1, below(4)
      local piece = how == 0 and string.char(below(256)) or how == 1 and "" or how == 2 and pieces[below(#pieces) + 1]
         or line:sub(at, at + below(12))
      line = how == 1 and below(8) == 0 and line:sub(1, at) or line:sub(1, at - 1) .. piece .. line:sub(at + below(3))
   end
   return line
end

local function whole(item)
   if type(item.turns) ~= "table" or #item.turns == 0 then
      return false
   end
   for _, turn in ipairs(item.turns) do
      if type(turn) ~= "string" or turn == "" or not utf8.len(turn) then
         return false
      end
   end
   local id, category, system = type(item.id), type(item.category), type(item.system)
   return (id == "nil" or id == "string" or id == "number") and (system == "nil" or system == "string")
      and (category == "nil" or category == "string" or category == "number")
      and (item.reference == nil or type(item.reference) == "table")
end

local taken, turned_down, skipped = 0, 0, 0
for i = 1, 100000 do
   local line = mutated(lines[i % #lines + 1])
   local ok, item, problem = pcall(formats.read, line, {})
   if not ok then
      error(("line %d raises %s: %q"):format(i, tostring(item), line))
   elseif item == false then
      skipped = skipped + 1
   elseif item == nil then
      turned_down = turned_down + 1
      check.is(type(problem) == "string" and problem ~= "" and not problem:find("%c") and utf8.len(problem),
         ("line %d: %q"):format(i, tostring(problem)))
   else
      taken = taken + 1
      check.is(whole(item), ("line %d makes half an item: %q"):format(i, line))
   end
end
check.equal(taken + turned_down + skipped, 100000)
check.is(taken > 5000 and turned_down > 20000 and skipped > 0, ("%d %d %d"):format(taken, turned_down, skipped))

-- Whole files, as lines and as lists.
for i = 1, 2000 do
   local parts = {}
   for k = 1, 3 do
      parts[k] = lines[(i + k) % #lines + 1]
   end
   local text = i % 2 == 0 and "[" .. table.concat(parts, ",\n") .. "]" or table.concat(parts, "\n")
   local bytes, reading = mutated(text), {}
   for line, record, problem in core.use("dataset_text").records(bytes, false) do
      check.is(math.type(line) == "integer" and line >= 1 and (record or problem), bytes)
      if record then
         formats.read(record, reading)
      end
   end
end
