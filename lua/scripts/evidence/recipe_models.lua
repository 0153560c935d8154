--- cop.recipe.of_models: a published table of big models as a recipe, which runs where the models are.
--
--     return cop.recipe.of_models { name =, source =, about =,
--        target = "meta-llama/Llama-3.1-8B-Instruct", needs = { head = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B" },
--        temperature = { 0, 1 }, max_tokens = 1024,
--        datasets = { gsm8k = { path = "mt_bench_eagle/gsm8k.jsonl" } },
--        arms = { { name = "EAGLE-3", needs = { "head" }, parts = function() return { tree =, rule = } end,
--           proposer = function(paths) return cop.propose.eagle { paths.head } end } },
--        values = { { "EAGLE-3", "gsm8k", "T=0", "6.23" }, … } }
--
--     coppice run FILE target=DIR head=DIR [device=cuda] [limit=8] [--data DIR]     measures, once for each data set
--     coppice run FILE --check              everything but the weights: shapes, pairs of parts, data sets, the table
--
-- A value is the block efficiency of an arm, which papers call tau, #MAT or accepted length with the bonus token. It
-- agrees within `tolerance` of itself (default 0.05): other builds of a model round otherwise, and sampling varies.
-- Without the folders its values are skipped.

local cop, core = ...

local fields = {
   { "name", "string", required = true }, { "source", "string", required = true },
   { "about", "string", required = true }, { "target", "string", required = true },
   { "needs", "table" }, { "temperature", "any", default = 0 },
   { "max_tokens", "integer", min = 1, default = 1024 }, { "tolerance", "number", min = 0, max = 1, default = 0.05 },
   { "datasets", "table", required = true }, { "arms", "table", required = true },
   { "values", "table", required = true },
}

local function label(temperature)
   return ("T=%g"):format(temperature)
end

local function temperatures(recipe)
   return type(recipe.temperature) == "table" and recipe.temperature or { recipe.temperature }
end

--- Every value names an arm, a data set and a temperature that are there.
local function check_values(owner, recipe)
   local arms, labels = {}, {}
   for _, arm in ipairs(recipe.arms) do
      arms[arm.name] = arm
   end
   for _, t in ipairs(temperatures(recipe)) do
      labels[label(t)] = true
   end
   for i, value in ipairs(recipe.values) do
      if not arms[value[1]] or not recipe.datasets[value[2]] or not labels[value[3]]
         or not tonumber(value[4]) then
         core.raise(("%s: values[%d] must be { an arm, a data set, a temperature as \"T=0\", the published value }")
            :format(owner, i))
      end
   end
end

-- ---- What must be there --------------------------------------------------------------------------

--- What the arm's values wait for, or nil.
local function missing(recipe, arm, paths)
   local list = {}
   for _, key in ipairs { "target", table.unpack(arm.needs or {}) } do
      if not paths[key] or core.system.kind(paths[key]) == nil then
         list[#list + 1] = ("%s=DIR (%s)"):format(key, key == "target" and recipe.target or recipe.needs[key])
      end
   end
   return #list > 0 and "needs " .. table.concat(list, ", ") or nil
end

local function dataset(recipe, name, data, limit)
   local given = {}
   for key, value in pairs(recipe.datasets[name]) do
      given[key] = value
   end
   given.path = ("%s/%s"):format(data, given.path)
   given.limit = limit
   if core.system.kind(given.path) == nil then
      return nil, ("needs %s (--data DIR says where the data is)"):format(given.path)
   end
   return assert(cop.dataset(given))
end

-- ---- Running -------------------------------------------------------------------------------------

local function experiment(recipe, name, prompts, paths)
   local target = assert(cop.model { path = paths.target, device = paths.device or "cpu", context = 4096 })
   local arms = {}
   for _, arm in ipairs(recipe.arms) do
      if not missing(recipe, arm, paths) then
         local given = arm.parts()
         given[1], given.proposer = arm.name, assert(arm.proposer(paths))
         arms[#arms + 1] = cop.arm(given)
      end
   end
   return cop.experiment { name = ("%s-%s"):format(recipe.name, name), target = target, prompts = prompts, arms = arms,
      temperature = recipe.temperature, max_tokens = recipe.max_tokens }
end

--- Block efficiency by arm and temperature, of one data set.
local function measured(recipe, name, data, paths)
   local prompts, problem = dataset(recipe, name, data, math.tointeger(tonumber(paths.limit)))
   if not prompts then
      cop.recipe.skip(problem)
   end
   local e = experiment(recipe, name, prompts, paths)
   local parent = (core.run_options or {}).out
   local result = assert(e:run { out = parent and ("%s/%s"):format(parent, e.name) or nil })
   local run <close> = assert(cop.open_run(result.out))
   local out = {}
   for _, entry in ipairs(run:metrics()) do
      out[entry.arm .. entry.sampling] = entry.block_efficiency
   end
   return out
end

-- ---- The dry run ---------------------------------------------------------------------------------

--- Everything but the weights. → lines of what was checked and what is expected
local function check(recipe, data)
   local lines = { ("%s: %s (%s)"):format(recipe.name, recipe.about, recipe.source), "target: " .. recipe.target }
   for _, arm in ipairs(recipe.arms) do
      for i, t in ipairs(temperatures(recipe)) do
         local given = arm.parts()
         given[1] = arm.name
         given.rule = given.rule or (t == 0 and cop.accept.match {} or cop.accept.sample_match {})
         if given.tree or given.draw then
            core.use("replay_arm")(i, cop.arm(given), t) -- refuses a pair that does not fit
         end
      end
      local needs = {}
      for i, key in ipairs(arm.needs or {}) do
         needs[i] = ("%s=DIR is %s"):format(key, recipe.needs[key])
      end
      lines[#lines + 1] = ("arm %s: its parts fit; %s"):format(arm.name, #needs > 0 and table.concat(needs, ", ")
         or "needs no weights of its own")
   end
   local names = {}
   for name in pairs(recipe.datasets) do
      names[#names + 1] = name
   end
   table.sort(names)
   for _, name in ipairs(names) do
      local prompts, problem = dataset(recipe, name, data)
      lines[#lines + 1] = ("data set %s: %s"):format(name, prompts and ("%d prompts"):format(#prompts) or problem)
   end
   for _, value in ipairs(recipe.values) do
      lines[#lines + 1] = ("expected: %s, %s, %s: %s"):format(value[1], value[2], value[3], value[4])
   end
   return lines
end

--- → a recipe: its functions are given the data folder and { target =, … }
function cop.recipe.of_models(given)
   local owner = "cop.recipe.of_models"
   local recipe = core.options(owner, given, fields)
   recipe.needs = recipe.needs or {}
   check_values(owner, recipe)
   local out, kept, by_name = { name = recipe.name, source = recipe.source, about = recipe.about, data = ".",
      values = {}, words = { "target", "device", "limit" } }, {}, {}
   for key in pairs(recipe.needs) do
      table.insert(out.words, key)
   end
   table.sort(out.words)
   for _, arm in ipairs(recipe.arms) do
      by_name[arm.name] = arm
   end
   for i, value in ipairs(recipe.values) do
      local function ours(data, paths)
         local why = missing(recipe, by_name[value[1]], paths or {})
         if why then
            cop.recipe.skip(why)
         end
         kept[value[2]] = kept[value[2]] or measured(recipe, value[2], data, paths)
         return kept[value[2]][value[1] .. value[3]]
      end
      out.values[i] = { ("%s, %s, %s"):format(value[1], value[2], value[3]), value[4], ours,
         tolerance = recipe.tolerance * tonumber(value[4]) }
   end
   out.check = function(data) return check(recipe, data) end
   return out
end
