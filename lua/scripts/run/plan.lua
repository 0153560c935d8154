--- What an experiment runs: groups of arms that share their sampling. Each group has plain decoding
-- as its first arm, the baseline that the others are compared with.

local _, core = ...

local plan = {}

--- 0.0 and 0 are one temperature: numbers as people write them.
local function number_text(value)
   return math.tointeger(value) and tostring(math.tointeger(value)) or ("%.6g"):format(value)
end

local function label(sampling, functions)
   local words = { "T=" .. number_text(sampling.temperature) }
   for _, key in ipairs { "top_k", "top_p", "min_p" } do
      if sampling[key] then
         words[#words + 1] = ("%s=%s"):format(key, number_text(sampling[key]))
      end
   end
   for _, word in ipairs(core.processing_words(sampling, functions)) do
      words[#words + 1] = word
   end
   return table.concat(words, " ")
end

local function sampling_of(e, arm, temperature)
   return core.with_processing({
      temperature = temperature, top_k = arm.top_k or e.top_k, top_p = arm.top_p or e.top_p,
      min_p = arm.min_p or e.min_p,
   }, arm, e)
end

local function engine_options(e, arm, sampling)
   return core.with_processing({
      target = arm.target or e.target, proposer = arm.proposer, tree = arm.tree, draw = arm.draw, rule = arm.rule,
      length = arm.length, relaxed = arm.relaxed or nil, temperature = sampling.temperature,
      top_k = sampling.top_k, top_p = sampling.top_p, min_p = sampling.min_p, batch = e.batch,
   }, sampling)
end

--- Calls f and makes a raised error into nil, message, "argument".
function plan.try(f, ...)
   local results = table.pack(pcall(f, ...))
   if results[1] then
      return table.unpack(results, 2, results.n)
   end
   return nil, (tostring(results[2]):gsub("^[^\n]-:%d+: ", "", 1)), "argument"
end

local function arm_text(name, group)
   return ("arm \"%s\" at %s"):format(name, group.label)
end

--- The message about an arm, which names it: the engine's own may do so already.
function plan.of_arm(name, group, message)
   local owner = arm_text(name, group)
   return message:sub(1, #owner) == owner and message or ("%s: %s"):format(owner, message)
end

--- A message without the arm's name at its front, for whoever names it otherwise.
function plan.without_arm(arm, message)
   local owner = arm.engine.owner .. ": "
   return message:sub(1, #owner) == owner and message:sub(#owner + 1) or message
end

local function add_arm(e, group, name, options, arm)
   local engine = engine_options(e, options, group.sampling)
   engine.owner = arm_text(name, group)
   local facts, message, code = plan.try(core.engine_check, engine)
   if not facts then
      return nil, plan.of_arm(name, group, message), code
   end
   if arm and not arm.proposer then
      facts.rule = arm.target and "other model" or arm.seed and arm.seed ~= e.seed and "other seed" or "none"
      facts.lossless = arm.target == nil
   end
   group.arms[#group.arms + 1] = {
      name = name, options = options, engine = engine, facts = facts, is_plain = arm == nil,
   }
   return true
end

local function groups_of(e)
   local groups, by_label, functions = {}, {}, {}
   local function enter(arm, temperature)
      local sampling = sampling_of(e, arm, temperature)
      local name = label(sampling, functions)
      if not by_label[name] then
         by_label[name] = { label = name, sampling = sampling, arms = {}, wanted = {} }
         groups[#groups + 1] = by_label[name]
      end
      table.insert(by_label[name].wanted, arm)
   end
   for _, temperature in ipairs(e.temperature) do
      for _, arm in ipairs(e.arms) do
         if not arm.temperature then
            enter(arm, temperature)
         end
      end
      if #e.arms == 0 then
         enter({}, temperature)
      end
   end
   for _, arm in ipairs(e.arms) do
      if arm.temperature then
         enter(arm, arm.temperature)
      end
   end
   return groups
end

--- The groups, each { label =, sampling =, arms = { { name =, facts =, engine =, is_plain = }, … } }.
-- Raises at the experiment's line for what the engine refuses.
function plan.make(e)
   local groups = groups_of(e)
   for _, group in ipairs(groups) do
      local ok, message = add_arm(e, group, "plain", {})
      for _, arm in ipairs(group.wanted) do
         if ok and arm.name then
            ok, message = add_arm(e, group, arm.name, arm, arm)
         end
      end
      if not ok then
         error(e.where .. message, 0)
      end
      group.wanted = nil
   end
   return groups
end

--- Raises at the experiment's line when a prompt leaves no room for an answer.
function plan.check_prompts(e)
   local list = core.use("prompt").too_long(e)
   if #list > 0 then
      local more = #list > 3 and ("; and %d more prompts"):format(#list - 3) or ""
      error(("%scop.experiment: %s%s: the target's context of %d leaves no room for an answer; raise the model's"
         .. " context, or shorten or filter the prompts"):format(e.where,
            table.concat(list, "; ", 1, math.min(#list, 3)), more, e.target.context), 0)
   end
end

local function answers(e, groups)
   local arms, turns = 0, 0
   for _, group in ipairs(groups) do
      arms = arms + #group.arms
   end
   for _, item in ipairs(e.prompts) do
      turns = turns + #item.turns
   end
   return arms * turns * e.repeats
end

--- Words for a duration.
function plan.duration(seconds)
   if seconds < 90 then
      return ("%.0f s"):format(seconds)
   elseif seconds < 5400 then
      return ("%.0f min"):format(seconds / 60)
   end
   return ("%.1f h"):format(seconds / 3600)
end

--- What only this arm's drafts hold in memory: weights of its models and heads.
local function memory_text(facts)
   return facts.draft_bytes > 0 and (", weights of %.1f MB"):format(facts.draft_bytes / 1e6) or ""
end

--- At most how long: as if every answer were as long as allowed and decoded without speculation.
local function time_text(e, total)
   local curve = core.use("curve").saved(e.target, nil)
   if not curve then
      return "how long is not known before the costs are measured (coppice cost)"
   end
   return "at most about " .. plan.duration(total * e.max_tokens * core.use("curve").plain_seconds(curve))
end

function plan.describe(e, groups)
   local lines = { tostring(e) }
   for _, group in ipairs(groups) do
      for _, arm in ipairs(group.arms) do
         local f = arm.facts
         lines[#lines + 1] = ("  %-8s %-14s %s"):format(group.label, arm.name, arm.is_plain and "plain decoding"
            or not f.proposer and ("plain decoding, %s"):format(f.rule == "none" and "again" or f.rule)
            or ("%s, %s, draw %s, %s%s"):format(f.proposer, f.rule or "match", f.draw or "none",
               f.lossless and "lossless" or "relaxed", memory_text(f)))
      end
   end
   local total = answers(e, groups)
   lines[#lines + 1] = ("%d answers of up to %d tokens; %s"):format(total, e.max_tokens, time_text(e, total))
   local power = core.use("quality").power(e)
   table.move(power, 1, #power, #lines + 1, lines)
   return table.concat(lines, "\n")
end

plan.answers = answers
return plan
