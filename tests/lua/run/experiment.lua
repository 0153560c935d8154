--- Whole runs on tiny models: what is stored, and that interrupting, sharding, batching and
--- resuming change nothing.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local draft = assert(cop.model {
   path = test.tiny { seed = 7, noise = 0.2, noise_seed = 1 }, threads = 1, context = 256,
})
local prompts = {
   { turns = { "the cat and the hat and the cat" }, category = "one" },
   { turns = { "in the end", "and then" }, category = "two", id = "q2" },
   { turns = { "he is here, he is here, he is" }, category = "one" },
}

local quiet = {} -- what runs print

local function silently(f)
   local stdout = io.stdout
   io.stdout = setmetatable({}, { __index = { -- luacheck: ignore 122
      write = function(_, ...) table.insert(quiet, table.concat { ... }) end, flush = function() end,
   } })
   quiet = {}
   local results = table.pack(pcall(f))
   io.stdout = stdout -- luacheck: ignore 122
   if not results[1] then
      error(results[2], 0)
   end
   return table.unpack(results, 2, results.n)
end

local function describe(changes)
   local e = {
      name = "demo", target = target, prompts = prompts, seed = 5, temperature = { 0, 1 }, max_tokens = 20,
      arms = {
         cop.arm { "lookup", proposer = cop.propose.lookup {} },
         cop.arm { "draft", proposer = cop.propose.model { draft }, tree = cop.tree.widths { 2, 1 },
                   draw = "without_replacement" },
      },
   }
   for key, value in pairs(changes or {}) do
      e[key] = value
   end
   return cop.experiment(e)
end

local function run(changes, options)
   local e = describe(changes)
   return silently(function() return e:run(options) end)
end

local function rows(folder, sql, ...)
   local trace = assert(core.trace.open(folder .. "/trace.db", "read"))
   local list = assert(trace:rows(sql, ...))
   trace:close()
   return list
end

local function read(path)
   local file = assert(io.open(path))
   local text = file:read("a")
   file:close()
   return text
end

