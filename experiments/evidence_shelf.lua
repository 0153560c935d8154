--- The whole shelf on a sample of Spec-Bench at temperature 0: has every proposer plain decoding's tokens, what
--- does it buy in each task, and did the cost curve foresee it? The result is a table in Markdown.
---
---    coppice run experiments/evidence_shelf.lua data=spec_bench.jsonl table=shelf.md

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   heads = "experiments/heads",
   data = "../shared/data/spec_bench.jsonl",
   table = "experiments/evidence/shelf.md",
   out = "runs/evidence_shelf",
   sample = 80,
   max_tokens = 64,
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads })
local draft = assert(cop.model { path = args.heads .. "/draft-smollm2-q8_0.gguf", threads = args.threads })
local function head(name) return args.heads .. "/" .. name end
local propose, tree = cop.propose, cop.tree
local adaptive = cop.length.adaptive

-- Retrieval looks up texts of the project's own, made into a datastore beside the run.
local store = args.out .. ".store"
assert(cop.datastore { path = store, tokenizer = target.tokenizer,
   files = { "README.md", "experiments/TUTORIAL.md", "algorithms/README.md" } })

local function model() return propose.model { draft } end
local function eagle() return propose.eagle { head "eagle3-smollm2", vocabulary = 8192, weights = "q8_0" } end
local arms = {
   { "lookup, original", propose.lookup { variant = "original", tokens = 8 } },
   { "lookup, hf", propose.lookup { variant = "hf", tokens = 8 } },
   { "lookup, vllm", propose.lookup { variant = "vllm", tokens = 8 } },
   { "lookup, adaptive", propose.lookup { tokens = 8 }, length = adaptive {} },
   { "suffix_tree, path", propose.suffix_tree { shape = "path" } },
   { "suffix_tree, tree", propose.suffix_tree { shape = "tree" } },
   { "suffix_tree, adaptive", propose.suffix_tree {}, length = adaptive {} },
   { "suffix_tree, far, adaptive", propose.suffix_tree { factor = 4, min_probability = 0.3 }, length = adaptive {} },
   { "suffix_automaton", propose.suffix_automaton {} },
   { "ngram_cache", propose.ngram_cache {} },
   { "recycling, its tree", propose.recycling {} },
   { "recycling, chain of 4", propose.recycling {}, tree = tree.chain { depth = 4 } },
   { "recycling, adaptive", propose.recycling {}, tree = tree.chain { depth = 4 }, length = adaptive {} },
   { "retrieval", propose.retrieval { store } },
   { "lookahead", propose.lookahead {} },
   { "jacobi", propose.jacobi {} },
   { "layer_skip, exit 20", propose.layer_skip { exit = 20 }, tree = tree.chain { depth = 3 } },
   { "model, chain of 3", model(), tree = tree.chain { depth = 3 } },
   { "model, adaptive", model(), tree = tree.chain { depth = 4 }, length = adaptive {} },
   { "model, widths 3 2 1", model(), tree = tree.widths { 3, 2, 1 } },
   { "model, sequoia", model(),
      tree = tree.sequoia { budget = 8, depth = 3, acceptance = { 0.35, 0.12, 0.06, 0.04 } } },
   { "model, best_first", model(), tree = tree.best_first { budget = 8, depth = 3 } },
   { "model, opt_tree", model(), tree = tree.opt_tree { budget = 8, depth = 3 } },
   { "model, threshold", model(), tree = tree.threshold { budget = 8, threshold = 0.1, depth = 3 } },
   { "model, expand_rerank", model(), tree = tree.expand_rerank { top_k = 3, depth = 2, budget = 8 } },
   { "staged", propose.staged { draft, propose.lookup {} }, tree = tree.chain { depth = 4 } },
   { "cascade", propose.cascade { model(), propose.lookup {}, depths = { 2, 4 } } },
   { "mixture", propose.mixture { propose.lookup { tokens = 6 }, eagle() } },
   { "mixture, adaptive", propose.mixture { propose.lookup { tokens = 6 }, eagle() },
      length = adaptive {} },
   { "medusa, paths", propose.medusa { head "medusa-smollm2" },
      tree = tree.paths { "0", "00", "1", "01", "2", "000", "10", "02" } },
   { "hydra", propose.hydra { head "hydra-smollm2" }, tree = tree.widths { 3, 1 } },
   { "eagle, chain of 3", eagle(), tree = tree.chain { depth = 3 } },
   { "eagle, expand_rerank", eagle(),
      tree = tree.expand_rerank { top_k = 3, depth = 2, budget = 8 } },
   { "eagle, adaptive", eagle(), tree = tree.chain { depth = 4 },
      length = adaptive {} },
}
for i, given in ipairs(arms) do
   arms[i] = cop.arm { given[1], proposer = given[2], tree = given.tree, length = given.length }
end

local tasks = { translation = "translation", summarization = "summarization", qa = "qa",
   math_reasoning = "maths", rag = "rag" }
local prompts = assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first", sample = args.sample,
   seed = 1 })
for _, item in ipairs(prompts) do
   item.category = tasks[item.category] or "chat" -- MT-bench's eight topics
end

local experiment = cop.experiment {
   name = "evidence_shelf", target = target, prompts = prompts, temperature = 0, max_tokens = args.max_tokens,
   interleave = true, -- some forty arms are minutes apart otherwise, and the machine has slow and fast ones
   arms = arms,
}

-- ---- The table -----------------------------------------------------------------------------------

local columns = { "translation", "summarization", "rag", "qa", "maths", "chat" }

local function times(value) return value and ("%.2f"):format(value) or "" end

local function row(arm)
   local by_name, cells = {}, {}
   for _, category in ipairs(arm.categories) do
      by_name[category.name] = category.speed_up and category.speed_up.value
   end
   for i, name in ipairs(columns) do
      cells[i] = times(by_name[name])
   end
   return ("| %s | %d | %d | %.3f | %d of %d | %s | %s | %s |"):format(arm.name, arm.drafted, arm.accepted,
      arm.block_efficiency, arm.agreement.same, arm.agreement.of, table.concat(cells, " | "),
      times(arm.speed_up and arm.speed_up.value), times(arm.predicted_speed_up))
end

local function write_table(result)
   local file = assert(io.open(args.table, "w"))
   local title = "# The shelf on %d first turns of Spec-Bench, up to %d tokens each, temperature 0\n\n"
   file:write(title:format(#prompts, args.max_tokens))
   file:write("Answers whose tokens are plain decoding's; speed-up over plain decoding by task and over all, and as\n",
      "the saved cost curve predicts it; by `make evidence` (", args.model:match("[^/]*$"), ", threads = ",
      args.threads, ").\n\n")
   file:write("| proposer | drafted | accepted | block efficiency | same as plain | ", table.concat(columns, " | "),
      " | all | predicted |\n| --- |", (" ---: |"):rep(6 + #columns), "\n")
   for _, arm in ipairs(result.arms) do
      if not arm.is_plain then
         file:write(row(arm), "\n")
      end
   end
   file:write(("\nFingerprint of all tokens: `%s`; version %s.\n"):format(result.fingerprint, cop.version))
   file:close()
end

local result = experiment:run { out = args.out }
if result and result.state == "finished" then
   write_table(result)
   print("written: " .. args.table)
end
return result
