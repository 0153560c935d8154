--- Are the greedy tokens of every proposer those of plain decoding? All first turns of Spec-Bench,
--- once per proposer; the result is a table in Markdown.
---
---    coppice run experiments/evidence.lua data=spec_bench.jsonl table=identity.md

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   data = "../shared/data/spec_bench.jsonl",
   table = "experiments/evidence/greedy_identity.md",
   limit = 480,
   max_tokens = 48,
   threads = 2,
}

local prompts = assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first", limit = args.limit })
local draft = assert(cop.model { path = args.draft, threads = args.threads })
local chain = cop.tree.chain

local experiment = cop.experiment {
   name        = "evidence",
   target      = assert(cop.model { path = args.model, threads = args.threads }),
   prompts     = prompts,
   temperature = 0,
   max_tokens  = args.max_tokens,
   arms = {
      cop.arm { "lookup, original", proposer = cop.propose.lookup { variant = "original" } },
      cop.arm { "lookup, hf", proposer = cop.propose.lookup { variant = "hf" } },
      cop.arm { "lookup, vllm", proposer = cop.propose.lookup { variant = "vllm" } },
      cop.arm { "model, chain of 3", proposer = cop.propose.model { draft }, tree = chain { depth = 3 } },
      cop.arm { "model, widths 3 2 1", proposer = cop.propose.model { draft }, tree = cop.tree.widths { 3, 2, 1 } },
   },
}

local function row(arm)
   local a = arm.agreement
   return ("| %s | %d | %d | %d | %.3f | %d of %d | %s |"):format(arm.name, arm.tokens, arm.drafted, arm.accepted,
      arm.block_efficiency, a.same, a.of, arm.speed_up and ("%.2f"):format(arm.speed_up.value) or "")
end

local function write_table(result)
   local file = assert(io.open(args.table, "w"))
   file:write(("# Greedy identity: %d first turns of Spec-Bench, up to %d tokens each\n\n"):format(#prompts,
      args.max_tokens))
   file:write(("Answers whose tokens are plain decoding's, by `make evidence` (threads = %d).\n\n")
      :format(args.threads))
   file:write("| proposer | tokens | drafted | accepted | block efficiency | same as plain | speed-up |\n")
   file:write("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
   for _, arm in ipairs(result.arms) do
      if not arm.is_plain then
         file:write(row(arm), "\n")
      end
   end
   file:write(("\nFingerprint of all tokens: `%s`; version %s.\n"):format(result.fingerprint, cop.version))
   file:close()
end

local result = experiment:run()
if result and result.state == "finished" then
   write_table(result)
   print("written: " .. args.table)
end
return result
