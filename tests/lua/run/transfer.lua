--- Runs as text: what goes out comes in again unchanged; Spec-Bench's answers give the metrics of their
--- name; what is wrong in a file is named.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local folder = test.folder() .. "/run"
local experiment = cop.experiment {
   name = "moved", target = target, seed = 5, temperature = { 0, 1 }, max_tokens = 20, repeats = 2,
   prompts = {
      { turns = { "the cat and the hat and the cat", "and \"the, rat\"\n" }, category = "writing", id = 81 },
      { turns = { "in the end" }, category = "qa, long", id = 321, reference = { "end" } }, { turns = { "he is" } },
   },
   quality = { "rouge1" },
   arms = { cop.arm { "look up", proposer = cop.propose.lookup {} } },
}
test.quietly(function() return assert(experiment:run { out = folder }) end)
local run = assert(cop.open_run(folder))

local function read(path)
   local file = assert(io.open(path, "rb"))
   local text = file:read("a")
   file:close()
   return text
end

-- ---- There and back ------------------------------------------------------------------------------
local place = test.folder()
local first = place .. "/first.jsonl"
check.equal(run:export { format = "jsonl", out = first }, true)
local copy = assert(cop.import_run { path = first, out = place .. "/copy" })
check.equal(copy:export { format = "jsonl", out = place .. "/second.jsonl" }, true)
check.equal(read(place .. "/second.jsonl"), read(first), "JSON lines")
check.equal(run:export { format = "csv", out = place .. "/csv" }, true)
local other = assert(cop.import_run { path = place .. "/csv", out = place .. "/other" })
check.equal(other:export { format = "jsonl", out = place .. "/third.jsonl" }, true)
check.equal(read(place .. "/third.jsonl"), read(first), "CSV")
local _, n_lines = read(first):gsub("\n", "")
check.equal(n_lines, 1 + 1 + 4 + run:sql("SELECT (SELECT COUNT(*) FROM requests) + (SELECT COUNT(*) FROM cycles)"
   .. " + (SELECT COUNT(*) FROM quality) AS n")[1].n)
local mine, theirs = run:metrics(), copy:metrics()
for i, entry in ipairs(mine) do
   for name, value in pairs(entry) do
      if type(value) ~= "table" then
         check.equal(theirs[i][name], value, name)
      end
   end
end
-- text as the trace itself writes it
check.equal(copy:sql("SELECT tokens FROM cycles WHERE nodes > 1 LIMIT 1")[1].tokens,
   run:sql("SELECT tokens FROM cycles WHERE nodes > 1 LIMIT 1")[1].tokens)
-- the run goes on from there
local again = test.quietly(function() return assert(experiment:run { out = place .. "/copy" }) end)
check.equal(again.state, "finished")
check.equal(copy:sql("SELECT COUNT(*) AS n FROM requests WHERE session > 1")[1].n, 0)
check.fails("argument", "holds a run already", cop.import_run { path = first, out = place .. "/copy" })

-- ---- Spec-Bench ----------------------------------------------------------------------------------
local paths = assert(run:export { format = "spec_bench", out = place .. "/answers" })
check.equal(#paths, 4)
check.equal(paths[2], place .. "/answers/look_up-T=0.jsonl")
local function answers(path)
   local list = {}
   for line in io.lines(path) do
      list[#list + 1] = core.system.json.decode(line)
   end
   return list
end
local base, method = answers(paths[1]), answers(paths[2])
check.equal(#method, 3)
check.equal(method[1].question_id, 81)
check.equal(method[3].question_id, 3, "without an id of its own the number of the prompt")
check.equal(method[2].category, "qa, long")
check.equal(#method[1].choices, 2)
check.equal(#method[1].choices[1].turns, 2)
check.equal(method[1].choices[2].index, 1)
-- as evaluation/speed.py does it, its tokenizer being the model's own
local function sum(list)
   local total = 0
   for _, value in ipairs(list) do
      total = total + value
   end
   return total
end
local steps, rate, base_rate = {}, 0, 0
for i, answer in ipairs(method) do
   local a, b = answer.choices[1], base[i].choices[1]
   table.move(a.accept_lengths, 1, #a.accept_lengths, #steps + 1, steps)
   check.equal(sum(a.accept_lengths), sum(a.new_tokens))
   check.equal(#a.accept_lengths, sum(a.decoding_steps))
   rate = rate + sum(a.new_tokens) / sum(a.wall_time)
   local tokens = 0
   for _, said in ipairs(b.turns) do
      tokens = tokens + #target.tokenizer:encode(said, { special = true, bos = target.tokenizer.adds_bos }) - 1
   end
   base_rate = base_rate + tokens / sum(b.wall_time)
end
check.near(rate / base_rate, mine[2].speed_up_spec_bench, 1e-9)
local of_first = run:sql("SELECT SUM(c.kept) * 1.0 / COUNT(*) AS value FROM cycles c JOIN requests r"
   .. " ON r.id = c.request WHERE r.arm = 2 AND r.repeat = 1")[1].value
check.near(sum(steps) / #steps, of_first, 1e-12)

-- ---- What is wrong is named ----------------------------------------------------------------------
local text = read(first)
local function refused(said, changed)
   local path = place .. "/wrong.jsonl"
   assert(core.system.write(path, changed))
   check.is(changed ~= text, said)
   check.fails("format", said, cop.import_run { path = path, out = place .. "/wrong" })
   check.equal(core.system.kind(place .. "/wrong/trace.db"), nil, "nothing is left")
end
refused("wrong.jsonl, line 1: ", "{" .. text)
refused("line 2: \"table\" must be one of", (text:gsub("\"table\":%s*\"sessions\"", "\"table\": \"session\"", 1)))
refused("table arms has no column \"lossy\"", (text:gsub("\"is_lossless\"", "\"lossy\"", 1)))
refused("requests.n_tokens must be a whole number", (text:gsub("\"n_tokens\":%s*%d+", "\"n_tokens\": \"many\"", 1)))
refused("requests.tokens must be a list of numbers",
   (text:gsub("\"tokens\":%s*%[[^%]]*%]", "\"tokens\": [\"a\"]", 1)))
refused("the trace contradicts itself: request 1: n_tokens = sum of kept",
   (text:gsub("\"n_tokens\":%s*%d+", "\"n_tokens\": 99", 1)))
local csv = read(place .. "/csv/requests.csv")
assert(core.system.write(place .. "/csv/requests.csv", (csv:gsub("\n", ",7\n", 2))))
check.fails("format", "requests.csv, record 2", cop.import_run { path = place .. "/csv", out = place .. "/wrong" })
assert(core.system.write(place .. "/csv/requests.csv", csv .. "\"never closed"))
check.fails("format", "a quote is never closed", cop.import_run { path = place .. "/csv", out = place .. "/wrong" })
check.fails("io", "is not there", cop.import_run { path = place .. "/none.jsonl", out = place .. "/wrong" })
check.raises_with("run:export: ", function() return run:export { format = "xml", out = place } end)

-- ---- From the command line -----------------------------------------------------------------------
local status, printed = test.program { "export", folder, "--format", "jsonl", "--out", place .. "/cli.jsonl" }
check.equal(status, 0, printed)
check.equal(read(place .. "/cli.jsonl"), text)
status, printed = test.program { "import", place .. "/cli.jsonl", "--out", place .. "/cli" }
check.equal(status, 0, printed)
check.is(printed:find(place .. "/cli: 32 requests", 1, true), printed)
status, printed = test.program { "export", folder, "--format", "xml", "--out", place }
check.equal(status, 2)
check.is(printed:find("--format must be one of", 1, true))
