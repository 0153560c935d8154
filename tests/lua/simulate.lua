--- cop.traces and cop.simulate on traces that are written here, and the paper's cost model.

local check, test = ...
local cop = require("coppice")

local function write(text)
   local path = os.tmpname()
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
   return path
end

local function traces(...)
   local path = write(table.concat({ ... }, "\n"))
   local out, message, code = cop.traces { path = path }
   os.remove(path)
   return out, message and message:gsub(path:gsub("%p", "%%%0"), "FILE"), code
end

local function simulated(given)
   local told = assert(cop.simulate(given))
   return told.batches[1], told
end

-- ---- Statistics ----------------------------------------------------------------------------------

-- From position 1: 3, then from 4: 1, from 5: 2. Of single drafted tokens: 2, 2 (from 3), 2 (from 5).
local one = '{"prompt_length": 4, "acc_eagle": {"acc_len": [3, 2, 2, 1, 2]}, "acc_ngram": [1, 4, 1, 1, 1]}'
local toy = assert(traces(one))
local told = toy:statistics("eagle")
check.equal(told.cycles, 3)
check.near(told.block_efficiency, 2)
check.near(told.rate[1], 2 / 3)
check.near(told.rate[2], 1 / 2)
check.near(told.rate_everywhere[1], 4 / 5)
check.near(told.at_least[2], 1 / 3)
check.near(told.prompt, 4)
check.near(told.output, 5)
check.near(toy:statistics("eagle", 1).block_efficiency, 2)
check.near(toy:statistics("eagle", 0).block_efficiency, 1)
check.is(tostring(toy):find("eagle"))

-- ---- Times, by hand ------------------------------------------------------------------------------

local cost = { target = { kv = 1, token = 10, fixed = 100 }, draft = { kv = 0, token = 1, fixed = 5 }, lookup = 0.5,
   overhead = 1000 }
-- Prefill of 4 tokens and 1,000: 1,140. Contexts 5, 6, 7, 8 with one token each: 4,466.
local b = simulated { data = toy, drafter = "eagle", length = 2, cost = cost }
check.near(b.plain_seconds, 1140 + 4 * 1110 + 5 + 6 + 7 + 8)
-- Position 1 of the answer: 3 tokens, context 5, draft of 5 + 3; position 4, context 8: 1 token, and the end.
check.near(b.seconds, 1140 + (5 + 30 + 100 + 8 + 1000) + (8 + 30 + 100 + 8 + 1000))
check.equal(b.cycles, 2)
check.near(b.block_efficiency, 2)
check.near(b.speedup, b.plain_seconds / b.seconds)
-- An oracle drafts no token where none will be accepted, and pays for an empty draft of a model.
b = simulated { data = toy, drafter = "eagle", length = "oracle", cost = cost }
check.near(b.seconds, 1140 + (5 + 30 + 100 + 8 + 1000) + (8 + 10 + 100 + 6 + 1000))
-- A lookup is a share of the pass; nothing found (match = 0), nothing drafted.
b = simulated { data = toy, drafter = "ngram", length = 2, match = 0, cost = cost }
check.near(b.seconds, 1140 + (5 + 10 + 100 + 1000) + 1.5 * (6 + 30 + 100) + 1000)
b = simulated { data = toy, drafter = "ngram", length = 2, match = 1, cost = cost }
check.near(b.seconds, 1140 + 1.5 * (5 + 30 + 100) + 1000 + 1.5 * (6 + 30 + 100) + 1000)
-- The longer of two: positions 3, 4, 2, 1, 2; who pays.
local function combined(price)
   return simulated { data = toy, drafter = "combined", length = "oracle", cost = cost, price = price }.seconds
end
local first, second = 5 + 30 + 100, 8 + 10 + 100 -- the eagle's win, then a tie
check.near(combined("lookup"), 1140 + 1.5 * (first + second) + 2000)
check.near(combined("winner"), 1140 + first + 8 + 1.5 * second + 2000)
check.near(combined("both"), 1140 + 1.5 * (first + second) + 8 + 6 + 2000)
-- Two copies: passes of both; the second's draft sees the first's tokens in the cache.
cost.draft.kv = 1
b = simulated { data = toy, drafter = "eagle", length = 2, batch = { 2 }, cost = cost }
local function pass(kv, tokens) return kv + 10 * tokens + 100 end
check.near(b.seconds, (pass(0, 8) + 1000) + (pass(10, 6) + 8 + (10 + 13) / 2 + 1000)
   + (pass(16, 6) + 8 + (16 + 17 - 10) / 2 - 0 + 1000), 5)
check.near(b.plain_seconds, pass(0, 8) + 1000 + pass(10, 2) + pass(12, 2) + pass(14, 2) + pass(16, 2) + 4000)
-- length 0 is plain decoding; an answer of one token comes from prefill.
b = simulated { data = toy, drafter = "eagle", length = 0, cost = cost }
check.near(b.speedup, 1)
b = simulated { data = assert(traces('{"prompt_length": 4, "acc_eagle": [3]}')), drafter = "eagle", length = 3 }
check.near(b.speedup, 1)
check.equal(b.block_efficiency, nil)

