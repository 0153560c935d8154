--- Whether a decoded JSON file has the form that its readers count on: it may come from anywhere.
--
-- A form names the kind of a value ("text", "number", "flag", "list"), or is a table of the forms of an
-- object's fields. A field that is absent is no fault, nor is one that the form does not name.

local _, core = ...

local null = core.system.json.null

local kinds = { string = "text", number = "number", boolean = "flag" }
local words = { text = "text", number = "a number", flag = "true or false", list = "a list", object = "an object",
   null = "null" }

--- Scripts' own tables have no mark, and an empty one may be either.
local function is_list(value)
   return value[1] ~= nil or (getmetatable(value) or {}).__name == "coppice.list"
end

local function kind(value, wanted)
   if value == null then
      return "null"
   elseif type(value) == "table" then
      return (is_list(value) or wanted == "list" and next(value) == nil) and "list" or "object"
   end
   return kinds[type(value)]
end

local shape = {}

--- → nil | what is wrong, naming the field
function shape.problem(value, form, path)
   local wanted = type(form) == "table" and "object" or form
   local got = kind(value, wanted)
   if got ~= wanted then
      return ("%s must be %s, got %s"):format(path and ("\"%s\""):format(path) or "the file", words[wanted], words[got])
   end
   for name, inner in pairs(wanted == "object" and form or {}) do
      local problem = value[name] ~= nil
         and shape.problem(value[name], inner, path and ("%s.%s"):format(path, name) or name)
      if problem then
         return problem
      end
   end
end

return shape
