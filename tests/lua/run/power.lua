--- Before and after a run: what so many prompts can show, the sign-flip test, and that no margin is lost.

local check, test, core = ...
local cop = require("coppice")
local stats = cop.stats

-- ---- The sign-flip test, by hand -----------------------------------------------------------------
local six, none = { 1, 2, 3, 4, 5, 6 }, { 0, 0, 0, 0, 0, 0 }
local r = stats.paired_permutation { a = six, b = none }
check.near(r.value, 3.5)
check.near(r.p, 2 / 64) -- all up or all down
check.equal(r.exact, true)
check.near(r.low, 1) -- of 63 subset means the first and the last: floor(0.025 * 64) = 1
check.near(r.high, 6)
r = stats.paired_permutation { a = six, b = none, level = 0.9 } -- the third: 1, 1.5, 2
check.near(r.low, 2)
check.near(r.high, 5)
r = stats.paired_permutation { a = { 1, 2, 3 }, b = { 0, 0, 0 } }
check.near(r.p, 2 / 8)
check.equal(r.low, nil, "three items refuse nothing at 95 %")
r = stats.paired_permutation { a = { 1, 2 }, b = { 2, 1 } } -- -1, 1: every pattern is as far
check.near(r.p, 1)
check.near(stats.paired_permutation { a = { 0.1, 0.2, 0.3 }, b = { 0, 0, 0 } }.p, 0.25, 1e-12, "ties despite rounding")

-- Many items: drawn patterns, near the normal law's answer, and one seed gives one answer.
local a, b, sum, squares = {}, {}, 0, 0
for i = 1, 200 do
   local x = (i * 7919 % 1000) / 1000 - 0.46
   a[i], b[i] = x, 0
   sum, squares = sum + x, squares + x * x
end
local z = sum / math.sqrt(squares)
r = stats.paired_permutation { a = a, b = b, permutations = 20000, seed = 3 }
check.equal(r.exact, false)
check.near(r.p, 2 * core.use("distributions").normal_upper(z), 0.01)
local half = 1.96 * math.sqrt(squares / 200 - (sum / 200) ^ 2) / math.sqrt(200)
check.near((r.high - r.low) / 2, half, 0.05 * half)
check.near(r.value, sum / 200)
check.equal(stats.paired_permutation { a = a, b = b, permutations = 20000, seed = 3 }.low, r.low)
check.is(stats.paired_permutation { a = a, b = b, permutations = 20000, seed = 4 }.low ~= r.low)
-- the p of a far centre is never 0
for i = 1, 200 do
   b[i] = -9
end
check.near(stats.paired_permutation { a = a, b = b, permutations = 999 }.p, 1 / 1000)

check.raises("cop.stats.paired_permutation: a and b must have the same length, at least 1; got 1 and 2",
   function() return stats.paired_permutation { a = { 1 }, b = { 1, 2 } } end)
check.raises("cop.stats.paired_permutation: b[1] must be finite, got inf",
   function() return stats.paired_permutation { a = { 1 }, b = { math.huge } } end)

local path = (os.getenv("COPPICE_SHARED") or "../shared") .. "/reference/metrics.json"
local file = io.open(path)
if file then
   for _, one in ipairs(core.system.json.decode(file:read("a")).paired) do
      local got = stats.paired_permutation { a = one.a, b = one.b, permutations = 200000 }
      check.near(got.value, -one.mean_difference, 1e-9)
      check.near(got.p, one.sign_flip.p_two_sided, one.sign_flip.exact and 1e-12 or 0.005, one.name)
   end
   file:close()
else
   print("skipped: " .. path .. " is not there, so other systems' values are not compared")
end

-- ---- Non-inferiority -----------------------------------------------------------------------------
local worse = stats.non_inferiority { difference = -0.01, standard_error = 0.01, margin = 0.02 }
check.near(worse.p, 0.158655, 1e-6) -- P(Z > 1)
check.near(worse.low, -0.01 - 1.6448536 * 0.01, 1e-8)
check.equal(worse.shown, false)
check.equal(stats.non_inferiority { difference = 0.00986, standard_error = 0.0046, margin = 0.02 }.shown, true)
check.near(stats.non_inferiority { difference = 0, standard_error = 1, margin = 1, df = 4 }.p, 0.186950, 1e-6)
check.near(stats.non_inferiority { difference = 0, standard_error = 1, margin = 1, df = 4 }.low, -2.131847, 1e-6)
check.equal(stats.non_inferiority { difference = 0, standard_error = 0, margin = 0.01 }.p, 0.0)

