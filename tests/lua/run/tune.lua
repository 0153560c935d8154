--- cop.tune: published best depths, shapes by rank, and a run that predicts itself; cop.cost knows its machine.

local check, test, core = ...
local cop = require("coppice")

--- V(n) = 1 whatever n: the speed-ups of a chain with cost c a level.
local flat = { score = { { nodes = 1, context = 0, seconds = 1 }, { nodes = 64, context = 0, seconds = 1 } } }
for _, row in ipairs {
   { 0.05, 0.5, 3, 1.630 }, { 0.05, 0.9, 13, 4.674 }, { 0.1, 0.7, 4, 1.981 }, { 0.1, 0.9, 10, 3.431 },
   { 0.2, 0.8, 4, 1.868 }, { 0.3, 0.6, 1, 1.231 },
} do
   local best = cop.tune { cost = flat, draft = row[1], acceptance = row[2], print = false }
   check.equal(best.depth, row[3])
   check.near(best.speed_up, row[4], 6e-4)
   check.near(best.block_efficiency, (1 - row[2] ^ (row[3] + 1)) / (1 - row[2]), 1e-12)
end
local none = cop.tune { cost = flat, draft = 0.5, acceptance = 0.4, print = false }
check.equal(none.depth, 0)
check.equal(none.tree, nil)
check.near(none.speed_up, 1)

-- By depth: a survival of .9, .09 makes one level best at a cost of .1.
local steep = cop.tune { cost = flat, draft = 0.1, acceptance = { 0.9, 0.1, 0.1 }, print = false }
check.equal(steep.depth, 1)
check.near(steep.tokens_per_second, 1.9 / 1.1)

-- By rank: passes of any size cost the same, so all four children of the only level pay.
local wide = cop.tune { cost = flat, draft = 0.5, ranks = { 0.4, 0.2, 0.1, 0.1 }, depth = 1, budget = 4, print = false }
check.equal(wide.budget, 4)
check.near(wide.block_efficiency, 1.8)
check.near(wide.speed_up, 1.8 / 1.5)
-- Where every token of a pass costs, the second child does not: 1.6 / 1.25, 1.7 / 1.5.
local slope = { score = { { nodes = 1, context = 0, seconds = 1 }, { nodes = 2, context = 0, seconds = 1.25 } } }
local narrow = cop.tune { cost = slope, ranks = { 0.6, 0.1 }, depth = 1, budget = 4, print = false }
check.equal(narrow.budget, 1)
check.near(narrow.tokens_per_second, 1.6 / 1.25)

for text, o in pairs {
   ["cop.tune: needs cost (from cop.cost)"] = { acceptance = 0.5 },
   ["cop.tune: needs acceptance"] = { cost = flat },
   ["option \"acceptance\"[2] must be from 0 to 1"] = { cost = flat, acceptance = { 0.5, 2 } },
   ["must sum to at most 1, not 1.2"] = { cost = flat, ranks = { 0.7, 0.5 } },
   ["must have points in its score"] = { cost = { score = {} }, acceptance = 0.5 },
   ["every context must have the same sizes"] = { cost = { score = { { nodes = 1, context = 0, seconds = 1 },
      { nodes = 2, context = 8, seconds = 1 } } }, acceptance = 0.5 },
} do
   check.raises_with(text, cop.tune, o)
end

