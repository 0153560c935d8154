--- The numbers of a run, from its trace: one entry for each arm, each number under one name.

local _, core = ...

local summary = {}

local resamples, level, seed = 2000, 0.95, 1

local must = core.use("must")

local function ratio(a, b)
   return b > 0 and a / b or nil
end

-- ---- Pairs with plain decoding -------------------------------------------------------------------

local paired = " FROM requests a JOIN requests p ON p.arm = ?2 AND p.prompt = a.prompt AND p.repeat = a.repeat"
   .. " AND p.turn = a.turn WHERE a.arm = ?1 AND a.error IS NULL AND p.error IS NULL"

--- Sums for each prompt that both arms have answered.
local function columns(trace, arm, plain, category)
   local rows = must(trace:rows("SELECT TOTAL(a.n_tokens) AS a, TOTAL(a.decode_seconds) AS b,"
      .. " TOTAL(p.n_tokens) AS c, TOTAL(p.decode_seconds) AS d" .. paired
      .. " AND (?3 IS NULL OR a.category = ?3) GROUP BY a.prompt ORDER BY a.prompt", arm, plain, category))
   local out = { a = {}, b = {}, c = {}, d = {} }
   for i, row in ipairs(rows) do
      for name, list in pairs(out) do
         list[i] = row[name] + 0.0
      end
   end
   return out
end

