--- What does relaxing the rule buy on code and on chat, what does it cost, and what can this data not tell?
---
--- Qwen2.5-Coder-0.5B on HumanEval, judged by running its programs in the sandbox, and on Spec-Bench, judged by the
--- target's own likelihood: one lossless rule against three relaxed ones at three settings each. Each part's report
--- ends in the speed-quality front with intervals and in what the data cannot tell.
---
---    make models                                     # once: the model, 491 MB
---    coppice run experiments/scripts/10_whole_study.lua humaneval=FILE spec_bench=FILE
---    coppice run … limit=164 max_tokens=320          # the whole of both, hours; Ctrl-C stops, the same line resumes
---
--- HumanEval is github.com/openai/human-eval, data/HumanEval.jsonl.gz unpacked; Spec-Bench is
--- github.com/hemingkx/Spec-Bench, data/spec_bench/question.jsonl. One of the two files is enough: only=humaneval;
--- only=spec_bench needs no sandbox.

local cop = require("coppice")

local args = cop.args {
   model = "models/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
   humaneval = "../shared/data/humaneval.jsonl",
   spec_bench = "../shared/data/spec_bench.jsonl",
   only = "both",       -- or "humaneval", "spec_bench"
   limit = 6,           -- prompts of each, drawn evenly from the whole file
   max_tokens = 128,
   minutes = 0,         -- a budget for each part; 0: none
}

local target = cop.model { path = args.model }

-- The target's own earlier continuations are the draft: no second model, and drafts that rules can disagree on.
local drafter = cop.propose.recycling {}
local shape = cop.tree.widths { 3, 1, 1 }

local arms = {
   cop.arm { "lossless", proposer = drafter, tree = shape, rule = cop.accept.match {} },
}

local function relaxed(name, rule)
   arms[#arms + 1] = cop.arm { name, proposer = drafter, tree = shape, rule = rule, relaxed = true }
end

for point in cop.grid { margin = { 0.1, 0.3, 0.6 } } do
   relaxed(("margin %g"):format(point.margin), cop.accept.margin { margin = point.margin })
end
for point in cop.grid { k = { 2, 3, 5 } } do
   relaxed(("top_k %d"):format(point.k), cop.accept.top_k { k = point.k })
end
for point in cop.grid { theta = { 0.8, 0.9, 0.97 } } do
   relaxed(("mars %g"):format(point.theta), cop.accept.mars { theta = point.theta, test = "greedy" })
end

local function part(name, prompts, quality, stop)
   return cop.experiment {
      name = name,
      target = target,
      prompts = prompts,
      seed = 17,
      max_tokens = args.max_tokens,
      arms = arms,
      quality = quality,
      stop = stop,
      budget = args.minutes > 0 and { seconds = 60 * args.minutes } or nil,
   }
end

local parts = {}

if args.only ~= "spec_bench" then -- the head of a function goes in as it stands, and what follows it ends the answer
   parts[#parts + 1] = part("humaneval", cop.dataset { path = args.humaneval, sample = args.limit, seed = 1 },
      { "pass_at_1", "target_nll" }, cop.quality.humaneval_stops)
end
if args.only ~= "humaneval" then
   parts[#parts + 1] = part("spec-bench", cop.dataset { path = args.spec_bench, sample = args.limit, seed = 1,
      turns = "first" }, { "target_nll", "repetition" })
end

return cop.study { name = "whole-study", experiments = parts }
