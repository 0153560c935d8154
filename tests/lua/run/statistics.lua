--- The paired bootstrap as scripts see it.

local check = ...
local cop = require("coppice")
local bootstrap = cop.stats.paired_bootstrap

local r = bootstrap { a = { 3, 5, 7 }, b = { 1, 3, 5 } }
check.near(r.value, 2)
check.near(r.low, 2)
check.near(r.high, 2)
r = bootstrap { a = { 4, 8 }, b = { 2, 2 }, of = "ratio_of_sums", seed = 3 }
check.near(r.value, 3)
check.near(r.low, 2)
check.near(r.high, 4)

-- The mean of n normal-ish differences: half-width 1.96 sd / sqrt(n), here within 10 %.
local a, b, sum, squares = {}, {}, 0, 0
for i = 1, 400 do
   local x = (i * 7919 % 1000) / 1000
   a[i], b[i] = x, 0.25
   sum, squares = sum + x - 0.25, squares + (x - 0.25) ^ 2
end
local mean = sum / 400
local half = 1.96 * math.sqrt(squares / 400 - mean ^ 2) / 20
r = bootstrap { a = a, b = b, of = "mean_difference", level = 0.95, resamples = 4000, seed = 5 }
check.near(r.value, mean)
check.near((r.high - r.low) / 2, half, 0.1 * half)
local wider = bootstrap { a = a, b = b, level = 0.99, resamples = 4000, seed = 5 }
check.is(wider.low < r.low and wider.high > r.high, "a higher level is wider")
local again = bootstrap { a = a, b = b, level = 0.95, resamples = 4000, seed = 5 }
check.equal(again.low, r.low, "one seed, one interval")

check.raises("cop.stats.paired_bootstrap: a and b must have the same length, at least 1; got 2 and 1",
   function() return bootstrap { a = { 1, 2 }, b = { 1 } } end)
check.raises("cop.stats.paired_bootstrap: a[2] must be a number, got \"2\"",
   function() return bootstrap { a = { 1, "2" }, b = { 1, 2 } } end)
check.raises("cop.stats.paired_bootstrap: b[1] must be finite, got inf",
   function() return bootstrap { a = { 1, 2 }, b = { math.huge, 2 } } end)
check.raises_with("must be one of \"mean_difference\", \"ratio_of_sums\"",
   function() return bootstrap { a = { 1 }, b = { 1 }, of = "median" } end)

-- A resample whose b's sum to 0 is infinitely large, or says nothing; a ratio to nothing is refused.
r = bootstrap { a = { 1, 1 }, b = { 1, 0 }, of = "ratio_of_sums" }
check.near(r.value, 2)
check.near(r.low, 1)
check.equal(r.high, math.huge)
r = bootstrap { a = { 1, 0 }, b = { 1, 0 }, of = "ratio_of_sums" }
check.near(r.low, 1)
check.near(r.high, 1)
check.raises("cop.stats.paired_bootstrap: the sum of b is 0 or too large for a ratio",
   function() bootstrap { a = { 1, 2 }, b = { 1, -1 }, of = "ratio_of_sums" } end)
check.raises("cop.stats.paired_bootstrap: a[2] must be a number, got nil",
   function() bootstrap { a = { 1, nil, 3 }, b = { 1, 2, 3 } } end)

-- Counts of any size, and what is no count. scipy 1.17's values.
local stats = cop.stats
local big = 1000000000000
r = stats.chi_square({ big, big }, { big, big + 1000000 })
check.near(r.statistic, 0.24999981250009373, 1e-9)
check.near(r.g, 0.2499996874248609, 1e-6)
check.near(r.p, 0.6170752094764363, 1e-9)
local low, high = stats.wilson(3000000000, 10000000000)
check.near(low, 0.29999101839351, 1e-12)
check.near(high, 0.30000898176, 1e-12)
check.near(stats.mcnemar(499990000, 500010000).exact, 0.5271099147553, 1e-5)
check.near(stats.mmd({ 4000000000, 1 }, { 4000000000, 2 }).biased, 1.25e-19, 1e-24)
check.raises("cop.stats.mcnemar: b + c must be at most 1000000000",
   function() stats.mcnemar(math.maxinteger, math.maxinteger) end)
for text, f in pairs {
   ["cop.stats.mcnemar: b must be a whole number of at least 0, got \"8\""] = function() stats.mcnemar("8", 2) end,
   ["cop.stats.wilson: n must be a whole number of at least 0, got \"9\""] = function() stats.wilson(5, "9") end,
   ["cop.stats.wilson: successes must be a whole number of at least 0, got nan"] = function()
      stats.wilson(0 / 0, 9)
   end,
   ["cop.stats.chi_square: counts_a[1] must be a whole number of at least 0, got \"1\""] = function()
      stats.chi_square({ "1", 2 }, { 1, 2 })
   end,
   ["cop.stats.chi_square: counts_a must be a list, whose first entry is [1], got an entry [0]"] = function()
      stats.chi_square({ [0] = 3, 1, 2 }, { 4, 1, 2 })
   end,
   ["cop.stats.holm: ps[2] must be a number, got nil"] = function() stats.holm { 0.5, nil, 0.1 } end,
   ["cop.stats.benjamini_hochberg: ps must be a list, whose first entry is [1], got an entry [\"a\"]"] = function()
      stats.benjamini_hochberg { a = 0.1 }
   end,
   ["cop.quality.pass_at_k: k must be a whole number of at least 0, got nil"] = function()
      cop.quality.pass_at_k(10, 3)
   end,
   ["cop.quality.pass_at_k: n must be a whole number of at least 0, got \"10\""] = function()
      cop.quality.pass_at_k("10", 3, 1)
   end,
} do
   check.raises(text, f)
end
check.raises_with("option \"df\" must be a number from 0.001", function()
   stats.tost { difference = 1, standard_error = 1, margin = 1, df = 0 }
end)
check.near(cop.quality.pass_at_k(1 << 53, 1, 1 << 52), 0.5, 1e-12)
