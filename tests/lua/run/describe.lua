--- Describing experiments: what is refused before anything runs, and at which line.

local check, test, core = ...
local cop = require("coppice")

local path = test.tiny { seed = 7 }
local target = assert(cop.model { path = path, threads = 1, context = 256 })
local lookup = cop.propose.lookup {}

local function experiment(changes)
   local e = { name = "demo", target = target, prompts = { "abc abc abc" },
      arms = { cop.arm { "x", proposer = lookup } } }
   for key, value in pairs(changes) do
      e[key] = value
   end
   return cop.experiment(e)
end

-- ---- Arms -----------------------------------------------------------------------------------------
local arm = cop.arm { "x", proposer = lookup, tree = cop.tree.chain { depth = 3 } }
check.equal(arm.name, "x")
check.is(tostring(arm):find('cop.arm "x" (cop.propose.lookup', 1, true), tostring(arm))
check.raises("cop.arm: \"plain\" is the name of the baseline, which runs by itself", function()
   return cop.arm { "plain" }
end)
check.raises_with("cop.arm: unknown option \"tre\"; did you mean \"tree\"?", function()
   return cop.arm { "x", tre = 1 }
end)
check.raises_with("name", function() return cop.arm { proposer = lookup } end)
check.raises_with("proposer", function() return cop.arm { "x", proposer = target } end)

-- ---- Experiments ----------------------------------------------------------------------------------
check.raises_with("cop.experiment: unknown option \"prompt\"; did you mean \"prompts\"?", function()
   return experiment { prompt = {} }
end)
check.raises("cop.experiment: the name becomes a folder: letters, digits, \".\", \"_\" and \"-\"", function()
   return experiment { name = "../up" }
end)
check.raises("cop.experiment: arms[1] must be a cop.arm { … }, got a table", function()
   return experiment { arms = { {} } }
end)
check.raises("cop.experiment: arms must be a list of at least one cop.arm { … }; plain decoding runs by itself, as "
   .. "what arms are compared with", function() return experiment { arms = {} } end)
check.raises("cop.experiment: two arms are called \"x\"", function() return experiment { arms = { arm, arm } } end)
check.raises("cop.experiment: target must be a cop.model { … }, got a string", function()
   return experiment { target = "m" }
end)
check.raises("cop.experiment: prompts must be a cop.dataset { … } or a list of texts", function()
   return experiment { prompts = { 1, 2 } }
end)
check.raises("cop.experiment: temperature must be a number from 0 to 100 or a list of them, got -1", function()
   return experiment { temperature = { 0, -1 } }
end)
check.raises_with("unknown quality \"exact_mach\"; did you mean \"exact_match\"?", function()
   return experiment { quality = { "exact_mach" } }
end)

-- Measures of the script's own.
local function one() return 1 end
local own = cop.quality.custom { name = "own", of = one }
check.equal(tostring(own), 'cop.quality.custom { name = "own" }')
check.equal(own.better, "higher")
check.equal(tostring(cop.metric.custom { name = "m", of = one }), 'cop.metric.custom { name = "m" }')
check.raises_with("cop.quality.custom: option \"better\"", cop.quality.custom, { name = "x", of = one, better = "up" })
check.raises_with("cop.metric.custom: option \"of\"", cop.metric.custom, { name = "x" })
check.raises_with("cop.metric.custom: the name must be printable text", cop.metric.custom, { name = "", of = one })
check.raises_with("cop.metric.custom: unknown option \"better\"", cop.metric.custom,
   { name = "x", of = one, better = "lower" })
local function refused(text, changes)
   check.raises_with("cop.experiment: " .. text, experiment, changes)
end
refused("metrics[1] must be a cop.metric.custom { … }, got a number", { metrics = { 1 } })
refused("metrics[1] must be a cop.metric.custom", { metrics = { own } })
refused("quality[2] must be a name or a cop.quality.custom { … }, got a function", { quality = { own, one } })
refused("two measures are called \"own\"", { quality = { own, own } })
refused("two measures are called \"own\"",
   { quality = { own }, metrics = { cop.metric.custom { name = "own", of = one } } })
refused("two measures are called \"target_nll\"",
   { quality = { cop.quality.custom { name = "target_nll", of = one } } })

