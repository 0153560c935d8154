--- Several experiments, several targets, budgets, and what a report says of the front and of what cannot be told.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local other = assert(cop.model { path = test.tiny { seed = 8 }, threads = 1, context = 256 })

local function describe(changes)
   local e = {
      name = "demo", target = target, prompts = { "the cat and the hat and", "in the end the cat", "he is here, he" },
      max_tokens = 8, temperature = { 0, 1 }, arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } },
   }
   for key, value in pairs(changes or {}) do
      e[key] = value
   end
   return e
end

local function run(e, options)
   return test.quietly(function() return e:run(options) end)
end

local function read(path)
   local file = assert(io.open(path))
   local text = file:read("a")
   file:close()
   return text
end

-- ---- Targets ------------------------------------------------------------------------------------
local seen = {}
local both = cop.experiment(describe { target = { target, other }, arms = function(model)
   seen[#seen + 1] = model.path
   return { cop.arm { "lookup", proposer = cop.propose.lookup {} } }
end })
check.list(seen, { target.path, other.path })
local names = {}
for i, e in ipairs(both.experiments) do
   names[i] = e.name
   check.equal(e.name, e.target.path:match("[^/]*$"))
end
local folder = test.folder() .. "/both"
local result = assert(run(both, { out = folder }))
check.equal(result.state, "finished")
check.equal(#result.runs, 2)
check.equal(result.out, folder)
for _, name in ipairs(names) do
   check.is(core.system.kind(("%s/%s/trace.db"):format(folder, name)) == "file", name)
   check.is(read(folder .. "/report.html"):find(name, 1, true), name)
   check.is(read(folder .. "/summary.csv"):find(name, 1, true), name)
end
-- the same model twice: two folders
local twice = cop.experiment(describe { target = { target, target } })
check.equal(twice.experiments[2].name, twice.experiments[1].name .. "-2")
check.is(test.quietly(function() return twice:check() end):find("6 prompts", 1, true) == nil)
check.raises_with("cop.experiment: target[2] must be a cop.model { … }, got a number", function()
   return cop.experiment(describe { target = { target, 7 } })
end)
-- one of a study's experiments cannot run: the other does, and the message names the one
local broken = cop.study { name = "study", experiments = {
   cop.experiment(describe { name = "good" }), cop.experiment(describe { name = "bad" }),
} }
folder = test.folder()
assert(core.system.write(folder .. "/bad", "a file where a folder must be"))
local none, problem = run(broken, { out = folder })
check.is(none == nil and problem:find("^bad: "), problem)
check.is(core.system.kind(folder .. "/good/report.html") == "file")
check.raises_with("cop.study: experiments[1] must be a cop.experiment { … }, got a number", function()
   return cop.study { name = "x", experiments = { 1 } }
end)
check.raises_with("cop.study: two experiments are called \"demo\"", function()
   return cop.study { name = "x", experiments = { cop.experiment(describe()), cop.experiment(describe()) } }
end)

-- ---- Budgets ------------------------------------------------------------------------------------
local function count(at)
   local stored = assert(cop.open_run(at))
   local rows = stored:sql("SELECT a.sampling, COUNT(*) AS n FROM requests r JOIN arms a ON a.id = r.arm"
      .. " GROUP BY a.sampling ORDER BY a.sampling")
   stored:close()
   return rows
end

folder = test.folder() .. "/budget"
local e = cop.experiment(describe { budget = { passes = 1 } })
result = assert(run(e, { out = folder }))
check.equal(result.state, "out of budget")
for _, row in ipairs(count(folder)) do -- one prompt of each group, by both arms
   check.equal(row.n, 2, row.sampling)
end
local log = read(folder .. "/console.log")
check.is(log:find("NOT COMPLETE", 1, true), log)
check.is(log:find("out of budget after 4 of 12 answers, all stored", 1, true), log)
for _ = 1, 2 do
   result = assert(run(e, { out = folder }))
end
check.equal(result.state, "finished", "every session goes on")
local whole = test.folder() .. "/whole" -- a budget changes when, not what
check.equal(assert(run(cop.experiment(describe()), { out = whole })).fingerprint, result.fingerprint)
result = assert(run(cop.experiment(describe { budget = { seconds = 3600, passes = 100000 } }),
   { out = test.folder() .. "/ample" }))
check.equal(result.state, "finished")
check.raises_with("cop.experiment: budget needs seconds, passes (of the target) or both", function()
   return cop.experiment(describe { budget = {} })
end)
check.raises_with("cop.experiment: budget: unknown option \"second\"; did you mean \"seconds\"?", function()
   return cop.experiment(describe { budget = { second = 3 } })
end)

-- ---- The log has a line for each answer ----------------------------------------------------------
log = read(whole .. "/console.log")
local lines = select(2, log:gsub("%f[%a]answer: [^\n]*", ""))
check.equal(lines, 12)
check.is(log:find("answer: lookup, T=1, prompt 3, repeat 1, turn 1: 8 tokens, %d passes, length, %d+%.%d+ s\n"), log)

-- ---- Shards of one run make the whole -------------------------------------------------------------
local shards = test.folder() .. "/shards"
for i = 1, 3 do
   result = assert(run(cop.experiment(describe()), { out = shards, shard = ("%d/3"):format(i) }))
end
check.equal(result.fingerprint, assert(run(cop.experiment(describe()), { out = whole })).fingerprint)
check.equal(result.groups[1][1].requests, 3)

-- ---- The front ------------------------------------------------------------------------------------
local front = core.use("quality_front")
local on = front.of_points { { speed = 1, quality = 3 }, { speed = 2, quality = 2 }, { speed = 1, quality = 2 },
   { speed = 3, quality = 1 }, { speed = 3, quality = 1 } }
for a, expected in ipairs { true, true, false, true, true } do
   check.equal(on[a], expected, "point " .. a)
end

local trace = { rows = function(_, _, arm)
   local tables = {
      plain = { { 10, 10, 1 }, { 10, 10, 1 }, { 10, 10, 0 }, { 10, 10, 1 } },
      fast  = { { 10, 5, 1 }, { 10, 5, 0 }, { 10, 5, 0 }, { 10, 5, 1 } },   -- on the front in every resample
      slow  = { { 10, 20, 1 }, { 10, 20, 1 }, { 10, 20, 0 }, { 10, 20, 1 } }, -- never
      maybe = { { 10, 8, 1 }, { 10, 8, 0 }, { 10, 8, 1 }, { 10, 8, 1 } },
   }
   local rows = {}
   for i, row in ipairs(tables[arm]) do
      rows[i] = { prompt = i, tokens = row[1], seconds = row[2], value = row[3], n = 1 }
   end
   return rows
end }
local shares = front.shares(trace, { { id = "plain" }, { id = "fast" }, { id = "slow" }, { id = "maybe" } }, "m",
   "higher")
check.equal(shares.prompts, 4)
check.equal(shares[1].on, false, "maybe is as good and faster")
check.is(shares[2].on and shares[2].share == 1)
check.is(not shares[3].on and shares[3].share == 0)
check.is(shares[4].on and shares[4].share > 0.6 and shares[4].share < 1, tostring(shares[4].share))
-- maybe is better than fast unless neither prompt 3 is drawn: (3/4)^4 of resamples leave it out
check.near(shares[4].share, 1 - 0.75 ^ 4, 0.05)

folder = test.folder() .. "/front"
test.quietly(function()
   return assert(cop.experiment(describe { temperature = 1, quality = { cop.quality.custom { name = "even",
      of = function(item) return item.index % 2 == 0 end } }, arms = {
      cop.arm { "shrug", proposer = cop.propose.lookup {}, relaxed = true, rule = cop.accept.custom { name = "all",
         lossless_for = {}, verify = function(tree, goal, _, draws)
            local kept, node = {}, 0
            while tree:children(node)[1] do
               node = tree:children(node)[1]
               kept[#kept + 1] = node
            end
            return kept, draws:pick("last", node, goal(node))
         end } } } }):run { out = folder })
end)
log = read(folder .. "/console.log")
check.is(log:find("speed and quality", 1, true) and log:find("even ↑ (95 %)", 1, true), log)
check.is(log:find("cannot tell: whether shrug changes even (+0.000, between +0.000 and +0.000): ", 1, true), log)
local status, printed = test.program { "report", folder }
check.equal(status, 0)
for line in log:gmatch("cannot tell[^\n]*") do
   check.is(printed:find(line, 1, true), line)
end
check.is(read(folder .. "/report.html"):find("cannot tell: whether shrug", 1, true))

-- Arms of which the same is said share a line; of one that differs nowhere there is no change to be seen.
do
   local function entry(name, value, low, high)
      return { name = name, quality = { length = { difference = { value = value, low = low, high = high,
         prompts = 9 } } } }
   end
   local group = { { name = "plain", is_plain = true, quality = {} }, entry("a", 0.5, -1, 2), entry("b", 0.5, -1, 2),
      entry("c", 0.0, 0.0, 0.0), entry("d", 1.5, 1, 2) }
   local remarks = front.remarks({ result = { measures = { "length" } } }, group)
   check.equal(#remarks, 2, table.concat(remarks, "\n"))
   check.is(remarks[1]:find("^cannot tell: whether a, b change length %(%+0%.500, between %-1%.000 and %+2%.000%): a"
      .. " change under [%d.]+ is seen by 9 prompts"), remarks[1])
   check.equal(remarks[2], "cannot tell: whether c changes length (+0.000 at each of 9 prompts)")
end

-- ---- What can be seen at all ----------------------------------------------------------------------
local detectable = cop.stats.detectable_difference
-- 2.8016 standard errors: 10 / sqrt(100) = 1
check.near(detectable { n = 100, sd = 10 }, 2.801585, 1e-6)
-- Connor's own equation, put back: d sqrt(n) = 1.959964 sqrt(w) + 0.841621 sqrt(w - d^2)
local d = detectable { n = 164, discordant = 0.2 }
check.near(d * math.sqrt(164), 1.959964 * math.sqrt(0.2) + 0.841621 * math.sqrt(0.2 - d * d), 1e-5)
check.is(detectable { n = 32, discordant = 0.01 } > 0.01, "32 prompts cannot show a 1 % loss")
check.is(detectable { n = 10000, discordant = 0.01 } < 0.01)
check.raises_with("give discordant (yes/no results) or sd (numbers)", function() return detectable { n = 9 } end)
