--- Does looking drafts up in the prompt make one answer faster? The smallest script that asks something.
---
---    coppice run experiments/scripts/01_one_question.lua

local cop = require("coppice")

local args = cop.args { -- the words after the script's name, such as max_tokens=32, replace these
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   prompt = "Repeat after me, three times: the quick brown fox jumps over the lazy dog.",
   max_tokens = 64,
}

return cop.experiment {
   name = "one-question",
   target = cop.model { path = args.model },
   prompts = { args.prompt },
   max_tokens = args.max_tokens,
   arms = { -- plain decoding runs by itself, beside every arm
      cop.arm { "lookup", proposer = cop.propose.lookup {} },
   },
}
