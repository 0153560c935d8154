--- Quality measures of answers. exact_match and agreement compare tokens with plain decoding and come
-- from the trace (summary.lua); target_nll asks the target and is stored after the run, as are those
-- of texts (text_measures.lua) and the script's own (measures.lua).

local cop, core = ...

local quality = {}

local known = { "exact_match", "agreement", "target_nll", "kl_to_target", "tv_to_target" }
table.move(core.use("text_measures").names, 1, #core.use("text_measures").names, #known + 1, known)

--- The names that quality = { … } of an experiment knows.
function cop.quality.names()
   return table.move(known, 1, #known, 1, {})
end

local function is_known(name)
   for _, k in ipairs(known) do
      if k == name then
         return true
      end
   end
   return false
end

--- "pass_at_8" is a measure when that many answers are asked for. → its K, or nil
local function at_k(name, repeats)
   local k = type(name) == "string" and math.tointeger(name:match("^pass_at_([1-9]%d?)$"))
   if k and k > repeats then
      core.raise(("cop.experiment: quality \"%s\" needs repeats = %d or more, got %d"):format(name, k, repeats))
   end
   return k and k > 1 and k or nil
end

--- pass_at_K is made of the values of pass_at_1.
local function with_pass_at_1(list, repeats)
   local out, is_wanted = {}, false
   for i, entry in ipairs(list) do
      out[i], is_wanted = entry, is_wanted or at_k(entry, repeats) ~= nil
   end
   for _, entry in ipairs(list) do
      is_wanted = is_wanted and entry ~= "pass_at_1"
   end
   out[#out + 1] = is_wanted and "pass_at_1" or nil
   return out
end

--- Checks a script's list of names and measures of its own → all names, the measures that are stored.
function quality.names(list, prompts, repeats)
   local names, seen, stored, later = {}, {}, {}, {}
   local of_texts = core.use("text_measures")
   for i, entry in ipairs(with_pass_at_1(list, repeats)) do
      local name = entry
      if core.use("measures").is(entry, "quality") then
         name, stored[#stored + 1] = entry.name, entry
      elseif type(entry) ~= "string" then
         core.raise(("cop.experiment: quality[%d] must be a name or a cop.quality.custom { … }, got a %s"):format(i,
            core.type(entry)))
      elseif at_k(name, repeats) then
         later[#later + 1] = core.use("measures").built_in(core.use("humaneval").at_k(at_k(name, repeats)))
      elseif not is_known(name) then
         core.unknown("cop.experiment", "quality", name, known)
      elseif of_texts.by_name[name] then
         of_texts.check(name, prompts)
         stored[#stored + 1] = core.use("measures").built_in(of_texts.by_name[name])
      end
      if seen[name] or is_known(name) and name ~= entry then
         core.raise(("cop.experiment: two measures are called \"%s\""):format(name))
      end
      names[i], seen[name] = name, true
   end
   return names, table.move(later, 1, #later, #stored + 1, stored)
end

local function wants(e, name)
   for _, wanted in ipairs(e.quality) do
      if wanted == name then
         return true
      end
   end
   return false
end

--- The margin of a comparison: a number from 0 for the yes/no measures, or one for each of some names.
function quality.margin(value, names)
   if value == nil or type(value) == "number" and value > 0 and value < 1 then
      return value
   elseif type(value) ~= "table" then
      core.raise("cop.experiment: margin must be a number between 0 and 1, or a table measure = number, got "
         .. (type(value) == "number" and tostring(value) or "a " .. core.type(value)))
   end
   local asked = {}
   for i, name in ipairs(names) do
      asked[i], asked[name] = name, true
   end
   for name, margin in pairs(value) do
      if not asked[name] then
         core.unknown("cop.experiment", "measure in margin", tostring(name), asked)
      elseif type(margin) ~= "number" or not (margin > 0 and margin < math.huge) then
         core.raise(("cop.experiment: margin.%s must be a number above 0, got %s"):format(name, tostring(margin)))
      end
   end
   return value
end

local expected_discordant = 0.05

local function percent(share)
   return ("%.3g %%"):format(100 * share)
end

--- What a run of this size can show, known before it, and where programs run: lines for a dry run.
function quality.power(e)
   local lines, of_texts = {}, core.use("text_measures")
   local place = wants(e, "pass_at_1") and core.use("sandbox").place("python3")
   if place then
      lines[1] = ("pass_at_1: programs run in a sandbox (%s, %s)"):format(place.means, place.path)
   end
   for _, name in ipairs(e.quality) do
      local entry = of_texts.by_name[name]
      local margin = type(e.margin) == "table" and e.margin[name] or type(e.margin) == "number" and e.margin or 0.01
      if entry and entry.yes_no then
         local prompts = of_texts.count(name, e.prompts)
         local size = cop.stats.sample_size { n = prompts, margin = margin, discordant = expected_discordant }
         lines[#lines + 1] = ("%s: %d prompts can%s show a %s loss; the smallest they can is %s, and %s needs %d"
            .. " prompts (one-sided 95 %%, power 90 %%, if %s of the answers differ from plain decoding's)"):format(
               name, prompts, size.margin > margin and "not" or "", percent(margin), percent(size.margin),
               percent(margin), size.n, percent(expected_discordant))
      end
   end
   return lines
end

--- A dry run raises where a measure cannot be had on this machine.
function quality.check(e)
   if wants(e, "pass_at_1") then
      core.use("humaneval").check(e.where)
   end
end

local chunk = 64 -- nodes scored at once: a row of logits is a megabyte for some vocabularies

--- Mean negative log-likelihood of the answer's tokens under the target at temperature 1, in nats.
local function target_nll(model, prompt, answer)
   local context, sum = table.move(prompt, 1, #prompt, 1, {}), 0
   for first = 1, #answer, chunk do
      local nodes = table.move(answer, first, math.min(first + chunk - 1, #answer), 1, {})
      local last = table.remove(nodes) -- its own row is not needed
      local rows, problem = model:score { context = context, nodes = nodes }
      if not rows then
         return nil, problem
      end
      nodes[#nodes + 1] = last
      for i, id in ipairs(nodes) do
         sum = sum + rows[i - 1]:logsumexp() - rows[i - 1][id]
      end
      table.move(nodes, 1, #nodes, #context + 1, context)
   end
   return sum / #answer
end

local function measure_arm(run, arm)
   local rows = run.trace:rows("SELECT r.prompt, r.repeat, r.turn, r.tokens FROM requests r LEFT JOIN quality q"
      .. " ON q.measure = 'target_nll' AND q.arm = r.arm AND q.prompt = r.prompt AND q.repeat = r.repeat"
      .. " AND q.turn = r.turn WHERE r.arm = ? AND r.error IS NULL AND r.n_tokens > 0 AND q.arm IS NULL", arm.id)
   local items = {}
   for _, item in ipairs(run.e.prompts) do
      items[item.index] = item
   end
   for _, row in ipairs(rows or {}) do
      local item = items[row.prompt]
      if core.system.interrupted() or not item then
         return
      end
      local texts = { item.turns[1] }
      for t = 2, row.turn do
         texts[#texts + 1] = run:stored_answer(arm, item, row["repeat"], t - 1)
         texts[#texts + 1] = item.turns[t]
      end
      local value = target_nll(run.e.target, run:prompt_ids(item, texts), core.system.json.decode(row.tokens))
      if value then
         run.trace:quality(arm.id, row.prompt, row["repeat"], row.turn, "target_nll", value)
      end
      run.console:progress(run.done, run.total, run.counted, "target_nll of " .. arm.name)
   end
end

--- Stores what has to be computed, for the answers that lack it.
function quality.measure(run)
   for _, group in ipairs(wants(run.e, "target_nll") and run.groups or {}) do
      for _, arm in ipairs(group.arms) do
         measure_arm(run, arm)
      end
   end
   core.use("distances").measure(run)
   core.use("measures").store(run)
end

return quality
