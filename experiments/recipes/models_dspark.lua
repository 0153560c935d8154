--- DSpark's table 1 for Qwen3-4B: accepted length with the bonus token, temperature 1, chains of 7. All weights are
--- public, and the target fits one GPU of 24 GB.
---
---     coppice run experiments/recipes/models_dspark.lua target=DIR eagle3=DIR dflash=DIR dspark=DIR device=cuda

local cop = require("coppice")

local function chain()
   return { tree = cop.tree.chain { depth = 7 }, rule = cop.accept.token {} }
end

local function parallel(key)
   return function(paths) return cop.propose.parallel { path = paths[key], depth = 7 } end
end

return cop.recipe.of_models {
   name = "models-dspark", source = "arXiv:2607.05147, table 1", about = "tokens a cycle, Qwen3-4B",
   target = "Qwen/Qwen3-4B",
   needs = { eagle3 = "the paper's EAGLE-3 head for Qwen3-4B", dflash = "the paper's DFlash head for Qwen3-4B",
      dspark = "the paper's DSpark head for Qwen3-4B" },
   temperature = 1, max_tokens = 2048,
   datasets = {
      gsm8k = { path = "mt_bench_eagle/gsm8k.jsonl" }, humaneval = { path = "mt_bench_eagle/humaneval.jsonl" },
      alpaca = { path = "mt_bench_eagle/alpaca.jsonl" },
   },
   arms = {
      { name = "EAGLE-3", needs = { "eagle3" }, parts = chain, proposer = function(paths)
         return cop.propose.eagle { paths.eagle3 }
      end },
      { name = "DFlash", needs = { "dflash" }, parts = chain, proposer = parallel "dflash" },
      { name = "DSpark", needs = { "dspark" }, parts = chain, proposer = parallel "dspark" },
   },
   values = {
      { "EAGLE-3", "gsm8k", "T=1", "5.14" }, { "EAGLE-3", "humaneval", "T=1", "4.16" },
      { "EAGLE-3", "alpaca", "T=1", "2.26" }, { "DFlash", "gsm8k", "T=1", "5.40" },
      { "DFlash", "humaneval", "T=1", "4.74" }, { "DFlash", "alpaca", "T=1", "2.96" },
      { "DSpark", "gsm8k", "T=1", "6.11" }, { "DSpark", "humaneval", "T=1", "5.38" },
      { "DSpark", "alpaca", "T=1", "3.54" },
   },
}
