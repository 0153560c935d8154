--- What does the length policy `adaptive` cost where drafts do not pay? Each proposer in a comparison of its own with
--- plain decoding, side by side, a cycle each in turn, so that slow and fast moments of the machine touch
--- both alike; by category, with intervals over questions. The arm "plain" is plain decoding beside itself: what this
--- machine's noise looks like. Times are the clock's, but a cycle that takes more than thrice the median of its arm's
--- cycles of as many nodes was interrupted, and counts as that median. The result is a table in Markdown.
---
---    coppice run experiments/evidence_adaptive.lua data=spec_bench.jsonl table=adaptive.md
---    coppice run experiments/evidence_adaptive.lua arms=recycling,eagle sample=8
---    coppice run experiments/evidence_adaptive.lua model=models/qwen.gguf heads= sample=2
---
--- Another model than SmolLM2 has no heads of ours: heads= leaves their arms out. Code edits are the prompts of
--- `edits`; edits= leaves them out, tasks=rag,qa takes these tasks only.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   heads = "experiments/heads",
   edits = "experiments/prompts/edits.jsonl",
   tasks = "translation,summarization,rag,qa,maths,chat",
   data = "../shared/data/spec_bench.jsonl",
   table = "experiments/evidence/adaptive.md",
   out = "runs/evidence_adaptive",
   arms = "", -- a list of names; all
   sample = 4, -- questions of each category
   seed = 1,
   max_tokens = 512,
   repeats = 1,
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads })
local propose, tree = cop.propose, cop.tree

local store = args.out .. ".store"
assert(cop.datastore { path = store, tokenizer = target.tokenizer,
   files = { "README.md", "experiments/TUTORIAL.md", "algorithms/README.md" } })

local all = {
   { "plain" },
   { "lookup", propose.lookup { tokens = 8 } },
   { "suffix_tree", propose.suffix_tree {} },
   { "suffix_tree far", propose.suffix_tree { factor = 4, min_probability = 0.3 } },
   { "suffix_automaton", propose.suffix_automaton {} },
   { "ngram_cache", propose.ngram_cache {} },
   { "recycling", propose.recycling {} },
   { "recycling chain", propose.recycling {}, tree.chain { depth = 4 } },
   { "lookups", propose.mixture { propose.suffix_tree {}, propose.lookup { tokens = 10 } }, tree.chain { depth = 16 } },
   { "retrieval", propose.retrieval { store } },
   { "lookahead", propose.lookahead {} },
   { "jacobi", propose.jacobi {} },
}

--- What was trained for SmolLM2.
local function with_heads()
   local draft = assert(cop.model { path = args.heads .. "/draft-smollm2-q8_0.gguf", threads = args.threads })
   local function head(name) return args.heads .. "/" .. name end
   local function model() return propose.model { draft } end
   local function eagle()
      return propose.eagle { head "eagle3-smollm2", vocabulary = 8192, weights = "q8_0" }
   end
   return {
      { "layer_skip", propose.layer_skip { exit = 20 }, tree.chain { depth = 3 } },
      { "model", model(), tree.chain { depth = 4 } },
      { "model widths", model(), tree.widths { 3, 2, 1 } },
      { "staged", propose.staged { draft, propose.lookup {} }, tree.chain { depth = 4 } },
      { "cascade", propose.cascade { model(), propose.lookup {}, depths = { 2, 4 } } },
      { "mixture", propose.mixture { propose.lookup { tokens = 6 }, eagle() } },
      { "mixture chain", propose.mixture { propose.lookup { tokens = 6 }, eagle() }, tree.chain { depth = 6 } },
      { "medusa", propose.medusa { head "medusa-smollm2" }, tree.chain { depth = 4 } },
      { "medusa paths", propose.medusa { head "medusa-smollm2" },
         tree.paths { "0", "00", "1", "01", "2", "000", "10", "02" } },
      { "hydra", propose.hydra { head "hydra-smollm2" }, tree.widths { 3, 1 } },
      { "eagle", eagle(), tree.chain { depth = 4 } },
      { "eagle tree", eagle(), tree.expand_rerank { top_k = 3, depth = 2, budget = 8 } },
   }
end

