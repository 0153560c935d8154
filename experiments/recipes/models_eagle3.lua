--- EAGLE-3's table 1 for Llama-3.1-8B-Instruct: tokens a cycle (tau). Needs the model and its head.
---
---     coppice run experiments/recipes/models_eagle3.lua target=DIR head=DIR device=cuda --data DIR

local cop = require("coppice")

local function eagle(paths)
   return cop.propose.eagle { paths.head }
end

local function tree()
   return { tree = cop.tree.expand_rerank { top_k = 10, depth = 6, budget = 59 } }
end

return cop.recipe.of_models {
   name = "models-eagle3", source = "arXiv:2503.01840, table 1", about = "tokens a cycle, Llama-3.1-8B-Instruct",
   target = "meta-llama/Llama-3.1-8B-Instruct", needs = { head = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B" },
   datasets = {
      humaneval = { path = "mt_bench_eagle/humaneval.jsonl" }, gsm8k = { path = "mt_bench_eagle/gsm8k.jsonl" },
      alpaca = { path = "mt_bench_eagle/alpaca.jsonl" }, cnn_dm = { path = "mt_bench_eagle/sum.jsonl" },
   },
   arms = { { name = "EAGLE-3", needs = { "head" }, parts = tree, proposer = eagle } },
   values = {
      { "EAGLE-3", "humaneval", "T=0", "6.74" }, { "EAGLE-3", "gsm8k", "T=0", "6.23" },
      { "EAGLE-3", "alpaca", "T=0", "6.70" }, { "EAGLE-3", "cnn_dm", "T=0", "5.34" },
   },
}
