--- What does speculation buy on this machine? Plain decoding beside drafts looked up in the prompt, chains and
--- trees of a small model, and two kinds of heads on the target's states, on twelve prompts of five kinds.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   medusa = "experiments/heads/medusa-smollm2",
   eagle = "experiments/heads/eagle3-smollm2",
   prompts = "experiments/prompts/quickstart.jsonl",
   max_tokens = 96,
   limit = 12,
   vocabulary = 8192,       -- what small drafts draw from: their output layers read no other rows
}
local draft = cop.model { path = args.draft }
local vocabulary = args.vocabulary

return cop.experiment {
   name        = "quickstart",
   target      = cop.model { path = args.model },
   prompts     = cop.dataset { path = args.prompts, limit = args.limit },
   seed        = 17,
   temperature = { 0, 1 },
   max_tokens  = args.max_tokens,
   interleave  = true,      -- arms minutes apart would meet a machine that is slower or faster by then
   arms = {
      cop.arm { "lookup", proposer = cop.propose.lookup { tokens = 8 } },
      cop.arm { "draft",  proposer = cop.propose.model { draft, vocabulary = vocabulary },
                tree = cop.tree.chain { depth = 3 }, rule = cop.accept.token {} },
      cop.arm { "draft tree", proposer = cop.propose.model { draft, vocabulary = vocabulary },
                tree = cop.tree.widths { 3, 1, 1 }, draw = "without_replacement", rule = cop.accept.recursive {} },
      -- The first five paths of Medusa's own list (mc_sim_7b_63): ranks at each depth.
      cop.arm { "medusa", proposer = cop.propose.medusa { args.medusa, vocabulary = vocabulary },
                tree = cop.tree.paths { "0", "00", "1", "01", "2" } },
      -- EAGLE-2: the tree grows where the head is sure.
      cop.arm { "eagle",  proposer = cop.propose.eagle { args.eagle, vocabulary = vocabulary, weights = "q8_0" },
                tree = cop.tree.expand_rerank { top_k = 3, depth = 2, budget = 6 } },
   },
}
