--- Relaxed rules: the published one-position laws on a toy, stream histograms, and a block of four
-- drafted tokens with given coins.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")
local A = cop.accept
local inf = math.huge

local p = { 0.50, 0.30, 0.15, 0.05 }
local q = { 0.25, 0.25, 0.40, 0.10 }

local function law(rule, more)
   local o = { rule = rule, draw = "independent", widths = { 1 }, target = p, draft = q }
   for key, value in pairs(more or {}) do
      o[key] = value
   end
   return cop.relaxed_law(o)
end

-- Rule, acceptance, law at the drafted position, total variation, KL(target || output).
local laws = {
   { A.lenience { factor = 1 }, 0.7000, { 0.5000, 0.3000, 0.1500, 0.0500 }, 0.0000, 0.0000 },
   { A.lenience { factor = 0.5 }, 0.9000, { 0.3333, 0.2667, 0.3000, 0.1000 }, 0.2000, 0.0994 },
   { A.lenience { factor = 0.5, correction = "scaled" }, 0.9000, { 0.3182, 0.2818, 0.3000, 0.1000 }, 0.2000, 0.1061 },
   { A.lenience { factor = 0.5, correction = "target" }, 0.9000, { 0.3000, 0.2800, 0.3150, 0.1050 }, 0.2200, 0.1277 },
   { A.lenience { factor = 0.3 }, 1.0000, q, 0.3000, 0.2195 },
   { A.lenience { factor = 0.3, correction = "scaled" }, 1.0000, q, 0.3000, 0.2195 },
   { A.lenience { factor = 0.3, correction = "target" }, 1.0000, q, 0.3000, 0.2195 },
   { A.lenience { factor = 0 }, 1.0000, q, 0.3000, 0.2195 },
   { A.additive { epsilon = 0.1 }, 0.7500, { 0.4583, 0.2917, 0.1900, 0.0600 }, 0.0500, 0.0074 },
   { A.ears { beta = 0.1 }, 0.7250, { 0.4792, 0.2958, 0.1700, 0.0550 }, 0.0250, 0.0019 },
   { A.ears { beta = 0.3 }, 0.7750, { 0.4375, 0.2875, 0.2100, 0.0650 }, 0.0750, 0.0159 },
   { A.mixed { eta = 0.3 }, 0.7900, { 0.4250, 0.2850, 0.2250, 0.0650 }, 0.0900, 0.0227 },
   { A.mixed { eta = 1 }, 1.0000, q, 0.3000, 0.2195 },
   { A.mentored { budget = 0.02 }, 0.7873, { 0.4454, 0.2673, 0.2155, 0.0718 }, 0.0873, 0.0200 },
   { A.mentored { budget = 0.05 }, 0.8434, { 0.4066, 0.2500, 0.2576, 0.0859 }, 0.1434, 0.0500 },
   { A.mentored { budget = 0.1 }, 0.9059, { 0.3441, 0.2500, 0.3059, 0.1000 }, 0.2059, 0.1000 },
   { A.ensemble { weight = 0.9 }, 0.7300, { 0.4750, 0.2950, 0.1750, 0.0550 }, 0.0300, 0.0028 },
   { A.ensemble { weight = 0.5 }, 0.8500, { 0.3750, 0.2750, 0.2750, 0.0750 }, 0.1500, 0.0588 },
   { A.contrastive { beta = 0.5 }, 0.6094, { 0.6080, 0.2826, 0.0790, 0.0304 }, 0.1080, 0.0412 },
   { A.cactus { delta = 0.1 }, 0.9097, { 0.3403, 0.2500, 0.3097, 0.1000 }, 0.2097, 0.1037 },
   { A.cactus { delta = 0.25 }, 1.0000, q, 0.3000, 0.2195 },
   { A.cascade { gate = "token_v1", alpha = 0.12 }, 0.8600, { 0.3000, 0.1800, 0.4900, 0.0300 }, 0.3400, 0.2566 },
   { A.cascade { gate = "token_v2", alpha = 0.12 }, 0.6250, { 0.6250, 0.2250, 0.1125, 0.0375 }, 0.1250, 0.0323 },
   { A.cascade { gate = "token_v3", alpha = 0.12 }, 0.6250, { 0.6250, 0.2250, 0.1125, 0.0375 }, 0.1250, 0.0323 },
   { A.cascade { gate = "token_v1", alpha = 0.22 }, 0.8600, { 0.3000, 0.1800, 0.4900, 0.0300 }, 0.3400, 0.2566 },
   { A.cascade { gate = "token_v2", alpha = 0.22 }, 0.6000, { 0.5000, 0.4000, 0.0750, 0.0250 }, 0.1000, 0.0523 },
   { A.cascade { gate = "token_v3", alpha = 0.22 }, 0.6250, { 0.6250, 0.2250, 0.1125, 0.0375 }, 0.1250, 0.0323 },
   { A.cascade { gate = "token_v1", alpha = 0.55 }, 1.0000, q, 0.3000, 0.2195 },
   { A.cascade { gate = "token_v2", alpha = 0.55 }, 1.0000, q, 0.3000, 0.2195 },
   { A.cascade { gate = "token_v3", alpha = 0.55 }, 0.6000, { 0.5000, 0.4000, 0.0750, 0.0250 }, 0.1000, 0.0523 },
   { A.typical {}, 0.9000, { 0.3500, 0.2500, 0.4000, 0.0000 }, 0.2500, inf },
   { A.typical { correction = "target" }, 0.9000, { 0.3000, 0.2800, 0.4150, 0.0050 }, 0.2650, 0.2386 },
   { A.truncated { epsilon = 0.09, delta = 0.3 }, 0.6579, { 0.5263, 0.3158, 0.1579, 0.0000 }, 0.0500, inf },
   { A.truncated { top_k = 3 }, 0.6579, { 0.5263, 0.3158, 0.1579, 0.0000 }, 0.0500, inf },
   { A.truncated { top_p = 0.9 }, 0.6579, { 0.5263, 0.3158, 0.1579, 0.0000 }, 0.0500, inf },
   { A.truncated { min_p = 0.25 }, 0.6579, { 0.5263, 0.3158, 0.1579, 0.0000 }, 0.0500, inf },
   { A.top_k { k = 1 }, 0.2500, { 1, 0, 0, 0 }, 0.5000, inf },
   { A.top_k { k = 1, correction = "target" }, 0.2500, { 0.6250, 0.2250, 0.1125, 0.0375 }, 0.1250, 0.0323 },
   { A.top_k { k = 2 }, 0.5000, { 0.7500, 0.2500, 0, 0 }, 0.2500, inf },
   { A.top_k { k = 2, correction = "target" }, 0.5000, { 0.5000, 0.4000, 0.0750, 0.0250 }, 0.1000, 0.0523 },
   { A.margin { margin = 0.22 }, 0.5000, { 0.7500, 0.2500, 0, 0 }, 0.2500, inf }, -- top-2 by another name
   { A.margin { margin = 0.6, unit = "log" }, 0.5000, { 0.7500, 0.2500, 0, 0 }, 0.2500, inf },
   { A.margin { margin = 0.45, unit = "ratio" }, 0.5000, { 0.7500, 0.2500, 0, 0 }, 0.2500, inf },
   { A.tau_relaxed { beta = 2, tau = 0.6 }, 0.5000, { 0.7500, 0.2500, 0, 0 }, 0.2500, inf },
   { A.tau_relaxed { beta = 4, tau = 0.5 }, 0.2500, { 1, 0, 0, 0 }, 0.5000, inf },
   { A.trt_relaxed { candidates = 2, delta = 0.6 }, 0.5000, { 0.7500, 0.2500, 0, 0 }, 0.2500, inf },
   { A.entropy { entropy = 1.2 }, 0.2500, { 1, 0, 0, 0 }, 0.5000, inf }, -- H = 1.14212
   { A.entropy { entropy = 1.1 }, 1.0000, q, 0.3000, 0.2195 },
   { A.fallback_rollback { rollback = 2.0 }, 0.9000, { 0.3500, 0.2500, 0.4000, 0.0000 }, 0.2500, inf },
   { A.fuzzy { threshold = 0.056 }, 0.0000, p, 0.0000, 0.0000 },
   { A.fuzzy { threshold = 0.0562 }, 1.0000, q, 0.3000, 0.2195 },
   { A.fuzzy { divergence = "kl", threshold = 0.2427 }, 0.0000, p, 0.0000, 0.0000 }, -- KL(draft || target) = .24278
   { A.fuzzy { divergence = "kl", threshold = 0.2428 }, 1.0000, q, 0.3000, 0.2195 },
   { A.fuzzy { divergence = "kl_target", threshold = 0.2194 }, 0.0000, p, 0.0000, 0.0000 },
   { A.fuzzy { divergence = "kl_target", threshold = 0.2195 }, 1.0000, q, 0.3000, 0.2195 },
   { A.fuzzy { divergence = "tv", threshold = 0.29 }, 0.0000, p, 0.0000, 0.0000 },
   { A.fuzzy { divergence = "tv", threshold = 0.31 }, 1.0000, q, 0.3000, 0.2195 },
   { A.fuzzy { threshold = 0, reducible = true }, 0.7000, p, 0.0000, 0.0000 },
   -- cascade gates: Chow from .6 on, Diff from .1, OPT from 1/3
   { A.cascade { gate = "chow", alpha = 0.59 }, 0.7000, p, 0.0000, 0.0000 },
   { A.cascade { gate = "chow", alpha = 0.61 }, 1.0000, q, 0.3000, 0.2195 },
   { A.cascade { gate = "diff", alpha = 0.09 }, 0.7000, p, 0.0000, 0.0000 },
   { A.cascade { gate = "diff", alpha = 0.11 }, 1.0000, q, 0.3000, 0.2195 },
   { A.cascade { gate = "opt", alpha = 0.33 }, 0.7000, p, 0.0000, 0.0000 },
   { A.cascade { gate = "opt", alpha = 0.34 }, 1.0000, q, 0.3000, 0.2195 },
   { A.cascade { gate = "token_v1", alpha = -1 }, 0.7000, p, 0.0000, 0.0000 },
}
for _, row in ipairs(laws) do
   local rule, acceptance, output, distance, divergence = table.unpack(row)
   local got, name = law(rule), tostring(rule)
   check.near(got.acceptance, acceptance, 5.1e-5, name)
   for i = 1, 4 do
      check.near(got.position[1][i], output[i], 5.1e-5, name)
   end
   check.near(got.total_variation_per_position[1], distance, 5.1e-5, name)
   check.near(got.kl[1], divergence, 5.1e-5, name)
