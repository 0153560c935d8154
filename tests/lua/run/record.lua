--- Rows that a run records, and cop.replay on them: the arm that was recorded replays as it ran.

local check, test = ...
local cop = require("coppice")
local A, T = cop.accept, cop.tree

local target = assert(cop.model { path = test.tiny { seed = 7, layers = 2, context = 512 }, kv = "f32" })
local draft = assert(cop.model { path = test.tiny { seed = 7, layers = 2, noise = 0.3, noise_seed = 3, context = 512 },
   kv = "f32" })
local prompts = { "one two", "abc abc abc", "x" }

local function arms()
   return {
      cop.arm { "chain", proposer = cop.propose.model { draft }, tree = T.chain { depth = 3 } },
      cop.arm { "tree", proposer = cop.propose.model { draft }, tree = T.widths { 2, 2 }, draw = "without_replacement",
         rule = A.recursive {} },
      cop.arm { "lookup", proposer = cop.propose.lookup {}, tree = T.chain { depth = 3 } },
   }
end

local function run(folder, given)
   given = given or {}
   local e = cop.experiment { name = "recorded", target = target, prompts = given.prompts or prompts, arms = arms(),
      seed = 3, temperature = given.temperature or { 0, 1 }, max_tokens = 24, chat = false, ignore_eos = true,
      record = given.record or { rows = "f32" }, batch = given.batch }
   return test.quietly(function() return e:run { out = folder } end)
end

local function metric(folder, arm, sampling, name)
   local stored <close> = assert(cop.open_run(folder))
   for _, entry in ipairs(stored:metrics()) do
      if entry.arm == arm and entry.sampling == sampling then
         return entry[name]
      end
   end
end

local folder = test.folder() .. "/r"
check.equal(assert(run(folder)).state, "finished")

-- ---- The files -----------------------------------------------------------------------------------

