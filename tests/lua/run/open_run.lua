--- A stored run: its iterators, metrics, questions in SQL, and what is refused.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local folder = test.folder() .. "/whole"
local experiment = cop.experiment {
   name = "stored", target = target, seed = 5, temperature = { 0, 1 }, max_tokens = 20,
   prompts = {
      { turns = { "the cat and the hat and the cat" }, category = "one" },
      { turns = { "in the end", "and then" }, category = "two", id = "q2" },
   },
   arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } },
}
local result = test.quietly(function() return assert(experiment:run { out = folder }) end)

local run = assert(cop.open_run(folder .. "/"))
check.equal(tostring(run), ('cop.open_run "%s" (stored)'):format(folder))
check.equal(run.manifest.identity.seed, 5)

-- ---- Iterators -----------------------------------------------------------------------------------
local names = {}
for arm in run:arms() do
   names[#names + 1] = arm.name .. " " .. arm.sampling
end
check.list(names, { "plain T=0", "lookup T=0", "plain T=1", "lookup T=1" })
local requests, cycles = 0, 0
for request in run:requests() do
   requests = requests + 1
   local kept = 0
   for cycle in run:cycles(request) do
      cycles, kept = cycles + 1, kept + cycle.kept
      check.equal(cycle.request, request.id)
      check.equal(#cycle.tokens, cycle.nodes)
   end
   check.equal(kept, #request.tokens)
end
check.equal(requests, 12)
check.equal(cycles, result.forward_passes)
local all = 0
for _ in run:cycles() do
   all = all + 1
end
check.equal(all, cycles)
local chosen = 0
for request in run:requests { arm = "lookup", category = "two", sampling = "T=0" } do
   chosen = chosen + 1
   check.equal(request.question, "q2")
   check.equal(request.turn, chosen)
end
check.equal(chosen, 2)
check.equal(run:requests { failed = true }(), nil)
check.raises_with("run:requests: unknown arm \"zork\"", run.requests, run, { arm = "zork" })
check.raises_with("lookup", run.requests, run, { arm = "zork" })
check.raises_with("run:requests: unknown sampling \"T=7\"", run.requests, run, { sampling = "T=7" })
check.raises_with("run:requests: unknown category \"none\"", run.requests, run, { category = "none" })

-- ---- Metrics -------------------------------------------------------------------------------------
local metrics = run:metrics()
check.equal(#metrics, 4)
for i, entry in ipairs(metrics) do
   local told = result.arms[i]
   check.equal(entry.arm, told.name)
   check.near(entry.block_efficiency, told.block_efficiency, 1e-12)
   check.near(entry.tokens_per_second, told.tokens_per_second, 1e-6)
   check.near(entry.draft_share, told.draft_share, 1e-9)
   check.equal(entry.is_plain, told.is_plain)
   if entry.is_plain then
      check.equal(entry.speed_up_of_pooled_rates, 1.0)
      check.equal(entry.draft_acceptance_rate, nil)
   else
      check.near(entry.speed_up_of_pooled_rates, told.speed_up.value, 1e-9)
      for d, at in ipairs(told.by_depth) do
         check.near(entry.rate_at_depth_of_cycles[d], at.unconditional, 1e-12)
         check.near(entry.rate_at_depth_of_tests[d], at.conditional, 1e-12)
      end
   end
   -- the identities of a distribution of progress
   local share, mean, above = 0, 0, 0
   for n, value in pairs(entry.progress_distribution) do
      share, mean = share + value, mean + n * value
   end
   check.near(share, 1, 1e-12)
   check.near(mean, entry.block_efficiency, 1e-12)
   for _, value in pairs(entry.rate_at_depth_of_cycles or {}) do
      above = above + value
   end
   check.near(above, entry.block_efficiency - 1, 1e-12)
end
check.list(run:broken_identities(), {})

-- ---- SQL -----------------------------------------------------------------------------------------
local rows = assert(run:sql("SELECT arm, value FROM block_efficiency WHERE sampling = ? ORDER BY arm", "T=0"))
check.equal(#rows, 2)
check.equal(rows[2].value, 1.0)
check.raises("run:sql: runs are only read: SELECT, WITH, VALUES or EXPLAIN", function()
   return run:sql("DELETE FROM cycles")
end)
check.raises("run:sql: runs are only read: SELECT, WITH, VALUES or EXPLAIN", function()
   return run:sql("VACUUM INTO 'copy'")
end)
check.fails("io", "readonly", run:sql("WITH t(a) AS (SELECT 1) INSERT INTO quality SELECT 1, 1, 1, 1, 'x', 1 FROM t"))
check.raises("run:sql: value 2 must be a number, a string or nil, got a table",
   function() return run:sql("SELECT ?, ?", 1, {}) end)
check.fails("argument", "no such table: no_such", run:sql("SELECT * FROM no_such"))
-- without us: the same views are in the file
local file = assert(core.trace.open(folder .. "/trace.db", "write"))
check.equal(#file:rows("SELECT * FROM main.speed_up_dflash"), 4)
file:close()

-- ---- Closing, and what is no run -----------------------------------------------------------------
run:close()
run:close()
check.raises("the run is closed", function() return run:sql("SELECT 1") end)
check.raises("the run is closed", function() return run:arms() end)
check.fails("io", "is not the folder of a run: it has no trace.db", cop.open_run(test.folder()))
check.raises("cop.open_run: expects the folder of a run, got a nil", function() return cop.open_run() end)
local damaged = test.folder()
assert(core.system.write(damaged .. "/trace.db", "SQLite format 3\0" .. ("x"):rep(4096)))
check.fails("format", "cop.open_run: ", cop.open_run(damaged))
check.equal(#core.trace.definitions() >= 40, true)

-- ---- Help ----------------------------------------------------------------------------------------
local text = test.quietly(function() return cop.help("metrics") end)
for _, definition in ipairs(core.trace.definitions()) do
   check.is(text:find("metrics." .. definition.name, 1, true), definition.name)
   check.is(text:find(definition.formula, 1, true), definition.formula)
end
check.is(test.quietly(function() return cop.help("metrics.gen_rate_specexec") end):find("who: SpecExec, gen_rate", 1,
   true))
