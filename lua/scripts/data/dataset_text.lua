--- Opening a dataset's file and cutting it into records.
--
-- A file is lines, or one JSON list when it begins with "[". A line ends at "\n" and nowhere else;
-- "\r" before it, a byte order mark at the start, blank lines and a missing last line end are taken
-- in stride. What is not UTF-8 text at all is refused here, in words.

local _, core = ...

local text = {}

local utf8_mark = "\xEF\xBB\xBF"

--- What kind of file this is, when it cannot be text that we read.
local function foreign(bytes)
   local two = bytes:sub(1, 2)
   if two == "\x1F\x8B" then
      return "is compressed by gzip: unpack it first"
   elseif bytes:sub(1, 4) == "PK\3\4" then
      return "is a zip archive: unpack it first"
   elseif bytes:sub(1, 4) == "PAR1" then
      return "is a Parquet file: write it as JSON lines first"
   elseif two == "\xFF\xFE" or two == "\xFE\xFF" or bytes:sub(1, 4):find("\0", 1, true) then
      return "is UTF-16 or UTF-32 text: save it as UTF-8"
   end
end

--- → the bytes without a byte order mark | nil, message, code
function text.read(path)
   if core.system.kind(path) == "folder" then
      return nil, ("cop.dataset: \"%s\" is a folder"):format(path), "io"
   end
   local file, reason = io.open(path, "rb")
   if not file then
      return nil, "cop.dataset: cannot open " .. reason, "io"
   end
   local bytes, broken = file:read("a")
   file:close()
   if not bytes then
      return nil, ("cop.dataset: cannot read \"%s\": %s"):format(path, tostring(broken)), "io"
   end
   local problem = foreign(bytes)
   if problem then
      return nil, ("cop.dataset: %s, line 1: the file %s"):format(path, problem), "format"
   end
   return bytes:sub(1, 3) == utf8_mark and bytes:sub(4) or bytes
end

--- Iterates over the number and the text of every line that is not blank.
function text.lines(bytes)
   local at, number = 1, 0
   return function()
      while at <= #bytes do
         local stop = bytes:find("\n", at, true) or #bytes + 1
         local last = bytes:byte(stop - 1) == 13 and stop > at and stop - 2 or stop - 1
         local line = bytes:sub(at, last)
         at, number = stop + 1, number + 1
         if line:find("[^ \t]") then
            return number, line
         end
      end
   end
end

-- ---- A JSON list ---------------------------------------------------------------------------------

--- Where the string ends that begins at `at`; nil: it does not.
local function string_end(bytes, at)
   repeat
      at = bytes:find("[\"\\]", at + 1)
      local is_escape = at and bytes:byte(at) == 92
      at = is_escape and at + 1 or at
   until not is_escape
   return at
end

local opens, closes = { ["["] = true, ["{"] = true }, { ["]"] = true, ["}"] = true }

--- Where the "," or "]" stands that ends the entry beginning at `at`; nil: the file ends before.
local function entry_end(bytes, at)
   local depth = 0
   while true do
      at = bytes:find("[\"%[%]{},]", at)
      local mark = at and bytes:sub(at, at)
      if not mark then
         return nil
      elseif mark == "\"" then
         at = string_end(bytes, at)
         if not at then
            return nil
         end
      elseif opens[mark] then
         depth = depth + 1
      elseif depth == 0 then
         return at
      elseif closes[mark] then
         depth = depth - 1
      end
      at = at + 1
   end
end

--- Iterates over the line in which an entry of the list begins and the entry's text; a list that is
-- broken ends with line, nil, message.
local function entries(bytes)
   local at, counted, number = bytes:find("%[") + 1, 1, 1
   local function line_of(position)
      local feed = bytes:find("\n", counted, true)
      while feed and feed < position do
         number, counted = number + 1, feed + 1
         feed = bytes:find("\n", counted, true)
      end
      return number
   end
   local first = true
   return function()
      if not at then
         return nil
      end
      local start = bytes:find("[^ \t\r\n]", at) or #bytes + 1
      local stop = entry_end(bytes, start)
      local line = line_of(start)
      if not stop then
         at = nil
         return line, nil, "the file ends inside of a list's entry that begins here"
      end
      local entry, was_first, closing = bytes:sub(start, stop - 1), first, bytes:byte(stop) ~= 44
      first, at = false, not closing and stop + 1 or nil
      if closing and bytes:find("[^ \t\r\n]", stop + 1) then
         return line_of(stop), nil, "something follows the list that ends here"
      elseif not (closing and was_first and entry == "") then
         return line, entry
      end
   end
end

--- Iterates over the records of a file: line, text | line, nil, message.
function text.records(bytes, is_plain)
   if not is_plain and bytes:find("^[ \t\r\n]*%[") then
      return entries(bytes)
   end
   return text.lines(bytes)
end

return text