-- ---- Before a run: the power table of the notes --------------------------------------------------
for _, row in ipairs {
   { 0.02, { 1713, 429, 191 }, 1.14, 3.2 }, { 0.05, { 4282, 1071, 476 }, 1.80, 5.1 },
   { 0.10, { 8564, 2141, 952 }, 2.55, 7.2 }, { 0.20, { 17128, 4282, 1904 }, 3.60, 10.2 },
} do
   for points, n in ipairs(row[2]) do
      check.equal(stats.sample_size { margin = points / 100, discordant = row[1] }.n, n)
   end
   check.near(100 * stats.sample_size { margin = 1, discordant = row[1], n = 1319 }.margin, row[3], 0.005)
   check.near(100 * stats.sample_size { margin = 1, discordant = row[1], n = 164 }.margin, row[4], 0.05)
end
check.equal(stats.sample_size { margin = 0.1, sd = 1 }.n, 857) -- (2.926405 / 0.1)^2 = 856.4
check.raises("cop.stats.sample_size: give discordant (yes/no results) or sd (numbers)",
   function() return stats.sample_size { margin = 1 } end)

-- Draws, distances, paired shares: their published values are a recipe (statistics); here what is refused.
check.near(stats.draws_needed { target = { 0.5, 0.5, 0 }, output = { 0.5, 0.25, 0.25 } }, 1, 0, "seen at once")
check.equal(stats.draws_needed { target = { 0.5, 0.5 }, output = { 0.5, 0.5 } }, math.huge)
check.raises("cop.stats.draws_needed: target and output must have the same length, got 2 and 1",
   function() return stats.draws_needed { target = { 0.5, 0.5 }, output = { 1 } } end)
check.raises("cop.stats.draws_needed: target must be a list of probabilities that sum to 1, got a sum of 0.5",
   function() return stats.draws_needed { target = { 0.5 }, output = { 1 } } end)
check.raises("cop.stats.draws_needed: output[1] must be a probability, got -1",
   function() return stats.draws_needed { target = { 1 }, output = { -1 } } end)
check.raises("cop.stats.total_variation_floor: draws must be a whole number of at least 1, got 0",
   function() return stats.total_variation_floor({ 1 }, 0) end)
check.raises("cop.stats.paired_proportions: needs 1 <= n and b + c <= n, got b = 3, c = 3, n = 5",
   function() return stats.paired_proportions(3, 3, 5) end)
check.raises("cop.stats.paired_proportions: c must be a whole number of at least 0, got nil",
   function() return stats.paired_proportions(3) end)
check.raises("cop.stats.mmd: needs at least two counts on each side", function() return stats.mmd({ 1 }, { 5 }) end)
check.near(stats.mmd({ 2, 0 }, { 0, 2 }).unbiased, 2) -- the two never agree, each always with itself
check.raises("cop.quality.perplexity: logprobs[2] must be a number of at most 0, got 0.5",
   function() return cop.quality.perplexity { -1, 0.5 } end)

-- ---- In an experiment ----------------------------------------------------------------------------
local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local function experiment(changes)
   local prompts = {}
   for i = 1, 32 do
      prompts[i] = { turns = { "the cat and " .. i }, answer = tostring(i), reference = { "the end" } }
   end
   local e = {
      name = "power", target = target, max_tokens = 3, prompts = prompts, margin = 0.01,
      arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } }, quality = { "gsm8k_flexible", "rouge1" },
   }
   for key, change in pairs(changes or {}) do
      e[key] = change
   end
   return cop.experiment(e)
end
local said
test.quietly(function() said = experiment():check() end)
check.is(said:find("gsm8k_flexible: 32 prompts cannot show a 1 % loss; the smallest they can is 11.6 %, and 1 % needs"
   .. " 4282 prompts", 1, true), said)
check.is(not said:find("rouge1:", 1, true), said)
test.quietly(function() said = experiment { margin = { gsm8k_flexible = 0.2 } }:check() end)
check.is(said:find("32 prompts can show a 20 % loss", 1, true), said)

