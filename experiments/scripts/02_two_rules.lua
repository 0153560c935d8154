--- What does a relaxed rule buy, and what does it cost? The same draft model under a lossless and a relaxed
--- rule, on prompts of your own: prompts=FILE takes a text file with one prompt a line, or JSON lines.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   limit = 6,
   max_tokens = 64,
}

local drafter = cop.propose.model { cop.model { path = args.draft } }
local chain = cop.tree.chain { depth = 4 }

return cop.experiment {
   name = "two-rules",
   target = cop.model { path = args.model },
   prompts = cop.dataset { path = args.prompts, limit = args.limit },
   seed = 17,
   temperature = 1, -- at temperature 0 every lossless rule is the same: keep what the target would have said
   max_tokens = args.max_tokens,
   arms = {
      cop.arm { "token", proposer = drafter, tree = chain, rule = cop.accept.token {} },
      -- without relaxed = true this arm is refused: its answers are not the target's
      cop.arm { "typical", proposer = drafter, tree = chain, rule = cop.accept.typical {}, relaxed = true },
   },
   -- a relaxed rule's speed says nothing without the quality of its answers
   quality = { "target_nll", "repetition" },
}
