--- What a cycle of an arm costs besides the target's pass: D of its proposer and H of its rule, by context.

local cop, core = ...

local curve = core.use("curve")

local most_tokens = 96

--- A prompt that repeats itself with changes, so that drafts from the context have something to find.
local function prompt(model, length)
   local ids, many = {}, math.max(1, math.min(model.vocab_size, 97))
   for i = 1, math.max(length, 1) do
      ids[i] = (i * i // 13) % many
   end
   return ids
end

--- Half the distance between the quartiles, as of the score's points.
local function spread(list)
   table.sort(list)
   return (list[#list - (#list - 1) // 4] - list[1 + (#list - 1) // 4]) / 2
end

--- The arm's cycles behind a context, the first one left out: it warms up.
local function cycles_of(model, arm, context)
   local o = { model = model, tokens = prompt(model, context), ignore_eos = true,
      max_tokens = math.min(most_tokens, model.context - context - 1) }
   for _, name in ipairs { "proposer", "tree", "length", "draw", "rule", "relaxed", "temperature", "top_k", "top_p",
      "min_p", "seed" } do
      o[name] = arm[name]
   end
   local answer, problem, code = cop.generate(core.with_processing(o, arm))
   if not answer then
      return nil, problem, code
   end
   return table.move(answer.cycles, math.min(2, #answer.cycles), #answer.cycles, 1, {}), answer.draw
end

local function point(arm, context, cycles)
   local draft, host, nodes = {}, {}, 0
   for i, cycle in ipairs(cycles) do
      draft[i], host[i], nodes = cycle.D, cycle.H, nodes + 1 + cycle.nodes
   end
   return { arm = arm.name, proposer = tostring(arm.proposer), rule = arm.rule and tostring(arm.rule) or nil,
      context = context, nodes = nodes / #cycles, cycles = #cycles,
      draft = curve.median(draft), draft_spread = spread(draft),
      host = curve.median(host), host_spread = spread(host) }
end

local function check_arms(arms)
   for i, arm in ipairs(arms) do
      if (getmetatable(arm) or {}).__name ~= "coppice.arm" then
         core.raise(("cop.cost: arms[%d] must be a cop.arm { … }, got a %s"):format(i, core.type(arm)))
      end
   end
end

--- → { { arm =, proposer =, rule =, context =, nodes = mean, root included, cycles =, draft = median seconds of a
-- cycle's D, draft_spread =, host = of its H, host_spread = }, … } | nil, message, code
return function(model, arms, contexts)
   check_arms(arms)
   local list = {}
   for _, arm in ipairs(arms) do
      for _, context in ipairs(contexts) do
         local cycles, problem, code = cycles_of(model, arm, context)
         if not cycles then
            return nil, problem, code
         end
         list[#list + 1] = point(arm, context, cycles)
      end
   end
   return list
end
