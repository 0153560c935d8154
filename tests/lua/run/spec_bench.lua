--- Spec-Bench's own figures from the answer files that a run exports, by its published definitions: for each
--- sub-task the mean over all verify steps, and the ratio of two unweighted means over questions, where the
--- baseline's tokens are recounted from its texts. They are ours.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local prompts = {}
for i, category in ipairs { "writing", "math", "humanities", "qa", "qa", "rag", "translation" } do
   prompts[i] = { turns = { "the cat and the hat and " .. i }, category = category, id = 80 + i }
   prompts[i].turns[2] = i <= 3 and "and the cat again" or nil
end
local folder = test.folder()
local e = cop.experiment {
   name = "answers", target = target, max_tokens = 16, repeats = 2, temperature = 1, prompts = prompts,
   arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } },
}
test.quietly(function() return assert(e:run { out = folder .. "/run" }) end)
local run = assert(cop.open_run(folder .. "/run"))
local paths = assert(run:export { format = "spec_bench", out = folder .. "/model_answer" })

local of_chat = { writing = true, roleplay = true, reasoning = true, math = true, coding = true, extraction = true,
   stem = true, humanities = true }

--- The records of a sub-task.
local function records(path, task)
   local list = {}
   for line in io.lines(path) do
      local record = assert(core.system.json.decode(line))
      if task == "overall" or task == "mt_bench" and of_chat[record.category] or record.category == task then
         list[#list + 1] = record
      end
   end
   return list
end

local function total(list)
   local sum = 0
   for _, value in ipairs(list) do
      sum = sum + value
   end
   return sum
end

--- What their script prints of a sub-task; recount(text) = tokens of a text, one taken off.
local function figures(task, recount)
   local steps, n_steps, rates, base_rates = 0, 0, {}, {}
   for i, record in ipairs(records(paths[2], task)) do
      local choice = record.choices[1]
      steps, n_steps = steps + total(choice.accept_lengths), n_steps + #choice.accept_lengths
      rates[i] = total(choice.new_tokens) / total(choice.wall_time)
   end
   for i, record in ipairs(records(paths[1], task)) do
      local choice, tokens = record.choices[1], 0
      for turn, text in ipairs(choice.turns) do
         tokens = tokens + recount(text, choice.new_tokens[turn])
      end
      base_rates[i] = tokens / total(choice.wall_time)
   end
   check.equal(#rates, #base_rates)
   local rate, base_rate = total(rates) / #rates, total(base_rates) / #base_rates
   return { questions = #rates, mean_accepted = steps / n_steps, rate = rate, speed_up = rate / base_rate }
end

--- The model's own tokenizer, and one taken off.
local function cut(text)
   return #target.tokenizer:encode(text, { special = true, bos = target.tokenizer.adds_bos }) - 1
end

local ours = run:metrics()[2]
check.equal(ours.arm, "lookup")
local all = figures("overall", cut)
check.equal(all.questions, 7)
check.near(all.mean_accepted, ours.mean_accepted_tokens_spec_bench, 1e-12)
check.near(all.speed_up, ours.speed_up_spec_bench, 1e-9)
check.near(figures("overall", function(_, n) return n end).speed_up, ours.speed_up_spec_bench_corrected, 1e-9)
check.is(all.mean_accepted > 1)

-- by sub-task, from the trace
for task, count in pairs { mt_bench = 3, qa = 2, rag = 1, translation = 1 } do
   local categories = task == "mt_bench" and "'writing', 'math', 'humanities'" or ("'%s'"):format(task)
   local mine = run:sql(("SELECT AVG(c.kept) AS value FROM cycles c JOIN requests r ON r.id = c.request"
      .. " WHERE r.arm = 2 AND r.repeat = 1 AND r.category IN (%s)"):format(categories))[1].value
   local theirs = figures(task, cut)
   check.equal(theirs.questions, count)
   check.near(theirs.mean_accepted, mine, 1e-12, task)
   local rates = run:sql(("SELECT AVG(rate) AS value FROM (SELECT"
      .. " SUM(n_tokens) / SUM(decode_seconds + prefill_seconds) AS rate FROM requests"
      .. " WHERE arm = 2 AND repeat = 1 AND category IN (%s) GROUP BY prompt)"):format(categories))
   check.near(theirs.rate, rates[1].value, 1e-9 * theirs.rate, task)
end

-- the fields that their reader wants, in every record
for _, record in ipairs(records(paths[1], "overall")) do
   for _, field in ipairs { "question_id", "category", "model_id", "answer_id", "tstamp", "choices" } do
      check.is(record[field] ~= nil, field)
   end
   check.equal(math.type(record.question_id), "integer")
   check.equal(#record.choices, 2)
   for i, choice in ipairs(record.choices) do
      check.equal(choice.index, i - 1)
      check.equal(#choice.turns, of_chat[record.category] and 2 or 1)
      for _, field in ipairs { "decoding_steps", "new_tokens", "wall_time" } do
         check.equal(#choice[field], #choice.turns, field)
      end
      check.equal(total(choice.accept_lengths), total(choice.new_tokens))
   end
end
run:close()

-- ---- What their script prints, whole -------------------------------------------------------------
run = assert(cop.open_run(folder .. "/run"))
for task, at in pairs { overall = false, mt_bench = true, qa = true, rag = true, translation = true } do
   local theirs = figures(task, cut)
   check.near(theirs.speed_up, at and ours.speed_up_spec_bench_of_task[task] or ours.speed_up_spec_bench, 1e-9, task)
   check.near(theirs.mean_accepted, at and ours.mean_accepted_tokens_spec_bench_of_task[task]
      or ours.mean_accepted_tokens_spec_bench, 1e-12, task)
end
all = figures("overall", cut)
check.near(all.rate, ours.tokens_per_second_spec_bench, 1e-9 * all.rate)
check.near(all.rate / all.speed_up, ours.tokens_per_second_spec_bench_of_plain, 1e-9 * all.rate)
run:close()

-- A question whose second turn is not answered yet is left out, one of a single turn stays.
assert(os.execute(("cp -r '%s/run' '%s/cut'"):format(folder, folder)))
do
   local trace = assert(core.trace.open(folder .. "/cut/trace.db", "write"))
   assert(trace:rows("DELETE FROM requests WHERE arm = 2 AND prompt = 3 AND turn = 2 AND repeat = 2"))
   trace:close()
end
run = assert(cop.open_run(folder .. "/cut"))
local whole = assert(run:export { format = "spec_bench", out = folder .. "/cut_answer" })
check.equal(#records(whole[1], "overall"), 7)
check.equal(#records(whole[2], "overall"), 6)
run:close()

-- ---- In ------------------------------------------------------------------------------------------
-- Ours come back as far as such files go.
local back = assert(cop.import_run { path = folder .. "/model_answer", out = folder .. "/back" })
local theirs = back:metrics()[1]
for _, entry in ipairs(back:metrics()) do
   theirs = entry.arm == "lookup" and entry or theirs
end
check.equal(theirs.arm, "lookup")
check.equal(theirs.sampling, "T=1")
for _, name in ipairs { "block_efficiency", "tokens_per_second_spec_bench", "mean_accepted_tokens_spec_bench",
   "speed_up_spec_bench_corrected", "speed_up_end_to_end" } do
   local expected = name == "block_efficiency" and ours.acc_length_sglang or ours[name] -- without what was cut
   check.near(theirs[name], expected, 1e-9 * expected, name)
end
for _, name in ipairs { "draft_acceptance_rate", "acceptance_per_test", "mean_acceptance_length_vllm", "draft_share",
   "score_share", "kv_bytes_per_token", "peak_kv_pages", "speed_proxy_sglang", "drafting_share" } do
   check.equal(theirs[name], nil, name)
end
check.equal(next(theirs.verify_shapes or {}), nil)
check.equal(#back:broken_identities(), 0)
for cycle in back:cycles() do
   check.equal(cycle.nodes, nil)
   check.equal(cycle.V, nil)
end
-- … and go out as they came in
local again = assert(back:export { format = "spec_bench", out = folder .. "/again" })
for _, path in ipairs(again) do
   local first = records(path:gsub("/again/", "/model_answer/"), "overall")
   for i, record in ipairs(records(path, "overall")) do
      check.equal(record.question_id, first[i].question_id)
      check.list(record.choices[1].accept_lengths, first[i].choices[1].accept_lengths)
      check.list(record.choices[2].new_tokens, first[i].choices[2].new_tokens)
      check.list(record.choices[1].turns, first[i].choices[1].turns)
   end
end
assert(back:export { format = "jsonl", out = folder .. "/back.jsonl" })
assert(cop.import_run { path = folder .. "/back.jsonl", out = folder .. "/twice" }):close()
back:close()
local status, text = test.program { "report", folder .. "/back" }
check.equal(status, 0, text)
check.is(text:find("from answer files of Spec-Bench's form", 1, true), text)
check.is(text:find("spec-bench, T=1, 7 prompts, 20 answers\n", 1, true), text) -- three of two turns, twice each
check.is(text:find("lookup%s+answer file"), text)
status, text = test.program { "diff", folder .. "/run", folder .. "/back" }
check.equal(status, 0, text)
check.is(text:find("versions and machine: answer files do not tell", 1, true), text)
check.is(text:find("tokens_per_second_end_to_end%s+%S+%s+%S+%s+×1.000%s+same"), text)
check.is(text:find("tokens_per_answer%s+%S+%s+%S+%s+×1.000%s+same"), text)

-- Somebody else's, by hand: a baseline by its usual name; steps counted from 0, as Medusa's loop does; steps that
-- say nothing, so that a turn's end where its tokens are made; a turn that could not be answered.
local answers = folder .. "/theirs"
assert(core.system.folder(answers))
local function write(name, ...)
   assert(core.system.write(("%s/%s.jsonl"):format(answers, name), table.concat({ ... }, "\n") .. "\n"))
end
local function line(id, choice)
   return ('{"question_id": %d, "category": "writing", "model_id": "x", "choices": [{"index": 0, %s}]}'):format(id,
      choice)
end
write("v7b-medusa", line(81, '"turns": ["a b", "c"], "idxs": [1, 0], "new_tokens": [5, 2], "wall_time": [0.5, 0.25],'
   .. ' "accept_lengths": [2, 3, 2]'),
   line(82, '"turns": ["d"], "decoding_steps": [9], "new_tokens": [4], "wall_time": [0.5], "accept_lengths": [3, 1]'),
   line(83, '"turns": ["e", "ERROR"], "decoding_steps": [1, 1], "new_tokens": [3, 3], "wall_time": [0.1, 9],'
   .. ' "accept_lengths": [3]'))
write("v7b-vanilla", line(81, '"turns": ["a b", "C"], "decoding_steps": [5, 2], "new_tokens": [5, 2],'
   .. ' "wall_time": [1.0, 0.5], "accept_lengths": [1, 1, 1, 1, 1, 1, 1]'),
   line(82, '"turns": ["d"], "decoding_steps": [4], "new_tokens": [4], "wall_time": [1.0],'
   .. ' "accept_lengths": [1, 1, 1, 1]'))
back = assert(cop.import_run { path = answers, out = folder .. "/foreign" })
local rows = back:sql("SELECT r.prompt, r.turn, r.forward_passes AS n, r.error FROM requests r JOIN arms a"
   .. " ON a.id = r.arm WHERE a.name = 'v7b-medusa' ORDER BY r.prompt, r.turn")
check.list({ rows[1].n, rows[2].n, rows[3].n, rows[4].n, rows[5].n }, { 2, 1, 2, 1, 0 })
check.equal(rows[5].error, "the answer file says ERROR")
check.equal(back:sql("SELECT name FROM arms WHERE is_plain = 1")[1].name, "v7b-vanilla")
local medusa
for _, entry in ipairs(back:metrics()) do
   medusa = entry.arm == "v7b-medusa" and entry or medusa
end
check.near(medusa.mean_accepted_tokens_spec_bench, 14 / 6, 1e-12)
check.near(medusa.speed_up_end_to_end, (11 / 1.25) / (11 / 2.5), 1e-12) -- the three turns that both have
-- means of 7 / 0.75 and 4 / 0.5, of 5 / 1.5 and 3 / 1
check.near(medusa.speed_up_spec_bench, (7 / 0.75 + 4 / 0.5) / (5 / 1.5 + 3 / 1), 1e-12)
check.near(medusa.progress_distribution[3], 3 / 6, 1e-12)
back:close()
back = assert(cop.import_run { path = answers, out = folder .. "/named", plain = "v7b-medusa" })
check.equal(back:sql("SELECT name FROM arms WHERE is_plain = 1")[1].name, "v7b-medusa")
back:close()
check.fails("format", "no file is called \"x\" (there are v7b-medusa, v7b-vanilla)", cop.import_run { path = answers,
   out = folder .. "/wrong", plain = "x" })

local good = '"turns": ["d"], "decoding_steps": [2], "new_tokens": [4], "wall_time": [1], "accept_lengths": [3, 1]'
for _, wrong in ipairs {
   { "v7b-vanilla.jsonl, line 2: \"new_tokens\" must be a list of 1, one for each turn", good:gsub("%[4%]", "[4, 4]") },
   { "line 2: \"wall_time\", entry 1, must be seconds", (good:gsub("%[1%]", "[-1]")) },
   { "line 2: \"accept_lengths\", entry 2, must be a whole number from 0", (good:gsub("%[3, 1%]", "[3, 1.5]")) },
   { "line 2: \"accept_lengths\" must be a list", (good:gsub("%[3, 1%]", "3")) },
   { "line 2: \"turns\", entry 1, must be a text", (good:gsub("%[\"d\"%]", "[1]")) },
   { "line 2: \"turns\" must hold 1 to 32 texts", (good:gsub("%[\"d\"%]", "[]")) },
   { "line 2: question 81 has been answered in line 1 already", good, 81 },
   { "line 2: ", good .. "," },
} do
   write("v7b-vanilla", line(81, good), line(wrong[3] or 82, wrong[2]))
   check.fails("format", wrong[1], cop.import_run { path = answers, out = folder .. "/wrong" })
   check.equal(core.system.kind(folder .. "/wrong/trace.db"), nil, "nothing is left")
end

-- A run of before texts were cut again is read, with the answers' own tokens, and goes on with the column.
assert(os.execute(("cp -r '%s/run' '%s/earlier'"):format(folder, folder)))
do
   local trace = assert(core.trace.open(folder .. "/earlier/trace.db", "write"))
   for _, view in ipairs(assert(trace:rows("SELECT name FROM sqlite_master WHERE type = 'view'"))) do
      assert(trace:rows(("DROP VIEW \"%s\""):format(view.name)))
   end
   assert(trace:rows("ALTER TABLE requests DROP COLUMN text_tokens"))
   trace:close()
end
run = assert(cop.open_run(folder .. "/earlier"))
local earlier = run:metrics()[2]
check.near(earlier.speed_up_spec_bench, figures("overall", function(_, n) return n - 1 end).speed_up, 1e-9)
check.near(earlier.speed_up_spec_bench_corrected, ours.speed_up_spec_bench_corrected, 1e-12)
run:close()
assert(core.trace.open(folder .. "/earlier/trace.db", "write")):close()
run = assert(cop.open_run(folder .. "/earlier"))
check.equal(#run:sql("SELECT text_tokens FROM requests WHERE text_tokens IS NULL"),
   run:sql("SELECT COUNT(*) AS n FROM requests")[1].n)
run:close()
