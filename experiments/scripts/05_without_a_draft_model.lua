--- What can be had without a draft model? Proposers that draft from the text so far, from earlier answers, or
--- from the target's own passes, by kind of prompt.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   limit = 12,
   max_tokens = 48,
}

local arms = {}
for _, name in ipairs { "lookup", "suffix_tree", "ngram_cache", "recycling", "lookahead" } do
   arms[#arms + 1] = cop.arm { name, proposer = cop.propose[name] {} }
end
-- lookups cost nothing where they find nothing: one in front of another fills its gaps
arms[#arms + 1] = cop.arm { "lookup + recycling", proposer = cop.propose.mixture {
   cop.propose.lookup { tokens = 4 }, cop.propose.recycling {},
} }

return cop.experiment {
   name = "without-a-draft-model",
   target = cop.model { path = args.model },
   prompts = cop.dataset { path = args.prompts, limit = args.limit }, -- categories become a table of their own
   max_tokens = args.max_tokens,
   arms = arms,
}
