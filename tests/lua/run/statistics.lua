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
check.raises("cop.stats.paired_bootstrap: a[2] must be a number, got a string",
   function() return bootstrap { a = { 1, "2" }, b = { 1, 2 } } end)
check.raises("cop.stats.paired_bootstrap: b[1] must be finite, got inf",
   function() return bootstrap { a = { 1, 2 }, b = { math.huge, 2 } } end)
check.raises_with("must be one of \"mean_difference\", \"ratio_of_sums\"",
   function() return bootstrap { a = { 1 }, b = { 1 }, of = "median" } end)
