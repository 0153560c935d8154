--- Text measures and significance tests: worked values, and those that other systems computed.

local check, _, core = ...
local cop = require("coppice")
local stats, quality = cop.stats, cop.quality

local function fields(got, expected, tolerance, what)
   for name, value in pairs(expected) do
      check.near(got[name], value, tolerance, ("%s %s"):format(what, name))
   end
end

-- Significance tests.
for _, row in ipairs {
   { 8, 2, .10938, .06543, 2.5 }, { 10, 3, .09229, .05737, 2.769 }, { 25, 12, .04703, .03355, 3.892 },
   { 40, 20, .01349, .00985, 6.017 }, { 5, 1, .21875, .125, 1.5 },
} do
   fields(stats.mcnemar(row[1], row[2]), { exact = row[3], mid_p = row[4] }, 5e-6, "mcnemar")
   check.near(stats.mcnemar(row[1], row[2]).chi_square, row[5], 5e-4)
end
fields(stats.mcnemar(0, 0), { exact = 1, mid_p = 1, chi_square = 0 }, 0, "mcnemar of nothing")
fields(stats.mcnemar(4, 4), { exact = 1, chi_square = 0 }, 1e-12, "mcnemar of equals")
fields(stats.tost { difference = .00986, standard_error = .00460, margin = .02 }, { p = .0138 }, 6e-5, "tost")
fields(stats.tost { difference = 0, standard_error = 0, margin = 1 }, { p = 0, lower_p = 0 }, 0, "tost without error")
fields(stats.chi_square({ 520, 290, 140, 50 }, { 480, 310, 155, 55 }),
   { statistic = 3.2675, g = 3.2684, dof = 3 }, 5e-5, "chi-square")
fields(stats.chi_square({ 520, 0, 290, 140, 50 }, { 480, 0, 310, 155, 55 }),
   { statistic = 3.2675, dof = 3 }, 5e-5, "a cell without counts")
check.list(stats.holm { .004, .02, .03, .2 }, { 0.016, 0.06, 0.06, 0.2 })
check.list(stats.benjamini_hochberg { .2, .02, .004, .03 }, { 0.2, 0.04, 0.016, 0.04 })

check.raises("cop.stats.mcnemar: b must be a whole number of at least 0, got -1", function() stats.mcnemar(-1, 2) end)
check.raises("cop.stats.wilson: needs 1 <= n and successes <= n, got 3 of 2", function() stats.wilson(3, 2) end)
check.raises("cop.stats.wilson: level must be a number between 0 and 1, got 95", function() stats.wilson(1, 2, 95) end)
check.raises("cop.stats.holm: ps[2] must be a number from 0 to 1, got 1.5", function() stats.holm { 0.5, 1.5 } end)
check.raises("cop.stats.chi_square: needs two lists of counts of the same length",
   function() stats.chi_square({ 1 }, { 1, 2 }) end)

-- pass@k.
for _, row in ipairs {
   { 10, 3, 1, .3 }, { 10, 3, 5, .916667 }, { 200, 20, 1, .1 }, { 200, 20, 10, .660226 },
   { 200, 20, 100, .99999967 }, { 5, 1, 5, 1 }, { 5, 0, 1, 0 },
} do
   check.near(quality.pass_at_k(row[1], row[2], row[3]), row[4], 5e-7)
end
check.raises("cop.quality.pass_at_k: needs correct <= n and 1 <= k <= n, got n = 5, correct = 1, k = 6",
   function() quality.pass_at_k(5, 1, 6) end)

-- ROUGE and BLEU.
for candidate, expected in pairs {
   ["police kill the gunman"] = { .75, .3333, .75 }, ["the gunman kill police"] = { .75, .3333, .5 },
   ["police killed"] = { .6667, .5, .6667 },
   ["the police killed the armed gunman today"] = { .7273, .4444, .7273 }, [""] = { 0, 0, 0 },
} do
   fields(quality.rouge("police killed the gunman", candidate), { r1 = expected[1], r2 = expected[2],
      rl = expected[3] }, 5e-5, candidate)
