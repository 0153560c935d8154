--- How often is each draft of this folder right? Chains of four on first turns of Spec-Bench, temperature 0 and 1.
---
---    coppice run experiments/heads/acceptance.lua data=spec_bench.jsonl      (weights=q8_0: in Q8_0)

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   heads = "experiments/heads",
   data = "../shared/data/spec_bench.jsonl",
   sample = 24,
   max_tokens = 96,
   weights = "file",
}

local function arm(name, proposer, depth)
   return cop.arm { name, proposer = proposer, tree = cop.tree.chain { depth = depth }, rule = cop.accept.token {},
                    draw = "independent" }
end

return cop.experiment {
   name        = "heads",
   target      = cop.model { path = args.model },
   prompts     = cop.dataset { path = args.data, format = "spec_bench", turns = "first", sample = args.sample,
                               seed = 3 },
   seed        = 17,
   temperature = { 0, 1 },
   max_tokens  = args.max_tokens,
   arms = {
      arm("draft", cop.propose.model { cop.model { path = args.heads .. "/draft-smollm2-q8_0.gguf" } }, 4),
      arm("medusa", cop.propose.medusa { args.heads .. "/medusa-smollm2", weights = args.weights }, 4),
      arm("hydra", cop.propose.hydra { args.heads .. "/hydra-smollm2", weights = args.weights }, 2),
      arm("eagle", cop.propose.eagle { args.heads .. "/eagle3-smollm2", weights = args.weights }, 4),
   },
}
