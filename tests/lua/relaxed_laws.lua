--- Relaxed rules beyond one position: deferred windows, laws of whole sequences, SGLang's thresholds,
-- what acceptance costs, neutral settings, trees, temperature 0, state, and what is refused.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")
local A = cop.accept

local p = { 0.50, 0.30, 0.15, 0.05 }
local q = { 0.25, 0.25, 0.40, 0.10 }

-- ---- Deferred decisions: eight drafted tokens, mismatches at positions 2 and 6 ------------------------

-- Top-3 entropy of (.4, .3, .2, .1): 1.0496; of (.96, .02, .01, .01): .1635.
local function fly(options, unsure)
   local target = {}
   for i = 0, 8 do
      local is_mismatch = i == 2 or i == 6
      target[i + 1] = is_mismatch and (unsure[i] and { 0.3, 0.4, 0.2, 0.1 } or { 0.02, 0.96, 0.01, 0.01 }) or { 0.7, 0.1, 0.1, 0.1 }
   end
   return cop.verify_rows { rule = A.deferred(options), target = target, coins = {}, pick = "argmax",
      tree = { tokens = { 0, 0, 0, 0, 0, 0, 0, 0 }, parents = { 0, 1, 2, 3, 4, 5, 6, 7 } } }
end
local both = { [2] = true, [6] = true }
for window, n in pairs { [2] = 6, [3] = 6, [4] = 2, [5] = 2, [1] = 8, [0] = 8 } do
   local got = fly({ window = window }, both)
   check.equal(got.accepted, n, "window " .. window)
   check.equal(got.tokens[n + 1], n == 8 and 0 or 1)
end
check.equal(fly({ window = 2 }, { [6] = true }).accepted, 2) -- sure at position 2
check.equal(fly({ window = 1 }, { [2] = true }).accepted, 6)
check.equal(fly({ window = 2, entropy = 1.04 }, both).accepted, 6)
check.equal(fly({ window = 2, entropy = 1.05 }, both).accepted, 2)
check.equal(fly({}, both).accepted, 2) -- 6 must follow
-- by coins: the second token is refused by its own, and kept when the third passes
local sampled = { { 0.4, 0.3, 0.3 }, { 0.4, 0.3, 0.3 }, { 0.4, 0.3, 0.3 }, { 0.4, 0.3, 0.3 } }
local flat = { { 0.8, 0.1, 0.1 }, { 0.8, 0.1, 0.1 }, { 0.8, 0.1, 0.1 } } -- ratio .5 for token 0
for _, case in ipairs { { 0.4, 0.6, 0.4, 3 }, { 0.4, 0.6, 0.6, 1 }, { 0.6, 0.4, 0.6, 2 }, { 0.6, 0.6, 0.4, 0 }, { 0.4, 0.4, 0.6, 2 } } do
   local got = cop.verify_rows { rule = A.deferred { window = 1, test = "ratio" }, target = sampled, draft = flat,
      tree = { tokens = { 0, 0, 0 }, parents = { 0, 1, 2 } }, coins = { case[1], case[2], case[3] }, pick = "argmax" }
   check.equal(got.accepted, case[4], table.concat(case, " "))
end

-- ---- Laws of three tokens; two drafted in a cycle, drafting starts again after each -------------------

