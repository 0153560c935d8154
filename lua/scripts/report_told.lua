--- What a report tells of a stored run (see report_tables.lua): everything comes from its folder.

local _, core = ...

local function read(path)
   local file = io.open(path, "rb")
   local text = file and file:read("a")
   if file then
      file:close()
   end
   return text and core.system.json.decode(text)
end

--- Arms by sampling, in the order in which they were entered; plain decoding is the first of each.
local function groups_of(run)
   local groups, by_label = {}, {}
   for arm in run:arms() do
      local group = by_label[arm.sampling]
      if not group then
         group = { label = arm.sampling, sampling = { temperature = arm.temperature }, arms = {} }
         by_label[arm.sampling], groups[#groups + 1] = group, group
      end
      table.insert(group.arms, arm.is_plain and 1 or #group.arms + 1, { id = arm.id, name = arm.name,
         is_plain = arm.is_plain, facts = { lossless = arm.lossless, rule = arm.rule, proposer = arm.proposer } })
   end
   return groups
end

local function measures_of(result)
   local list, known = {}, core.use("text_measures").by_name
   for _, name in ipairs(result.measures) do
      if name ~= "target_nll" then -- which has a column of its own
         list[#list + 1] = { name = name, better = known[name] and known[name].better, is_ours = known[name] ~= nil }
      end
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
   local curve = read(run.folder .. "/cost.json")
   if type(curve) ~= "table" or type(curve.score) ~= "table" or not curve.score[1] then
      curve = nil
   end
   local result = core.use("summary").of(run.trace, groups, curve)
   return { name = run.name or run.folder, folder = run.folder, result = result, measures = measures_of(result),
      wants_quality = #(run.manifest.identity.quality or {}) > 0, curve = curve, manifest = run.manifest,
      published = core.use("report").published(run.trace, run.manifest.published) }
end