-- ---- A run ---------------------------------------------------------------------------------------

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local draft = assert(cop.model {
   path = test.tiny { seed = 7, noise = 0.1, noise_seed = 1 }, threads = 1, context = 256,
})
local folder = test.folder()
local kept, lines = print, {}
print = function(line) lines[#lines + 1] = line end -- luacheck: ignore 121
local stdout = io.stdout
io.stdout = setmetatable({}, { __index = { write = function() end, flush = function() end } }) -- luacheck: ignore 122
local ok, ran = pcall(function()
   local done = cop.experiment {
      name = "tuned", target = target, prompts = { "the cat and the hat", "in the end" }, max_tokens = 24,
      arms = { cop.arm { "pair", proposer = cop.propose.model { draft }, tree = cop.tree.widths { 2, 1, 1 } },
               cop.arm { "chain", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 4 } } },
   }:run { out = folder .. "/run" }
   local cost = assert(cop.cost { model = target, sizes = { 1, 2, 4, 8 }, contexts = { 16, 64 }, tries = 3,
      out = folder .. "/cost.json" })
   local priced = assert(cop.cost { model = target, sizes = { 1, 2 }, contexts = { 16, 64 }, tries = 2, save = false,
      arms = { cop.arm { "chain", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 4 },
         rule = cop.accept.block {}, temperature = 1 }, cop.arm { "lookup", proposer = cop.propose.lookup {} } } })
   return { done = done, cost = cost, priced = priced,
      pair = cop.tune { cost = cost, run = folder .. "/run", arm = "pair" },
      chain = cop.tune { cost = cost, run = folder .. "/run", arm = "chain", print = false } }
