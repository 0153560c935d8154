--- Small heads for SmolLM2, from its own answers: Medusa, Hydra, an MLP speculator and EAGLE-1.
---
---    coppice run experiments/train_heads.lua out=heads
---
--- About 20 minutes on two cores by the speeds measured for each part, six of them for the answers, which all
--- heads share. What was interrupted goes on when the same line is run again.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   out = "heads",
   questions = 1200,
   epochs = 3,
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads })

local function train(head, options)
   options.head, options.target, options.out = head, target, ("%s/%s"):format(args.out, head)
   options.cache = args.out .. "/answers.train"
   options.questions = args.questions
   options.epochs = (options.epochs or 1) * args.epochs
   return assert(cop.train(options))
end

train("medusa", { heads = 4 })
train("hydra", { heads = 2 })
train("mlp", { heads = 3, width = 64 })
return train("eagle", { version = 1, unroll = 2 }) -- on its own states too: deeper guesses are better
