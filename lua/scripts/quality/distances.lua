--- kl_to_target and tv_to_target: how far what a relaxed rule commits is from the target, by the law of its
-- token and not by samples of it.
--
-- The answer is read once by the target and once by the arm's draft model; at up to 16 places of it, evenly
-- spread, both rows are there, and core/cycle/law/position_law.h says what the rule commits when one draft is drawn
-- from the one and verified by the other. Lossless arms have 0, which is proven and not measured. At
-- temperature 0 and without exactly one draft model there is nothing to say.

local _, core = ...

local distances = {}

local decode = core.system.json.decode
local names = { kl_to_target = "kl", tv_to_target = "total_variation" }
local most_places, chunk = 16, 64
local floor = 1e-2 -- drafts less probable are taken as the strict rule would

--- Places of an answer of n tokens, from 1.
local function places_of(n)
   local list, count = {}, math.min(n, most_places)
   for i = 1, count do
      list[i] = (i - 1) * n // count + 1
   end
   return list
end

--- Calls of(place, target row, draft row) for the places of an answer. Raises.
local function each_place(target, draft, prompt, answer, of)
   local context = table.move(prompt, 1, #prompt, 1, {})
   local places, next_place = places_of(#answer), 1
   for first = 1, #answer, chunk do
      local last = math.min(first + chunk - 1, #answer)
      local nodes = table.move(answer, first, last - 1, 1, {})
      local theirs, problem = target:score { context = context, nodes = nodes }
      local mine
      if theirs then
         mine, problem = draft:score { context = context, nodes = nodes }
      end
      if not mine then
         error(problem, 0)
      end
      while places[next_place] and places[next_place] <= last do
         of(theirs[places[next_place] - first], mine[places[next_place] - first])
         next_place = next_place + 1
      end
      table.move(answer, first, last, #context + 1, context)
   end
end

--- Means of the distances over an answer's places. Raises.
local function of_answer(run, arm, draft, sampling, prompt, answer)
   local sums, n = { kl = 0.0, total_variation = 0.0 }, 0
   local draw = arm.facts.draw == "deterministic" and "deterministic" or "independent"
   each_place(run.e.target, draft, prompt, answer, function(target_row, draft_row)
      local found = core.position_law(arm.options.rule, target_row, draft_row, sampling, draw, floor)
      for key in pairs(sums) do
         sums[key] = sums[key] + found[key]
      end
      n = n + 1
   end)
   return { kl = sums.kl / n, total_variation = sums.total_variation / n }
end

local missing = "SELECT r.* FROM requests r LEFT JOIN quality q ON q.measure = ?2 AND q.arm = r.arm"
   .. " AND q.prompt = r.prompt AND q.repeat = r.repeat AND q.turn = r.turn WHERE r.arm = ?1 AND r.error IS NULL"
   .. " AND r.n_tokens > 0 AND q.arm IS NULL ORDER BY r.prompt, r.repeat, r.turn"

--- The conversation that an answer ends, as ids.
local function prompt_of(run, arm, item, row)
   local texts = { item.turns[1] }
   for t = 2, row.turn do
      texts[#texts + 1] = run:stored_answer(arm, item, row["repeat"], t - 1)
      texts[#texts + 1] = item.turns[t]
   end
   return run:prompt_ids(item, texts)
end

local function store(run, arm, row, wanted, values)
   for _, name in ipairs(wanted) do
      run.trace:quality(arm.id, row.prompt, row["repeat"], row.turn, name, values[names[name]])
   end
end

--- The draft model of an arm → model | nil, why there is no law
local function draft_of(arm)
   local list = arm.options.proposer and core.model_objects(arm.options.proposer) or {}
   if #list ~= 1 or not arm.options.rule then
      return nil, "needs a rule and a proposer with one draft model, whose rows it knows"
   end
   return list[1]
end

local function measure_arm(run, group, arm, items, wanted)
   local is_exact = arm.is_plain or arm.facts.lossless
   local draft, problem
   if not is_exact then
      draft, problem = draft_of(arm)
   end
   local failed = 0
   for _, row in ipairs(run.trace:rows(missing, arm.id, wanted[1]) or {}) do
      local item = items[row.prompt]
      if core.system.interrupted() then
         return
      elseif is_exact then
         store(run, arm, row, wanted, { kl = 0.0, total_variation = 0.0 })
      elseif item and draft then
         local ok, values = pcall(of_answer, run, arm, draft, group.sampling, prompt_of(run, arm, item, row),
            decode(row.tokens))
         if ok then
            store(run, arm, row, wanted, values)
         else
            failed, problem = failed + 1, problem or ("prompt %d: %s"):format(row.prompt,
               (tostring(values):gsub("^[^\n]-:%d+: ", "", 1)))
         end
         run.console:progress(run.done, run.total, run.counted, wanted[1] .. " of " .. arm.name)
      end
   end
   if problem then
      run.console:line(("!!! %s of arm %s, %s: %s"):format(table.concat(wanted, ", "), arm.name, group.label, problem))
   end
end

--- Stores what is asked for and not there.
function distances.measure(run)
   local wanted, items = {}, {}
   for _, name in ipairs(run.e.quality) do
      wanted[#wanted + 1] = names[name] and name or nil
   end
   for _, item in ipairs(run.e.prompts) do
      items[item.index] = item
   end
   for _, group in ipairs(#wanted > 0 and run.groups or {}) do
      for _, arm in ipairs(group.sampling.temperature > 0 and group.arms or {}) do
         measure_arm(run, group, arm, items, wanted)
      end
   end
end

return distances
