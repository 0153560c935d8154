--- What does the length policy `adaptive` cost where drafts do not pay? Each proposer in a comparison of its own with
--- plain decoding, side by side, a cycle each in turn, so that slow and fast moments of the machine touch both alike;
--- by category, with intervals over questions. The arm "plain" is plain decoding beside itself: what this machine's
--- noise looks like. Times are the clock's, but a cycle that takes more than thrice the median of its arm's cycles of
--- as many nodes was interrupted, and counts as that median. The result is a table in Markdown.
---
---    coppice run experiments/evidence_adaptive.lua data=spec_bench.jsonl table=adaptive.md
---    coppice run experiments/evidence_adaptive.lua arms=recycling,eagle sample=4

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   heads = "experiments/heads",
   data = "../shared/data/spec_bench.jsonl",
   table = "experiments/evidence/adaptive.md",
   out = "runs/evidence_adaptive",
   arms = "", -- a list of names; all
   sample = 8, -- questions of each category
   seed = 1,
   max_tokens = 64,
   repeats = 1,
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads })
local draft = assert(cop.model { path = args.heads .. "/draft-smollm2-q8_0.gguf", threads = args.threads })
local function head(name) return args.heads .. "/" .. name end
local propose, tree = cop.propose, cop.tree

local store = args.out .. ".store"
assert(cop.datastore { path = store, tokenizer = target.tokenizer,
   files = { "README.md", "experiments/TUTORIAL.md", "algorithms/README.md" } })

local function model() return propose.model { draft } end
local function eagle() return propose.eagle { head "eagle1-smollm2" } end
local all = {
   { "plain" },
   { "lookup", propose.lookup { tokens = 8 } },
   { "suffix_tree", propose.suffix_tree {} },
   { "suffix_automaton", propose.suffix_automaton {} },
   { "ngram_cache", propose.ngram_cache {} },
   { "recycling", propose.recycling {} },
   { "recycling chain", propose.recycling {}, tree.chain { depth = 4 } },
   { "retrieval", propose.retrieval { store } },
   { "lookahead", propose.lookahead {} },
   { "jacobi", propose.jacobi {} },
   { "layer_skip", propose.layer_skip { exit = 20 }, tree.chain { depth = 3 } },
   { "model", model(), tree.chain { depth = 4 } },
   { "model widths", model(), tree.widths { 3, 2, 1 } },
   { "staged", propose.staged { draft, propose.lookup {} }, tree.chain { depth = 4 } },
   { "cascade", propose.cascade { model(), propose.lookup {}, depths = { 2, 4 } } },
   { "mixture", propose.mixture { propose.lookup { tokens = 6 }, eagle() } },
   { "medusa", propose.medusa { head "medusa-smollm2" }, tree.chain { depth = 4 } },
   { "medusa paths", propose.medusa { head "medusa-smollm2" },
      tree.paths { "0", "00", "1", "01", "2", "000", "10", "02" } },
   { "hydra", propose.hydra { head "hydra-smollm2" }, tree.widths { 3, 1 } },
   { "eagle", eagle(), tree.chain { depth = 4 } },
   { "eagle tree", eagle(), tree.expand_rerank { top_k = 3, depth = 2, budget = 8 } },
}

local function is_chosen(name)
   return args.arms == "" or ("," .. args.arms .. ","):find("," .. name .. ",", 1, true) ~= nil
end

-- ---- Questions -----------------------------------------------------------------------------------

local columns = { "translation", "summarization", "rag", "qa", "maths", "chat" }
local tasks = { translation = "translation", summarization = "summarization", qa = "qa",
   math_reasoning = "maths", rag = "rag" }

--- As many of each category.
local function questions()
   local taken = {}
   local list = assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first", sample = 480,
      seed = args.seed })
   for i = #list, 1, -1 do
      local item = list[i]
      item.category = tasks[item.category] or "chat" -- MT-bench's eight topics
      taken[item.category] = (taken[item.category] or 0) + 1
      if taken[item.category] > args.sample then
         table.remove(list, i)
      end
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
local file = assert(io.open(args.table, "w"))
file:write(("# `adaptive` beside plain decoding: %d first turns of Spec-Bench of each category, temperature 0\n\n")
   :format(args.sample))
file:write("Tokens per second of decoding over plain decoding's, with its interval (95 %) over questions; up to ",
   args.max_tokens, " tokens each; side by side, a cycle each in turn; by `make evidence`\n(",
   args.model:match("[^/]*$"), ", threads = ", args.threads,
   "). Last column: cycles of both that something interrupted.\n\n",
   "| proposer | block efficiency | cycles with a draft | ", table.concat(columns, " | "), " | all | interrupted |\n| --- |", (" ---: |"):rep(4 + #columns), "\n",
   table.concat(lines, "\n"), "\n\nVersion ", cop.version, ".\n")
file:close()
print("written: " .. args.table)
return result
