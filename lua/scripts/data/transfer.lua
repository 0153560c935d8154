--- A stored run as text, out and in: the tables of its trace row by row, so that nothing is lost.
--
--     jsonl   one file; a line is { "table": "requests", … its columns … }, lists as lists; the manifest
--             is a line of its own, and stands first
--     csv     a folder with manifest.json and a file for each table; lists are JSON text, an empty cell
--             is NULL, "" an empty text
--
-- An import makes a new run. What it reads comes from outside: names of tables and columns, types and
-- lists are checked, and a trace that contradicts itself is refused as a whole.

local _, core = ...

local transfer = {}

local system, json = core.system, core.system.json
local null = json.null

--- In the order in which rows refer to each other. lists: columns that hold JSON lists.
local tables = {
   { name = "sessions", key = "id" },
   { name = "arms", key = "id" },
   { name = "requests", key = "id", lists = { tokens = true } },
   { name = "cycles", key = "request", lists = { parents = true, tokens = true, logprobs = true, accepted = true } },
   { name = "quality" },
}
local by_name = {}
for _, entry in ipairs(tables) do
   by_name[entry.name] = entry
end

local must = core.use("must")

--- { { name =, type = "INTEGER" | "REAL" | "TEXT", must = boolean }, … }
local function columns_of(trace, name)
   local list = {}
   for i, row in ipairs(must(trace:rows(("PRAGMA table_info(%s)"):format(name)))) do
      list[i] = { name = row.name, type = row.type, must = row.notnull ~= 0 }
   end
   return list
end

-- ---- Out -----------------------------------------------------------------------------------------

local page = 256

