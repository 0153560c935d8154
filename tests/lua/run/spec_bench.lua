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

--- A tokenizer that gives a text's tokens back, without one of its own in front: n of them less one.
local function faithful(_, n)
   return n - 1
end

local ours = run:metrics()[2]
check.equal(ours.arm, "lookup")
local all = figures("overall", faithful)
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
   local theirs = figures(task, faithful)
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