-- ---- The paper's cost model ----------------------------------------------------------------------

-- Of an answer of two tokens, the second: 1,000 tokens of context for each request.
local two = assert(traces('{"prompt_length": 999, "acc_eagle": [1, 1]}'))
local one_token = assert(traces('{"prompt_length": 999, "acc_eagle": [1]}'))
local published = { [1] = { 7.153, 1.302, 1.308, 1.314 }, [8] = { 7.575, 1.308, 1.355, 1.401 },
   [32] = { 9.022, 1.326, 1.481, 1.636 }, [64] = { 10.950, 1.342, 1.597, 1.852 },
   [128] = { 14.808, 1.361, 1.739, 2.117 } }
for batch, row in pairs(published) do
   -- A draft pass of the whole batch; cop.simulate counts a copy's own tokens, and the cache empties as copies end.
   local paper = { target = { kv = 3.92645679e-8, token = 2.10103129e-5, fixed = 5.88590713e-3 },
      draft = { kv = 0, token = 8.41429603e-7 * batch, fixed = 2.13526175e-3 + 1000 * batch * 2.37768493e-9 },
      overhead = 1.20683946e-3 }
   local before = simulated { data = one_token, drafter = "eagle", length = 1, batch = { batch } }.plain_seconds
   for i, length in ipairs { 1, 3, 5 } do
      local s = simulated { data = two, drafter = "eagle", length = length, batch = { batch }, cost = paper }
      local plain = s.plain_seconds - before
      check.near(plain * 1e3, row[1], 0.0005001)
      check.near((s.seconds - before) / plain, row[i + 1], 0.0006, ("batch %d, %d drafted"):format(batch, length))
   end
end

-- A saved cop.cost as the cost model: planes fit points of a plane exactly.
local points = {}
for _, n in ipairs { 1, 4, 16 } do
   for _, context in ipairs { 32, 512 } do
      points[#points + 1] = { nodes = n, context = context, seconds = 1e-3 + 2e-6 * context + 3e-5 * n }
   end
end
b = simulated { data = toy, drafter = "eagle", length = 2,
   cost = { score = points, draft = { { nodes = 1, context = 32, seconds = 4e-4 } } } }
local function v(context, n) return 1e-3 + 2e-6 * context + 3e-5 * n end
check.near(b.seconds, v(0, 4) + v(5, 3) + v(8, 3) + 2 * 2 * 4e-4, 1e-12)

-- ---- What is refused -----------------------------------------------------------------------------

local function bad(line, text)
   local out, message, code = traces(one, line)
   check.equal(out, nil)
   check.equal(code, "format")
   check.is(message:find(text, 1, true), message)
end
bad("{", "FILE, line 2: not a JSON object")
bad('{"acc_eagle": [1]}', 'FILE, line 2: field "prompt_token_ids" must be a list of ids')
bad('{"prompt_token_ids": [1]}', 'FILE, line 2: no field "acc_NAME"')
bad('{"prompt_length": 1, "acc_eagle": [1, 0]}', 'FILE, line 2: field "acc_eagle": entry 2 is 0')
bad('{"prompt_length": 1, "acc_eagle": {"acc": 3}}', 'FILE, line 2: field "acc_eagle" must hold a list of numbers')
bad('{"prompt_length": 1, "acc_other": [1]}', "no drafter was recorded for every request")
local out, _, code = cop.traces { path = "/nowhere.jsonl" }
check.equal(out, nil)
check.equal(code, "io")
out, _, code = cop.simulate { data = "/nowhere.jsonl", drafter = "eagle", length = 1 }
check.equal(out, nil)
check.equal(code, "io")

local function refuses(given, text)
   given.data = given.data or toy
   check.raises_with(text, cop.simulate, given)
end
refuses({ drafter = "medusa", length = 1 }, 'unknown drafter "medusa"')
refuses({ drafter = "ngram", length = 2 }, "match is missing")
refuses({ drafter = "eagle", length = -1 }, "length must be the number of drafted tokens")
refuses({ drafter = "eagle", length = 1, samples = 2 }, "holds 1 requests")
refuses({ drafter = "eagle", length = 1, cost = "h200" }, "cost must be")
refuses({ drafter = "eagle", length = 1, cost = { score = { { nodes = 1 } } } }, "score[1] must have nodes")
refuses({ drafter = "eagle", length = 1, data = 3 }, "data must be a file of traces")

-- ---- The paper's data ----------------------------------------------------------------------------

if not test.shared then
   print("skipped: no folder of reference data (COPPICE_SHARED)")
   return
end
local recipe = test.core.use("recipes/trace_simulator")
local told_recipe = test.core.run_recipe(recipe, "test", test.shared .. "/data")
check.equal(told_recipe.same, 166)
told_recipe = test.core.run_recipe(recipe, "test", "/nowhere")
check.equal(told_recipe.skipped, 166)
check.equal(told_recipe.different + told_recipe.failed, 0)
check.is(told_recipe.rows[1].ours:find("--data DIR", 1, true))
