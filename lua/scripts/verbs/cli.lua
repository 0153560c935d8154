--- The command line: words into options and positional words, strictly.

local _, core = ...

local cli = {}

--- A mistake of the person at the keyboard: one message, exit status 2.
local Usage = { __tostring = function(self) return self.message end }

function cli.fail(format, ...)
   error(setmetatable({ message = format:format(...) }, Usage), 0)
end

function cli.is_usage(value)
   return getmetatable(value) == Usage
end

--- " (did you mean \"…\"?)" or "".
function cli.hint(name, known)
   local near = core.system.nearest(name, known)
   return near and (" (did you mean \"%s\"?)"):format(near) or ""
end

local function convert(text, spec)
   if spec.type == "integer" then
      return math.tointeger(tonumber(text))
   elseif spec.type == "number" then
      return tonumber(text)
   elseif spec.type == "integers" then
      local list = {}
      for word in text:gmatch("[^,]+") do
         list[#list + 1] = math.tointeger(tonumber(word)) or cli.fail("\"%s\" is not a list of integers", text)
      end
      return #list > 0 and list or nil
   end
   return text
end

local function names_of(specs)
   local names = {}
   for _, spec in ipairs(specs) do
      names[#names + 1] = "--" .. spec.name
   end
   return names
end

local function find(specs, name)
   for _, spec in ipairs(specs) do
      if spec.name == name then
         return spec, (spec.name:gsub("-", "_"))
      elseif spec.type == "flag" and name == "no-" .. spec.name then
         return spec, (spec.name:gsub("-", "_")), true
      end
   end
end

--- words: list of strings; specs: { { name = "max-tokens", type = "integer" | "number" | "integers" |
-- "string" | "flag", help = }, … }. Options become fields with "_" for "-"; everything else stays in
-- order in the list part.
function cli.parse(verb, words, specs)
   local out, at = {}, 1
   while words[at] do
      local name, value = words[at]:match("^%-%-([^=]+)=(.*)$")
      name = name or words[at]:match("^%-%-(.+)$")
      if words[at] == "--" then
         table.move(words, at + 1, #words, #out + 1, out)
         break
      elseif not name then
         if words[at]:find("^%-%a") then
            cli.fail("coppice %s: unknown option \"%s\"; options begin with \"--\"", verb, words[at])
         end
         out[#out + 1] = words[at]
      else
         local spec, key, negated = find(specs, name)
         if not spec then
            cli.fail("coppice %s: unknown option \"--%s\"%s", verb, name, cli.hint("--" .. name, names_of(specs)))
         elseif spec.type == "flag" then
            if value then
               cli.fail("coppice %s: \"--%s\" takes no value", verb, name)
            end
            out[key] = not negated
         else
            if not value then
               at = at + 1
               value = words[at] or cli.fail("coppice %s: \"--%s\" needs a value", verb, name)
            end
            out[key] = convert(value, spec)
            if out[key] == nil then
               cli.fail("coppice %s: \"--%s\" must be of type %s, got \"%s\"", verb, name, spec.type, value)
            end
         end
      end
      at = at + 1
   end
   return out
end

--- Lines of documentation.
function cli.describe(specs)
   local lines = {}
   for _, spec in ipairs(specs) do
      local name = "--" .. spec.name .. (spec.type == "flag" and "" or " " .. (spec.value or spec.type:upper()))
      lines[#lines + 1] = ("  %-24s %s"):format(name, spec.help)
   end
   return table.concat(lines, "\n")
end

--- Options by which every verb opens a model.
cli.model_specs = {
   { name = "model", type = "string", value = "PATH", help = "the target: a GGUF file" },
   { name = "precision", type = "string", value = "auto|f32|int8", help = "of activations" },
   { name = "kv", type = "string", value = "f16|f32", help = "format of keys and values" },
   { name = "context", type = "integer", value = "N", help = "positions of one sequence" },
   { name = "threads", type = "integer", value = "N", help = "default: one for each processor" },
}

function cli.with_model(specs)
   return table.move(specs, 1, #specs, #cli.model_specs + 1, table.move(cli.model_specs, 1, #cli.model_specs, 1, {}))
end

return cli
