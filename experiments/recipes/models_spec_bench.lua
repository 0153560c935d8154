--- Spec-Bench's leaderboard for Vicuna-7B-v1.3, greedy: mean accepted tokens (#MAT, the last token included).
---
---     coppice run experiments/recipes/models_spec_bench.lua target=DIR [eagle=DIR medusa=DIR hydra=DIR draft=DIR] \
---         device=cuda --data DIR

local cop = require("coppice")

local function none()
   return {}
end

local function arm(name, needs, parts, proposer)
   return { name = name, needs = needs, parts = parts, proposer = proposer }
end

return cop.recipe.of_models {
   name = "models-spec-bench", source = "github.com/hemingkx/Spec-Bench, Leaderboard.md", about = "tokens a cycle",
   target = "lmsys/vicuna-7b-v1.3", tolerance = 0.05,
   needs = { eagle = "yuhuili/EAGLE-Vicuna-7B-v1.3", medusa = "FasterDecoding/medusa-vicuna-7b-v1.3",
      hydra = "ankner/hydra-vicuna-7b-v1.3", draft = "double7/vicuna-68m" },
   datasets = { spec_bench = { path = "spec_bench.jsonl" } },
   arms = {
      arm("PLD", nil, none, function()
         return cop.propose.lookup { variant = "original", max_ngram = 3, tokens = 10 }
      end),
      arm("SpS", { "draft" }, function() return { tree = cop.tree.chain { depth = 7 } } end, function(paths)
         return cop.propose.model { assert(cop.model { path = paths.draft, device = paths.device or "cpu" }) }
      end),
      arm("Token Recycling", nil, none, function() return cop.propose.recycling {} end),
      arm("Medusa", { "medusa" }, none, function(paths) return cop.propose.medusa { paths.medusa } end),
      arm("Hydra", { "hydra" }, none, function(paths) return cop.propose.hydra { paths.hydra } end),
      arm("EAGLE-2", { "eagle" }, function()
         return { tree = cop.tree.expand_rerank { top_k = 10, depth = 6, budget = 59 } }
      end, function(paths) return cop.propose.eagle { paths.eagle } end),
   },
   values = {
      { "PLD", "spec_bench", "T=0", "1.75" }, { "SpS", "spec_bench", "T=0", "2.28" },
      { "Token Recycling", "spec_bench", "T=0", "2.73" }, { "Medusa", "spec_bench", "T=0", "2.31" },
      { "Hydra", "spec_bench", "T=0", "3.26" }, { "EAGLE-2", "spec_bench", "T=0", "4.34" },
   },
}
