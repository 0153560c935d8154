--- cop.optimum as a script uses it, and the rules that reach it.

local check = ...
local cop = require("coppice")

local target, draft = { 0.5, 0.3, 0.2 }, { 0.2, 0.3, 0.5 }

-- One level: two independent children; H = {1, 2}: 0.5 + 1 - 0.8^2.
local best = cop.optimum { draw = "independent", widths = { 2 }, target = target, draft = draft }
check.near(best.value, 0.86)
check.equal(best.method, "subset")
check.equal(best.attained, true)
check.equal(best.draw, "independent")
check.list(best.certificate, { 1, 2 })
check.equal(#best.levels, 1)
check.equal(best.cases, 0)

best = cop.optimum { draw = "without_replacement", widths = { 2 }, target = target, draft = draft }
check.near(best.value, 69 / 70)
best = cop.optimum { draw = "greedy_draw", widths = { 2 }, target = target, draft = draft }
check.near(best.value, 0.9)
best = cop.optimum { draw = "hub_pair", widths = { 2 }, target = target, draft = draft }
check.near(best.value, 0.9)
best = cop.optimum { draw = "deterministic", widths = { 2 }, target = target, draft = draft }
check.near(best.value, 0.5)
best = cop.optimum { independent_paths = 2, depth = 1, target = target, draft = draft }
check.near(best.value, 0.86)
best = cop.optimum { widths = { 2 }, temperature = 0, target = target, draft = draft }
check.near(best.value, 0)

-- A large vocabulary has the formula too.
local p, q = {}, {}
for i = 1, 5000 do p[i], q[i] = 1 / 5000, i / (2500 * 5001) end
best = cop.optimum { draw = "without_replacement", widths = { 4 }, target = p, draft = q }
check.equal(best.method, "subset")
local alike = cop.optimum { draw = "independent", widths = { 4 }, target = p, draft = q }
check.is(best.value > alike.value, "different siblings cover more")
check.near(best.value, alike.value, 1e-3, "hardly more where every token is rare")

-- A chain: sum of min over paths. The certificate is a list of paths for each depth.
local toy, other = { 1 / 3, 2 / 3 }, { 2 / 3, 1 / 3 }
best = cop.optimum { draw = "independent", widths = { 1, 1 }, target = toy, draft = other }
check.near(best.value, 12 / 9)
check.near(best.levels[1], 2 / 3)
check.near(best.levels[2], 2 / 3)
check.equal(best.method, "max_flow")
check.equal(best.attained, false)
check.list(best.certificate[1][1], { 0 })
check.list(best.certificate[2][1], { 0, 0 })
check.equal(best.cases, 4)

-- Rows that depend on the context; several drafters; a given tree.
best = cop.optimum {
   draw = "independent", widths = { 1, 1 }, draft = other,
   target = function(prefix) return #prefix == 0 and other or toy end,
}
check.near(best.levels[1], 1)
best = cop.optimum {
   draw = "independent", widths = { 2 }, target = target, drafts = { { 1, 0, 0 }, { 0, 0.9, 0.1 } },
}
check.near(best.value, 0.9)
best = cop.optimum { target = target, draft = draft, tree = { tokens = { 0, 2, 1 }, parents = { 0, 0, 2 } } }
check.near(best.value, 0.5 + 0.2 + 0.2 * 0.3)

-- The rules that reach it, and one that does not.
for _, case in ipairs {
   { cop.accept.transport {}, "independent", 0.86 }, { cop.accept.transport {}, "without_replacement", 69 / 70 },
   { cop.accept.canonical {}, "independent", 0.86 }, { cop.accept.canonical { vocabulary = 2 }, "independent", 0.86 },
   { cop.accept.transport { vocabulary = 1 }, "independent", 0.82 },
} do
   local law = cop.exact_law { rule = case[1], draw = case[2], widths = { 2 }, target = target, draft = draft }
   check.near(law.total_variation, 0)
   check.near(law.expected_accepted, case[3])
end

-- The same seed, the same verdict; frequencies as the law of the given tokens says.
local given = { rule = cop.accept.transport {}, draw = "independent", tree = { tokens = { 2, 1 }, parents = { 0, 0 } },
   target = { target, target, target }, draft = { draft, draft, draft } }
local law = cop.verify_rows { rule = given.rule, draw = given.draw, tree = given.tree, target = given.target,
   draft = given.draft, enumerate = true }
local kept, n = 0, 4000
for seed = 1, n do
   given.seed = seed
   kept = kept + (cop.verify_rows(given).accepted > 0 and 1 or 0)
end
check.near(kept / n, law.acceptance, 0.03)

check.raises("cop.optimum: needs exactly one of: widths, paths, independent_paths, tree", function()
   cop.optimum { target = target, draft = draft }
end)
check.raises("cop.optimum: unknown option \"rule\" (known: target, draft, drafts, tree, length, widths, paths, draw, "
   .. "independent_paths, depth, temperature)", function()
   cop.optimum { rule = cop.accept.token {}, widths = { 2 }, target = target, draft = draft }
end)
