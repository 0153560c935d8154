--- Lossless rules as a script meets them: options, draws, laws, refusals.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")

local B = { target = { .5, .3, .2 }, draft = { .2, .3, .5 } }
local function law(rule, options)
   options.rule, options.target, options.draft = rule, B.target, B.draft
   local result = cop.exact_law(options)
   check.near(result.total_variation, 0)
   return result
end

check.near(law(cop.accept.recursive {}, { draw = "independent", widths = { 3 } }).expected_accepted, 101 / 125)
check.near(law(cop.accept.recursive {}, { widths = { 2 } }).expected_accepted, 41 / 50)
check.equal(law(cop.accept.recursive {}, { independent_paths = 2, depth = 1 }).draw, "independent")
check.near(law(cop.accept.greedy_draw {}, { widths = { 2 } }).expected_accepted, 9 / 10)
check.near(law(cop.accept.spechub {}, { widths = { 2 } }).expected_accepted, 9 / 10)
check.near(law(cop.accept.coupled {}, { widths = { 1 } }).expected_accepted, 41 / 65)

local least = law(cop.accept.kseq {}, { widths = { 2 } }).expected_accepted
check.equal(("%.6f"):format(least), "0.791355")
check.near(law(cop.accept.kseq { 1.456777 }, { widths = { 2 } }).expected_accepted, least, 1e-6)
check.raises_with("must be from 1.45677", function() law(cop.accept.kseq { rho = 1.4 }, { widths = { 2 } }) end)
check.raises_with("from 1 to 4096", function() cop.accept.kseq { rho = 0.9 } end)
check.raises_with("accept.kseq", function() law(cop.accept.kseq {}, { draw = "without_replacement", widths = { 2 } }) end)
check.raises_with("accept.spechub", function() law(cop.accept.spechub {}, { draw = "greedy_draw", widths = { 2 } }) end)

-- Several drafters: each child is tested against the row that it was drawn from.
local several = cop.exact_law {
   rule = cop.accept.recursive {}, draw = "independent", widths = { 2 }, target = B.target,
   drafts = { { .2, .3, .5 }, { .6, .2, .2 } },
}
check.near(several.total_variation, 0)
-- after a rejection with .3 the rest is token 0, which the second drafter gives with .6 and then is kept
check.near(several.expected_accepted, .7 + .3 * .6)
