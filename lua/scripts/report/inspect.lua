--- core.use("inspect")(value): a value as a person wants to see it, in a few lines at most.

local shown_entries, shown_depth = 40, 3

local function is_name(key)
   return type(key) == "string" and key:find("^[%a_][%w_]*$") ~= nil
end

local function before(a, b)
   if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then
      return a < b
   end
   return type(a) < type(b)
end

--- Keys behind the list part, in an order that is the same every time.
local function keys_of(t, n)
   local keys = {}
   for key in next, t do
      if math.type(key) ~= "integer" or key < 1 or key > n then
         keys[#keys + 1] = key
      end
   end
   table.sort(keys, before)
   return keys
end

local inspect

local function of_table(t, depth, seen)
   if seen[t] then
      return "{ … }"
   elseif depth > shown_depth then
      return next(t) == nil and "{}" or "{ … }"
   end
   seen[t] = true
   local parts, n = {}, #t
   local function add(text)
      parts[#parts + 1] = text
      return #parts < shown_entries
   end
   for i = 1, n do
      if not add(inspect(t[i], depth + 1, seen)) then
         break
      end
   end
   local keys = keys_of(t, n)
   for _, key in ipairs(#parts < shown_entries and keys or {}) do
      local name = is_name(key) and key or ("[%s]"):format(inspect(key, shown_depth + 1, seen))
      if not add(("%s = %s"):format(name, inspect(t[key], depth + 1, seen))) then
         break
      end
   end
   seen[t] = nil
   local more = n + #keys - #parts
   parts[#parts + 1] = more > 0 and ("… %d more"):format(more) or nil
   local line = table.concat(parts, ", ")
   if #parts == 0 then
      return "{}"
   elseif depth == 1 and #line > 100 and #parts > n then -- records over lines, lists as they are
      return "{\n   " .. table.concat(parts, ",\n   ") .. "\n}"
   end
   return "{ " .. line .. " }"
end

--- Texts in a table are quoted; a text alone is not.
function inspect(value, depth, seen)
   if type(value) == "string" then
      return utf8.len(value) and "\"" .. value:gsub("[\"\\]", "\\%0"):gsub("\n", "\\n"):gsub("%c", function(c)
         return ("\\%d"):format(c:byte())
      end) .. "\"" or ("%q"):format(value)
   elseif type(value) == "table" and not (getmetatable(value) and getmetatable(value).__tostring) then
      return of_table(value, depth, seen)
   end
   return type(value) == "function" and "function" or tostring(value)
end

return function(value)
   return type(value) == "string" and value or inspect(value, 1, {})
end