local folder = test.folder() .. "/run"
local result = test.quietly(function() return assert(experiment { margin = { rouge1 = 0.5 } }:run { out = folder }) end)
local rouge = result.arms[2].quality.rouge1
check.equal(rouge.loss.shown, true)
check.near(rouge.loss.p, 0, 1e-12, "greedy answers are the same")
check.near(rouge.p, 1)
check.equal(result.arms[2].quality.gsm8k_flexible.loss, nil)
local log = io.open(folder .. "/console.log"):read("a")
check.is(log:find("p that the margin is lost (Holm)", 1, true), log)
check.is(log:find("a first answer of each arm warms up and is not counted.", 1, true), log)
check.is(log:find("in an order that rotates from prompt to prompt", 1, true), log)
-- a report made later says the same; a margin chosen later makes another run of it
local status, text = test.program { "report", folder }
check.equal(status, 0)
check.is(text:find("p that the margin is lost (Holm)", 1, true), text)
local _, problem = test.quietly(function() return experiment { margin = { rouge1 = 0.9 } }:run { out = folder } end)
check.is(problem:find("margin.rouge1: 0.5 there, 0.9 here", 1, true), problem)

-- ---- Planted answers: losses, corrected over arms ------------------------------------------------
local compare = core.use("quality_compare")
local trace = assert(core.trace.open(test.folder() .. "/trace.db", "write"))
local plain = trace:arm { name = "plain", sampling = "T=0", is_plain = true, is_lossless = true }
local one, two = trace:arm { name = "one", sampling = "T=0" }, trace:arm { name = "two", sampling = "T=0" }
for prompt = 1, 10 do
   trace:quality(plain, prompt, 1, 1, "score", 5)
   trace:quality(one, prompt, 1, 1, "score", 5 + (prompt % 2 == 0 and 1 or -1))
   trace:quality(two, prompt, 1, 1, "score", 5 + prompt)
end
local arms = { { id = plain }, { id = one }, { id = two } }
local function of(better)
   local out = compare.group(trace, arms, { "score" }, { margin = { score = 0.5 }, better = { score = better } })
   return out[2].score, out[3].score
end
local first, second = of "higher"
check.near(first.p, 1)
check.near(second.p, 2 / 1024)
check.near(second.p_holm, 4 / 1024)
local standard_error = math.sqrt(10 / 9 / 10)
check.near(first.loss.p, core.use("distributions").student_upper(0.5 / standard_error, 9), 1e-12)
check.near(first.loss.p_holm, first.loss.p, 1e-12)
check.near(second.loss.p_holm, 2 * second.loss.p, 1e-15)
check.equal(second.loss.shown, true)
check.equal(select(2, of "lower").loss.shown, false, "more is worse")
-- where the draft has answered alone, what of its distance to plain decoding an arm keeps
local draft = trace:arm { name = "draft", sampling = "T=0", rule = "other model" }
for prompt = 1, 10 do
   trace:quality(draft, prompt, 1, 1, "score", 1)
end
arms[2].facts, arms[3].facts, arms[4] = { rule = "token" }, { rule = "token" }, { id = draft,
   facts = { rule = "other model" } }
first, second = of "higher"
check.near(first.retention, 1) -- (5 - 1) / (5 - 1)
check.near(second.retention, (10.5 - 1) / 4)
local columns, rows = compare.table({ { name = "plain", quality = { score = { mean = 5, answers = 10 } } },
   { name = "two", quality = { score = second } } }, { "score" }, { score = " ↑" })
check.equal(columns[#columns].title, "kept of plain less draft")
check.equal(columns[#columns - 1].title, "p that the margin is lost (Holm)")
check.list({ rows[2][1], rows[2][2], rows[2][3], rows[2][#columns] }, { "", "two", "10", "2.375" })
trace:close()

-- ---- What is refused -----------------------------------------------------------------------------
check.raises_with("cop.experiment: margin must be a number between 0 and 1, or a table measure = number, got 2",
   function() return experiment { margin = 2 } end)
check.raises_with("cop.experiment: unknown measure in margin \"rouge2\"; did you mean \"rouge1\"?",
   function() return experiment { margin = { rouge2 = 1 } } end)
check.raises_with("cop.experiment: margin.rouge1 must be a number above 0, got -1",
   function() return experiment { margin = { rouge1 = -1 } } end)
