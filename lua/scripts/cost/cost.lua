--- cop.cost: what a forward pass costs here, measured and saved where runs find it.

local cop, core = ...

local options = {
   { "model", "model", required = true },
   { "draft", "any" },
   { "arms", "table" },
   { "sizes", "integers", min = 1, max = 4097 },
   { "contexts", "integers", min = 0, max = 1 << 24 },
   { "tries", "integer", min = 1, max = 10000 },
   { "out", "string" },
   { "save", "boolean", default = true },
}

local function largest(list)
   return list and math.max(table.unpack(list)) or 1
end

--- Refuses what no pass of the model can hold, instead of measuring something else.
local function check_room(model, what, sizes, contexts)
   local most = largest(sizes)
   if most >= model.context then
      core.raise(("cop.cost: option \"sizes\": a pass of %d tokens does not fit the %s's context of %d"):format(most,
         what, model.context))
   end
   for _, context in ipairs(contexts or {}) do
      if context + most > model.context then
         core.raise(("cop.cost: option \"contexts\": %d positions and a pass of %d tokens do not fit the %s's context"
            .. " of %d"):format(context, most, what, model.context))
      end
   end
end

local function check_sizes(o, drafts)
   for _, name in ipairs { "sizes", "contexts" } do
      if o[name] and #o[name] == 0 then
         core.raise(("cop.cost: option \"%s\" must name at least one number"):format(name))
      end
   end
   check_room(o.model, "model", o.sizes, o.contexts)
   for _, draft in ipairs(drafts) do
      check_room(draft, "draft", nil, o.contexts)
   end
   if o.contexts and not o.sizes then -- those of the usual sizes that fit behind them
      o.sizes = {}
      for _, size in ipairs(core.use("curve").usual_sizes) do
         o.sizes[#o.sizes + 1] = size + largest(o.contexts) <= o.model.context and size or nil
      end
   end
end

local function models_of(value)
   local list = core.type(value) == "model" and { value } or value or {}
   for _, model in ipairs(type(list) == "table" and list or { list }) do
      if core.type(model) ~= "model" then
         core.raise(("cop.cost: draft must be a model or a list of models, got a %s"):format(core.type(model)))
      end
   end
   return list
end

local function contexts_of(cost)
   local list, seen = {}, {}
   for _, point in ipairs(cost.score) do
      if not seen[point.context] then
         list[#list + 1], seen[point.context] = point.context, true
      end
   end
   return list
end

--- cop.cost { model =, draft =, arms =, contexts =, sizes = } → { score = { { nodes =, context =, seconds =,
-- spread = }, … }, draft = { … }, arms = { … }, bandwidth =, peak_bytes =, path = }. nodes counts the root;
-- arms: D and H of a cycle of each cop.arm (cost_arms.lua).
function cop.cost(given)
   local o = core.options("cop.cost", given, options)
   local curve, drafts = core.use("curve"), models_of(o.draft)
   check_sizes(o, drafts)
   local cost, problem, code = curve.measure(o.model, {
      sizes = o.sizes, contexts = o.contexts, tries = o.tries, drafts = drafts, bandwidth = true,
      budget = 4,
   })
   if not cost then
      return nil, problem, code
   end
   if o.arms then
      cost.arms, problem, code = core.use("cost_arms")(o.model, o.arms, contexts_of(cost))
      if not cost.arms then
         return nil, problem, code
      end
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
