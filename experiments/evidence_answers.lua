--- What does speculation buy over whole answers? Arms that need nothing trained, and those of our heads where there
--- are any, on a sample of Spec-Bench and on code edits at temperature 0, all in turn; by task, over all answers and
--- over those that ended by themselves: small models often go on in circles, which lookups foresee, until the limit
--- cuts them off. The result is a table in Markdown.
---
---    coppice run experiments/evidence_answers.lua data=spec_bench.jsonl table=answers.md
---    coppice run experiments/evidence_answers.lua model=models/qwen.gguf heads= table=answers_qwen.md

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   heads = "experiments/heads", -- of SmolLM2; none: ""
   data = "../shared/data/spec_bench.jsonl",
   edits = "experiments/prompts/edits.jsonl",
   table = "experiments/evidence/answers.md",
   out = "runs/evidence_answers",
   sample = 80,
   max_tokens = 512, -- after so many passes most of Spec-Bench's methods stop
   threads = 2,
}

local target = assert(cop.model { path = args.model, threads = args.threads })
local propose, chain = cop.propose, cop.tree.chain { depth = 16 }

local function far() return propose.suffix_tree { factor = 2, min_probability = 0.2 } end
local function eagle()
   return propose.eagle { args.heads .. "/eagle3-smollm2", vocabulary = 8192, weights = "q8_0" }
end

local arms = {
   { "lookup", propose.lookup { tokens = 16 } },
   { "ngram_cache", propose.ngram_cache {} },
   { "suffix_automaton", propose.suffix_automaton {} },
   { "suffix_tree", propose.suffix_tree {} },
   { "suffix_tree, far", far() },
   { "suffix_tree, then lookup", propose.mixture { far(), propose.lookup { tokens = 16 } }, chain },
   { "suffix_tree, then recycling", propose.mixture { far(), propose.recycling {} }, chain },
}
if args.heads ~= "" then
   arms[#arms + 1] = { "eagle", eagle(), cop.tree.chain { depth = 4 } }
   arms[#arms + 1] = { "suffix_tree, then eagle", propose.mixture { far(), eagle() }, chain }
end
for i, given in ipairs(arms) do
   arms[i] = cop.arm { given[1], proposer = given[2], tree = given[3], length = cop.length.adaptive {} }
end

local tasks = { translation = "translation", summarization = "summarization", qa = "qa",
   math_reasoning = "maths", rag = "rag", edits = "edits" }
local prompts = assert(cop.dataset { path = args.data, format = "spec_bench", turns = "first", sample = args.sample,
   seed = 1 })
for _, item in ipairs(args.edits ~= "" and assert(cop.dataset { path = args.edits }) or {}) do
   prompts[#prompts + 1] = item
end
for _, item in ipairs(prompts) do
   item.category = tasks[item.category] or "chat" -- MT-bench's eight topics
end

local experiment = cop.experiment { name = "evidence_answers", target = target, prompts = prompts, temperature = 0,
   max_tokens = args.max_tokens, interleave = true, arms = arms }

-- ---- The table -----------------------------------------------------------------------------------

local columns = { "translation", "summarization", "rag", "qa", "maths", "chat", "edits" }

--- Seconds of decoding by arm, over the answers to a question that ended by themselves.
local function ended(folder)
   local run = assert(cop.open_run(folder))
   local list = assert(run:sql("SELECT a.name, count(*) AS n, sum(r.decode_seconds) AS seconds FROM requests r"
      .. " JOIN arms a ON a.id = r.arm WHERE r.finish <> 'length' GROUP BY a.name"))
   run:close()
   local by_arm = {}
   for _, sum in ipairs(list) do
      by_arm[sum.name] = sum
   end
   return by_arm
end

local function times(value) return value and ("%.2f"):format(value) or "" end

local function row(arm, seconds)
   local by_name, cells = {}, {}
   for _, category in ipairs(arm.categories) do
      by_name[category.name] = category.speed_up and category.speed_up.value
   end
   for i, name in ipairs(columns) do
      cells[i] = times(by_name[name])
   end
   local all, own = arm.speed_up, seconds[arm.name]
   return ("| %s | %.3f | %d of %d | %s | %.2f (%.2f–%.2f) | %s | %s |"):format(arm.name, arm.block_efficiency,
      arm.agreement.same, arm.agreement.of, table.concat(cells, " | "), all.value, all.low, all.high,
      times(own and seconds.plain.seconds / own.seconds), times(arm.predicted_speed_up))
end

local function write_table(result)
   local file, seconds = assert(io.open(args.table, "w")), ended(result.out)
   local title = "# Whole answers to %d first turns of Spec-Bench and %d code edits, up to %d tokens, temperature 0\n\n"
   file:write(title:format(args.sample, #prompts - args.sample, args.max_tokens))
   file:write("Each arm with `adaptive`, all in turn: answers whose tokens are plain decoding's; speed-up over plain",
      " decoding by task, over all with\nits interval (95 %) over questions, over the ",
      seconds.plain and seconds.plain.n or 0, " answers that ended by themselves, and over all as the saved cost",
      " curve predicts it;\nby `make evidence` (", args.model:match("[^/]*$"), ", threads = ", args.threads, ").\n\n")
   file:write("| proposer | block efficiency | same as plain | ", table.concat(columns, " | "),
      " | all | ended | predicted |\n| --- |", (" ---: |"):rep(5 + #columns), "\n")
   for _, arm in ipairs(result.arms) do
      if not arm.is_plain then
         file:write(row(arm, seconds), "\n")
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
