--- cop.args and cop.grid: what a script takes from the command line, and lists of combinations.
--
-- core.words is the list of { key, value } that the program found behind the script's name; a
-- script that runs under stock Lua gets its defaults.

local cop, core = ...

local function sorted_keys(t)
   local keys = {}
   for key in pairs(t) do
      if type(key) ~= "string" then
         core.raise("cop.args and cop.grid: keys must be strings")
      end
      keys[#keys + 1] = key
   end
   table.sort(keys)
   return keys
end

--- A word as the type of its default; nil when it is none.
local function convert(text, default)
   if type(default) == "boolean" then
      local words = { ["true"] = true, yes = true, ["1"] = true, ["false"] = false, no = false, ["0"] = false }
      return words[text]
   elseif math.type(default) == "integer" then
      return math.tointeger(tonumber(text))
   elseif type(default) == "number" then
      return tonumber(text)
   end
   return text
end

local function type_name(default)
   return math.type(default) or type(default)
end

--- cop.args { limit = 32, draft = "…" }: the defaults, replaced by words key=value.
function cop.args(defaults)
   if type(defaults) ~= "table" then
      core.raise("cop.args: expects a table of defaults")
   end
   local known, out = sorted_keys(defaults), {}
   for _, key in ipairs(known) do
      local kind = type(defaults[key])
      if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
         core.raise(("cop.args: the default of %s must be a string, number or boolean, got a %s"):format(key, kind))
      end
      out[key] = defaults[key]
   end
   core.words_are_used = true
   for _, word in ipairs(core.words or {}) do
      local key, text = word[1], word[2]
      if defaults[key] == nil then
         core.unknown("cop.args", "argument", key, known)
      end
      local value = convert(text, defaults[key])
      if value == nil then
         core.raise(("cop.args: %s must be of type %s, got \"%s\""):format(key, type_name(defaults[key]), text))
      end
      out[key] = value
   end
   return out
end

--- cop.grid { depth = {3, 5}, width = {1, 2} }: for g in cop.grid {…} do … g.depth … end
-- Keys in alphabetical order, the last one changes fastest.
function cop.grid(axes)
   if type(axes) ~= "table" then
      core.raise("cop.grid: expects a table of lists")
   end
   local keys, total = sorted_keys(axes), 1
   for _, key in ipairs(keys) do
      if type(axes[key]) ~= "table" then
         core.raise(("cop.grid: %s must be a list"):format(key))
      end
      total = total * #axes[key]
   end
   local number = 0
   return function()
      if number >= total then
         return nil
      end
      local rest, point = number, {}
      for i = #keys, 1, -1 do
         local values = axes[keys[i]]
         point[keys[i]] = values[rest % #values + 1]
         rest = rest // #values
      end
      number = number + 1
      return point
   end
end
