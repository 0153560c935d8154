--- Checks of the numbers that cop.stats and cop.quality are given: one sentence, at the script's line.

local _, core = ...

local numbers = {}

local function got(value)
   if type(value) == "number" then
      return value ~= value and "nan" or tostring(value)
   end
   return type(value) == "string" and ("%q"):format(value) or value == nil and "nil" or "a " .. core.type(value)
end

--- A whole number of at least `least` (absent: 0).
function numbers.whole(owner, name, value, least)
   if type(value) ~= "number" or not math.tointeger(value) or value < (least or 0) then
      core.raise(("%s: %s must be a whole number of at least %d, got %s"):format(owner, name, least or 0, got(value)))
   end
end

--- A number between 0 and 1, neither of them.
function numbers.level(owner, value)
   if type(value) ~= "number" or not (value > 0 and value < 1) then
      core.raise(("%s: level must be a number between 0 and 1, got %s"):format(owner, got(value)))
   end
end

--- A list without holes or other keys: an entry [0], or what follows a nil, would be left out in silence.
local function check_list(owner, name, list)
   if type(list) ~= "table" then
      core.raise(("%s: %s must be a list of numbers, got %s"):format(owner, name, got(list)))
   end
   for key in pairs(list) do
      if math.type(key) ~= "integer" or key < 1 or key > #list then
         core.raise(("%s: %s must be a list, whose first entry is [1], got an entry [%s]"):format(owner, name,
            math.type(key) == "integer" and tostring(key) or got(key)))
      end
   end
end

--- A list of finite numbers from `low` to `high` (absent: any).
function numbers.list(owner, name, list, low, high)
   check_list(owner, name, list)
   for i = 1, #list do
      local value = list[i]
      local entry = ("%s: %s[%d]"):format(owner, name, i)
      if type(value) ~= "number" then
         core.raise(("%s must be a number, got %s"):format(entry, got(value)))
      elseif value - value ~= 0 then
         core.raise(("%s must be finite, got %s"):format(entry, got(value)))
      elseif low and value < low or high and value > high then
         core.raise(("%s must be a number from %s to %s, got %s"):format(entry, low, high or "infinity", got(value)))
      end
   end
end

--- A list of whole numbers.
function numbers.counts(owner, name, list)
   check_list(owner, name, list)
   for i = 1, #list do
      numbers.whole(owner, ("%s[%d]"):format(name, i), list[i])
   end
end

return numbers
