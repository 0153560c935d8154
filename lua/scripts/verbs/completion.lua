--- What a person may be typing: names behind dots and colons, and option keys inside a constructor's braces.
-- complete(text before the cursor, globals) → candidates, each the whole word, and the length of the word that
-- is there. Nothing is called, and nothing that a name leads to is changed.

local cop, core = ...

local completion = {}

local function is_name(key)
   return type(key) == "string" and key:find("^[%a_][%w_]*$") ~= nil
end

--- The value of "cop.accept" among the globals, by plain look-ups; nil: none.
local function value_of(path, globals)
   local value = globals
   for name in path:gmatch("[^.:]+") do
      if type(value) ~= "table" then
         return nil
      end
      value = rawget(value, name)
   end
   return value
end

--- The names of a table, or the methods of an object.
local function names_of(value)
   local index = value
   if type(value) ~= "table" then
      local meta = type(value) == "string" and getmetatable(value) or debug.getmetatable(value)
      index = type(meta) == "table" and meta.__index
      index = type(index) == "table" and index or nil
   elseif next(value) == nil or not is_name(next(value)) then
      local meta = getmetatable(value)
      index = type(meta) == "table" and type(meta.__index) == "table" and meta.__index or value
   end
   return index or {}
end

--- Without strings and comments, which may hold brackets: their bytes become spaces.
local function bare(text)
   local blank = function(s) return (" "):rep(#s) end
   return (text:gsub("%b\"\"", blank):gsub("%b''", blank):gsub("%-%-[^\n]*", blank))
end

--- The constructor whose braces are open at the end of the text: "cop.tree.chain", or nil.
local function constructor_of(text)
   local depth = 0
   for at = #text, 1, -1 do
      local c = text:sub(at, at)
      if c == "}" or c == ")" then
         depth = depth + 1
      elseif c == "{" or c == "(" then
         depth = depth - 1
         if depth < 0 then
            return c == "{" and text:sub(1, at - 1):match("(cop%.[%w_.]+)%s*%(?%s*$") or nil
         end
      end
   end
end

--- Option keys are asked for behind "{" and ",".
local function options_at(text, word)
   local before = text:sub(1, #text - #word)
   if not before:find("[{,;]%s*$") then
      return {}
   end
   local name = constructor_of(before)
   local f = name and value_of(name, { cop = cop })
   local options = type(f) == "function" and core.describe(f) or {}
   local list = {}
   for _, option in ipairs(options) do
      list[#list + 1] = option.name .. " = "
   end
   return list
end

--- → sorted candidates that begin with the word, and the word's length
function completion.of(text, globals)
   text = bare(text)
   local word = text:match("[%a_][%w_.:]*$") or ""
   local path, separator, last = word:match("^(.*)([.:])([%w_]*)$")
   local found = {}
   if path then
      local prefix = path .. separator
      for key, value in pairs(names_of(value_of(path, globals))) do
         if is_name(key) and key:sub(1, #last) == last and key:sub(1, 2) ~= "__"
            and (separator == "." or type(value) == "function") then
            found[#found + 1] = prefix .. key
         end
      end
   else
      for _, option in ipairs(options_at(text, word)) do
         found[#found + 1] = option:sub(1, #word) == word and option or nil
      end
      if #found == 0 and word ~= "" then
         for key in pairs(globals) do
            found[#found + 1] = is_name(key) and key:sub(1, #word) == word and key or nil
         end
      end
   end
   table.sort(found)
   return found, #word
end

local function common_prefix(list)
   local prefix = list[1]
   for _, other in ipairs(list) do
      while other:sub(1, #prefix) ~= prefix do
         prefix = prefix:sub(1, -2)
      end
   end
   return prefix
end

--- For the line editor: bytes to delete before the cursor, what to insert there, what to show | nothing
function completion.edit(text, globals)
   local list, length = completion.of(text, globals)
   if #list == 0 then
      return nil
   end
   local prefix = common_prefix(list)
   if #list == 1 or #prefix > length then
      return length, prefix
   end
   local shown = {}
   for i, name in ipairs(list) do
      shown[i] = name:match("[^.:]*$")
   end
   return nil, nil, table.concat(shown, "  ")
end

return completion
