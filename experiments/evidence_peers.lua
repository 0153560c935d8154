--- Our side of a comparison with another program on the same model, prompts and machine: plain decoding and the
--- drafts that need no model, a few first turns of each task of Spec-Bench. The prompts go to `prompts`, a file each
--- with the chat template in it, for the other program to read.
---
---    coppice run experiments/evidence_peers.lua model=model.gguf data=spec_bench.jsonl prompts=FOLDER

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   data = "../shared/data/spec_bench.jsonl",
   out = "runs/evidence_peers",
   prompts = "",
   each = 4,
   max_tokens = 64,
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads, context = 2048 })
local tasks = { translation = "translation", summarization = "summarization", qa = "qa",
   math_reasoning = "maths", rag = "rag" }

-- Of each task every twentieth question, from the third on; MT-bench's eight topics are one task.
local seen = {}
local prompts = assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first",
   filter = function(item)
      local task = tasks[item.category] or "chat"
      seen[task] = (seen[task] or 0) + 1
      return seen[task] % 20 == 3 and seen[task] < 20 * args.each
   end })
for _, item in ipairs(prompts) do
   item.category = tasks[item.category] or "chat"
end

if args.prompts ~= "" then
   for _, item in ipairs(prompts) do
      local text = target.tokenizer:chat({ { role = "user", content = item.turns[1] } }, { generation = true })
      local file = assert(io.open(("%s/%s_%d.txt"):format(args.prompts, item.category, item.index), "w"))
      file:write(text)
      file:close()
   end
end

local function arm(name, proposer)
   return cop.arm { name, proposer = proposer, length = cop.length.adaptive {} }
end

return cop.experiment {
   name = "evidence_peers", target = target, prompts = prompts, temperature = 0, max_tokens = args.max_tokens,
   arms = {
      arm("lookup", cop.propose.lookup { tokens = 8 }),
      arm("ngram_cache", cop.propose.ngram_cache {}),
      arm("suffix_tree", cop.propose.suffix_tree { shape = "tree" }),
   },
}