-- ---- One whole run ------------------------------------------------------------------------------
local folder = test.folder() .. "/whole"
local whole = assert(run({}, { out = folder }))
local printed = table.concat(quiet)
check.equal(whole.state, "finished")
check.equal(whole.broken, 0, "greedy answers are plain decoding's")
check.equal(#whole.arms, 6)
check.equal(rows(folder, "SELECT COUNT(*) AS n FROM requests")[1].n, 24, "4 turns x 3 arms x 2 temperatures")
for _, arm in ipairs(whole.arms) do
   check.equal(arm.requests, 4, arm.name)
   check.equal(arm.metrics.progress, arm.accepted + arm.forward_passes, "progress = accepted + passes")
   check.equal(arm.metrics.reached[0], arm.forward_passes)
   check.is(arm.tokens <= arm.metrics.progress and arm.tokens > 0)
   check.equal(arm.is_plain or (arm.drafted > 0 and arm.accepted > 0), true, arm.name .. " drafts and accepts")
   local kept = rows(folder, "SELECT TOTAL(c.kept) AS kept FROM cycles c JOIN requests r ON r.id = c.request"
      .. " JOIN arms a ON a.id = r.arm WHERE a.name = ? AND a.sampling = ?", arm.name, arm.sampling)
   check.equal(kept[1].kept, arm.tokens + 0.0, "kept tokens of cycles are the answers")
   local sum = arm.draft_share + arm.score_share + arm.host_share
   check.near(sum, 1, 1e-9)
   local cycles, mean = 0, 0
   for n, share in ipairs(arm.progress_distribution) do
      cycles, mean = cycles + share, mean + n * share
   end
   check.near(cycles, 1, 1e-9)
   check.near(mean, arm.block_efficiency, 1e-9, "the mean of the distribution of progress")
end
check.equal(whole.arms[1].block_efficiency, 1.0)
check.equal(whole.arms[2].is_identical, true)
check.equal(whole.arms[2].agreement.same, 4)
check.equal(whole.arms[5].is_identical, nil, "only greedy answers must be the same")
check.is(whole.arms[2].speed_up.low <= whole.arms[2].speed_up.value)
check.equal(#whole.arms[2].categories, 2)
check.is(whole.arms[2].predicted_speed_up > 0, "a cost curve was measured")
for _, text in ipairs { "demo, T=0, 3 prompts, 4 answers", "block efficiency", "accepted at depth", "category",
   "lookup: 4 of 4 answers have plain decoding's tokens", "fingerprint " .. whole.fingerprint, "predicted: V from" } do
   check.is(printed:find(text, 1, true), text .. " is printed")
end

-- The files of a run.
check.equal((read(folder .. "/console.log"):gsub("%f[%a]answer: [^\n]*\n", "")), printed) -- and a line for each answer
local manifest = core.system.json.decode(read(folder .. "/manifest.json"))
check.equal(manifest.identity.seed, 5)
check.equal(manifest.identity.target.sha256, core.system.hash_file(target.path))
check.equal(manifest.identity.arms[3].models[1].sha256, core.system.hash_file(draft.path))
check.equal(manifest.identity.arms[3].draw, "deterministic", "what the engine made of the options")
check.equal(manifest.identity.arms[6].draw, "without_replacement")
check.equal(manifest.made_by.version, cop.version)
local csv = read(folder .. "/summary.csv")
check.is(csv:find("arm,sampling,category,", 1, true) == 1)
check.is(csv:find("\nlookup,T=0,,match,true,4,0,", 1, true), csv)
check.is(csv:find("\nlookup,T=0,two,", 1, true))

-- Arms take turns in going first; coins are shared.
local places = rows(folder, "SELECT a.name, r.prompt, r.place, r.request_id FROM requests r JOIN arms a ON a.id = r.arm"
   .. " WHERE a.sampling = 'T=0' AND r.turn = 1 ORDER BY r.prompt, r.place")
local firsts, names = {}, {}
for i, row in ipairs(places) do
   check.equal(row.place, (i - 1) % 3 + 1)
   check.equal(row.request_id, row.prompt, "the number of the prompt names the coins")
   if row.place == 1 and not names[row.name] then
      names[row.name] = true
      firsts[#firsts + 1] = row.name
   end
end
check.equal(#firsts, 3, "every arm goes first once in three prompts")

-- The second turn holds the arm's own first answer.
local turns = rows(folder, "SELECT r.turn, r.text, r.n_prompt, r.question, r.category FROM requests r JOIN arms a"
   .. " ON a.id = r.arm WHERE a.name = 'draft' AND a.sampling = 'T=1' AND r.prompt = 2 ORDER BY r.turn")
local _, ids = target.tokenizer:chat({
   { role = "user", content = "in the end" }, { role = "assistant", content = turns[1].text },
   { role = "user", content = "and then" },
}, { generation = true })
check.equal(turns[2].n_prompt, #ids)
check.equal(turns[2].question, "q2")
check.equal(turns[2].category, "two")

-- ---- Running again changes nothing ---------------------------------------------------------------
local again = assert(run({}, { out = folder }))
check.equal(again.fingerprint, whole.fingerprint)
check.equal(rows(folder, "SELECT COUNT(*) AS n FROM requests WHERE session > 1")[1].n, 0, "nothing was served")
check.is(quiet[1]:find("24 of 24 answers are stored already", 1, true), quiet[1])

-- ---- Another run is refused ----------------------------------------------------------------------
local function refused(text, changes, options)
   options.out = folder
   check.fails("argument", text, run(changes, options))
end
refused("holds another run (max_tokens: 20 there, 21 here); give another folder", { max_tokens = 21 }, {})
refused("seed: 5 there, 6 here", { seed = 6 }, {})
refused("holds a run already", {}, { resume = false })
refused("prompts.chosen", { prompts = { prompts[1] } }, {})

-- ---- Stopped in the middle, by an error and by Ctrl-C --------------------------------------------
local broken = test.folder() .. "/broken"
local seen = 0
local function until_cycle(n, act)
   return function()
      seen = seen + 1
      if seen == n then
         act()
      end
   end
end
local value, message, code = run({ observe = until_cycle(60, function() error("boom") end) }, { out = broken })
check.fails("callback", "boom", value, message, code)
local stored = rows(broken, "SELECT COUNT(*) AS n FROM requests")[1].n
check.is(stored > 0 and stored < 24, "some answers are stored: " .. stored)
check.equal(rows(broken, "SELECT state FROM sessions")[1].state, "failed")
check.is(table.concat(quiet):find("failed after " .. stored .. " of 24 answers, all stored", 1, true))

local pid = io.open("/proc/self/stat"):read("n")
local result = assert(run({ observe = until_cycle(120, function() io.popen("kill -INT " .. pid):close() end) },
   { out = broken }))
check.equal(result.state, "interrupted")
local later = rows(broken, "SELECT COUNT(*) AS n FROM requests")[1].n
check.is(later >= stored and later < 24, "stopped early: " .. later)
check.is(table.concat(quiet):find("NOT COMPLETE", 1, true))
check.is(table.concat(quiet):find("interrupted after " .. later .. " of 24", 1, true))

result = assert(run({}, { out = broken }))
check.equal(result.state, "finished")
check.equal(result.fingerprint, whole.fingerprint, "a resumed run gives the same tokens")
check.equal(rows(broken, "SELECT COUNT(*) AS n FROM sessions")[1].n, 3)

-- ---- Shards, batches, threads --------------------------------------------------------------------
local sharded = test.folder() .. "/sharded"
for shard = 1, 3 do
   assert(run({}, { out = sharded, shard = shard .. "/3" }))
end
result = assert(run({}, { out = sharded }))
check.equal(result.fingerprint, whole.fingerprint, "shards together make the run")
check.equal(rows(sharded, "SELECT COUNT(*) AS n FROM requests WHERE session = 4")[1].n, 0)

result = assert(run({ batch = 3 }, { out = test.folder() .. "/batch" }))
check.equal(result.fingerprint, whole.fingerprint, "batch mates change nothing")

-- Side by side, a cycle each in turn: the arms of one prompt take turns, and say the same.
do
   local cycles, answers = {}, {}
   local function watch(cycle)
      cycles[#cycles + 1] = { arm = cycle.arm, cycle = cycle.cycle }
      answers[cycle.arm] = true
   end
   result = assert(run({ interleave = true, temperature = 0, observe = watch }, { out = test.folder() .. "/turns" }))
   local alone = assert(run({ temperature = 0 }, { out = test.folder() .. "/alone" }))
   check.equal(result.fingerprint, alone.fingerprint, "taking turns changes nothing")
   check.is(answers.plain and answers.lookup and answers.draft)
   for i = 1, 12 do -- the first prompt: three arms, cycle by cycle
      check.equal(cycles[i].cycle, (i - 1) // 3)
   end
   check.is(cycles[1].arm ~= cycles[2].arm and cycles[2].arm ~= cycles[3].arm and cycles[1].arm == cycles[4].arm)
end
result = assert(run({ seed = 6 }, { out = test.folder() .. "/seed" }))
check.is(result.fingerprint ~= whole.fingerprint, "the seed does")

-- ---- Prompts that cannot be served ---------------------------------------------------------------
local long = { turns = { ("word "):rep(400) } }
folder = test.folder() .. "/long"
result = assert(run({ prompts = { prompts[1], long, prompts[3] }, temperature = 0 }, { out = folder }))
check.equal(result.arms[1].failed, 1)
check.equal(result.arms[1].requests, 2)
check.is(rows(folder, "SELECT error FROM requests WHERE prompt = 2")[1].error:find("context"), "and it says why")
check.is(table.concat(quiet):find("!!! lookup: 1 requests failed and are left out", 1, true))

check.equal(result.state, "finished")
check.equal(result.failed, 3, "every arm's")
check.equal(#result.failures, 1)
check.equal(result.failures[1].count, 3)
check.equal(result.failures[1].prompt, 2)
result = assert(run({ prompts = { prompts[1], prompts[3] }, temperature = 0, max_tokens = 4 },
   { out = test.folder() .. "/short" }))
check.equal(result.failed, 0)

-- An arm that answers nothing proves nothing.
local fails = cop.propose.custom { name = "fails", rows = "points", depth = 1,
   expand = function() error("no draft") end }
local failing = describe { temperature = 0, arms = { cop.arm { "fails", proposer = fails } } }
local no_result = silently(function() return failing:run { out = test.folder() .. "/failing" } end)
check.is(not table.concat(quiet):find("0 of 0", 1, true), table.concat(quiet))
check.equal(no_result, nil)
local all_long = silently(function()
   return describe { prompts = { long }, temperature = 0 }:run { out = test.folder() .. "/all-long" }
end)
printed = table.concat(quiet)
check.is(not printed:find("0 of 0", 1, true), printed)
check.is(printed:find("!!! lookup: all 1 requests failed; there is nothing to compare", 1, true), printed)
check.equal(all_long.arms[2].is_identical, nil)

-- ---- A rule that goes wrong fails its request, with its name; the others are served --------------
local n_bad = 0
for said, wrong in pairs {
   ["tests/lua/run/experiment.lua:"] = function() error("no verdict") end,
   ["node 1 is twice in verify's list"] = function() return { 1, 1 }, 0 end,
   ["verify's list is no path: the parent of node 2 is 1, not 0"] = function() return { 2 }, 0 end,
   ["an id from 0 to 263; got 265"] = function() return {}, 265 end,
   ["verify must return a list of nodes and the last token; the first value is nothing"] = function() end,
   ["ended with token 0, to which the target gives no probability after node 0"] = function() return {}, 0 end,
   ["draws: asked twice for the coin"] = function(_, draws)
      draws:flip("x", 0, 0.5)
      draws:flip("x", 0, 0.5)
   end,
} do
   local calls = 0
   n_bad = n_bad + 1
   local bad = cop.accept.custom { name = "bad", lossless_for = { { draw = "any", temperature = "zero" } },
      verify = function(tree, row, _, draws)
         calls = calls + 1
         if calls == 12 then -- past the warm-up
            return wrong(tree, draws)
         end
         return {}, draws:pick("last", 0, row(0))
      end }
   local drafts = cop.propose.custom { name = "two", rows = "points", depth = 2, expand = function(_, nodes)
      local list = {}
      for i = 1, #nodes do
         list[i] = { 5 }
      end
      return list
   end }
   local why
   result, why = silently(function()
      return describe { temperature = 0, max_tokens = 8, arms = { cop.arm { "bad", proposer = drafts, rule = bad,
         tree = cop.tree.chain { depth = 2 } } } }:run { out = test.folder() .. "/bad" .. n_bad }
   end)
   check.is(result, tostring(why))
   check.equal(result.failed, 1, said)
   check.equal(#result.failures, 1)
   check.is(result.failures[1].error:find("bad", 1, true), result.failures[1].error)
   check.is(result.failures[1].error:find(said, 1, true), result.failures[1].error .. " / " .. said)
end

-- ---- Time in Lua: only that of the arm's own cycles ----------------------------------------------
local spinning = function() for _ = 1, 200000 do end end -- luacheck: ignore 542
local timed = test.folder() .. "/timed"
local with_lua = cop.propose.custom { name = "slow", rows = "sparse", depth = 1, expand = function(_, nodes)
   spinning()
   local rows_of = {}
   for i in ipairs(nodes) do
      rows_of[i] = { [5] = 1 }
   end
   return rows_of
end }
result = assert(run({ temperature = 0, batch = 3, observe = spinning, arms = {
   cop.arm { "lookup", proposer = cop.propose.lookup {} }, cop.arm { "slow", proposer = with_lua },
} }, { out = timed }))
printed = table.concat(quiet)
check.equal(rows(timed, "SELECT TOTAL(c.lua_us) AS n FROM cycles c JOIN requests r ON r.id = c.request JOIN arms a"
   .. " ON a.id = r.arm WHERE a.name <> 'slow'")[1].n, 0.0, "plain and lookup run no script function")
check.is(not printed:find("plain: %d+ %%"), printed)
check.is(printed:find("slow: %d+ %% of the cycles' time is spent in the script's Lua functions"), printed)
check.is(result.arms[3].lua_share > 0.05 and result.arms[3].lua_share <= 1)

-- ---- What remembers answers has seen none of this prompt's: not in the warm-up, nor in a repeat ----
local learners = { cache = "ngram_cache", suffixes = "suffix_tree", recycling = "recycling" }
local arms = {}
for name, kind in pairs(learners) do
   arms[#arms + 1] = cop.arm { name, proposer = cop.propose[kind] {} }
end
folder = test.folder() .. "/learners"
assert(run({ temperature = 0, prompts = { prompts[1] }, arms = arms, repeats = 2 }, { out = folder }))
local learnt = assert(cop.open_run(folder))
local messages = { { role = "user", content = prompts[1].turns[1] } }
for name, kind in pairs(learners) do
   local alone = cop.generate { model = target, messages = messages, max_tokens = 20, proposer = cop.propose[kind] {} }
   local n_answers = 0
   for request in learnt:requests { arm = name } do
      local n = 0
      for cycle in learnt:cycles(request) do
         n = n + 1
         check.list(cycle.tokens, alone.cycles[n].tokens, ("%s %d, cycle %d"):format(name, request["repeat"], n))
      end
      check.equal(n, #alone.cycles, name)
      n_answers = n_answers + 1
   end
   check.equal(n_answers, 2)
end

-- What was learnt before a run broke off is learnt again: above temperature 0 tokens depend on it.
local kinds = { recycling = true, suffixes = true, cache = true, mixed = true, cascaded = true, draft = false }
arms = { cop.arm { "mixed", proposer = cop.propose.mixture { cop.propose.model { draft }, cop.propose.recycling {} } },
   cop.arm { "cascaded",
      proposer = cop.propose.cascade { cop.propose.recycling {}, cop.propose.lookup {}, depths = { 1, 2 } } },
   cop.arm { "draft", proposer = cop.propose.model { draft } }, table.unpack(arms) }
for _, arm in ipairs(arms) do
   check.equal(core.engine_check { target = target, proposer = arm.proposer }.remembers, kinds[arm.name], arm.name)
end
for _, how in ipairs { { interleave = true, batch = 2 }, {} } do
   how.temperature, how.arms, how.repeats = 1, arms, 2
   local out = test.folder()
   whole = assert(run(how, { out = out .. "/whole" }))
   for _, n in ipairs { 90, 240, 400 } do
      seen, how.observe = 0, until_cycle(n, function() error("boom") end)
      assert(not run(how, { out = out .. "/broken" }))
   end
   local n_told = 0
   how.observe = function() n_told = n_told + 1 end
   result = assert(run(how, { out = out .. "/broken" }))
   check.equal(result.fingerprint, whole.fingerprint, "a resumed run gives the same tokens")
   for i, arm in ipairs(result.arms) do
      check.equal(arm.drafted, whole.arms[i].drafted, arm.name)
      check.equal(arm.accepted, whole.arms[i].accepted, arm.name)
   end
   check.is(read(out .. "/broken/console.log"):find("stored answers are given again", 1, true))
   check.equal(n_told, rows(out .. "/broken", "SELECT COUNT(*) AS n FROM cycles c JOIN requests r ON r.id = c.request"
      .. " WHERE r.session = (SELECT MAX(id) FROM sessions)")[1].n, "nobody is told of them")
end

-- ---- A broken promise is loud --------------------------------------------------------------------
-- The engine gives none here, so one token of a stored answer is changed.
folder = test.folder() .. "/broken-promise"
assert(run({ temperature = 0 }, { out = folder }))
local trace = assert(core.trace.open(folder .. "/trace.db", "write"))
local mine = trace:rows("SELECT id, tokens FROM requests WHERE arm = 2 AND prompt = 3")[1]
local changed = mine.tokens:gsub("^(%[%d+,%d+,)%d+", "%198")
assert(trace:rows("UPDATE requests SET tokens = ? WHERE id = ?", changed, mine.id))
trace:close()
result = assert(run({ temperature = 0 }, { out = folder }))
check.equal(result.broken, 1)
check.equal(result.arms[2].agreement.differences[1].position, 3)
check.equal(result.arms[2].agreement.same, 3)
printed = table.concat(quiet)
check.is(printed:find("!!! lookup IS NOT LOSSLESS HERE: 1 of 4 answers differ", 1, true), printed)
check.is(printed:find("!!!   prompt 3, turn 1, position 3: 98 \"b\", plain decoding has ", 1, true), printed)

-- ---- A relaxed arm never stands without a quality ------------------------------------------------
local relaxed = cop.accept.custom {
   name = "shrug", lossless_for = {},
   verify = function(tree, rows_at, _, coins)
      local path, node = {}, 0
      if tree.size > 0 then
         node = 1
         path[1] = node
      end
      return path, coins:pick("bonus", node, rows_at(node))
   end,
}
result = assert(run({ temperature = 1, quality = { "target_nll" }, arms = {
   cop.arm { "shrug", proposer = cop.propose.lookup {}, rule = relaxed, relaxed = true },
} }, { out = test.folder() .. "/relaxed" }))
printed = table.concat(quiet)
check.is(printed:find("shrug, relaxed", 1, true), printed)
check.is(printed:find("exact match  agreement  target NLL", 1, true), printed)
check.equal(result.arms[2].lossless, false)
check.is(result.arms[2].target_nll > 0 and result.arms[1].target_nll > 0)
