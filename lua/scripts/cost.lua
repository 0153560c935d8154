--- cop.cost: what a forward pass costs here, measured and saved where runs find it.

local cop, core = ...

local options = {
   { "model", "model", required = true },
   { "draft", "any" },
   { "sizes", "integers", min = 1, max = 4097 },
   { "contexts", "integers", min = 0, max = 1 << 24 },
   { "tries", "integer", min = 1, max = 10000 },
   { "out", "string" },
   { "save", "boolean", default = true },
}

local function models_of(value)
   local list = core.type(value) == "model" and { value } or value or {}
   for _, model in ipairs(type(list) == "table" and list or { list }) do
      if core.type(model) ~= "model" then
         core.raise(("cop.cost: draft must be a model or a list of models, got a %s"):format(core.type(model)))
      end
   end
   return list
end

--- cop.cost { model =, draft =, contexts =, sizes = } → { score = { { nodes =, context =, seconds =,
-- spread = }, … }, draft = { … }, bandwidth =, peak_bytes =, path = }. nodes counts the root.
function cop.cost(given)
   local o = core.options("cop.cost", given, options)
   local curve = core.use("curve")
   local cost, problem, code = curve.measure(o.model, {
      sizes = o.sizes, contexts = o.contexts, tries = o.tries, drafts = models_of(o.draft), bandwidth = true,
      budget = 4,
   })
   if not cost then
      return nil, problem, code
   end
   if o.save then
      local ok
      ok, problem, code = curve.save(cost, o.out or curve.path(o.model))
      if not ok then
         return nil, problem, code
      end
   end
   return cost
end