end

-- Stream histograms: all tokens of cycles of three drafted ones.
local function stream(rule, shares, progress)
   local got = law(rule, { widths = { 1, 1, 1 } })
   local sums = { 0, 0, 0, 0 }
   for _, outcome in ipairs(got.outcomes) do
      for _, token in ipairs(outcome.tokens) do
         sums[token + 1] = sums[token + 1] + outcome.probability
      end
   end
   check.near(got.expected_accepted + 1, progress, 5.1e-5, tostring(rule))
   for i = 1, 4 do
      check.near(sums[i] / progress, shares[i], 6e-5, tostring(rule))
   end
end
stream(A.lenience { factor = 0.5 }, { 0.36866, 0.27373, 0.26820, 0.08940 }, 3.439)
stream(A.ears { beta = 0.3 }, { 0.44774, 0.28955, 0.20017, 0.06254 }, 2.8411)
stream(A.mixed { eta = 1 }, { 0.3125, 0.2625, 0.3375, 0.0875 }, 4)
stream(A.typical {}, { 0.3818, 0.2606, 0.3470, 0.0106 }, 3.439)
stream(A.lenience { factor = 1 }, p, 2.533)

-- ---- A block of four drafted tokens, vocabulary 5 ----------------------------------------------------

local target = {
   { 0.70, 0.15, 0.10, 0.03, 0.02 }, { 0.40, 0.35, 0.15, 0.06, 0.04 }, { 0.30, 0.25, 0.20, 0.15, 0.10 },
   { 0.85, 0.10, 0.03, 0.01, 0.01 }, { 0.05, 0.80, 0.05, 0.05, 0.05 },
}
local draft = {
   { 0.60, 0.20, 0.10, 0.05, 0.05 }, { 0.30, 0.50, 0.10, 0.05, 0.05 }, { 0.20, 0.20, 0.40, 0.10, 0.10 },
   { 0.30, 0.60, 0.05, 0.03, 0.02 },
}
local block = { { A.match {}, 1, "0 0" }, { A.token {}, 1 } }
local function add(n, rule, emitted)
   block[#block + 1] = { rule, n, emitted }
end
for factor, n in pairs { [1] = 1, [0.5] = 3, [0.3] = 4 } do add(n, A.lenience { factor = factor }) end
for delta, n in pairs { [0] = 1, [0.01] = 3, [0.1] = 3, [0.25] = 4, [0.75] = 4 } do add(n, A.cactus { delta = delta }) end
for budget, n in pairs { [0] = 1, [0.02] = 3, [0.05] = 3, [0.1] = 3 } do add(n, A.mentored { budget = budget }) end
for alpha, n in pairs { [0] = 3, [0.15] = 3, [0.5] = 4 } do add(n, A.cascade { gate = "token_v1", alpha = alpha }) end
for alpha, n in pairs { [0] = 1, [0.15] = 2, [0.5] = 3 } do add(n, A.cascade { gate = "token_v3", alpha = alpha }) end
for alpha, n in pairs { [0.3] = 1, [0.55] = 4, [0.7] = 4 } do add(n, A.cascade { gate = "chow", alpha = alpha }) end
for alpha, n in pairs { [-0.05] = 3, [0] = 3, [0.1] = 3, [0.3] = 4 } do add(n, A.cascade { gate = "diff", alpha = alpha }) end
for threshold, n in pairs { [0.01] = 1, [0.03] = 3, [0.06] = 3, [0.3] = 4 } do add(n, A.fuzzy { threshold = threshold }) end
add(2, A.top_k { k = 2 }, "0 1 0")
add(4, A.top_k { k = 3 }, "0 1 2 1 1")
add(4, A.typical {}, "0 1 2 1 1")
add(3, A.trt_relaxed { candidates = 10, delta = 0.6 }, "0 1 2 0")
add(3, A.trt_relaxed { candidates = 10, delta = 0.12 }, "0 1 2 0")
add(1, A.trt_relaxed { candidates = 10, delta = 0.04 }, "0 0")
add(1, A.fallback_rollback { rollback = 1 }, "0 0")
add(2, A.fallback_rollback { rollback = 1.5 }, "0 1 0")
add(3, A.fallback_rollback { rollback = 2 }, "0 1 2 0")
add(4, A.fallback_rollback { rollback = 5 }, "0 1 2 1 1")
add(1, A.fallback_rollback { rollback = 5, fallback = 0.6 }, "0 0") -- the second draft row reaches .5 only
for _, row in ipairs(block) do
   local rule, n, emitted = table.unpack(row)
   local got = cop.verify_rows { rule = rule, tree = { tokens = { 0, 1, 2, 1 }, parents = { 0, 1, 2, 3 } },
      target = target, draft = draft, coins = { 0.5, 0.8, 0.45, 0.5 }, pick = "argmax" }
   check.equal(got.accepted, n, tostring(rule))
   check.equal(#got.tokens, n + 1)
   check.equal(got.origin, n == 4 and "bonus" or "recovered")
   if emitted then
      check.list(got.tokens, load("return { " .. emitted:gsub(" ", ", ") .. " }")(), tostring(rule))
   end
end

-- Mentored decoding at each of the four positions: the acceptance, and the budget, met exactly.
local mentored = { [0.02] = { 0.9833, 0.9395, 0.8855, 0.5302 }, [0.05] = { 1, 0.9960, 0.9399, 0.5835 }, [0.1] = { 1, 1, 1, 0.6467 } }
for budget, acceptances in pairs(mentored) do
   for i, acceptance in ipairs(acceptances) do
      local got = law(A.mentored { budget = budget }, { target = target[i], draft = draft[i] })
      check.near(got.acceptance, acceptance, 5.1e-5)
      if acceptance < 1 then
         check.near(got.kl[1], budget, 1e-9)
      end
   end
end

-- Cactus raises the drafted token's .35 to g; the other token is always kept.
for _, case in ipairs { { 0.35, 0.2, 0.65166, 0.66131 }, { 0.1, 0.25, 0.31213, 0.36433 }, { 0.5, 0.25, 0.85355, 0.83789 },
   { 0.01, 0.5, 0.10950, 0.22178 }, { 0.001, 1, 0.04570, 0.22114 } } do
   for i, solution in ipairs { "approximate", "exact" } do
      local got = law(A.cactus { delta = case[2], solution = solution }, { target = { case[1], 1 - case[1] }, draft = { 0.95, 0.05 } })
      check.near(got.acceptance, case[2 + i] + 0.05, 5.1e-6)
   end
end
-- Its budget bounds each enlarged law, and not the output: here every draft is kept.
local wide, narrow = { 0.9 }, { 0 }
for i = 2, 11 do
   wide[i], narrow[i] = 0.01, 0.1
end
check.near(law(A.cactus { delta = 0.5 }, { target = wide, draft = narrow }).acceptance, 1)

-- Typical thresholds of the four rows: .0900 .0805 .0640 .0900. Where the second arm rules, p is kept for delta < .3 p / threshold.
local function is_typical(row, token, options)
   return cop.verify_rows { rule = A.typical(options), tree = { tokens = { token }, parents = { 0 } }, target = { row, row }, coins = {}, pick = "argmax" }.accepted == 1
end
for _, case in ipairs { { 2, 3, 0.06, 0.0805 }, { 3, 4, 0.10, 0.0640 } } do
   local border = 0.3 * case[3] / case[4]
   check.is(is_typical(target[case[1]], case[2], { epsilon = 1, delta = border * 0.998 }))
   check.is(not is_typical(target[case[1]], case[2], { epsilon = 1, delta = border * 1.002 }))
end
check.is(is_typical({ 0.9, 0.1 }, 1, { epsilon = 0.0999 }) and not is_typical({ 0.9, 0.1 }, 1, { epsilon = 0.1 })) -- strictly above