local after_target = { [""] = { 0.6, 0.4 }, ["0"] = { 0.7, 0.3 }, ["1"] = { 0.2, 0.8 } }
local after_draft = { [""] = { 0.5, 0.5 }, ["0"] = { 0.4, 0.6 }, ["1"] = { 0.5, 0.5 } }
local function sequence_law(rule)
   local final, rounds = {}, 0
   local function go_on(prefix, probability)
      if #prefix == 3 then
         local key = table.concat(prefix)
         final[key] = (final[key] or 0) + probability
         return
      end
      rounds = rounds + probability
      local function rows(table_of)
         return function(below)
            local last = below[#below] or prefix[#prefix]
            return table_of[last and tostring(last) or ""]
         end
      end
      local law = cop.relaxed_law { rule = rule, draw = "independent", widths = { 1, 1 }, target = rows(after_target), draft = rows(after_draft) }
      for _, outcome in ipairs(law.outcomes) do
         local longer = { table.unpack(prefix) }
         for i = 1, math.min(#outcome.tokens, 3 - #prefix) do
            longer[#longer + 1] = outcome.tokens[i]
         end
         go_on(longer, probability * outcome.probability)
      end
   end
   go_on({}, 1)
   local list = {}
   for i = 0, 7 do
      list[i + 1] = final[("%d%d%d"):format(i // 4, i // 2 % 2, i % 2)] or 0
   end
   return list, rounds
end
local strict = { 147 / 500, 63 / 500, 9 / 250, 18 / 125, 7 / 125, 3 / 125, 8 / 125, 32 / 125 }
for _, case in ipairs {
   { A.token {}, strict, 0, 1.40 },
   { A.lenience { factor = 1 }, strict, 0, 1.40 },
   { A.lenience { factor = 0.5 }, { 7 / 50, 3 / 50, 3 / 50, 6 / 25, 7 / 50, 3 / 50, 7 / 100, 23 / 100 }, 123 / 500, 1.05 },
   { A.typical { epsilon = 0.25, delta = 1 }, { 7 / 50, 3 / 50, 3 / 50, 6 / 25, 0, 0, 1 / 20, 9 / 20 }, 157 / 500, 1.25 },
   { A.top_k { k = 1 }, { 47 / 50, 3 / 50, 0, 0, 0, 0, 0, 0 }, 323 / 500, 2.10 },
} do
   local rule, expected, distance, rounds = table.unpack(case)
   local got, n = sequence_law(rule)
   local sum = 0
   for i = 1, 8 do
      check.near(got[i], expected[i], 1e-12, tostring(rule))
      sum = sum + math.abs(got[i] - strict[i]) / 2
   end
   check.near(sum, distance, 1e-12, tostring(rule))
   check.near(n, rounds, 1e-12, tostring(rule))
end

-- ---- SGLang's thresholds -------------------------------------------------------------------------------

local function sglang(options, tokens)
   local parents = {}
   for i = 1, #tokens do
      parents[i] = 0
   end
   return cop.relaxed_law { rule = A.sglang_threshold(options), draw = "deterministic", tree = { tokens = tokens, parents = parents },
      target = p, draft = q }
end
for _, case in ipairs {
   { {}, { 2 }, { 0.15 }, p, 0 },
   { { accumulated = 0.5 }, { 2 }, { 0.30 }, { 0.4118, 0.2471, 0.3000, 0.0412 }, 0.15 },
   { {}, { 2, 1 }, { 0.15, 0.30 }, p, 0 },
   { { accumulated = 0.9 }, { 2, 1 }, { 0.1667, 0.3333 }, { 0.4545, 0.3333, 0.1667, 0.0455 }, 0.05 },
   { { accumulated = 0.5 }, { 2, 1 }, { 0.3, 0.6 }, { 0.0909, 0.6, 0.3, 0.0091 }, 0.45 },
   { { single = 0.25 }, { 2, 1 }, { 0.15, 0.85 }, { 0, 0.85, 0.15, 0 }, 0.55 },
   { { accumulated = 0.5 }, { 1, 2 }, { 0.6, 0.3 }, { 0.0909, 0.6, 0.3, 0.0091 }, 0.45 },
   { { accumulated = 0.4 }, { 1, 2 }, { 0.75, 0.25 }, { 0, 0.75, 0.25, 0 }, 0.55 },
   { { accumulated = 0 }, { 3, 0 }, { 1, 0 }, { 0, 0, 0, 1 }, 0.95 },
   { {}, { 0, 1, 2, 3 }, { 0.5, 0.3, 0.15, 0.05 }, p, 0 },
} do
   local options, tokens, accepted, output, distance = table.unpack(case)
   local law = sglang(options, tokens)
   local kept, sum = {}, 0
   for _, outcome in ipairs(law.outcomes) do
      if outcome.accepted == 1 then
         kept[outcome.tokens[1]] = (kept[outcome.tokens[1]] or 0) + outcome.probability
      end
   end
   for i, token in ipairs(tokens) do
      check.near(kept[token] or 0, accepted[i], 5.1e-5)
      sum = sum + accepted[i]
   end
   check.near(law.acceptance, sum, 1.1e-4)
   for i = 1, 4 do
      check.near(law.position[1][i], output[i], 5.1e-5)
   end
   check.near(law.total_variation_per_position[1], distance, 5.1e-5)
end

-- ---- What acceptance costs: TV >= A - A*, with equality on the front ----------------------------------

local seed = 12345
local function random()
   seed = (seed * 6364136223846793005 + 1442695040888963407)
   return (seed >> 33) / (1 << 31)
end
local function row(n, zeros)
   local out, sum = {}, 0
   for i = 1, n do
      out[i] = (zeros and random() < 0.25) and 0 or random() ^ 2 + 1e-3
      sum = sum + out[i]
   end
   if sum == 0 then
      return row(n, zeros)
   end
   for i = 1, n do
      out[i] = out[i] / sum
   end
   return out
end
local function overlap(a, b)
   local sum = 0
   for i = 1, #a do
      sum = sum + math.min(a[i], b[i])
   end
   return sum
end
for case = 1, 150 do
   local n = 2 + case % 4
   local target, draft = row(n, case % 3 == 0), row(n, case % 3 == 0)
   local least = overlap(target, draft)
   local front = { A.lenience { factor = 0.05 + 0.95 * random() }, A.additive { epsilon = random() }, A.ears { beta = random() },
      A.mixed { eta = random() }, A.mentored { budget = random() ^ 3 }, A.ensemble { weight = random() },
      A.cactus { delta = random() ^ 2 }, A.fuzzy { threshold = 0, reducible = true } }
   local rest = { A.typical {}, A.typical { correction = "target" }, A.top_k { k = 2 }, A.margin {}, A.tau_relaxed {}, A.mars {},
      A.lenience { factor = 0.5, correction = "target" }, A.lenience { factor = 0.5, correction = "scaled" }, A.contrastive {},
      A.cascade { gate = "token_v1", alpha = random() }, A.cascade { gate = "token_v3", alpha = random() }, A.trt_relaxed {},
      A.truncated { top_p = 0.8 }, A.sglang_threshold { accumulated = 0.7 }, A.fuzzy {}, A.fallback_rollback { rollback = 2 } }
   local n_front = #front
   table.move(rest, 1, #rest, n_front + 1, front)
   for i, rule in ipairs(front) do
      local law = cop.relaxed_law { rule = rule, draw = "independent", widths = { 1 }, target = target, draft = draft }
      local gain = law.acceptance - least
      check.is(law.total_variation_per_position[1] >= gain - 1e-12, tostring(rule))
      -- where the target has zeros a rule that may not keep them refuses what the front would keep, and still corrects exactly
      if i <= n_front then
         check.near(law.total_variation_per_position[1], gain, 1e-9, tostring(rule))
      end
   end
   -- bounds that are promised
   for _, factor in ipairs { 0.3, 0.7 } do
      for _, correction in ipairs { "strict", "scaled" } do
         local law = cop.relaxed_law { rule = A.lenience { factor = factor, correction = correction }, draw = "independent", widths = { 1 }, target = target, draft = draft }
         for i = 1, n do
            check.is(law.position[1][i] <= target[i] / factor + 1e-12)
         end
      end
   end
   local budget = random() * 0.3
   local law = cop.relaxed_law { rule = A.mentored { budget = budget }, draw = "independent", widths = { 1 }, target = target, draft = draft }
   check.is(law.kl[1] <= budget + 1e-9)
   -- an output law that is stated
   local weight = random()
   law = cop.relaxed_law { rule = A.ensemble { weight = weight }, draw = "independent", widths = { 1 }, target = target, draft = draft }
   for i = 1, n do
      check.near(law.position[1][i], weight * target[i] + (1 - weight) * draft[i])
   end
end

-- ---- Neutral settings are the strict rule, coin for coin ------------------------------------------------

local neutral = { A.lenience { factor = 1 }, A.additive { epsilon = 0 }, A.ears { beta = 0 }, A.mixed { eta = 0 },
   A.mentored { budget = 0 }, A.ensemble { weight = 1 }, A.contrastive { beta = 0 }, A.cactus { delta = 0 }, A.truncated {},
   A.cascade { gate = "token_v1", alpha = -1 }, A.cascade { gate = "diff", alpha = -1 }, A.cascade { gate = "opt", alpha = -1e6 },
   A.fuzzy { threshold = 0, reducible = true } }
local rows_target, rows_draft = {}, {}
for i = 1, 4 do
   rows_target[i], rows_draft[i] = row(5), row(5)
end
for s = 1, 60 do
   local tree = { tokens = { s % 5, s // 5 % 5, s // 25 % 5 }, parents = { 0, 1, 2 } }
   local wanted = cop.verify_rows { rule = A.token {}, tree = tree, target = rows_target, draft = rows_draft, seed = s }
   for _, rule in ipairs(neutral) do
      local got = cop.verify_rows { rule = rule, tree = tree, target = rows_target, draft = rows_draft, seed = s }
      check.list(got.tokens, wanted.tokens, tostring(rule))
   end
end
local greedy = { A.top_k { k = 1 }, A.margin { margin = 0 }, A.entropy { entropy = 100 }, A.tau_relaxed { tau = 0 },
   A.trt_relaxed { delta = 0 }, A.fallback_rollback { rollback = 0 }, A.budgeted { budget = 0 }, A.budgeted { exceptions = 0 },
   A.deferred { window = 4000 }, A.mars { theta = 1e6, test = "greedy" } }
for s = 1, 60 do
   local tree = { tokens = { s % 5, s // 5 % 5, s // 25 % 5 }, parents = { 0, 1, 2 } }
   local wanted = cop.verify_rows { rule = A.match {}, tree = tree, target = rows_target, seed = s }
   for _, rule in ipairs(greedy) do
      local got = cop.verify_rows { rule = rule, tree = tree, target = rows_target, coins = { 0.5, 0.5, 0.5 }, pick = "argmax" }
      check.list(got.tokens, wanted.tokens, tostring(rule))
   end
end
-- SGLang at (1, 1), and MARS where no two logits are close, are lossless whatever was drafted
for _, rule in ipairs { A.sglang_threshold {}, A.mars { theta = 1e6 } } do
   for _, draw in ipairs { "independent", "without_replacement", "deterministic" } do
      local law = cop.relaxed_law { rule = rule, draw = draw, widths = { 3, 2 },
         target = function(prefix) return prefix[1] == 0 and { 0.1, 0.2, 0.7 } or { 0.6, 0.4, 0 } end,
         draft = function(prefix) return prefix[1] and { 0.25, 0.25, 0.5 } or { 0.2, 0.3, 0.5 } end }
      check.near(law.total_variation, 0, 1e-12, tostring(rule) .. draw)
   end
end

-- ---- Trees ------------------------------------------------------------------------------------------------

local function by_prefix(n, salt, zeros)
   local known = {}
   return function(prefix)
      local key = table.concat(prefix, " ")
      if not known[key] then
         seed = salt
         for _, id in ipairs(prefix) do
            seed = seed * 31 + id + 1
         end
         random()
         random()
         known[key] = row(n, zeros)
      end
      return known[key]
   end
end
for case = 1, 6 do
   local target, draft = by_prefix(3, 1000 + case, case % 2 == 0), by_prefix(3, 2000 + case, case % 2 == 0)
   for _, draw in ipairs { "independent", "without_replacement" } do
      for _, widths in ipairs { { 2 }, { 3 }, { 2, 2 }, { 3, 1 } } do
         local o = { draw = draw, widths = widths, target = target, draft = draft }
         for _, rule in ipairs(neutral) do
            local name = tostring(rule)
            if not (name:find("cactus") or name:find("fuzzy")) then
               o.rule = rule
               check.near(cop.relaxed_law(o).total_variation, 0, 1e-12, name)
            end
         end
         -- a substituted target comes out exactly, however many siblings there are
         local w = 0.3 + 0.1 * case
         o.rule = A.ensemble { weight = w }
         local law = cop.relaxed_law(o)
         local pt, pd = target({}), draft({})
         for i = 1, 3 do
            check.near(law.position[1][i], w * pt[i] + (1 - w) * pd[i], 1e-12)
         end
         o.rule = A.cascade { gate = "token_v3", alpha = 0.4 }
         local most, inside = math.max(pt[1], pt[2], pt[3]), 0
         for i = 1, 3 do
            inside = inside + (pt[i] >= 0.6 * most and pd[i] or 0)
         end
         law = cop.relaxed_law(o)
         for i = 1, 3 do
            check.near(law.position[1][i], (pt[i] >= 0.6 * most and pd[i] or 0) + (1 - inside) * pt[i], 1e-12)
         end
         -- more tolerance never accepts less
         local last = -1
         for _, factor in ipairs { 1, 0.7, 0.4, 0.1 } do
            o.rule = A.lenience { factor = factor }
            local accepted = cop.relaxed_law(o).acceptance
            check.is(accepted >= last - 1e-12)
            last = accepted
         end
      end
   end
end
-- a truncated target is the law of every token, bonus tokens included
for _, widths in ipairs { { 1, 1 }, { 2, 2 } } do
   local law = cop.relaxed_law { rule = A.truncated { top_k = 2 }, draw = "without_replacement", widths = widths, target = p, draft = q }
   local sums, best = { 0, 0, 0 }, { 0, 0, 0 }
   for _, outcome in ipairs(law.outcomes) do
      for d, token in ipairs(outcome.tokens) do
         check.is(token < 2)
         sums[d] = sums[d] + outcome.probability
         best[d] = best[d] + (token == 0 and outcome.probability or 0)
      end
   end
   for d = 1, 3 do
      check.near(best[d] / sums[d], 0.625)
   end
end

-- The longest kept path wins, then the likelier one, then the first.
local forked = { tokens = { 1, 0, 0, 1, 2 }, parents = { 0, 0, 1, 2, 4 } }
local rows = { { 0.5, 0.4, 0.1 }, { 0.5, 0.3, 0.2 }, { 0.2, 0.7, 0.1 }, { 1, 0, 0 }, { 0.5, 0.3, 0.2 }, { 0, 0, 1 } }
local function walk(rule, tree, target)
   local got = cop.verify_rows { rule = rule, tree = tree, target = target, draw = "deterministic", coins = {}, pick = "argmax" }
   return table.concat(got.nodes, " ") .. " | " .. table.concat(got.tokens, " ")
end
check.equal(walk(A.typical { epsilon = 0.15, delta = 1 }, forked, rows), "2 4 5 | 0 1 2 2")
check.equal(walk(A.typical { epsilon = 0.25, delta = 1 }, forked, rows), "2 4 | 0 1 0") -- .5 * .7 before .4 * .5
check.equal(walk(A.top_k { k = 2 }, forked, rows), "2 4 | 0 1 0")
check.equal(walk(A.top_k { k = 3 }, forked, rows), "2 4 5 | 0 1 2 2")
check.equal(walk(A.tau_relaxed { beta = 3, tau = 0.3 }, forked, rows), "2 4 | 0 1 0")
check.equal(walk(A.margin { margin = 0.1 }, forked, rows), "2 4 | 0 1 0")
check.equal(walk(A.trt_relaxed { delta = 0.31 }, forked, rows), "2 4 5 | 0 1 2 2")
rows[1], rows[3] = { 0.4, 0.4, 0.2 }, { 0.2, 0.5, 0.3 }
check.equal(walk(A.top_k { k = 2 }, forked, rows), "1 3 | 1 0 0")  -- equal paths: the one drafted first

-- ---- Logits ---------------------------------------------------------------------------------------------

-- MARS reads logits: 10, 9.5 are close, 1, .5 are not, though the probabilities are the same.
local function mars(logits, token, options)
   local got = cop.verify_rows { rule = A.mars(options or {}), logits = { logits, logits }, tree = { tokens = { token }, parents = { 0 } },
      coins = { 0.99 }, pick = "argmax" }
   return got.accepted
end
check.equal(mars({ 10, 9.5, 3 }, 1), 1)
check.equal(mars({ 1, 0.5, -6 }, 1), 0)
check.equal(mars({ 10, 9.5, 3 }, 2), 0)
check.equal(mars({ 10, 9, 3 }, 1), 0)
check.equal(mars({ 10, 9, 3 }, 1, { theta = 0.89 }), 1)
check.equal(mars({ 1, 0.5, -6 }, 0, { test = "greedy" }), 1)
check.equal(mars({ 1, 0.5, -6 }, 1, { test = "greedy" }), 0)
-- regrets are differences of logits
local function budgeted(options, tokens)
   local logits = {}
   for i = 1, #tokens + 1 do
      logits[i] = { 3, 2.8, 2.9, 1 }
   end
   local parents = {}
   for i = 1, #tokens do
      parents[i] = i - 1
   end
   local got = cop.verify_rows { rule = A.budgeted(options), logits = logits, tree = { tokens = tokens, parents = parents }, coins = {}, pick = "argmax" }
   return got.accepted, got.tokens[#got.tokens]
end
check.equal(budgeted({}, { 1, 0, 2, 0 }), 4)
check.equal(budgeted({}, { 1, 0, 2, 1 }), 3)                   -- the third exception
check.equal(budgeted({ exceptions = 3 }, { 1, 0, 2, 1 }), 4)
check.equal(budgeted({ gate = 0.15 }, { 2, 1, 0 }), 1)         -- regret .2
check.equal(budgeted({ budget = 0.25 }, { 1, 2, 0 }), 1)       -- .2 + .1
check.equal(budgeted({ gate = 5 }, { 3 }), 0)                  -- regret 2 is past the request's budget
check.equal(budgeted({ gate = 5, budget = 3 }, { 3 }), 1)
check.equal(select(2, budgeted({ budget = 0 }, { 1 })), 0)

-- ---- State: over the cycles of one sequence -------------------------------------------------------------

-- Drafted is always token 1, the target's second best by ln 2, and kept tokens are followed by token 0. With a budget for
-- one such exception the sequence is 1 0 0 0, without a limit 1 0 1 0: their distances from the target are 1 - P of them.
local function over_tokens(rule, tokens)
   return cop.relaxed_law { rule = rule, draw = "independent", widths = { 1 }, draft = { 0, 1 }, target = { 2 / 3, 1 / 3 }, horizon = tokens }.total_variation
end
check.near(over_tokens(A.budgeted { gate = 1, budget = 0.7 }, 4), 1 - (1 / 3) * (2 / 3) ^ 3)
check.near(over_tokens(A.budgeted { gate = 1, budget = 1.3 }, 4), 1 - (1 / 3) * (2 / 3) ^ 3)
check.near(over_tokens(A.budgeted { gate = 1, budget = 1.4 }, 4), 1 - (1 / 3) ^ 2 * (2 / 3) ^ 2)
check.near(over_tokens(A.budgeted { gate = 1, budget = 0 }, 4), 1 - (2 / 3) ^ 4)
-- Thinking ends with token 0, which the first cycle says last; thinking that token 0 begins starts there.
check.near(over_tokens(A.trt_relaxed {}, 4), 1 - (1 / 3) ^ 2 * (2 / 3) ^ 2)
check.near(over_tokens(A.trt_relaxed { end_token = 0 }, 4), 1 - (1 / 3) * (2 / 3) ^ 3)
check.near(over_tokens(A.trt_relaxed { begin_token = 0 }, 3), 1 - (2 / 3) ^ 2 * (1 / 3)) -- 0, then 1 0
check.near(over_tokens(A.trt_relaxed { begin_token = 1 }, 4), 1 - (2 / 3) ^ 4)

-- ---- Temperature 0 ----------------------------------------------------------------------------------------

local near_best = { 0.5, 0.45, 0.05 }
local function at_zero(rule, target, draft, widths)
   local law = cop.relaxed_law { rule = rule, widths = widths or { 1 }, temperature = 0, target = target, draft = draft }
   check.equal(#law.outcomes, 1, tostring(rule))
   return law.outcomes[1].accepted .. " " .. table.concat(law.outcomes[1].tokens, " ")
end
local second = { 0.1, 0.8, 0.1 } -- drafts token 1
for _, case in ipairs {
   { A.lenience { factor = 0.8 }, "1 1 0" }, { A.lenience { factor = 0.95 }, "0 0" }, { A.lenience { factor = 1 }, "0 0" },
   { A.additive { epsilon = 0.2 }, "1 1 0" }, { A.additive { epsilon = 0.05 }, "0 0" }, { A.additive { epsilon = 0 }, "0 0" },
   { A.ears { beta = 0.3 }, "1 1 0" }, { A.ears { beta = 0.1 }, "0 0" }, { A.mixed { eta = 0 }, "0 0" }, { A.mixed { eta = 1 }, "1 1 0" },
   { A.ensemble { weight = 0.9 }, "1 1 0" }, { A.ensemble { weight = 0.95 }, "0 0" }, { A.mentored { budget = 0 }, "0 0" },
   { A.mentored { budget = 1 }, "1 1 0" }, { A.contrastive { beta = 0.1 }, "0 0" }, { A.cactus { delta = 1 }, "0 0" },
   { A.cascade { gate = "chow", alpha = 0.2 }, "1 1 0" }, { A.cascade { gate = "chow", alpha = 0.1 }, "0 0" },
   { A.cascade { gate = "token_v2", alpha = 0.1 }, "1 1 0" }, { A.cascade { gate = "token_v2", alpha = 0.01 }, "0 0" },
   { A.typical {}, "0 0" }, { A.sglang_threshold { accumulated = 0.5 }, "0 0" }, { A.truncated { top_k = 2 }, "0 0" },
   { A.tau_relaxed { beta = 2, tau = 0.2 }, "1 1 0" }, { A.tau_relaxed { beta = 2, tau = 0.1 }, "0 0" },
   { A.trt_relaxed { delta = 0.1 }, "1 1 0" }, { A.trt_relaxed { delta = 0.04 }, "0 0" }, { A.top_k { k = 2 }, "1 1 0" },
   { A.top_k { k = 1 }, "0 0" }, { A.margin { margin = 0.1 }, "1 1 0" }, { A.entropy { entropy = 0.5 }, "1 1 0" },
   { A.entropy { entropy = 1 }, "0 0" }, { A.mars {}, "1 1 0" }, { A.fallback_rollback { rollback = 1 }, "1 1 0" },
   { A.fallback_rollback { rollback = 0.7 }, "0 0" }, { A.budgeted {}, "1 1 0" }, { A.budgeted { gate = 0.1 }, "0 0" },
   { A.fuzzy { threshold = 0.4 }, "1 1 0" }, { A.fuzzy { threshold = 0.05 }, "0 0" }, { A.deferred {}, "0 0" },
} do
   check.equal(at_zero(case[1], near_best, second), case[2], tostring(case[1]))
end
-- the best token of a substituted target may be nobody's best
check.equal(at_zero(A.ensemble { weight = 0.5 }, { 0.5, 0.05, 0.45 }, { 0.05, 0.5, 0.45 }, { 1 }), "0 2")

-- ---- Refusals ---------------------------------------------------------------------------------------------

check.raises_with("changes the output distribution by design", function()
   return cop.exact_law { rule = A.typical {}, draw = "independent", widths = { 1 }, target = p, draft = q }
end)
check.raises_with("cop.accept.cascade: option \"alpha\" must be a number from 0 to 1 with gate = \"chow\"", function()
   return A.cascade { gate = "chow", alpha = -0.1 }
end)
check.raises_with("option \"factor\" must be", function() return A.lenience { factor = 1.5 } end)
local function refuses(text, options)
   check.raises_with(text, function()
      return cop.relaxed_law { rule = options.rule, draw = options.draw, widths = options.widths, tree = options.tree, target = p, draft = q }
   end)
end
refuses("accept.cactus is defined for independent × chain; it says nothing about independent × tree", { rule = A.cactus {}, draw = "independent", widths = { 2 } })
refuses("accept.lenience is defined for without_replacement × tree, independent × tree; it says nothing about deterministic × chain",
   { rule = A.lenience {}, draw = "deterministic", widths = { 1 } })
for _, rule in ipairs { A.fuzzy {}, A.fallback_rollback {}, A.budgeted {}, A.deferred {} } do
   refuses("it says nothing about independent × tree", { rule = rule, draw = "independent", widths = { 2 } })
end
refuses("draw = \"independent\", not \"deterministic\"", { rule = A.deferred { test = "ratio" }, draw = "deterministic", widths = { 1 } })
refuses("draw = \"independent\", not \"deterministic\"", { rule = A.fuzzy { reducible = true, threshold = 0 }, draw = "deterministic", widths = { 1 } })
check.raises_with("cop.verify_rows: accept.cactus is defined for independent × chain", function()
   return cop.verify_rows { rule = A.cactus {}, tree = { tokens = { 0, 1 }, parents = { 0, 0 } }, target = { p, p, p }, draft = { q }, coins = {} }
end)
-- without a draw the definition's own comes first
check.equal(cop.relaxed_law { rule = A.lenience {}, widths = { 2 }, target = p, draft = q }.draw, "without_replacement")
check.equal(cop.relaxed_law { rule = A.typical {}, widths = { 2 }, target = p, draft = q }.draw, "deterministic")
check.equal(cop.relaxed_law { rule = A.cactus {}, widths = { 1 }, target = p, draft = q }.draw, "independent")

-- ---- Judges -----------------------------------------------------------------------------------------------

local function judged(judge, more)
   local o = { judge = judge }
   for key, value in pairs(more or {}) do
      o[key] = value
   end
   local got = cop.relaxed_law { rule = A.judge(o), draw = "independent", widths = { 1 }, target = p, draft = q }
   return ("%.4f | %.4f %.4f %.4f %.4f"):format(got.acceptance, table.unpack(got.position[1]))
end
check.equal(judged(function() return false end), "0.2500 | 1.0000 0.0000 0.0000 0.0000") -- greedy match
check.equal(judged(function() return true end), "1.0000 | 0.2500 0.2500 0.4000 0.1000")
check.equal(judged(function(tree, node) return tree:token(node) == 1 end), "0.5000 | 0.7500 0.2500 0.0000 0.0000") -- the two best
check.equal(judged("probability", { threshold = 0.09 }), "0.9000 | 0.3500 0.2500 0.4000 0.0000")
check.equal(judged("probability", { threshold = 0.09, correction = "target" }), "0.9000 | 0.3000 0.2800 0.4150 0.0050")
check.equal(judged("share", { threshold = 0.55 }), "0.5000 | 0.7500 0.2500 0.0000 0.0000")
check.equal(judged("ratio", { threshold = 1.1, strict = false }), "0.5000 | 0.7500 0.2500 0.0000 0.0000")
check.equal(judged(function(tree, node, target, draft)
   local above = tree:parent(node)
   return target(above)[tree:token(node)] - draft(above)[tree:token(node)]
end, { threshold = 0.1 }), "0.2500 | 1.0000 0.0000 0.0000 0.0000")
rows[1], rows[3] = { 0.5, 0.4, 0.1 }, { 0.2, 0.7, 0.1 }
check.equal(walk(A.judge { "probability", threshold = 0.15 }, forked, rows), "2 4 5 | 0 1 2 2")
check.equal(walk(A.judge { "probability", threshold = 0.25 }, forked, rows), "2 4 | 0 1 0")
check.raises_with("the judge must return a score or a boolean, got a string", function() return judged(function() return "yes" end) end)
check.raises_with("cop.accept.judge: unknown score \"probabilty\"; did you mean \"probability\"?", function() return A.judge { "probabilty" } end)
check.raises_with("option \"judge\" must be a function or the name of a score, got a number", function() return A.judge { 3 } end)
check.raises_with("cop.accept.judge: option \"judge\" is required: function(tree, node, target, draft) that returns a score", function() return A.judge {} end)

-- Entropies of logits need no logarithm for each token; the set is the same as from the law.
for _, case in ipairs { { { 2, 1, 0.5, -1 }, 1.0 }, { { 0, 0, 0, 0 }, 1.38 }, { { 5, 1, 1, 1 }, 0.25 } } do
   local sum, entropy = 0, 0
   for _, z in ipairs(case[1]) do
      sum = sum + math.exp(z)
   end
   for _, z in ipairs(case[1]) do
      entropy = entropy - math.exp(z) / sum * math.log(math.exp(z) / sum)
   end
   for _, shift in ipairs { -1e-5, 1e-5 } do
      local got = cop.verify_rows { rule = A.entropy { entropy = entropy + shift }, logits = { case[1], case[1] },
         tree = { tokens = { 3 }, parents = { 0 } }, coins = {}, pick = "argmax" }
      check.equal(got.accepted, shift < 0 and 1 or 0)
   end
end

-- SGLang's coin is one for all siblings, numbered as the first of them: .3 and .9 with accumulated = .5.
for _, case in ipairs { { 0.25, "2 0" }, { 0.35, "1 0" }, { 0.85, "1 0" }, { 0.95, "0" } } do
   local got = cop.verify_rows { rule = A.sglang_threshold { accumulated = 0.5 }, target = { p, p, p }, draw = "deterministic",
      tree = { tokens = { 2, 1 }, parents = { 0, 0 } }, coins = { case[1] }, pick = "argmax" }
   check.list(got.tokens, load("return { " .. case[2]:gsub(" ", ", ") .. " }")())
end

-- A model's rows, read in fused passes, give the laws of the same rows as literals, up to their rounding to f32.
local function two_ways(n)
   local z = { target = {}, draft = {} }
   for i = 1, n do
      z.target[i] = 2 * math.sin(i * i) + (i % 7 == 0 and 2 or 0)
      z.draft[i] = z.target[i] + math.cos(3 * i)
   end
   local laws = {}
   for side, logits in pairs(z) do
      local sum, law = 0, {}
      for i = 1, n do
         sum = sum + math.exp(logits[i])
      end
      for i = 1, n do
         law[i] = math.exp(logits[i]) / sum
      end
      laws[side] = law
   end
   return z, laws
end

for _, n in ipairs { 9, 16, 1100 } do -- laws, and beyond a block of tokens what seeds decide
   local z, r = two_ways(n)
   local rules = { A.ensemble { weight = 0.7 }, A.truncated { epsilon = 0.01 }, A.truncated { top_k = 5 }, A.truncated {},
      A.contrastive {}, A.mentored { budget = 0.05 }, A.mentored { budget = 9 }, A.typical { epsilon = 0.02 }, A.entropy { entropy = 2 },
      A.top_k { k = 3 }, A.trt_relaxed {}, A.cascade { gate = "chow", alpha = 0.2 }, A.cascade { gate = "opt", alpha = 0.1 } }
   for _, gate in ipairs { "token_v1", "token_v2", "token_v3" } do
      rules[#rules + 1] = A.cascade { gate = gate, alpha = 0.02 }
   end
   for _, divergence in ipairs { "js", "kl", "tv", "kl_target" } do
      for _, threshold in ipairs { 0.05, 0.2, 0.5 } do
         rules[#rules + 1] = A.fuzzy { divergence = divergence, threshold = threshold, reducible = true }
      end
   end
   for _, rule in ipairs(rules) do
      local chain = { rule = rule, draw = "independent", tree = { tokens = { 6 }, parents = { 0 } } }
      local function verify(coin)
         chain.seed, chain.enumerate = coin, not coin
         chain.logits, chain.target, chain.draft = { target = { z.target, z.target }, draft = { z.draft, z.draft } }, nil, nil
         local fused = cop.verify_rows(chain)
         chain.logits, chain.target, chain.draft = nil, { r.target, r.target }, { r.draft, r.draft }
         return fused, cop.verify_rows(chain)
      end
      if n <= 16 then
         local fused, literal = verify()
         check.near(fused.expected_accepted, literal.expected_accepted, 1e-6, tostring(rule))
         for i, share in ipairs(literal.position[1]) do
            check.near(fused.position[1][i], share, 1e-6, ("%s, %d tokens: token %d"):format(rule, n, i - 1))
         end
      else
         for coin = 1, 5 do
            local fused, literal = verify(coin)
            check.list(fused.tokens, literal.tokens, ("%s: seed %d"):format(rule, coin))
         end
      end
   end
end