for _, given in ipairs(args.heads ~= "" and with_heads() or {}) do
   all[#all + 1] = given
end

local function is_in(list, name)
   return ("," .. list .. ","):find("," .. name .. ",", 1, true) ~= nil
end

local function is_chosen(name)
   return args.arms == "" or is_in(args.arms, name)
end

-- ---- Questions -----------------------------------------------------------------------------------

local columns = {}
for task in args.tasks:gmatch("[^,]+") do
   columns[#columns + 1] = task
end
columns[#columns + 1] = args.edits ~= "" and "edits" or nil

local tasks = { translation = "translation", summarization = "summarization", qa = "qa",
   math_reasoning = "maths", rag = "rag" }

--- As many of each task, edits included.
local function questions()
   local taken, list = {}, {}
   for _, item in ipairs(assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first", sample = 480,
      seed = args.seed })) do
      local task = tasks[item.category] or "chat" -- MT-bench's eight topics
      taken[task] = (taken[task] or 0) + 1
      if taken[task] <= args.sample and is_in(args.tasks, task) then
         list[#list + 1] = { turns = item.turns, category = task }
      end
   end
   for _, item in ipairs(args.edits ~= "" and assert(cop.dataset { path = args.edits, limit = args.sample }) or {}) do
      list[#list + 1] = { turns = item.turns, category = "edits" }
   end
   return list
end

local prompts = questions()

local function compare(given)
   return assert(cop.experiment { name = "adaptive", target = target, prompts = prompts, temperature = 0,
      max_tokens = args.max_tokens, repeats = args.repeats, interleave = true,
      arms = { cop.arm { given[1] == "plain" and "again" or given[1], proposer = given[2], tree = given[3],
         length = given[2] and cop.length.adaptive {} or nil } },
   }:run { out = args.out .. "/" .. given[1]:gsub(" ", "_"), resume = false })
end

-- ---- Times ---------------------------------------------------------------------------------------

local function median(list)
   table.sort(list)
   return list[(#list + 1) // 2]
end

--- { [category] = { a = tokens, b = seconds, of the arm by question; c, d = of plain decoding } }, share interrupted
local function measured(folder)
   local run = assert(cop.open_run(folder))
   local cycles = assert(run:sql("SELECT a.is_plain, r.category, r.prompt, c.nodes, c.kept,"
      .. " 1e-6 * (c.draft_us + c.score_us + c.verify_us + c.commit_us + c.other_us) AS seconds"
      .. " FROM arms a JOIN requests r ON r.arm = a.id JOIN cycles c ON c.request = r.id ORDER BY r.prompt"))
   run:close()
   local sizes, medians, n_cut = {}, {}, 0
   local function key(cycle) return cycle.is_plain * 10000 + cycle.nodes end
   for _, cycle in ipairs(cycles) do
      sizes[key(cycle)] = sizes[key(cycle)] or {}
      table.insert(sizes[key(cycle)], cycle.seconds)
   end
   for size, list in pairs(sizes) do
      medians[size] = median(list)
   end
   local sums = {}
   for _, cycle in ipairs(cycles) do
      local usual = medians[key(cycle)]
      local is_cut = cycle.seconds > 3 * usual
      n_cut = n_cut + (is_cut and 1 or 0)
      for _, category in ipairs { cycle.category, "all" } do
         local sum = sums[category] or { a = {}, b = {}, c = {}, d = {}, of = {} }
         sums[category] = sum
         local i = sum.of[cycle.prompt] or #sum.a + 1
         sum.of[cycle.prompt] = i
         local tokens, seconds = cycle.is_plain == 1 and sum.c or sum.a, cycle.is_plain == 1 and sum.d or sum.b
         for _, list in ipairs { sum.a, sum.b, sum.c, sum.d } do
            list[i] = list[i] or 0.0
         end
         tokens[i], seconds[i] = tokens[i] + cycle.kept, seconds[i] + (is_cut and usual or cycle.seconds)
      end
   end
   return sums, n_cut / #cycles
end

--- Both answer with the same tokens, so their speeds are as their seconds.
local function cell(sum)
   local value = sum and cop.stats.paired_bootstrap { a = sum.d, b = sum.b, of = "ratio_of_sums" }
   return value and ("%.3f (%.3f–%.3f)"):format(value.value, value.low, value.high) or ""
end

-- ---- The table -----------------------------------------------------------------------------------

local function row(name, result)
   local arm, cells = result.arms[2], {}
   local sums, cut = measured(result.out)
   assert(#arm.agreement.differences == 0, name .. ": answers differ from plain decoding's")
   for i, column in ipairs(columns) do
      cells[i] = cell(sums[column])
   end
   return ("| %s | %.3f | %.2f | %s | %s | %.1f %% |"):format(name, arm.block_efficiency, arm.drafting_share,
      table.concat(cells, " | "), cell(sums.all), 100 * cut)
end

local lines, result = {}, nil
for _, given in ipairs(all) do
   if is_chosen(given[1]) then
      result = compare(given)
      if result.state ~= "finished" then
         return result
      end
      lines[#lines + 1] = row(given[1], result)
   end
end
if not result then
   error("arms= names no proposer of this script", 0)
end
local file = assert(io.open(args.table, "w"))
file:write(("# `adaptive` beside plain decoding: %d first turns of Spec-Bench of each task and as many code edits,"
   .. " temperature 0\n\n"):format(args.sample))
file:write("Tokens per second of decoding over plain decoding's, with its interval (95 %) over questions; up to ",
   args.max_tokens, " tokens each; side by side; by `make evidence`\n(",
   args.model:match("[^/]*$"), ", threads = ", args.threads,
   "). Last column: cycles of both that something interrupted.\n\n",
   "| proposer | block efficiency | cycles with a draft | ", table.concat(columns, " | "), " | all | interrupted |\n",
   "| --- |", (" ---: |"):rep(4 + #columns), "\n", table.concat(lines, "\n"), "\n\nVersion ", cop.version, ".\n")
file:close()
print("written: " .. args.table)
return result
