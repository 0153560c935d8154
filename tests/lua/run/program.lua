--- The program's verbs, run in this process.

local check, test, core = ...

local model = test.tiny { seed = 7 }
local draft = test.tiny { seed = 7, noise = 0.2, noise_seed = 1 }
local folder = test.folder()

local function expect(status, text, ...)
   local got, out = test.program { ... }
   check.equal(got, status, out)
   check.is(out:find(text, 1, true), ("expected …%s… in\n%s"):format(text, out))
   return out
end

local function write(name, text)
   local path = folder .. "/" .. name
   local file = assert(io.open(path, "w"))
   file:write(text)
   file:close()
   return path
end

-- ---- Words that are wrong -------------------------------------------------------------------------
expect(2, "usage: coppice VERB")
expect(0, "usage: coppice VERB", "help")
expect(0, "--max-tokens N", "help", "generate")
expect(0, "--shard i/n", "run", "--help")
expect(0, "coppice 0.", "--version")
for _, part in ipairs { "5/2", "0/2", "1", "a/b" } do
   local said = ('coppice run: --shard must be i/n with 1 <= i <= n, got "%s"'):format(part)
   expect(2, said, "run", "mine.lua", "--shard", part)
end
expect(2, 'coppice: unknown verb "generat" (did you mean "generate"?)', "generat")
for _, verb in ipairs { "serve-bench" } do
   expect(2, "coppice " .. verb .. ": not built yet", verb)
end
expect(2, "coppice report: which run?", "report")
expect(2, "coppice report: several runs make one report; --out DIR says where", "report", "a", "b")
expect(1, "it has no trace.db", "report", folder)
expect(2, "coppice diff: needs two runs", "diff", "a")
expect(2, "coppice check: what?", "check")
expect(2, 'coppice check: unknown kind "rule" (did you mean "rules"?)', "check", "rule")
expect(2, "coppice cost: --model PATH is missing", "cost")
expect(2, "coppice generate: the prompt is missing", "generate", "--model", model)
expect(1, "none.gguf", "generate", "--model", folder .. "/none.gguf", "hello")
expect(1, "none.lua", "run", folder .. "/none.lua")

-- ---- run ------------------------------------------------------------------------------------------
local script = write("demo.lua", ([[#!/usr/bin/env coppice
local cop = require("coppice")
local args = cop.args { max_tokens = 8 }
return cop.experiment {
   name = "demo", target = cop.model { path = %q, threads = 1, context = 128 }, prompts = { "the the the" },
   max_tokens = args.max_tokens, arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } },
}]]):format(model))
local out = expect(0, "lookup: 1 of 1 answers have plain decoding's tokens", "run", script, "--out", folder .. "/demo")
check.is(out:find(folder .. "/demo: 16 tokens", 1, true), out)
expect(0, "2 of 2 answers are stored already", "run", script, "--out", folder .. "/demo")
expect(1, "max_tokens: 8 there, 9 here", "run", script, "max_tokens=9", "--out", folder .. "/demo")
expect(1, 'cop.args: unknown argument "max_token"; did you mean "max_tokens"?', "run", script, "max_token=9")
expect(2, '"nine" is neither an option nor key=value', "run", script, "nine")
expect(0, "2 answers of up to 8 tokens", "run", script, "--check")
local manifest = core.system.json.decode(io.open(folder .. "/demo/manifest.json"):read("a"))
check.equal(manifest.identity.script.name, "demo.lua")
check.is(manifest.script_text:find("cop.args", 1, true))

expect(1, "bad.lua:2:", "run", write("bad.lua", "local x = 1\nx.y.z = 2\n"))
expect(1, "odd.lua:1:", "run", write("odd.lua", "local = 3\n"))
expect(1, "bad2.lua:1: cop.tree.chain: unknown option \"dept\"; did you mean \"depth\"?", "run",
   write("bad2.lua", "require('coppice').tree.chain { dept = 3 }\n"))
core.words_are_used = nil
expect(2, "the script takes no arguments", "run", write("noargs.lua", "return 0\n"), "a=1")
local missing = "the script must return an experiment (is `return` missing before cop.experiment?)"
for text, got in pairs { ["return 3"] = "3", ["return {}"] = "a table", ["local x = 1"] = "nothing" } do
   out = expect(1, missing, "run", write("nothing.lua", text .. "\n"))
   check.is(out:find("it returned " .. got, 1, true), out)
end
local own = ([[local cop = require("coppice")
return cop.experiment {
   name = "own", target = cop.model { path = %q, threads = 1, context = 192 }, max_tokens = 4,
   prompts = { "the the the", { turns = { ("the "):rep(90) }, id = "long one" } },
   arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } },
}%s]])
-- Failed requests say why, once for each reason, and the status tells of them.
out = expect(1, "!!! prompt 2 (id long one), turn 1, arm \"plain\" at T=0 failed: ", "run",
   write("own.lua", own:format(model, "")), "--out", folder .. "/own")
check.is(out:find("leaves no room in the context of 192", 1, true), out)
check.is(out:find("(and 1 more requests)", 1, true), out)
check.is(io.open(folder .. "/own/console.log"):read("a"):find("!!! prompt 2 (id long one)", 1, true))
-- A dry run refuses them.
out = expect(1, "own.lua:2: cop.experiment: prompt 2 (id long one) has ", "run", folder .. "/own.lua", "--check")
check.is(out:find("the target's context of 192 leaves no room", 1, true), out)
-- A script may run its experiment and return the result.
expect(1, "!!! prompt 2", "run", write("result.lua", own:format(model, ":run()")), "--out", folder .. "/result")
-- Where the run was refused and the script returns that as a result, the reason is told all the same.
local dropped = own:format(model, ":run()\nreturn result"):gsub("return cop.", "local result = cop.")
expect(1, "/demo holds another run", "run", write("dropped.lua", dropped), "--out", folder .. "/demo")

-- ---- generate, cost, check ------------------------------------------------------------------------
out = expect(0, "tokens/s", "generate", "--model", model, "--draft", draft, "--max-tokens", "12", "--color", "the cat")
check.is(out:find("12 tokens (length)", 1, true), out)
check.is(out:find("\27[38;5;", 1, true), "drafted tokens are coloured")
local plain = expect(0, "12 tokens", "generate", "--model", model, "--max-tokens", "12", "the cat")
check.is(not plain:find("\27", 1, true))
local function words(text)
   return (text:gsub("\27%[[%d;]*m", ""):gsub("%b[]", ""))
end
check.equal(words(out), words(plain), "the same text with and without speculation")
expect(2, "exclude each other", "generate", "--model", model, "--draft", draft, "--proposer", "lookup", "x")

local saved = folder .. "/cost/file.json"
out = expect(0, "V(n)/V(1)", "cost", "--model", model, "--draft", draft, "--sizes", "1,2,4", "--contexts", "16,64",
   "--tries", "3", "--out", saved)
check.is(out:find("saved: " .. saved, 1, true), out)
local cost = core.system.json.decode(io.open(saved):read("a"))
check.equal(#cost.score, 6)
check.equal(cost.score[1].nodes, 1)
check.equal(cost.score[6].context, 64)
check.is(cost.score[1].seconds > 0 and cost.draft[1].seconds > 0 and cost.bandwidth > 0)

expect(0, "lookup: 4 of 4 greedy answers are plain decoding's", "check", "model", "--model", model, "--draft", draft,
   "--max-tokens", "24")
