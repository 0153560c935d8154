--- What a report tells of a stored run (see report_tables.lua): everything comes from its folder.

local _, core = ...

--- Arms by sampling, in the order in which they were entered; plain decoding is the first of each.
local function groups_of(run)
   local groups, by_label, bytes = {}, {}, (run.manifest.made_by or {}).draft_bytes or {}
   for arm in run:arms() do
      local group = by_label[arm.sampling]
      if not group then
         group = { label = arm.sampling, sampling = { temperature = arm.temperature }, arms = {} }
         by_label[arm.sampling], groups[#groups + 1] = group, group
      end
      table.insert(group.arms, arm.is_plain and 1 or #group.arms + 1, { id = arm.id, name = arm.name,
         is_plain = arm.is_plain, facts = { lossless = arm.lossless, rule = arm.rule, proposer = arm.proposer,
         draft_bytes = math.tointeger(bytes[arm.name]) } })
   end
   return groups
end

--- As the manifest names them; of a trace without one those that have values.
local function measures_of(result, manifest)
   local list, known = {}, core.use("text_measures").by_name
   if type(manifest.measures) == "table" then
      for _, measure in ipairs(manifest.measures) do
         list[#list + 1] = type(measure) == "table" and type(measure.name) == "string" and measure or nil
      end
      return list
   end
   for _, name in ipairs(result.measures) do
      if name ~= "target_nll" then -- which has a column of its own
         list[#list + 1] = { name = name, better = known[name] and known[name].better, is_ours = known[name] ~= nil }
      end
   end
   return list
end

--- Those of a manifest that are whole.
local function published_of(manifest)
   local list = {}
   for _, given in ipairs(type(manifest.published) == "table" and manifest.published or {}) do
      local is_whole = type(given) == "table" and type(given.value) == "number" and type(given.tolerance) == "number"
      for _, key in ipairs { "arm", "metric", "sampling", "source" } do
         is_whole = is_whole and type(given[key]) == "string"
      end
      list[#list + 1] = is_whole and given or nil
   end
   return list
end

--- run: of cop.open_run. → told | nil, message, code
return function(run)
   local groups = groups_of(run)
   for _, group in ipairs(groups) do
      if not group.arms[1].is_plain then
         return nil, ("%s: no plain decoding at %s to compare with"):format(run.folder, group.label), "format"
      end
   end
   local curve = core.use("curve").read(run.folder .. "/cost.json")
   curve = curve and core.use("curve").grid(curve) and curve -- no predictions without one, or from a damaged one
   local result = core.use("summary").of(run.trace, groups, curve,
      core.use("quality_compare").aims(run.manifest))
   local told = { name = type(run.name) == "string" and run.name or run.folder, folder = run.folder, result = result,
      measures = measures_of(result, run.manifest), wants_quality = #(run.manifest.identity.quality or {}) > 0,
      curve = curve, manifest = run.manifest,
      published = core.use("report").published(run.trace, published_of(run.manifest)) }
   core.use("quality_front").add(told, run.trace, groups)
   core.use("report_tokens").add(told, run.trace, groups, core.use("report_tokens").tokenizer_of(run.manifest))
   return told
end
