--- Recipes of big models, with a tiny one: the dry run, what is skipped, and a table that is met or missed.

local check, test, core = ...
local cop = require("coppice")

local data = test.folder()
assert(core.system.write(data .. "/one.jsonl", '{"question_id": 1, "category": "a", "turns": ["abc abc abc"]}\n'
   .. '{"question_id": 2, "category": "b", "turns": ["one two"]}\n'))
local file = data .. "/recipe.lua"
local function recipe(published, rule)
   assert(core.system.write(file, ([[
local cop = require("coppice")
return cop.recipe.of_models { name = "models-tiny", source = "a paper", about = "tokens a cycle",
   target = "tiny/target", needs = { draft = "tiny/draft" }, temperature = { 0, 1 }, max_tokens = 8, tolerance = 1e-9,
   datasets = { one = { path = "one.jsonl" }, none = { path = "none.jsonl" } },
   arms = { { name = "chain", needs = { "draft" },
      parts = function() return { tree = cop.tree.chain { depth = 3 }%s } end,
      proposer = function(paths) return cop.propose.model { assert(cop.model { path = paths.draft }) } end } },
   values = { { "chain", "one", "T=0", %q }, { "chain", "none", "T=0", "2" } } }]]):format(rule or "", published)))
end

local target = test.tiny { seed = 7, layers = 2, context = 4096 }
local function words()
   return { "run", file, "target=" .. target, "draft=" .. target, "--data", data, "--out", test.folder() }
end

-- The draft is the target: cycles of 4 and 4, or of 8 tokens 3 + 1 and 3 + 1.
recipe("4")
local status, printed = test.program(words())
check.equal(status, 0, printed)
check.is(printed:find("chain, one, T=0 +4 +4 +same"), printed)
check.is(printed:find("needs " .. data .. "/none.jsonl", 1, true), printed)
check.is(printed:find("models-tiny: 1 same, 0 different, 0 failed, 1 skipped", 1, true), printed)
recipe("3.5")
status, printed = test.program(words())
check.equal(status, 1, printed)
check.is(printed:find("1 different", 1, true), printed)

-- Without weights
status, printed = test.program { "run", file, "--data", data }
check.equal(status, 0)
check.is(printed:find("needs target=DIR (tiny/target), draft=DIR (tiny/draft)", 1, true), printed)
status, printed = test.program { "run", file, "--check", "--data", data }
check.equal(status, 0)
check.is(printed:find("arm chain: its parts fit; draft=DIR is tiny/draft", 1, true), printed)
check.is(printed:find("data set one: 2 prompts", 1, true), printed)
check.is(printed:find("expected: chain, one, T=0: 3.5", 1, true), printed)
-- A pair that does not fit is refused before anybody has fetched weights.
recipe("4", ", rule = cop.accept.match {}")
status, printed = test.program { "run", file, "--check", "--data", data }
check.equal(status, 1)
check.is(printed:find("match", 1, true), printed)
status, printed = test.program { "run", file, "targt=x" }
check.is(status ~= 0 and printed:find("unknown argument \"targt\"; did you mean \"target\"?", 1, true), printed)
check.raises_with("values[1] must be", cop.recipe.of_models, { name = "x", source = "y", about = "z", target = "t",
   datasets = {}, arms = {}, values = { { "a", "b", "T=0", "1" } } })
