--- How does sampling change what speculation buys? One draft under five samplings: an arm may have its own
--- temperature and truncation, and plain decoding runs beside each of them.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   limit = 4,
   max_tokens = 48,
   repeats = 1, -- of each prompt, with other coins: more of them narrow the intervals above temperature 0
}

local drafter = cop.propose.model { cop.model { path = args.draft } }

local function arm(name, sampling)
   sampling[1], sampling.proposer, sampling.tree = name, drafter, cop.tree.chain { depth = 3 }
   sampling.rule = cop.accept.block {}
   return cop.arm(sampling)
end

return cop.experiment {
   name = "sampling",
   target = cop.model { path = args.model },
   prompts = cop.dataset { path = args.prompts, limit = args.limit },
   seed = 17,
   max_tokens = args.max_tokens,
   repeats = args.repeats,
   arms = {
      arm("greedy", { temperature = 0 }),
      arm("cool", { temperature = 0.6 }),
      arm("warm", { temperature = 1 }),
      arm("nucleus", { temperature = 1, top_p = 0.9 }),
      arm("penalised", { temperature = 1, repetition_penalty = 1.2 }),
   },
}
