--- Metrics and quality measures of a script's own, and the distribution of progress: what they are
--- given, what is stored and shown, and what an error in them costs.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local prompts = {
   { turns = { "the cat and the hat and the cat" }, id = "q1", reference = { "r1" } },
   { turns = { "in the end", "and then" }, id = "q2" },
}
local quiet = {}

local function silently(f)
   local stdout = io.stdout
   io.stdout = setmetatable({}, { __index = { -- luacheck: ignore 122
      write = function(_, ...) table.insert(quiet, table.concat { ... }) end, flush = function() end,
   } })
   quiet = {}
   local results = table.pack(pcall(f))
   io.stdout = stdout -- luacheck: ignore 122
   return assert(table.unpack(results, 1, results.n)) and results[2]
end

local function run(folder, changes)
   local e = {
      name = "own", target = target, prompts = prompts, seed = 5, max_tokens = 20,
      arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } },
   }
   for key, value in pairs(changes) do
      e[key] = value
   end
   e = cop.experiment(e)
   return assert(silently(function() return assert(e:run { out = folder }) end))
end

local function printed(text)
   local all = table.concat(quiet)
   check.is(all:find(text, 1, true), ("\"%s\" is not in\n%s"):format(text, all))
end

local function rows(folder, sql, ...)
   local trace = assert(core.trace.open(folder .. "/trace.db", "read"))
   local list = assert(trace:rows(sql, ...))
   trace:close()
   return list
end

-- ---- Values ------------------------------------------------------------------------------------
local seen, calls = {}, 0
local longest = cop.metric.custom { name = "longest", of = function(cycles, request)
   local most, progress, deepest = 0, 0, 0
   for _, cycle in ipairs(cycles) do
      most, progress = math.max(most, cycle.progress), progress + cycle.progress
      check.equal(#cycle.tokens, cycle.nodes)
      check.equal(#cycle.parents, cycle.nodes)
      check.equal(cycle.progress, #cycle.accepted + 1)
      check.is(cycle.V > 0 and cycle.H >= 0 and cycle.D >= 0)
      deepest = math.max(deepest, cycle.nodes)
   end
   check.equal(progress, request.progress)
   check.equal(#cycles, request.forward_passes)
   check.equal(#request.tokens, request.n_tokens)
   check.equal(request.is_plain, request.arm == "plain")
   check.equal(request.is_plain, deepest == 0)
   check.equal(request.item.id, request.prompt == 1 and "q1" or "q2")
   check.equal(request.sampling, "T=0")
   return most
end }
local same = cop.quality.custom { name = "same", of = function(item, answer, baseline)
   calls = calls + 1
   table.insert(seen, ("%s %d %s"):format(item.id, answer.turn, item.reference and item.reference[1] or "-"))
   check.equal(tostring(answer), answer.text)
   check.equal(answer.text, target.tokenizer:decode(answer.tokens, { special = false }))
   return answer == baseline
end }
local first_only = cop.quality.custom { name = "letters", better = "lower", of = function(item, answer)
   return item.id == "q1" and #answer.text or nil
end }
local folder = test.folder() .. "/whole"
local result = run(folder, { metrics = { longest }, quality = { same, first_only } })
check.equal(calls, 6, "2 arms, 3 answers")
check.list({ seen[1], seen[2], seen[3] }, { "q1 1 r1", "q2 1 -", "q2 2 -" })
check.equal(result.arms[2].measures.same, 1.0, "greedy answers are plain decoding's")
check.equal(result.arms[1].measures.longest, 1.0)
check.is(result.arms[2].measures.longest > 1)
local stored = rows(folder, "SELECT measure, COUNT(*) AS n FROM quality GROUP BY measure ORDER BY measure")
check.equal(#stored, 3)
check.equal(stored[1].measure .. stored[1].n, "letters2", "nil is no value, and no fault")
check.equal(stored[2].measure .. stored[2].n, "longest6")
check.is(not table.concat(quiet):find("!!!", 1, true), table.concat(quiet))
printed("exact match  agreement  same ↑  letters ↓  longest")
printed("same, letters, longest: of the script's own; means over answers.")
local csv = assert(io.open(folder .. "/summary.csv")):read("a")
check.is(csv:find(",cycles_of_more,same,letters,longest\n", 1, true), csv)

-- The distribution of progress stands in the table, and is the trace's.
printed("% of cycles by tokens committed")
local counts = rows(folder, "SELECT c.progress AS n, COUNT(*) AS count FROM cycles c"
   .. " JOIN requests r ON r.id = c.request JOIN arms a ON a.id = r.arm WHERE a.name = 'lookup' GROUP BY c.progress")
local passes = result.arms[2].forward_passes
for _, row in ipairs(counts) do
   check.near(result.arms[2].progress_distribution[row.n], row.count / passes, 1e-12)
   if row.n <= 8 then
      printed(("%.1f"):format(100 * row.count / passes))
   end
end

-- Running again calls nothing that has its value.
calls = 0
result = run(folder, { metrics = { longest }, quality = { same, first_only } })
check.equal(calls, 0)
check.equal(result.arms[2].measures.same, 1.0)

-- ---- Errors cost their own value, with one message -----------------------------------------------
local broken = cop.quality.custom { name = "broken", of = function(item)
   return item.id == "q1" and 3 or error("boom")
end }
local odd = cop.metric.custom { name = "odd", of = function(_, request) return request.turn == 1 and {} or 0 / 0 end }
folder = test.folder() .. "/broken"
result = run(folder, { metrics = { odd }, quality = { broken, same } })
check.equal(result.state, "finished")
check.equal(result.arms[1].measures.broken, 3.0)
check.equal(result.arms[1].measures.odd, nil)
check.equal(result.arms[1].measures.same, 1.0)
printed("!!! quality \"broken\": 4 values are missing; the first: arm plain, T=0, prompt 2, turn 1: ")
printed("boom")
printed("!!! metric \"odd\": 6 values are missing; the first: arm plain, T=0, prompt 1, turn 1: it returned a table,"
   .. " not a number")
check.equal(select(2, table.concat(quiet):gsub("!!!", "")), 2)
