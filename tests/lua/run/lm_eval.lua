--- lm-evaluation-harness's sample logs: what a run writes, and what is made of those of others.

local check, test, core = ...
local cop = require("coppice")
local json = core.system.json

local function records(path)
   local list = {}
   for line in io.lines(path) do
      list[#list + 1] = assert(json.decode(line))
   end
   return list
end

-- ---- Out -----------------------------------------------------------------------------------------
local place = test.folder()
local questions = place .. "/questions.jsonl"
assert(core.system.write(questions, [[
{"question": "Two and two?", "answer": "It is four.\n#### 4"}
{"question": "Three and \"three\"?", "answer": "Six.\n#### 6"}
]]))
local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local prompts = assert(cop.dataset { path = questions })
local words = { "#### 4", "no 5 but 6.", "#### 7 6", "#### 4" } -- what the trace is made to hold
local function experiment(changes)
   local e = {
      name = "sums", target = target, max_tokens = 4, temperature = { 0, 0.5 }, repeats = 2, prompts = prompts,
      arms = { cop.arm { "look up", proposer = cop.propose.lookup {} } }, stop = { "\n\n" },
      quality = { "gsm8k_strict", "gsm8k_flexible", "distinct_2",
         cop.quality.custom { name = "letters", of = function(_, answer) return #answer.text end } },
   }
   for key, change in pairs(changes or {}) do
      e[key] = change
   end
   return cop.experiment(e)
end
local folder = place .. "/run"
test.quietly(function() return assert(experiment():run { out = folder }) end)
do -- answers that say something
   local trace = assert(core.trace.open(folder .. "/trace.db", "write"))
   for i, text in ipairs(words) do
      assert(trace:rows("UPDATE requests SET text = ?1 WHERE arm = 2 AND prompt = ?2 AND repeat = ?3", text,
         (i + 1) // 2, (i + 1) % 2 + 1))
   end
   assert(trace:rows("DELETE FROM quality"))
   trace:close()
end
test.quietly(function() return assert(experiment():run { out = folder }) end)
local run = assert(cop.open_run(folder))
local paths = assert(run:export { format = "lm_eval", out = place .. "/logs" })
check.equal(#paths, 4)
check.is(paths[2]:find("/logs/look_up%-T=0/samples_sums_%d%d%d%d%-%d%d%-%d%dT%d%d%-%d%d%-%d%d%.jsonl$"), paths[2])
local lines = records(paths[2])
check.equal(#lines, 6, "two documents, three filters")
local strict, flexible, none = lines[2], lines[1], lines[3]
check.equal(strict.filter, "strict-match")
check.equal(flexible.filter, "flexible-extract")
check.equal(none.filter, "none")
check.list(strict.metrics, { "exact_match" })
check.list(none.metrics, { "distinct_2", "letters" })
check.equal(strict.doc_id, 0)
check.equal(strict.doc.question, "Two and two?")
check.equal(strict.doc.answer, "4")
check.equal(strict.target, "It is four.\n#### 4")
check.equal(strict.arguments.gen_args_0.arg_0, "Two and two?")
check.list(strict.arguments.gen_args_0.arg_1["until"], { "\n\n" })
check.equal(strict.arguments.gen_args_0.arg_1.do_sample, false)
check.equal(strict.arguments.gen_args_0.arg_1.max_gen_toks, 4)
check.list(strict.resps[1], { "#### 4", "no 5 but 6." })
check.list(strict.filtered_resps, { "4", "[invalid]" })
check.list(flexible.filtered_resps, { "4", "6." })
check.near(strict.exact_match, 0.5) -- 4 is, nothing is not
check.near(flexible.exact_match, 0.5)
check.near(none.letters, (#words[1] + #words[2]) / 2)
check.near(lines[5].exact_match, 0) -- strict: 7 and 4, gold 6
check.near(lines[4].exact_match, 0.5) -- flexible: 6 and 4
check.equal(strict.target_hash, core.system.hash(strict.target))
check.equal(strict.prompt_hash, core.system.hash("Two and two?"))
check.equal(#strict.doc_hash, 64)
check.equal(records(paths[4])[1].arguments.gen_args_0.arg_1.do_sample, true)

-- Prompts that came from no file, or a file that has changed: only what the trace has, unless they are given.
assert(core.system.write(questions, "{\"question\": \"x\", \"answer\": \"#### 1\"}\n"))
local bare = records(assert(run:export { format = "lm_eval", out = place .. "/bare" })[2])
check.equal(bare[1].doc.question, nil)
check.equal(bare[1].target, "")
check.list(bare[1].resps[1], { "#### 4", "no 5 but 6." })
local given = records(assert(run:export { format = "lm_eval", out = place .. "/given", prompts = prompts })[2])
check.equal(given[1].doc.question, "Two and two?")
check.raises_with("run:export: prompts must be a cop.dataset", function()
   return run:export { format = "lm_eval", out = place .. "/given", prompts = 3 }
end)
run:close()

-- ---- In ------------------------------------------------------------------------------------------
local back = assert(cop.import_run { path = place .. "/logs", out = place .. "/back", plain = "plain-T=0" })
local function value(measure, arm)
   return back:sql("SELECT AVG(q.value) AS value FROM quality q JOIN arms a ON a.id = q.arm WHERE a.name = ?"
      .. " AND q.measure = ?", arm, measure)[1].value
end
check.near(value("gsm8k_strict", "look_up-T=0"), 0.25)
check.near(value("gsm8k_flexible", "look_up-T=0"), 0.5)
check.near(value("letters", "look_up-T=0"), (#words[1] + #words[2] + #words[3] + #words[4]) / 4)
check.equal(#back:sql("SELECT * FROM requests"), 16)
check.equal(#back:broken_identities(), 0)
local rows = back:sql("SELECT r.text FROM requests r JOIN arms a ON a.id = r.arm WHERE a.name = 'look_up-T=0'"
   .. " ORDER BY prompt, repeat")
check.list({ rows[1].text, rows[2].text, rows[3].text, rows[4].text }, words)
back:close()
local status, text = test.program { "report", place .. "/back" }
check.equal(status, 0, text)
check.is(text:find("look_up%-T=0%s+lm%-eval"), text)
check.is(text:find("gsm8k_strict ↑", 1, true), text)

-- One of theirs, by hand: booleans, aggregates that are no numbers, a filter that we have no name for.
local log = place .. "/samples_arc_2026-01-01T00-00-00.000000.jsonl"
local function write(...)
   assert(core.system.write(log, table.concat({ ... }, "\n") .. "\n"))
end
write([=[{"doc_id": 4, "doc": {"task_id": "Q/4", "subject": "air"}, "target": "B", "arguments": {},]=]
   .. [=["resps": [["It is B"]], "filtered_resps": ["B"],]=]
   .. [=["filter": "letter", "metrics": ["exact_match", "bleu"], "exact_match": true,]=]
   .. [=["bleu": ["B", "It is B"], "doc_hash": "x"}]=],
   [=[{"doc_id": 5, "doc": {}, "target": "A", "resps": ["A"], "filter": "none", "metrics": ["acc"], "acc": 0.0}]=])
back = assert(cop.import_run { path = log, out = place .. "/theirs" })
rows = back:sql("SELECT prompt, measure, value FROM quality ORDER BY prompt")
check.equal(#rows, 2)
check.equal(rows[1].measure, "exact_match,letter")
check.near(rows[1].value, 1)
check.equal(rows[2].measure, "acc")
rows = back:sql("SELECT prompt, question, category, text FROM requests ORDER BY prompt")
check.list({ rows[1].prompt, rows[1].question, rows[1].category, rows[1].text }, { 5, "Q/4", "air", "It is B" })
check.list({ rows[2].question, rows[2].text }, { "5", "A" })
back:close()
status, text = test.program { "import", log, "--out", place .. "/cli" }
check.equal(status, 0, text)
check.is(text:find("2 requests", 1, true), text)

local function refused(said, ...)
   write(...)
   check.fails("format", said, cop.import_run { path = log, out = place .. "/wrong" })
   check.equal(core.system.kind(place .. "/wrong/trace.db"), nil, "nothing is left")
end
local good = [=[{"doc_id": 1, "doc": {}, "resps": [["a"]], "metrics": []}]=]
refused("line 2: \"doc_id\" must be a whole number from 0", good, [=[{"doc_id": -1, "resps": [["a"]]}]=])
refused("line 2: \"doc_id\" must be a whole number from 0", good, [=[{"resps": [["a"]]}]=])
refused("line 2: \"resps\" must be a list with a list of texts", good, [=[{"doc_id": 2, "resps": []}]=])
refused("line 2: \"resps\" must hold texts; log-likelihoods of choices are no answers", good,
   [=[{"doc_id": 2, "resps": [[[-1.5, false]]]}]=])
refused("line 2: ", good, "{\"doc_id\": ")
write(good)
check.fails("format", "no log is called \"x\" (there are ", cop.import_run { path = log, out = place .. "/wrong",
   plain = "x" })
