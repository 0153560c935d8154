--- How long should a draft be? Fixed lengths, policies that look at the draft's rows, and one that weighs its
--- own measurements of cost and acceptance.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   limit = 6,
   max_tokens = 48,
}

local drafter = cop.propose.model { cop.model { path = args.draft } }

local function arm(name, depth, length)
   return cop.arm { name, proposer = drafter, tree = cop.tree.chain { depth = depth }, length = length }
end

return cop.experiment {
   name = "how-long",
   target = cop.model { path = args.model },
   prompts = cop.dataset { path = args.prompts, limit = args.limit },
   max_tokens = args.max_tokens, -- at temperature 0 all of these give plain decoding's tokens
   arms = {
      arm("fixed 2", 2),
      arm("fixed 6", 6),
      arm("confidence", 6, cop.length.confidence {}),
      arm("entropy", 6, cop.length.entropy {}),
      arm("schedule", 6, cop.length.schedule {}),
      arm("adaptive", 6, cop.length.adaptive {}),
   },
}
