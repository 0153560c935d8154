--- What quality measures say about arms: means and shares with intervals, and each arm against plain
-- decoding on the same answers.
--
-- Of our measures the table of text_measures.lua says which ask yes/no questions; another one is one when its values
-- are all 0 or 1. A yes/no measure's share has Wilson's interval, and, where every prompt has one answer, exact
-- McNemar says whether the arms differ (with Holm's correction over the arms of a table). Intervals of differences are
-- paired bootstraps over prompts. One prompt says nothing about others: it has no interval. Other measures have the
-- sign-flip test of prompts' mean differences. An experiment's margin, which is fixed before the run, adds the
-- one-sided test that less than it is lost (non-inferiority).

local cop, core = ...

local compare = {}

local resamples = 2000

--- The answers of an arm that a measure has a value for, with plain decoding's where it has one.
local function values_of(trace, arm, plain, measure)
   local rows, problem = trace:rows("SELECT q.prompt, q.value AS mine, p.value AS plain FROM quality q"
      .. " LEFT JOIN quality p ON p.measure = q.measure AND p.arm = ?2 AND p.prompt = q.prompt AND p.repeat = q.repeat"
      .. " AND p.turn = q.turn WHERE q.arm = ?1 AND q.measure = ?3 ORDER BY q.prompt, q.repeat, q.turn", arm, plain,
      measure)
   return rows or error(problem, 0)
end

--- Zeros of these are no answers to a question.
local are_numbers = { target_nll = true, kl_to_target = true, tv_to_target = true }

local function is_yes_no(measure, rows)
   local ours = core.use("text_measures").by_name[measure]
   if are_numbers[measure] or ours and not ours.yes_no then
      return false
   end
   for _, row in ipairs(rows) do
      if row.mine ~= 0 and row.mine ~= 1 or row.plain and row.plain ~= 0 and row.plain ~= 1 then
         return false
      end
   end
   return true
end

--- Sum of of(row) and number of rows for each prompt; rows for which it is nil do not count.
local function by_prompt(rows, of)
   local sums, counts, last = {}, {}, nil
   for _, row in ipairs(rows) do
      local value = of(row)
      if value then
         if row.prompt ~= last then
            sums[#sums + 1], counts[#counts + 1], last = 0.0, 0, row.prompt
         end
         sums[#sums], counts[#counts] = sums[#sums] + value, counts[#counts] + 1
      end
   end
   return sums, counts
end

local function interval(rows, of)
   local sums, counts = by_prompt(rows, of)
   if #sums == 0 then
      return nil
   end
   local out = cop.stats.paired_bootstrap { a = sums, b = counts, of = "ratio_of_sums", resamples = resamples,
      seed = 1 }
   out.prompts = #sums
   if #sums < 2 then
      out.low, out.high = nil, nil
   end
   return out
end

--- Mean differences of prompts: their sign-flip test, and the test that no margin is lost.
local function add_tests(out, rows, aim)
   local sums, counts = by_prompt(rows, function(row) return row.plain and row.mine - row.plain end)
   local n, means, zeros, mean, squares = #sums, {}, {}, 0.0, 0.0
   for i = 1, n do
      means[i], zeros[i] = sums[i] / counts[i], 0.0
      mean = mean + means[i] / n
   end
   for i = 1, n do
      squares = squares + (means[i] - mean) ^ 2
   end
   if n < 2 then
      return
   elseif not out.is_yes_no then
      out.p = cop.stats.paired_permutation { a = means, b = zeros, permutations = resamples, seed = 1 }.p
   end
   if aim.margin then
      out.loss = cop.stats.non_inferiority { difference = aim.better == "lower" and -mean or mean,
         standard_error = math.sqrt(squares / (n - 1) / n), margin = aim.margin, df = n - 1 }
   end
end

local function add_mcnemar(out, rows, difference)
   local first, second, pairs_seen = 0, 0, 0
   for _, row in ipairs(rows) do
      if row.plain then
         pairs_seen = pairs_seen + 1
         first = first + (row.mine > row.plain and 1 or 0)
         second = second + (row.mine < row.plain and 1 or 0)
      end
   end
   out.only_arm, out.only_plain = first, second
   if pairs_seen == difference.prompts then -- answers to one prompt are no independent items
      out.p = cop.stats.mcnemar(first, second).exact
   end
end

--- One measure of one arm → { mean =, low =, high =, answers =, is_yes_no =, difference = { value =, low =,
-- high = }, only_arm =, only_plain =, p =, loss = of cop.stats.non_inferiority, retention = } or nil: no values.
local function of_arm(trace, arm, plain, measure, aim)
   local rows = values_of(trace, arm, plain, measure)
   local mean = interval(rows, function(row) return row.mine end)
   if not mean then
      return nil
   end
   local out = { mean = mean.value, low = mean.low, high = mean.high, answers = #rows }
   out.is_yes_no = is_yes_no(measure, rows)
   if out.is_yes_no and #rows == mean.prompts then
      out.low, out.high = cop.stats.wilson(math.floor(mean.value * #rows + 0.5), #rows)
   end
   if arm ~= plain then
      out.difference = interval(rows, function(row) return row.plain and row.mine - row.plain end)
      if out.difference and out.is_yes_no then
         add_mcnemar(out, rows, out.difference)
      end
      if out.difference then
         add_tests(out, rows, aim)
      end
   end
   return out
end

--- Holm's correction of the p of each holder, over all arms of a table.
local function correct(holders)
   local ps, with = {}, {}
   for _, holder in ipairs(holders) do
      if holder.p then
         ps[#ps + 1], with[#with + 1] = holder.p, holder
      end
   end
   for i, p in ipairs(cop.stats.holm(ps)) do
      with[i].p_holm = p
   end
end

--- The names of all measures that have values in the trace, in alphabetical order.
function compare.measures(trace)
   local names = {}
   for i, row in ipairs(trace:rows("SELECT DISTINCT measure FROM quality ORDER BY measure") or {}) do
      names[i] = row.measure
   end
   return names
end

--- (arm - draft) / (plain - draft) of the means, where the draft model has answered alone (an arm by another
-- model): 1 is plain decoding's quality, 0 the draft's.
local function add_retention(of_arms, arms)
   local draft
   for i, arm in ipairs(arms) do
      draft = draft or arm.facts and arm.facts.rule == "other model" and of_arms[i] or nil
   end
   local width = draft and of_arms[1] and of_arms[1].mean - draft.mean or 0
   for i = 2, math.abs(width) > 1e-9 and #arms or 1 do
      local q = of_arms[i]
      if q and q ~= draft then
         q.retention = (q.mean - draft.mean) / width
      end
   end
end

--- The margin of a measure: a number is for yes/no measures, a table has them by name.
local function margin_of(margin, name)
   local entry = core.use("text_measures").by_name[name]
   if type(margin) == "table" then
      return margin[name]
   end
   return entry and entry.yes_no and margin or nil
end

--- What a manifest says about its measures, whole or not: it may come from anywhere.
function compare.aims(manifest)
   local aims = { margin = manifest.identity.margin, better = {} }
   for _, measure in ipairs(type(manifest.measures) == "table" and manifest.measures or {}) do
      if type(measure) == "table" and type(measure.name) == "string" then
         aims.better[measure.name] = measure.better
      end
   end
   return aims
end

--- arms: list of { id =, … }, plain decoding first; aims: { margin = of the experiment, better = { name = "lower" } }
-- → for each arm { [measure] = what of_arm says }
function compare.group(trace, arms, names, aims)
   local out = {}
   aims = aims or {}
   for i = 1, #arms do
      out[i] = {}
   end
   for _, name in ipairs(names) do
      local all, losses, of_arms = {}, {}, {}
      local aim = { margin = margin_of(aims.margin, name), better = (aims.better or {})[name] }
      for i, arm in ipairs(arms) do
         out[i][name] = of_arm(trace, arm.id, arms[1].id, name, aim)
         all[#all + 1] = out[i][name]
         losses[#losses + 1] = out[i][name] and out[i][name].loss
         of_arms[i] = out[i][name]
      end
      correct(all)
      correct(losses)
      add_retention(of_arms, arms)
   end
   return out
end

-- ---- The table -----------------------------------------------------------------------------------

local function number(value, format)
   return value and (format or "%.3f"):format(value) or "–"
end

local function with_interval(value, low, high, format)
   return low and ("%s (%s to %s)"):format(number(value, format), number(low, format), number(high, format))
      or number(value, format)
end

local function p_text(of)
   return of and of.p and ("%.3g (%.3g)"):format(of.p, of.p_holm) or ""
end

--- Title and text of a cell, from an arm's q of a measure. The last ones are shown where they say something.
local columns = {
   { title = "answers", of = function(q) return tostring(q.answers) end },
   { title = "mean (95 %)", of = function(q) return with_interval(q.mean, q.low, q.high) end },
   { title = "less plain's (95 %)", of = function(q)
      local d = q.difference
      return d and with_interval(d.value, d.low, d.high, "%+.3f") or ""
   end },
   { title = "only arm/plain", of = function(q)
      return q.only_arm and ("%d/%d"):format(q.only_arm, q.only_plain) or ""
   end },
   { title = "p (Holm)", of = p_text },
   { title = "p that the margin is lost (Holm)", of = function(q) return p_text(q.loss) end, is_rare = true },
   { title = "kept of plain less draft", of = function(q)
      return q.retention and ("%.3f"):format(q.retention) or ""
   end, is_rare = true },
}

local function is_shown(column, entries, names)
   for _, name in ipairs(column.is_rare and names or {}) do
      for _, entry in ipairs(entries) do
         if entry.quality[name] and column.of(entry.quality[name]) ~= "" then
            return true
         end
      end
   end
   return not column.is_rare
end

--- The table of a group → columns, rows. entries: of the summary, each with name and quality; arrows: by measure,
-- which direction is better.
function compare.table(entries, names, arrows)
   local shown, rows = { { title = "quality", align = "left" }, { title = "arm", align = "left" } }, {}
   for _, column in ipairs(columns) do
      shown[#shown + 1] = is_shown(column, entries, names) and column or nil
   end
   for _, name in ipairs(names) do
      local title = name .. (arrows[name] or "")
      for _, entry in ipairs(entries) do
         local q = entry.quality[name]
         if q then
            local row = { title, entry.name }
            for c = 3, #shown do
               row[c] = shown[c].of(q)
            end
            rows[#rows + 1], title = row, ""
         end
      end
   end
   return shown, rows
end

return compare
