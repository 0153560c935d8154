--- What does speculation buy on this machine? Plain decoding, drafts looked up in the prompt, and
--- drafts of a small model, on twelve prompts of five kinds.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   max_tokens = 96,
   limit = 12,
}

return cop.experiment {
   name        = "quickstart",
   target      = cop.model { path = args.model },
   prompts     = cop.dataset { path = args.prompts, limit = args.limit },
   seed        = 17,
   temperature = { 0, 1 },
   max_tokens  = args.max_tokens,
   arms = {
      cop.arm { "lookup", proposer = cop.propose.lookup { tokens = 8 } },
      cop.arm { "draft",  proposer = cop.propose.model { cop.model { path = args.draft } },
                tree = cop.tree.chain { depth = 3 }, rule = cop.accept.token {} },
   },
}