end)
print, io.stdout = kept, stdout -- luacheck: ignore 121 122
assert(ok, ran)
check.is(#lines > 17, "a line for each depth")
check.is(lines[#lines]:find("measured, arm pair as it ran", 1, true))
for name, result in pairs { pair = ran.pair, chain = ran.chain } do
   check.equal(result.measured.arm, name)
   check.is(result.measured.predicted_tokens_per_second > 0 and result.measured.tokens_per_second > 0)
   check.is(result.draft > 0 and result.host > 0)
   local first = result.acceptance[1]
   check.is(first > 0 and first <= 1)
   check.is(#result.ranks == (name == "pair" and 2 or 1))
   local level = result.accuracies[1] -- of the first level the ranks that were drafted, and their sum what was kept
   check.equal(#level, #result.ranks)
   check.near(level[1] + (level[2] or 0), first, 1e-9)
   local found = cop.search_paths { accuracies = result.accuracies, budget = 5 }
   check.is(#result.accuracies >= 3 and found.expected_tokens > 1)
end
check.raises_with("more than one arm of the run", cop.tune, { cost = flat, run = folder .. "/run" })
check.raises_with("no arm of the run", cop.tune, { cost = flat, run = folder .. "/run", arm = "other" })
check.equal(cop.tune { cost = flat, run = folder .. "/nothing" }, nil)

-- ---- D and H by arm -------------------------------------------------------------------------------

check.equal(#ran.priced.arms, 4, "two arms behind two contexts")
for i, point in ipairs(ran.priced.arms) do
   check.equal(point.arm, i <= 2 and "chain" or "lookup")
   check.equal(point.context, i % 2 == 1 and 16 or 64)
   check.is(point.draft > 0 and point.host > 0 and point.draft_spread >= 0 and point.host_spread >= 0)
   check.is(point.nodes >= 1 and point.nodes <= (i <= 2 and 5 or 11) and point.cycles > 1)
end
check.is(ran.priced.arms[1].nodes > 4.9, "the last cycle may draft less than four")
check.is(ran.priced.arms[1].rule:find("block", 1, true))
check.is(ran.priced.arms[1].draft > ran.priced.arms[3].draft, "passes of a model against a lookup")
check.raises("cop.cost: arms[1] must be a cop.arm { … }, got a string", function()
   return cop.cost { model = target, sizes = { 1 }, contexts = { 16 }, arms = { "x" } }
end)

-- ---- The machine of a cost curve -----------------------------------------------------------------

local machine = ran.cost.machine
check.equal(#machine.fingerprint, 16)
check.is(machine.cores >= 1 and machine.threads == 1)
for _, point in ipairs(ran.cost.score) do
   check.equal(point.tries, 3)
   check.is(point.spread >= 0)
end
local curve = core.use("curve")
assert(curve.save(ran.cost, curve.path(target, folder .. "/run")))
check.equal(curve.saved(target, folder .. "/run").machine.fingerprint, machine.fingerprint)

--- Tries that differ by a million times what they take are no measurement; the second is kept if it is quieter.
local quiet_console = { progress = function() end }
for _, point in ipairs(ran.cost.score) do
   point.spread = 0.1 * point.seconds
end
assert(curve.save(ran.cost, curve.path(target, folder .. "/run")))
check.equal(curve.ensure(target, folder .. "/run", quiet_console).measured, ran.cost.measured, "a quiet one stays")
ran.cost.measured, ran.cost.score[1].spread = "long ago", 1e6 * ran.cost.score[1].seconds
assert(curve.save(ran.cost, curve.path(target, folder .. "/run")))
check.is(curve.ensure(target, folder .. "/run", quiet_console).measured ~= "long ago", "a noisy one is measured again")
local single = curve.measure(target, { bandwidth = false })
single.measured, single.score = "long ago", { single.score[1] }
curve.save(single, curve.path(target, folder .. "/run"))
check.is(curve.ensure(target, folder .. "/run", quiet_console).measured ~= "long ago", "so is one of single tokens")
check.is(curve.saved(target, folder .. "/run").measured ~= "long ago", "and the new one is saved")

ran.cost.machine.fingerprint = "0123456789abcdef"
assert(curve.save(ran.cost, curve.path(target, folder .. "/run")))
check.equal(curve.saved(target, folder .. "/run"), nil, "a curve of another machine is not taken")

-- ---- A machine that changes its speed --------------------------------------------------------------

--- V(1) half as fast, V(4) as before: in between by the line, deeper passes as the last size that was seen.
local then_ = { path = "x", score = { { nodes = 1, context = 8, seconds = 1, spread = 0.5 }, { nodes = 2, context = 8,
   seconds = 2 }, { nodes = 4, context = 8, seconds = 4 }, { nodes = 64, context = 99, seconds = 8 } } }
local moved = curve.drifted(then_, { { { nodes = 1, factor = 1 }, { nodes = 4, factor = 1.5 } },
   { { nodes = 1, factor = 3 }, { nodes = 4, factor = 0.5 } } })
check.near(curve.drifted(then_, { { { nodes = 1, factor = 0.5 } }, { { nodes = 1, factor = 99 } },
   { { nodes = 1, factor = 0.6 } } }).score[3].seconds, 2.4) -- one pause of three was somebody else's
check.near(moved.score[1].seconds, 2)
check.near(moved.score[1].spread, 1)
check.near(moved.score[2].seconds, 2 * (2 - 1 / 3))
check.near(moved.score[3].seconds, 4)
check.near(moved.score[4].seconds, 8)
check.equal(moved.path, "x")
check.equal(#moved.drifts, 2)
check.equal(then_.score[1].seconds, 1, "what was given stays")
check.equal(curve.drifted(then_, {}), then_)
local now = assert(curve.drift(target, { score = { { nodes = 1, context = 16, seconds = 1e-9 },
   { nodes = 3, context = 16, seconds = 1 }, { nodes = 4, context = 16, seconds = 1 },
   { nodes = 4, context = 64, seconds = 1 } } }))
check.equal(#now, 2, "sizes 1 and 4 behind the shorter context")
check.is(now[1].factor > 1 and now[2].factor < 1)

-- Points that lack something, or are no points.
for _, point in ipairs { 1, { nodes = 1 }, { nodes = 1.5, context = 8, seconds = 1 },
   { nodes = 1, context = {}, seconds = 1 }, { nodes = 1, context = 8, seconds = 0 / 0 },
   { nodes = 1, context = 8, seconds = 0 } } do
   check.raises("cop.tune: option \"cost\": point 1 of its score must have nodes, context and seconds, as cop.cost"
      .. " returns them",
      function() return cop.tune { cost = { score = { point } }, acceptance = 0.7, print = false } end)
end