end
local cat, dog = "the cat sat on the mat", "a dog ran home fast"
check.near(quality.bleu({ cat }, { cat .. " today" }), 80.9107, 5e-5)
check.near(quality.bleu({ "there is a cat on the mat" }, { "the cat is on the mat" }), 29.0593, 5e-5)
check.equal(quality.bleu({ "there is a cat on the mat" }, { "the cat is on the mat" }, { smoothing = "none" }), 0.0)
check.near(quality.bleu({ cat, dog }, { "the cat sat on the", "a dog ran home" }), 80.0737, 5e-5)
check.near(quality.bleu({ { "nothing like it", cat } }, { cat }), 100, 1e-9, "the best of several references")
-- Of sacreBLEU 2.6: hyphens part from digits only; other marks of ASCII stand alone; Unicode's blanks part words.
check.near(quality.bleu({ "a well-known, state-of-the-art method of 1990-91" },
   { "a well-known state-of-the-art method of 1990-91" }), 67.5291821813, 1e-9)
check.near(quality.bleu({ "x_1 = [a]^b\\c is the rule" }, { "x_1 = [a] ^ b\\c is the rule" }), 100, 1e-9)
check.near(quality.bleu({ "a b c d e" }, { "a\u{a0}b\u{3000}c d e" }), 100, 1e-9)
check.near(quality.chrf("abcdef", "abc\u{2003}def"), 100, 1e-9)
check.near(quality.rouge("kelvin", "\u{212a}elvin").r1, 1)
check.raises("cop.quality.bleu: needs a list of references and a list of as many candidates",
   function() quality.bleu({ "a" }, {}) end)
check.raises("cop.quality.bleu: candidates[1] must be a text, got a number", function() quality.bleu({ "a" },
   { 1 }) end)

-- GSM8K.
check.equal(quality.gsm8k_answer("#### 1,234", "strict"), "1,234")
check.equal(quality.gsm8k_answer("The answer is 42.", "strict"), nil)
check.equal(quality.gsm8k_answer("The answer is 42.", "flexible"), "42.")
check.raises("cop.quality.gsm8k_answer: the second argument must be \"strict\" or \"flexible\", got lax",
   function() quality.gsm8k_answer("1", "lax") end)

local path = (os.getenv("COPPICE_SHARED") or "../shared") .. "/reference/metrics.json"
local file = io.open(path)
if not file then
   print("skipped: " .. path .. " is not there, so other systems' values are not compared")
   return
end
local reference = core.system.json.decode(file:read("a"))
file:close()
local n = 0
for _, pair in ipairs(reference.rouge_bleu.pairs) do
   local got = quality.rouge(pair.reference, pair.candidate)
   fields(got, { r1 = pair.rouge.rouge1.f, r2 = pair.rouge.rouge2.f, rl = pair.rouge.rougeL.f }, 1e-9, pair.candidate)
   n = n + 1
end
check.equal(n, 20)
local references, candidates = {}, {}
for i, pair in ipairs(reference.rouge_bleu.pairs) do
   references[i], candidates[i] = pair.reference, pair.candidate
   check.near(quality.bleu({ pair.reference }, { pair.candidate }, { smoothing = "none" }),
      pair.bleu_no_smoothing, 1e-9,
      pair.candidate)
end
check.near(quality.bleu(references, candidates), reference.rouge_bleu.bleu_corpus.score, 1e-9)
for _, one in ipairs(reference.gsm8k) do
   check.equal(quality.gsm8k_answer(one.output, "strict") or "[invalid]", one.strict, one.output)
   check.equal(quality.gsm8k_answer(one.output, "flexible") or "[invalid]", one.flexible, one.output)
end
for _, one in ipairs(reference.pass_at_k) do
   check.near(quality.pass_at_k(one.n, one.c, one.k), one.pass_at_k, 1e-12)
end
for _, one in ipairs(reference.mcnemar) do
   local got = stats.mcnemar(one.only_first, one.only_second)
   check.near(got.exact, one.exact_p, 1e-9)
   if one.mid_p then
      fields(got, { mid_p = one.mid_p, uncorrected = one.chi2.statistic, uncorrected_p = one.chi2.p,
         chi_square = one.chi2_corrected.statistic, chi_square_p = one.chi2_corrected.p }, 1e-9, "mcnemar")
   end
end
for _, one in ipairs(reference.proportion_ci) do
   for _, level in ipairs { 0.9, 0.95, 0.99 } do
      local low, high = stats.wilson(one.k, one.n, level)
      local wilson = one[tostring(level)].wilson
      check.near(low, wilson[1], 1e-9)
      check.near(high, wilson[2], 1e-9)
   end
end
for _, one in ipairs(reference.paired) do
   local paired = one.tost_paired
   local got = stats.tost { difference = one.mean_difference, standard_error = one.se, margin = paired.margin,
      df = one.t_test.df }
   fields(got, { p = paired.p, lower_p = paired.p_lower, upper_p = paired.p_upper }, 1e-9, one.name)
end
