--- Does Sequoia's tree keep what it promises? Acceptance by rank is measured on some questions of Spec-Bench, the
--- optimal tree of 64 nodes for it is built, and its block efficiency on other questions is put beside its own
--- prediction and beside the best chain of the same draft.
---
---    coppice run experiments/evidence_sequoia.lua data=spec_bench.jsonl

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   data = "../shared/data/spec_bench.jsonl",
   table = "experiments/evidence/sequoia.md",
   out = "runs/evidence_sequoia",
   sample = 80,
   max_tokens = 64,
   budget = 64,
   depth = 8,
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads })
local draft = assert(cop.model { path = args.draft, threads = args.threads })

-- Questions with an even place in the sample measure, the others try.
local sample = assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first",
   sample = 2 * args.sample, seed = 2 })
local measuring, trying = {}, {}
for i, item in ipairs(sample) do
   table.insert(i % 2 == 0 and measuring or trying, item)
end

local function run(name, prompts, temperature, arms)
   local experiment = cop.experiment { name = name, target = target, prompts = prompts, seed = 5,
      temperature = temperature, max_tokens = args.max_tokens, arms = arms }
   local result, message = experiment:run { out = ("%s_%s_%g"):format(args.out, name, temperature) }
   return result or error(message, 0)
end

local function arm(name, tree, temperature)
   local is_random = temperature > 0
   return cop.arm { name, proposer = cop.propose.model { draft }, tree = tree,
      draw = is_random and "without_replacement" or nil, rule = is_random and cop.accept.recursive {} or nil }
end

local cost = assert(cop.cost { model = target, contexts = { 512 } })
local rows = {}
for _, temperature in ipairs { 0, 1 } do
   local wide = cop.tree.sequoia { budget = args.budget, depth = args.depth,
      acceptance = { 0.4, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.02, 0.01, 0.01 } }
   local first = run("measure", measuring, temperature, { arm("wide", wide, temperature) })
   if first.state ~= "finished" then
      return first
   end
   local seen = cop.tune { run = first.out, arm = "wide", sampling = ("T=%g"):format(temperature), print = false,
      cost = cost }
   local best = cop.tree.sequoia { budget = args.budget, depth = args.depth, acceptance = seen.ranks }
   local promised = 1 + cop.build_tree { tree = best }.expected_accepted
   local second = run("try", trying, temperature, { arm("sequoia", best, temperature),
      arm("chain", cop.tree.chain { depth = args.depth }, temperature) })
   if second.state ~= "finished" then
      return second
   end
   local by_name = {}
   for _, entry in ipairs(second.arms) do
      by_name[entry.name] = entry.block_efficiency
   end
   local ranks = {}
   for i = 1, math.min(4, #seen.ranks) do
      ranks[i] = ("%.3f"):format(seen.ranks[i])
   end
   rows[#rows + 1] = ("| %g | %s | %.3f | %.3f | %+.1f %% | %.3f |"):format(temperature, table.concat(ranks, " "),
      promised, by_name.sequoia, 100 * (by_name.sequoia / promised - 1), by_name.chain)
   rows.last = second
end

local file = assert(io.open(args.table, "w"))
file:write(("# Sequoia's tree of %d nodes, %d levels: promised and measured\n\n"):format(args.budget, args.depth),
   ("Acceptance by rank from %d questions of Spec-Bench, block efficiency on %d others, up to %d tokens each,\n")
   :format(#measuring, #trying, args.max_tokens),
   "by `make evidence`; the chain is as deep as the tree.\n\n",
   "| temperature | acceptance of ranks 1 to 4 | promised | measured | difference | chain |\n",
   "| ---: | --- | ---: | ---: | ---: | ---: |\n", table.concat(rows, "\n"), "\n")
file:close()
print("written: " .. args.table)
return rows.last