--- Calls of(row) for every row of a table, a page at a time; rows of one key are together.
local function each(trace, entry, of)
   if not entry.key then
      for _, row in ipairs(must(trace:rows("SELECT * FROM " .. entry.name))) do
         of(row)
      end
      return
   end
   local last = math.mininteger
   while true do
      local keys = must(trace:rows(("SELECT DISTINCT %s AS key FROM %s WHERE %s > ? ORDER BY 1 LIMIT %d"):format(
         entry.key, entry.name, entry.key, page), last))
      if #keys == 0 then
         return
      end
      for _, row in ipairs(must(trace:rows(("SELECT * FROM %s WHERE %s BETWEEN ? AND ? ORDER BY %s%s"):format(
         entry.name, entry.key, entry.key, entry.name == "cycles" and ", cycle" or ""), keys[1].key,
         keys[#keys].key))) do
         of(row)
      end
      last = keys[#keys].key
   end
end

local function write_jsonl(run, out)
   out:write(json.encode { table = "manifest", manifest = run.manifest }, "\n")
   for _, entry in ipairs(tables) do
      each(run.trace, entry, function(row)
         for name in pairs(entry.lists or {}) do
            row[name] = must(json.decode(row[name]))
         end
         row.table = entry.name
         out:write(json.encode(row), "\n")
      end)
   end
end

local function csv_cell(value)
   if value == nil then
      return ""
   elseif value == "" then
      return "\"\""
   elseif math.type(value) == "float" then
      return ("%.17g"):format(value)
   end
   local text = tostring(value)
   return text:find("[\",\r\n]") and "\"" .. text:gsub("\"", "\"\"") .. "\"" or text
end

local function write_csv(run, entry, out)
   local columns = columns_of(run.trace, entry.name)
   local function line(of)
      local cells = {}
      for i, column in ipairs(columns) do
         cells[i] = csv_cell(of(column))
      end
      out:write(table.concat(cells, ","), "\n")
   end
   line(function(column) return column.name end)
   each(run.trace, entry, function(row)
      line(function(column) return row[column.name] end)
   end)
end

--- Writes a file that is there whole or not at all.
local function write_file(path, write)
   local part = path .. ".part"
   local out, reason = io.open(part, "wb")
   if not out then
      return nil, "cannot write " .. reason, "io"
   end
   local ok, problem = pcall(write, out)
   local is_closed, trouble = out:close()
   if not ok or not is_closed then
      os.remove(part)
      return nil, ok and ("cannot write %s: %s"):format(path, trouble) or problem, "io"
   end
   local is_moved
   is_moved, reason = os.rename(part, path)
   return is_moved, reason, "io"
end

--- format: "jsonl" (out: a file) or "csv" (out: a folder). → true | nil, message, code
function transfer.export(run, format, out)
   if format == "jsonl" then
      return write_file(out, function(file) write_jsonl(run, file) end)
   end
   local ok, problem, code = system.folder(out)
   if ok then
      ok, problem, code = core.use("manifest").write(out .. "/manifest.json", run.manifest)
   end
   for _, entry in ipairs(tables) do
      if not ok then
         break
      end
      ok, problem, code = write_file(("%s/%s.csv"):format(out, entry.name), function(file)
         write_csv(run, entry, file)
      end)
   end
   return ok, problem, code
end

-- ---- In ------------------------------------------------------------------------------------------

--- Lists as the trace writes them: "[1,2,null]".
local function list_text(list)
   local parts = {}
   for i, item in ipairs(list) do
      if item == null then
         parts[i] = "null"
      elseif type(item) ~= "number" then
         return nil
      else
         parts[i] = math.type(item) == "integer" and tostring(item) or ("%.6g"):format(item)
      end
   end
   return "[" .. table.concat(parts, ",") .. "]"
end

--- One value as a column wants it → value or nil | nil, what is wrong
local function converted(column, value, is_list)
   if value == nil or value == null then
      return nil, column.must and "is missing" or nil
   elseif is_list then
      local list = type(value) == "string" and json.decode(value) or value
      local text = type(list) == "table" and getmetatable(list) ~= nil and list_text(list)
      return text or nil, not text and "must be a list of numbers" or nil
   elseif column.type == "TEXT" then
      return type(value) == "string" and value or nil, type(value) ~= "string" and "must be text" or nil
   end
   local number = tonumber(value)
   if column.type == "INTEGER" then
      number = math.tointeger(number)
   end
   return number, number == nil and ("must be %s"):format(column.type == "INTEGER" and "a whole number" or "a number")
      or nil
end

local Importer = {}
Importer.__index = Importer

function Importer.new(trace)
   local self = setmetatable({ trace = trace, columns = {}, sql = {}, counts = {} }, Importer)
   for _, entry in ipairs(tables) do
      local columns, names, marks = columns_of(trace, entry.name), {}, {}
      for i, column in ipairs(columns) do
         columns[column.name], names[i], marks[i] = column, column.name, "?" .. i
      end
      self.columns[entry.name] = columns
      self.sql[entry.name] = ("INSERT INTO %s (%s) VALUES (%s)"):format(entry.name, table.concat(names, ", "),
         table.concat(marks, ", "))
   end
   return self
end

--- Adds a row; `where` ("file, line 3") begins messages. Raises.
function Importer:add(name, row, where)
   local columns, values, lists = self.columns[name], {}, by_name[name].lists or {}
   for key in pairs(row) do
      if not columns[key] and key ~= "table" then
         error(("%s: table %s has no column \"%s\""):format(where, name, tostring(key):gsub("%c", "?"):sub(1, 60)), 0)
      end
   end
   for i, column in ipairs(columns) do
      local value, problem = converted(column, row[column.name], lists[column.name])
      if problem then
         error(("%s: %s.%s %s"):format(where, name, column.name, problem), 0)
      end
      values[i] = value
   end
   local ok, problem = self.trace:rows(self.sql[name], table.unpack(values, 1, #columns))
   if not ok then
      error(("%s: %s"):format(where, problem), 0)
   end
   self.counts[name] = (self.counts[name] or 0) + 1
end

--- → the manifest
local function read_jsonl(path, importer)
   local manifest, number = nil, 0
   for line in must(io.open(path, "rb")):lines() do
      number = number + 1
      local where = ("%s, line %d"):format(path, number)
      local row, problem = json.decode(line)
      if type(row) ~= "table" then
         error(("%s: %s"):format(where, problem or "an object is expected"), 0)
      elseif row.table == "manifest" and type(row.manifest) == "table" and not manifest then
         manifest = must(core.use("manifest").decode(json.encode(row.manifest), where))
      elseif not by_name[row.table] then
         error(("%s: \"table\" must be one of manifest, sessions, arms, requests, cycles, quality%s"):format(where,
            number == 1 and "; this is neither what coppice export writes, nor lm-eval's sample log, nor an answer file"
            .. " of Spec-Bench's" or ""), 0)
      else
         importer:add(row.table, row, where)
      end
   end
   return manifest
end

--- Records of a CSV file (RFC 4180) → iterator of lists; an unquoted empty cell is nil in them, n counts.
local function csv_records(text)
   local at = 1
   return function()
      if at > #text then
         return nil
      end
      local record, n = {}, 0
      while true do
         n = n + 1
         if text:sub(at, at) == "\"" then
            local parts = {}
            repeat
               local from, to = at + 1, text:find("\"", at + 1, true)
               if not to then
                  error("a quote is never closed", 0)
               end
               parts[#parts + 1] = text:sub(from, to - 1)
               at = to + 1
            until text:sub(at, at) ~= "\""
            record[n] = table.concat(parts, "\"")
         else
            local cell = text:match("^[^,\r\n]*", at)
            at = at + #cell
            record[n] = cell ~= "" and cell or nil
         end
         local stop = text:sub(at, at)
         at = at + (stop == "\r" and text:sub(at + 1, at + 1) == "\n" and 2 or 1)
         if stop ~= "," then
            record.n = n
            return record
         end
      end
   end
end

local function read_csv(folder, importer)
   for _, entry in ipairs(tables) do
      local path = ("%s/%s.csv"):format(folder, entry.name)
      local file = must(io.open(path, "rb"))
      local text = file:read("a")
      file:close()
      local names, number = nil, 0
      for record in csv_records(text) do
         number = number + 1
         if not names then
            names = record
         elseif record.n ~= names.n then
            error(("%s, record %d: %d cells for %d columns"):format(path, number, record.n, names.n), 0)
         else
            local row = {}
            for i = 1, names.n do
               row[names[i] or ""] = record[i]
            end
            importer:add(entry.name, row, ("%s, record %d"):format(path, number))
         end
      end
   end
   return must(core.use("manifest").read(folder .. "/manifest.json"))
end

local function check_whole(trace)
   local broken = must(trace:rows("SELECT * FROM broken_identities LIMIT 1"))[1]
   if broken then
      error(("the trace contradicts itself: request %d: %s: %s and %s"):format(broken.request, broken.identity,
         broken.left_side, broken.right_side), 0)
   end
end

--- What a path holds, read into an empty trace. → manifest
local function read_any(path, kind, trace, importer, plain)
   if core.use("lm_eval").is_log(path) then
      return core.use("lm_eval").import(path, trace, plain)
   elseif core.use("spec_bench_import").is_answers(path) then
      return core.use("spec_bench_import").import(path, trace, plain)
   elseif plain then
      error("plain names one of several logs of lm-eval or answer files of Spec-Bench, and there are none", 0)
   end
   return (kind == "folder" and read_csv or read_jsonl)(path, importer)
end

--- path: a .jsonl file, a folder of CSV files, lm-eval's sample logs or Spec-Bench's answer files (plain: their
-- baseline); out: the new run's folder. → true | nil, message, code
function transfer.import(path, out, plain)
   local kind = system.kind(path)
   if not kind then
      return nil, ("\"%s\" is not there"):format(path), "io"
   elseif system.kind(out .. "/trace.db") then
      return nil, ("%s holds a run already"):format(out), "argument"
   end
   local ok, problem, code = system.folder(out)
   if not ok then
      return nil, problem, code
   end
   local trace
   trace, problem, code = core.trace.open(out .. "/trace.db", "write")
   if not trace then
      return nil, problem, code
   end
   ok, problem = pcall(function()
      local importer = Importer.new(trace)
      must(trace:rows("BEGIN IMMEDIATE"))
      local manifest = read_any(path, kind, trace, importer, plain)
      check_whole(trace)
      must(trace:rows("COMMIT"))
      return manifest and must(core.use("manifest").write(out .. "/manifest.json", manifest))
   end)
   trace:close()
   if not ok then
      for _, ending in ipairs { "", "-wal", "-shm" } do
         os.remove(out .. "/trace.db" .. ending)
      end
      return nil, problem, "format"
   end
   return true
end

return transfer
