--- Can a shape be chosen before it is run? Type it twice: the first time measures acceptance on some prompts; the
--- second time the best shape for that acceptance and this machine's costs meets two others on other prompts.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   pilot = 4,                           -- prompts at the front of the file, for the first time
   limit = 6,                           -- prompts behind them, for the second
   max_tokens = 48,
   pilot_run = "runs/predict-pilot",    -- where the first time leaves its run
}

local target = cop.model { path = args.model }
local draft = cop.model { path = args.draft }

local function arm(name, tree, length)
   return cop.arm { name, proposer = cop.propose.model { draft }, tree = tree, length = length }
end

local function chain(depth)
   return cop.tree.chain { depth = depth }
end

local pilot = cop.open_run(args.pilot_run)
if not pilot then
   return cop.experiment {
      name = "predict-pilot",
      target = target,
      prompts = cop.dataset { path = args.prompts, limit = args.pilot },
      max_tokens = args.max_tokens,
      arms = { arm("draft", chain(6)) },
   }
end
pilot:close()

-- Predictions come from measured costs and from the acceptance of other prompts, never from what they are
-- compared with.
local cost = assert(cop.cost { model = target, draft = draft })
local best = cop.tune { cost = cost, run = args.pilot_run, arm = "draft", sampling = "T=0" } -- prints its table

local number = 0
local others = cop.dataset {
   path = args.prompts,
   filter = function()
      number = number + 1
      return number > args.pilot and number <= args.pilot + args.limit
   end,
}

local arms = { arm("depth 1", chain(1)), arm("depth 6", chain(6)), arm("adaptive", chain(6), best.length) }
if best.tree then -- none: no draft pays here
   arms[#arms + 1] = arm("tuned", best.tree)
end

return cop.experiment {
   name = "predict-then-run",
   target = target,
   prompts = others,
   max_tokens = args.max_tokens,
   arms = arms,
}
