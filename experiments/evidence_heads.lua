--- What does a head buy, by the tree that it grows and the rule that reads it? Each head × {a chain of four, its own
--- tree, Sequoia's, best-first} × {lossless, typical} at temperature 1, on a sample of Spec-Bench; the result is a
--- table in Markdown. Sequoia's trees are for the acceptance by rank that other questions showed.
---
---    coppice run experiments/evidence_heads.lua data=spec_bench.jsonl table=heads.md

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   heads = "experiments/heads",
   data = "../shared/data/spec_bench.jsonl",
   table = "experiments/evidence/heads.md",
   out = "runs/evidence_heads",
   sample = 20,
   max_tokens = 48,
   budget = 16,
   ids = 8192, -- of a head's vocabulary: the target's LM head is most of what a step reads
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads })
local function head(name) return args.heads .. "/" .. name end
local tree, propose = cop.tree, cop.propose

local function vocabulary(name) return { head(name), vocabulary = args.ids } end

local heads = {
   { name = "medusa", depth = 4, new = function() return propose.medusa(vocabulary "medusa-smollm2") end,
      own = tree.paths { "0", "00", "1", "01", "2", "000", "10", "02", "3", "0000", "11", "20", "001", "4", "03",
         "100" } },
   { name = "hydra", depth = 2, new = function() return propose.hydra(vocabulary "hydra-smollm2") end,
      own = tree.widths { 4, 3 } },
   { name = "eagle", depth = 4,
      new = function() return propose.eagle { head "eagle3-smollm2", vocabulary = args.ids, weights = "q8_0" } end,
      own = tree.expand_rerank { top_k = 4, depth = 4, budget = args.budget } },
}

local function sampled(seed, count)
   return assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first", sample = count, seed = seed })
end

--- Acceptance by rank of each head, of widths that show eight ranks at each level's first node.
local function measured_ranks(item)
   local name, shape = item.name .. " ranks", { 8 }
   for level = 2, item.depth do
      shape[level] = 1
   end
   local run = assert(cop.experiment { name = "ranks", target = target, temperature = 0, max_tokens = args.max_tokens,
      prompts = sampled(3, math.max(4, args.sample // 4)),
      arms = { cop.arm { name, proposer = item.new(), tree = tree.widths(shape) } },
   }:run { out = ("%s_ranks_%s"):format(args.out, item.name) })
   if run.state ~= "finished" then
      return nil, run
   end
   return cop.tune { run = run.out, arm = name, sampling = "T=0", print = false,
      model = target }.ranks
end

local function builders(item, ranks)
   return {
      { "chain", tree.chain { depth = item.depth } },
      { "its own", item.own },
      { "sequoia", tree.sequoia { budget = args.budget, depth = item.depth, acceptance = ranks } },
      { "best_first", tree.best_first { budget = args.budget, depth = item.depth } },
   }
end

local arms, cells = {}, {}
for _, item in ipairs(heads) do
   local ranks, unfinished = measured_ranks(item)
   if not ranks then
      return unfinished
   end
   for _, builder in ipairs(builders(item, ranks)) do
      for _, rule in ipairs { "lossless", "typical" } do
         local name = ("%s, %s, %s"):format(item.name, builder[1], rule)
         local is_relaxed = rule == "typical"
         arms[#arms + 1] = cop.arm { name, proposer = item.new(), tree = builder[2], draw = "deterministic",
            rule = is_relaxed and cop.accept.typical {} or cop.accept.sample_match {}, relaxed = is_relaxed }
         cells[name] = { item.name, builder[1], rule }
      end
   end
end

-- ---- The table -----------------------------------------------------------------------------------

local function milliseconds(seconds, cycles) return ("%.1f"):format(1e3 * seconds / math.max(cycles, 1)) end

local function row(arm)
   local cell, depths, m = cells[arm.name], {}, arm.metrics
   for d = 1, math.min(4, #arm.by_depth) do
      depths[d] = ("%.2f"):format(arm.by_depth[d].conditional or 0)
   end
   return ("| %s | %s | %s | %s | %.3f | %s | %s | %s | %.2f | %.2f |"):format(cell[1], cell[2], cell[3],
      table.concat(depths, " / "), arm.block_efficiency, milliseconds(m.draft_seconds, arm.forward_passes),
      milliseconds(m.score_seconds, arm.forward_passes), milliseconds(m.host_seconds, arm.forward_passes),
      arm.speed_up and arm.speed_up.value or 0, arm.target_nll or 0)
end

local experiment = cop.experiment {
   name = "evidence_heads", target = target, prompts = sampled(1, args.sample), temperature = 1,
   max_tokens = args.max_tokens, seed = 7, arms = arms, quality = { "target_nll" },
}
local result, message = experiment:run { out = args.out }
if not result then
   error(message, 0)
end
local intro = [[
# Heads × trees × rules on %d first turns of Spec-Bench, up to %d tokens each, temperature 1

Trees of %d nodes, chains of four (hydra: two), drafts of the %d likeliest ids; D, V and H in ms a cycle; by
`make evidence` (%s, threads = %d). Lossless is `sample_match`; typical is relaxed: read its speed-up with the
target's NLL of what was written (plain: %.2f).

| head | tree | rule | right by depth, given the depth before | block efficiency | D | V | H | speed-up | NLL |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
]]
if result.state == "finished" then
   local file = assert(io.open(args.table, "w"))
   file:write(intro:format(args.sample, args.max_tokens, args.budget, args.ids, args.model:match("[^/]*$"),
      args.threads, result.arms[1].target_nll or 0))
   for _, arm in ipairs(result.arms) do
      if not arm.is_plain then
         file:write(row(arm), "\n")
      end
   end
   file:write(("\nFingerprint of all tokens: `%s`; version %s.\n"):format(result.fingerprint, cop.version))
   file:close()
   print("written: " .. args.table)
end
return result