--- Tokens per second of the arm over those of plain decoding, with its interval over prompts.
local function speed_up(trace, arm, plain, category)
   local c = columns(trace, arm, plain, category)
   if #c.a == 0 then
      return nil
   end
   c.resamples, c.level, c.seed = resamples, level, seed
   local value, low, high = core.trace.bootstrap(c)
   if value ~= value or value == math.huge then
      return nil
   end
   return { value = value, low = low, high = high, prompts = #c.a }
end

local function first_difference(a, b)
   local at = 1
   while a[at] and a[at] == b[at] do
      at = at + 1
   end
   return at
end

--- How the arm's tokens agree with plain decoding's: answers that are the same, tokens before the first
-- difference, and where the first differences are.
local function agreement(trace, arm, plain)
   local rows = must(trace:rows("SELECT a.prompt, a.repeat, a.turn, a.tokens AS mine, p.tokens AS plain,"
      .. " a.finish AS my_finish, p.finish AS plain_finish" .. paired .. " ORDER BY a.prompt, a.repeat, a.turn",
      arm, plain))
   local out = { same = 0, of = #rows, length = 0, differences = {} }
   local decode = core.system.json.decode
   for _, row in ipairs(rows) do
      local mine = decode(row.mine)
      if row.mine == row.plain and row.my_finish == row.plain_finish then
         out.same, out.length = out.same + 1, out.length + #mine
      else
         local theirs = decode(row.plain)
         local at = first_difference(mine, theirs)
         out.length = out.length + at - 1
         table.insert(out.differences, { prompt = row.prompt, ["repeat"] = row["repeat"], turn = row.turn,
            position = at, token = mine[at], plain_token = theirs[at] })
      end
   end
   out.length = #rows > 0 and out.length / #rows or nil
   return out
end

-- ---- One arm -------------------------------------------------------------------------------------

local function shares(m)
   local total = m.draft_seconds + m.score_seconds + m.host_seconds
   return ratio(m.draft_seconds, total), ratio(m.score_seconds, total), ratio(m.host_seconds, total)
end

--- Time in the script's own functions, wherever it lies in D, V and H, of the cycles' time.
local function lua_share(m)
   local share = ratio(m.lua_seconds, m.draft_seconds + m.score_seconds + m.host_seconds)
   return share and math.min(share, 1)
end

local function by_depth(m)
   local list = {}
   for d = 1, m.depth do
      list[d] = { conditional = ratio(m.reached[d], m.tested[d]),
         unconditional = ratio(m.reached[d], m.forward_passes) }
   end
   return list
end

--- [n]: share of cycles that made n tokens.
local function progress_distribution(m)
   local list = {}
   for d = 0, m.depth do
      list[d + 1] = ratio(m.reached[d] - (m.reached[d + 1] or 0), m.forward_passes)
   end
   return list
end

local function categories(trace, arm, plain)
   local rows = must(trace:rows("SELECT category, MIN(prompt) AS first FROM requests WHERE arm = ?"
      .. " AND category NOT NULL AND error IS NULL GROUP BY category ORDER BY first", arm.id))
   local list = {}
   for i, row in ipairs(rows) do
      local m = must(trace:metrics(arm.id, row.category))
      list[i] = { name = row.category, requests = m.requests, block_efficiency = ratio(m.progress, m.forward_passes),
         tokens_per_second = ratio(m.tokens, m.decode_seconds),
         speed_up = not arm.is_plain and speed_up(trace, arm.id, plain.id, row.category) or nil }
   end
   return list
end

--- Prompts that an arm has answered; one may have several turns and repeats.
local function count_prompts(trace, arm)
   return must(trace:rows("SELECT COUNT(DISTINCT prompt) AS n FROM requests WHERE arm = ? AND error IS NULL",
      arm.id))[1].n
end

local function predicted_rate(trace, arm, m, grid)
   local seconds = grid and trace:predict(arm.id, grid)
   return seconds and ratio(m.tokens, seconds)
end

local function means_of(quality)
   local means = {}
   for name, q in pairs(quality) do
      means[name] = q.mean
   end
   return means
end

local function describe_arm(trace, group, arm, plain, grid, quality)
   local m = must(trace:metrics(arm.id))
   local draft, score, host = shares(m)
   local entry = {
      name = arm.name, sampling = group.label, temperature = group.sampling.temperature, is_plain = arm.is_plain,
      lossless = arm.facts.lossless, rule = arm.facts.rule, proposer = arm.facts.proposer, metrics = m,
      draft_bytes = arm.facts.draft_bytes,
      prompts = count_prompts(trace, arm),
      requests = m.requests, failed = m.failed, tokens = m.tokens, forward_passes = m.forward_passes,
      drafted = m.drafted, accepted = m.accepted, block_efficiency = ratio(m.progress, m.forward_passes),
      drafting_share = ratio(m.drafting_cycles, m.forward_passes),
      tokens_per_second = ratio(m.tokens, m.decode_seconds), prefill_seconds = m.prefill_seconds,
      draft_share = draft, score_share = score, host_share = host, lua_share = lua_share(m),
      by_depth = by_depth(m), progress_distribution = progress_distribution(m),
      peak_pages = m.peak_pages, fingerprint = m.fingerprint,
      predicted_tokens_per_second = predicted_rate(trace, arm, m, grid),
      quality = quality, measures = means_of(quality), target_nll = quality.target_nll and quality.target_nll.mean,
      categories = categories(trace, arm, plain),
   }
   if not arm.is_plain then
      entry.speed_up = speed_up(trace, arm.id, plain.id)
      entry.agreement = agreement(trace, arm.id, plain.id)
   end
   return entry
end

local function predict_speed_ups(entries)
   local plain = entries[1].predicted_tokens_per_second
   for _, entry in ipairs(entries) do
      local own = entry.predicted_tokens_per_second
      entry.predicted_speed_up = not entry.is_plain and own and plain and own / plain or nil
   end
end

--- The reasons for which requests failed, each with the first request and how many there are.
local function failures(trace, groups)
   local list, by_reason = {}, {}
   for _, group in ipairs(groups) do
      for _, arm in ipairs(group.arms) do
         local rows = must(trace:rows("SELECT prompt, question, turn, error FROM requests WHERE arm = ?"
            .. " AND error NOT NULL ORDER BY prompt, repeat, turn", arm.id))
         for _, row in ipairs(rows) do
            local entry = by_reason[row.error]
            if not entry then
               entry = { arm = arm.name, sampling = group.label, prompt = row.prompt, id = row.question,
                  turn = row.turn, error = row.error, count = 0 }
               by_reason[row.error], list[#list + 1] = entry, entry
            end
            entry.count = entry.count + 1
         end
      end
   end
   return list
end

--- → { arms = { entry, … }, groups = { { label =, entries }, … }, tokens =, forward_passes =,
-- block_efficiency =, fingerprint =, broken = number of lossless greedy answers that differ,
-- measures = names of the stored measures, failed = number of requests without an answer,
-- failures = { { arm =, sampling =, prompt =, id =, turn =, error =, count = }, … }: one for each
-- reason, its first request; contradictions = rows of broken_identities }
function summary.of(trace, groups, cost, aims)
   local out = { arms = {}, groups = {}, tokens = 0, forward_passes = 0, progress = 0, broken = 0, failed = 0 }
   local grid, prints = cost and core.use("curve").grid(cost), {}
   local compare = core.use("quality_compare")
   out.measures = compare.measures(trace)
   for g, group in ipairs(groups) do
      local entries = { label = group.label, temperature = group.sampling.temperature }
      local quality = compare.group(trace, group.arms, out.measures, aims)
      for i, arm in ipairs(group.arms) do
         local entry = describe_arm(trace, group, arm, group.arms[1], grid, quality[i])
         entries[i], out.arms[#out.arms + 1], prints[#prints + 1] = entry, entry, entry.fingerprint
         out.tokens, out.forward_passes = out.tokens + entry.tokens, out.forward_passes + entry.forward_passes
         out.progress = out.progress + entry.metrics.progress
         out.failed = out.failed + entry.failed
         if entry.lossless and entry.agreement and group.sampling.temperature == 0 then
            if entry.agreement.of > 0 then -- no answers, no evidence
               entry.is_identical = #entry.agreement.differences == 0
            end
            out.broken = out.broken + #entry.agreement.differences
         end
      end
      predict_speed_ups(entries)
      out.groups[g] = entries
   end
   out.failures = failures(trace, groups)
   out.contradictions = must(trace:rows("SELECT * FROM broken_identities"))
   out.block_efficiency = ratio(out.progress, out.forward_passes)
   out.fingerprint = core.system.hash(table.concat(prints, " ")):sub(1, 16)
   return out
end

return summary
