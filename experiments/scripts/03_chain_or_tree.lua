--- Chain or tree, and of what size? A grid of shapes: deeper chains against wider trees of about as many nodes.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   limit = 6,
   max_tokens = 48,
}

local drafter = cop.propose.model { cop.model { path = args.draft } }
local arms = {}

for point in cop.grid { depth = { 2, 4 }, width = { 1, 2 } } do
   local widths = {}
   for level = 1, point.depth do
      widths[level] = level <= 2 and point.width or 1 -- wide near the root, where most drafts end
   end
   arms[#arms + 1] = cop.arm {
      ("depth %d width %d"):format(point.depth, point.width),
      proposer = drafter,
      tree = cop.tree.widths(widths),
      draw = "without_replacement", -- siblings that differ; `coppice help draws` lists who can draw how
      rule = cop.accept.recursive {},
   }
end

return cop.experiment {
   name = "chain-or-tree",
   target = cop.model { path = args.model },
   prompts = cop.dataset { path = args.prompts, limit = args.limit },
   seed = 17,
   temperature = 1,
   max_tokens = args.max_tokens,
   arms = arms,
}