local stored <close> = assert(cop.open_run(folder))
local n = stored:sql("SELECT count(*) AS n FROM requests r JOIN arms a ON a.id = r.arm WHERE NOT a.is_plain")[1].n
local files = assert(io.popen("ls " .. folder .. "/rows | wc -l"))
check.equal(files:read("n"), n)
files:close()
for arm in stored:arms() do
   for request in stored:requests { arm = arm.name, sampling = arm.sampling } do
      if not arm.is_plain then
         local rows = assert(cop.rows { path = ("%s/rows/%d-%d-1-1.safetensors"):format(folder, arm.id,
            request.prompt) })
         check.equal(rows.context, request.n_prompt - 1)
         check.equal(rows.vocab, 264)
         -- What was committed is the path of the positions: the last prompt token, then the answer.
         for i = 2, #rows.positions do
            check.equal(rows.tokens[rows.positions[i] + 1], request.tokens[i - 1])
            check.equal(rows.parents[rows.positions[i] + 1], rows.positions[i - 1])
         end
         check.is(#rows.positions >= #request.tokens)
         -- A target row says what the model's own score says.
         local ids = target.tokenizer:encode(prompts[request.prompt], { bos = target.tokenizer.adds_bos })
         local law, scored = rows:target(0), target:score { context = ids }
         local sum = scored[0]:logsumexp()
         if #ids == request.n_prompt then
            check.near(law[100], math.exp(scored[0][99] - sum), 1e-6)
         end
         check.is(arm.name == "lookup" and rows:draft(0) == nil or arm.name ~= "lookup" and #rows:draft(0) == 264)
      end
   end
end

-- ---- The same arm again --------------------------------------------------------------------------

local function replayed(given)
   local told, message = cop.replay(given)
   return told and told.arms[1] or error(message, 0), told
end

-- Temperature 0: cycle after cycle as it ran.
local chain3 = { cop.arm { "again", rule = A.match {}, tree = T.chain { depth = 3 } } }
local again = replayed { run = folder, recorded = "chain", sampling = "T=0", arms = chain3 }
check.equal(again.temperature, 0.0)
check.near(again.run_block_efficiency, metric(folder, "chain", "T=0", "block_efficiency"))
check.is(again.exact > 0 and again.estimated == 0)
-- A shorter chain is in the longer one's rows where its cycles begin at the same places, and refused elsewhere.
local shorter = replayed { run = folder, recorded = "chain", sampling = "T=0",
   arms = { cop.arm { "one", rule = A.match {}, tree = T.chain { depth = 1 } } } }
check.is(shorter.exact >= again.exact)
for i, cell in ipairs(again.cells) do
   if cell.kind == "exact" and shorter.cells[i].kind == "exact" then
      check.equal(shorter.cells[i].expected_accepted, math.min(1.0, cell.expected_accepted))
   end
end
-- Temperature 1: estimated with an interval, for other rules too.
local sampled, told = replayed { run = folder, recorded = "chain", sampling = "T=1", samples = 40, limit = 30,
   arms = { cop.arm { "token", rule = A.token {}, tree = T.chain { depth = 1 } },
      cop.arm { "block", rule = A.block {}, tree = T.chain { depth = 1 } } } }
check.equal(sampled.temperature, 1.0)
check.is(sampled.estimated > 0 and sampled.low < sampled.expected_accepted)
-- At depth 1 both keep Σ min(target, draft), so the intervals must meet.
local block = told.arms[2]
check.is(math.abs(block.common - sampled.common) < (sampled.high - sampled.low) + (block.high - block.low))
local expected, count = 0, 0
local first <close> = assert(cop.open_run(folder))
for arm in first:arms() do
   if arm.name == "chain" and arm.sampling == "T=1" then
      local rows = assert(cop.rows { path = ("%s/rows/%d-1-1-1.safetensors"):format(folder, arm.id) })
      for i, at in ipairs(rows.positions) do
         local p, q = rows:target(at), rows:draft(at)
         if q and i <= 30 and told.arms[1].cells[i].kind == "estimated" then
            local overlap = 0
            for t = 1, 264 do
               overlap = overlap + math.min(p[t], q[t])
            end
            expected, count = expected + overlap - told.arms[1].cells[i].expected_accepted, count + 1
         end
      end
   end
end
check.is(count > 0 and math.abs(expected / count) < 4 * 0.5 / math.sqrt(40 * count), expected / count)

-- ---- Prices --------------------------------------------------------------------------------------

local points = {}
for _, nodes in ipairs { 1, 4, 8 } do
   for _, context in ipairs { 0, 100 } do
      points[#points + 1] = { nodes = nodes, context = context, seconds = 1 + 0.1 * nodes + 0.01 * context }
   end
end
local cost = { score = points, draft = { { nodes = 1, context = 0, seconds = 0.2, path = "d" },
   { nodes = 1, context = 100, seconds = 0.2, path = "d" } } }
local priced, table_told = replayed { run = folder, recorded = "chain", sampling = "T=0", arms = chain3, cost = cost }
local seconds, tokens, plain = 0, 0, 0
for _, cell in ipairs(priced.cells) do
   if cell.kind == "exact" then
      seconds, tokens, plain = seconds + cell.seconds, tokens + 1 + cell.expected_accepted, plain + cell.plain_seconds
      check.equal(cell.nodes, cell.levels)
      check.near(cell.seconds - cell.plain_seconds, cell.nodes * 0.1 + cell.levels * 0.2)
      check.near(cell.speedup, (1 + cell.expected_accepted) / cell.seconds * cell.plain_seconds)
   end
end
check.near(priced.tokens_per_second, tokens / seconds)
check.near(priced.speedup, tokens / seconds / (priced.exact / plain))
check.is(tostring(table_told):find("nothing was measured", 1, true))
check.raises_with("say which: draft = \"a\" or draft = \"b\"", cop.replay, { run = folder, recorded = "chain",
   sampling = "T=0", arms = chain3, cost = { score = points, draft = {
      { nodes = 1, context = 0, seconds = 1, path = "a" }, { nodes = 1, context = 0, seconds = 1, path = "b" } } } })
check.raises_with("cost must be what cop.cost returned", cop.replay, { run = folder, recorded = "chain",
   sampling = "T=0", arms = chain3, cost = "/nowhere.json" })

-- ---- The best of each row ------------------------------------------------------------------------

local cut = test.folder() .. "/cut"
assert(run(cut, { record = { rows = "f16", top = 3, arms = { "chain" } } }))
local best = replayed { run = cut, sampling = "T=0", arms = chain3 }
check.near(best.run_block_efficiency, metric(cut, "chain", "T=0", "block_efficiency"))
check.equal(best.estimated, 0)
local wide = replayed { run = cut, sampling = "T=1", samples = 10, limit = 10,
   arms = { cop.arm { "t", rule = A.token {}, tree = T.chain { depth = 1 } } } }
check.equal(wide.exact, 0)
for _, cell in ipairs(wide.cells) do
   check.is(cell.kind == "refused" or cell.margin > 0 and cell.margin <= 1)
end
-- The fourth best is not there.
local four = replayed { run = cut, sampling = "T=0", arms = { cop.arm { "w", rule = A.match {},
   tree = T.widths { 4 } } } }
check.equal(four.exact, #prompts, "the last position of each answer, where nothing is drafted")
check.is(four.reasons[1]:find("the probability of a drafted token", 1, true), four.reasons[1])
check.raises_with("replay at temperature 1 or 0", cop.replay, { run = cut, sampling = "T=1", temperature = 0.5,
   arms = { cop.arm { "t", rule = A.token {}, tree = T.chain { depth = 1 } } } })

-- ---- Killed, resumed, in batches -----------------------------------------------------------------

local batched = test.folder() .. "/b"
assert(run(batched, { batch = 3, temperature = 0 }))
check.near(replayed { run = batched, recorded = "chain", arms = chain3 }.run_block_efficiency,
   again.run_block_efficiency)
-- A file that a killed run left before its answer was entered is written again.
local broken = assert(io.open(folder .. "/rows/2-1-1-1.safetensors", "wb"))
broken:write("half")
broken:close()
local database = assert(io.popen(("sqlite3 %s/trace.db 'DELETE FROM cycles WHERE request IN (SELECT id FROM requests"
   .. " WHERE arm = 2 AND prompt = 1); DELETE FROM requests WHERE arm = 2 AND prompt = 1' 2>&1"):format(folder)))
local said = database:read("a")
database:close()
if said == "" then
   assert(run(folder))
   check.near(replayed { run = folder, recorded = "chain", sampling = "T=0", arms = chain3 }.run_block_efficiency,
      again.run_block_efficiency)
end

-- ---- What is refused -----------------------------------------------------------------------------

check.raises_with('say which: recorded = "chain", sampling = "T=0" or', cop.replay, { run = folder, arms = chain3 })
local nothing, _, code = cop.replay { run = "/nowhere", arms = chain3 }
check.equal(nothing, nil)
check.equal(code, "io")
local bare = test.folder() .. "/bare"
test.quietly(function()
   return assert(cop.experiment { name = "bare", target = target, prompts = { "a" }, arms = arms(), max_tokens = 4,
      chat = false }:run { out = bare })
end)
local message
nothing, message, code = cop.replay { run = bare, arms = chain3 }
check.equal(nothing, nil)
check.equal(code, "unsupported")
check.is(message:find('record = { rows = "f16" }', 1, true), message)
local function refuses(record, text)
   check.raises_with(text, cop.experiment, { name = "r", target = target, prompts = { "a" }, arms = arms(),
      record = record })
end
refuses({}, 'option "rows" is required: one of "f16", "f32"')
refuses({ rows = "f8" }, "rows")
refuses({ rows = "f16", arms = { "chian" } }, 'unknown arm "chian"')
local reason
nothing, reason = run(folder, { record = { rows = "f16" } })
check.equal(nothing, nil)
check.is(reason:find("record.rows", 1, true), reason)
