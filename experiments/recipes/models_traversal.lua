--- Traversal verification against token by token, tables 2 to 4: tokens a cycle at temperature 1 on Spec-Bench, chains
--- and binary trees of depth 5 (of a chain, traversal is block verification).
---
---     coppice run experiments/recipes/models_traversal.lua target=DIR draft=DIR device=cuda --data DIR

local cop = require("coppice")

local function drafter(paths)
   return cop.propose.model { assert(cop.model { path = paths.draft, device = paths.device or "cpu" }) }
end

local function arm(name, rule, tree, draw)
   return { name = name, needs = { "draft" }, proposer = drafter, parts = function()
      return { rule = rule(), tree = tree(), draw = draw }
   end }
end

local function chain()
   return cop.tree.chain { depth = 5 }
end

local function binary()
   return cop.tree.widths { 2, 2, 2, 2, 2 }
end

local function rule(name)
   return function() return cop.accept[name] {} end
end

return cop.recipe.of_models {
   name = "models-traversal", source = "arXiv:2505.12398, tables 2 to 4", about = "tokens a cycle",
   target = "meta-llama/Llama-3.1-8B-Instruct", needs = { draft = "meta-llama/Llama-3.2-1B-Instruct" },
   temperature = 1, datasets = { spec_bench = { path = "spec_bench.jsonl" } },
   arms = {
      arm("token, chain", rule "token", chain, "independent"),
      arm("traversal, chain", rule "traversal", chain, "independent"),
      arm("recursive, binary tree", rule "recursive", binary, "without_replacement"),
      arm("traversal, binary tree", rule "traversal", binary, "without_replacement"),
   },
   values = {
      { "token, chain", "spec_bench", "T=1", "3.88" }, { "traversal, chain", "spec_bench", "T=1", "3.99" },
      { "recursive, binary tree", "spec_bench", "T=1", "4.63" },
      { "traversal, binary tree", "spec_bench", "T=1", "4.73" },
   },
}
