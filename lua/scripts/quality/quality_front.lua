--- Speed against quality with the doubt in both, and what a run cannot tell.
--
-- An arm is on the front when no other is better in one of speed and quality and as good in the other. Which
-- arms are depends on the prompts that happened to be asked: prompts are drawn anew with replacement, the
-- same ones for all arms, and the share of draws in which an arm is on the front says how sure that is.

local cop = ...

local front = {}

local function rows_of(trace, arm, measure)
   local rows, problem = trace:rows("SELECT r.prompt, TOTAL(r.n_tokens) AS tokens, TOTAL(r.decode_seconds) AS seconds,"
      .. " TOTAL(q.value) AS value, COUNT(*) AS n FROM requests r JOIN quality q ON q.arm = r.arm"
      .. " AND q.prompt = r.prompt AND q.repeat = r.repeat AND q.turn = r.turn AND q.measure = ?2"
      .. " WHERE r.arm = ?1 AND r.error IS NULL GROUP BY r.prompt", arm, measure)
   return rows or error(problem, 0)
end

--- What all arms have values for: columns[arm][i] is of the i-th common prompt. → columns, their number
local function columns_of(trace, arms, measure)
   local by_prompt, order = {}, {}
   for a, arm in ipairs(arms) do
      for _, row in ipairs(rows_of(trace, arm.id, measure)) do
         if not by_prompt[row.prompt] then
            by_prompt[row.prompt], order[#order + 1] = {}, row.prompt
         end
         by_prompt[row.prompt][a] = row
      end
   end
   local columns, n = {}, 0
   for a = 1, #arms do
      columns[a] = {}
   end
   for _, prompt in ipairs(order) do
      local is_common = true
      for a = 1, #arms do
         is_common = is_common and by_prompt[prompt][a] ~= nil
      end
      if is_common then
         n = n + 1
         for a = 1, #arms do
            columns[a][n] = by_prompt[prompt][a]
         end
      end
   end
   return columns, n
end

--- speed, quality of an arm over the prompts picks[1..n]; quality such that more is better.
local function point(column, picks, sign)
   local tokens, seconds, value, n = 0, 0, 0, 0
   for _, i in ipairs(picks) do
      local row = column[i]
      tokens, seconds, value, n = tokens + row.tokens, seconds + row.seconds, value + row.value, n + row.n
   end
   return { speed = seconds > 0 and tokens / seconds or 0, quality = sign * value / n }
end

--- Which of the points no other beats.
function front.of_points(points)
   local on = {}
   for a, mine in ipairs(points) do
      on[a] = true
      for _, other in ipairs(points) do
         if other.speed >= mine.speed and other.quality >= mine.quality
            and (other.speed > mine.speed or other.quality > mine.quality) then
            on[a] = false
         end
      end
   end
   return on
end

--- A fixed sequence of whole numbers from 1 to n.
local function numbers(n)
   local state = 88172645463325252
   return function()
      state = state ~ (state << 13)
      state = state ~ (state >> 7)
      state = state ~ (state << 17)
      return (state >> 1) % n + 1
   end
end

--- arms: plain decoding first → { { on = whether, share = of resamples }, … } or nil: no common prompts.
function front.shares(trace, arms, measure, better)
   local columns, n = columns_of(trace, arms, measure)
   if n == 0 then
      return nil
   end
   local sign, draw, picks, counts = better == "lower" and -1 or 1, numbers(n), {}, {}
   local resamples = math.max(50, math.min(1000, 2000000 // (n * #arms)))
   local function points()
      local list = {}
      for a = 1, #arms do
         list[a] = point(columns[a], picks, sign)
      end
      return front.of_points(list)
   end
   for i = 1, n do
      picks[i] = i
   end
   local out = { prompts = n }
   for a, on in ipairs(points()) do
      out[a], counts[a] = { on = on }, 0
   end
   for _ = 1, resamples do
      for i = 1, n do
         picks[i] = draw()
      end
      for a, on in ipairs(points()) do
         counts[a] = counts[a] + (on and 1 or 0)
      end
   end
   for a = 1, #arms do
      out[a].share = n > 1 and counts[a] / resamples or nil -- one prompt says nothing about others
   end
   return out
end

-- ---- In a report ---------------------------------------------------------------------------------

local shown = 2

--- The measures whose direction is known, in the order of the script; the target's likelihood last, and
-- only at temperature 0: above it text that is likelier than the target's own is another text, no better one.
local function measures_of(told, group)
   local list = {}
   for _, measure in ipairs(told.measures) do
      list[#list + 1] = measure.better and measure or nil
   end
   for _, name in ipairs(told.result.measures) do
      local is_better = name == "target_nll" and group.sampling.temperature == 0
      list[#list + 1] = is_better and { name = name, better = "lower" } or nil
   end
   return table.move(list, 1, math.min(#list, shown), 1, {})
end

--- Into every group of told.result: group.fronts = { { measure =, better =, [arm] = { on =, share = } }, … }.
function front.add(told, trace, groups)
   for g, group in ipairs(groups) do
      local entries = told.result.groups[g]
      entries.fronts = {}
      for _, measure in ipairs(#entries > 1 and measures_of(told, group) or {}) do
         local shares = front.shares(trace, group.arms, measure.name, measure.better)
         if shares then
            shares.measure, shares.better = measure.name, measure.better
            table.insert(entries.fronts, shares)
         end
      end
   end
end

local function number(value, format)
   return value and (format or "%.2f"):format(value) or "–"
end

local function with_interval(value, low, high, format)
   return low and ("%s (%s to %s)"):format(number(value, format), number(low, format), number(high, format))
      or number(value, format)
end

--- One table for each measure: what an arm's speed and quality are, and whether it is on the front.
function front.tables(group)
   local list = {}
   for f, shares in ipairs(group.fronts or {}) do
      local arrow = shares.better == "lower" and " ↓" or " ↑"
      local columns = { { title = "speed and quality", align = "left" }, { title = "speed-up (95 %)" },
         { title = shares.measure .. arrow .. " (95 %)" }, { title = "on the front" } }
      local rows = {}
      for a, entry in ipairs(group) do
         local s, q = entry.speed_up, entry.quality[shares.measure]
         local is_sure = s and s.prompts > 1
         rows[a] = { entry.name, entry.is_plain and "1" or s and with_interval(s.value, is_sure and s.low,
               is_sure and s.high) or "–", q and with_interval(q.mean, q.low, q.high, "%.3f") or "–",
            (shares[a].on and "yes" or "no")
               .. (shares[a].share and (", in %.0f %% of resamples"):format(100 * shares[a].share) or "") }
      end
      list[f] = { columns = columns, rows = rows }
   end
   return list
end

-- ---- What the data cannot tell -------------------------------------------------------------------

local function names(list)
   return table.concat(list, ", ")
end

--- Arms whose speed-up has 1 inside its interval.
local function about_speed(group, lines)
   local unsure, single = {}, false
   for _, entry in ipairs(group) do
      local s = entry.speed_up
      single = single or s and s.prompts < 2
      if s and s.prompts > 1 and s.low <= 1 and s.high >= 1 then
         unsure[#unsure + 1] = entry.name
      end
   end
   if single then
      lines[#lines + 1] = "cannot tell: one prompt says nothing about others"
   elseif #unsure > 0 then
      lines[#lines + 1] = ("cannot tell: whether %s %s faster or slower than plain decoding"):format(names(unsure),
         #unsure == 1 and "is" or "are")
   end
end

--- The difference from plain decoding that these prompts would show in four of five runs.
local function detectable(q, prompts)
   if q.is_yes_no then
      local differing = q.only_arm + q.only_plain
      local _, high = cop.stats.wilson(math.min(differing, prompts), prompts)
      return cop.stats.detectable_difference { n = math.max(prompts, 4), discordant = math.min(high, 1) }
   end -- the interval's half-width is about two standard errors
   local sd = (q.difference.high - q.difference.low) / (2 * 1.96) * math.sqrt(prompts)
   return cop.stats.detectable_difference { n = math.max(prompts, 4), sd = sd }
end

--- Arms of which the same is said share a line.
local function about_quality(group, measure, lines)
   local said, names_of = {}, {}
   for _, entry in ipairs(group) do
      local q = not entry.is_plain and not entry.lossless and entry.quality[measure]
      local d = q and q.difference
      if d and d.low and d.low <= 0 and d.high >= 0 then
         local least = detectable(q, d.prompts) or 0
         local words = least > 0 and ("(%+.3f, between %+.3f and %+.3f): a change under %.3f is seen by %d prompts less"
            .. " than four times in five"):format(d.value, d.low, d.high, least, d.prompts)
            or ("(%+.3f at each of %d prompts)"):format(d.value, d.prompts)
         if not names_of[words] then
            names_of[words], said[#said + 1] = {}, words
         end
         table.insert(names_of[words], entry.name)
      end
   end
   for _, words in ipairs(said) do
      local arms = names_of[words]
      lines[#lines + 1] = ("cannot tell: whether %s %s %s %s"):format(names(arms), #arms == 1 and "changes" or "change",
         measure, words)
   end
end

local function about_front(shares, group, lines)
   local unsure = {}
   for a, entry in ipairs(group) do
      local share = shares[a].share
      if share and share > 0.05 and share < 0.95 then
         unsure[#unsure + 1] = entry.name
      end
   end
   if #unsure > 0 then
      lines[#lines + 1] = ((#unsure == 1 and "cannot tell: whether %s belongs" or "cannot tell: which of %s belong")
         .. " on the front of speed and %s"):format(names(unsure), shares.measure)
   end
end

--- One line for each thing that the intervals leave open, of runs that measure quality.
function front.remarks(told, group)
   local lines, measures = {}, told.result.measures
   if #measures == 0 then
      return lines
   end
   about_speed(group, lines)
   for _, measure in ipairs(measures) do
      about_quality(group, measure, lines)
   end
   for _, shares in ipairs(group.fronts or {}) do
      about_front(shares, group, lines)
   end
   return lines
end

return front