-- A nil that a constructor has returned is not just "missing".
local gone = cop.model { path = "no-such-model.gguf" }
check.raises_with("cop.experiment: target is missing: ", function()
   return cop.experiment { name = "x", target = gone, prompts = { "a" }, arms = {} }
end)
check.raises_with("no-such-model.gguf", function()
   return cop.experiment { name = "x", target = gone, prompts = { "a" }, arms = {} }
end)
target = assert(cop.model { path = path, threads = 1, context = 256 })
check.raises("cop.experiment: target is missing, a cop.model { … }", function()
   return cop.experiment { name = "x", prompts = { "a" }, arms = {} }
end)

-- ---- Checking -------------------------------------------------------------------------------------
local printed
local print_before = print
_G.print = function(text) printed = text end
local e = experiment { temperature = { 0, 1 }, max_tokens = 8, arms = { arm } }
local text = e:check()
_G.print = print_before
check.equal(printed, text)
check.is(text:find("4 answers of up to 8 tokens", 1, true), text)
check.is(text:find("T=1      x              lookup, sample_match, draw deterministic, lossless", 1, true), text)
check.equal(tostring(e), 'cop.experiment "demo" (1 arms, 1 prompts)')
local draft = assert(cop.model { path = test.tiny { seed = 7, layers = 1 }, threads = 1, context = 256 })
text = test.quietly(function()
   return experiment { arms = { cop.arm { "y", proposer = cop.propose.model { draft } } } }:check()
end)
check.is(text:find(("draw [%%w_]+, lossless, weights of %.1f MB\n"):format(draft.bytes / 1e6)), text)

-- What the engine refuses is refused with the arm's name, at the experiment's line.
local function unsound()
   return cop.experiment {
      name = "u", target = target, prompts = { "abc" }, temperature = 1,
      arms = { cop.arm { "bad", proposer = lookup, rule = cop.accept.match {} } },
   }
end
local u = unsound()
local ok, message = pcall(u.check, u)
check.is(not ok)
check.is(message:find("describe.lua:%d+: arm \"bad\" at T=1: "), message)
check.is(message:find("match", 1, true), message)
ok, message = pcall(u.run, u, { out = test.folder() })
check.is(not ok and message:find("arm \"bad\" at T=1", 1, true), tostring(message))
check.raises("experiment:run: shard must be \"i/n\" with 1 <= i <= n, got \"3/2\"", function()
   return experiment {}:run { out = test.folder(), shard = "3/2" }
end)
check.raises_with("experiment:run: unknown option \"outt\"; did you mean \"out\"?", function()
   return experiment {}:run { outt = "x" }
end)

-- A proposer whose files are missing is nil: its arm is no second plain decoding, nor is its answer a plain one.
local reason = "proposer is missing: cop.propose.medusa: nothing/"
check.raises_with("cop.arm: " .. reason, function()
   return cop.arm { "head", proposer = cop.propose.medusa { "nothing" } }
end)
check.raises_with("cop.generate: " .. reason, function()
   return cop.generate { model = target, prompt = "the", proposer = cop.propose.medusa { "nothing" }, max_tokens = 2 }
end)
check.raises("cop.experiment: arm \"shape\" has a tree but no proposer; one that cannot open its files is nil, and a "
   .. "message", function()
   return experiment { arms = { cop.arm { "shape", tree = cop.tree.chain { depth = 2 } } } }
end)
check.equal(tostring(cop.arm { "warm", temperature = 0.5 }), "cop.arm \"warm\" (plain decoding)")

-- Plans: an arm with a temperature of its own has its own baseline.
local groups = core.use("plan").make(experiment { temperature = { 0 }, arms = {
   arm, cop.arm { "warm", proposer = lookup, temperature = 0.5, top_p = 0.9 },
} })
check.equal(#groups, 2)
check.equal(groups[1].label, "T=0")
check.equal(groups[2].label, "T=0.5 top_p=0.9")
check.equal(groups[2].arms[1].name, "plain")
check.equal(groups[2].arms[2].name, "warm")
check.equal(groups[2].arms[1].engine.top_p, 0.9, "the baseline has the same sampling")
