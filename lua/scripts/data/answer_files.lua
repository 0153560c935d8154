--- Answers that other programs wrote, a JSON object on each line: what readers of such files share.

local _, core = ...

local files = {}

local json, must = core.system.json, core.use("must")

--- The first line of a file, decoded; nil: no file (path nil), no line, no JSON.
function files.first_record(path)
   local file = path and io.open(path, "rb")
   local line = file and file:read("l")
   if file then
      file:close()
   end
   return line and json.decode(line)
end

--- Calls take(record, number of its line) for every line. Errors name file and line; things: what a file without
-- lines lacks.
function files.each_record(path, things, take)
   local number = 0
   local file = must(io.open(path, "rb"))
   for line in file:lines() do
      number = number + 1
      local record, problem = json.decode(line)
      local ok = type(record) == "table"
      if ok then
         ok, problem = pcall(take, record, number)
      end
      if not ok then
         file:close()
         error(("%s, line %d: %s"):format(path, number, problem or "an object is expected"), 0)
      end
   end
   file:close()
   if number == 0 then
      error(("%s holds no %s"):format(path, things), 0)
   end
end

--- A name or a number as text; nil for anything else.
function files.label(value)
   return (type(value) == "string" or math.type(value) == "integer") and tostring(value) or nil
end

--- The bytes of a text, which stand in for tokens, as the trace keeps a list.
function files.byte_list(text)
   local parts = {}
   for i = 1, #text do
      parts[i] = text:byte(i)
   end
   return "[" .. table.concat(parts, ",") .. "]"
end

return files
