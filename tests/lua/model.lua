--- cop.model: fields, failures, closing, and m:score with its rows.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

local path = test.tiny { seed = 7, vocab = 61, context = 64 }
local m = cop.model { path = path, threads = 1, precision = "f32", kv = "f32" }

for key, value in pairs {
   architecture = "llama", vocab_size = 61, hidden_size = 32, layers = 2, heads = 4, kv_heads = 2, context = 64,
   threads = 1, precision = "f32", kv = "f32", device = "cpu", path = path,
} do
   check.equal(m[key], value, key)
end
check.is(m.bytes > 0 and math.type(m.bytes) == "integer")
check.equal(m.tokenizer, nil, "a model without a vocabulary")
check.equal(m.unknown, nil)
check.is(tostring(m):find("llama, 2 layers, vocabulary 61, cpu f32", 1, true), tostring(m))

-- Failures of the world are values.
check.fails("io", "no-such-file.gguf", cop.model { path = "no-such-file.gguf" })
check.fails("format", "", cop.model { path = "tests/lua/helper.lua" })
-- Broken contracts are errors.
for _, name in ipairs { "gpu", "cuda:", "cuda:x", "CPU" } do
   check.raises_with(("cop.model: no device is called \"%s\" (known: cpu, reference, cuda, cuda:1)"):format(name),
      function() return cop.model { path = path, device = name } end)
end
for _, name in ipairs { "cuda", "cuda:1" } do -- the name is right, the machine lacks it
   check.fails("unsupported", ("cop.model: no device \"%s\" in this build; it has cpu and reference"):format(name),
      cop.model { path = path, device = name })
end
check.raises_with("cop.model: option \"precision\" must be one of \"auto\", \"f32\", \"int8\", got \"fp32\"", function()
   return cop.model { path = path, precision = "fp32" }
end)
check.fails("limit", "cop.model: context = 100000", cop.model { path = path, context = 100000 })
-- What a file says is the world's, whatever is wrong with it.
local function damaged(from, to)
   local file = assert(io.open(test.tiny { seed = 7, tokenizer = true }, "rb"))
   local bytes = file:read("a")
   file:close()
   local at, last = bytes:find(from, 1, true)
   local name = os.tmpname()
   file = assert(io.open(name, "wb"))
   file:write(bytes:sub(1, at - 1), to, bytes:sub(last + 1))
   file:close()
   return name
end
for _, case in ipairs {
   { "general.architecture\8\0\0\0\5\0\0\0\0\0\0\0llama", "general.architecture\8\0\0\0\5\0\0\0\0\0\0\0llamb", "llamb" },
   { "GGUF\3", "GGUF\227", "227" },
   { "\4\0\0\0\0\0\0\0gpt2", "\4\0\0\0\0\0\0\0gpx2", "gpx2" },
   { "blk.0.attn_norm", "blk.0.attn_nurm", "attn_n" },
} do
   local name = damaged(case[1], case[2])
   local value, message, code = cop.model { path = name, threads = 1 }
   check.equal(value, nil)
   check.is(message:find("cop.model: ", 1, true) == 1 and message:find(case[3], 1, true), message)
   check.is(code == "unsupported" or code == "format", code)
   if case[3] ~= "attn_n" and case[3] ~= "llamb" then
      check.fails(code, "cop.tokenizer: ", cop.tokenizer { path = name })
   end
   os.remove(name)
end
check.raises_with("cop.model: unknown option \"thread\"; did you mean \"threads\"?", function()
   return cop.model { path = path, thread = 1 }
end)
check.raises_with("option \"threads\" must be an integer from 1 to 1024, got 0", function()
   return cop.model { path = path, threads = 0 }
end)

-- Rows: a tree, its paths as chains, and the context alone agree to the bit.
local context = { 3, 1, 4, 1, 5 }
local rows = m:score { context = context, nodes = { 9, 2, 6 }, parents = { 0, 1, 1 }, hidden = { 0, 1, 2 } }
local function same(a, b, what)
   check.equal(#a, #b)
   for id = 0, #a - 1 do
      check.equal(a[id], b[id], what)
   end
end
same(rows[0], m:score({ context = context })[0], "root")
same(rows[1], m:score({ context = { 3, 1, 4, 1, 5, 9 } })[0], "node 1")
same(rows[3], m:score({ context = { 3, 1, 4, 1, 5, 9, 6 } })[0], "node 3")
same(rows[3], m:score({ context = context, nodes = { 9, 6 } })[2], "as a chain")
same(rows[2], m:score({ context = { 3 }, nodes = { 1, 4, 1, 5, 9, 2 } })[6], "no prefill")
check.equal(#rows, 3)
check.equal(rows[4], nil)
check.equal(tostring(rows), "rows of a root and 3 nodes")

-- One row.
local row = rows[0]
check.equal(#row, 61)
check.equal(row[-1], nil)
check.equal(row[61], nil)
check.equal(row[1.5], nil)
check.equal(row[3.0], row[3])
check.equal(row.nothing, nil)
check.equal(tostring(row), "row of 61 logits")
local sum, best = 0, 0
for id = 0, 60 do
   sum = sum + math.exp(row[id])
   best = row[id] > row[best] and id or best
end
check.near(row:logsumexp(), math.log(sum), 1e-12)
local top = row:top(20)
check.equal(#top, 20)
check.equal(top[1].id, best)
check.equal(top[1].logit, row[best])
check.near(top[1].logprob, row[best] - math.log(sum), 1e-12)
for i = 2, 20 do
   check.is(top[i - 1].logit >= top[i].logit)
   check.equal(top[i].logit, row[top[i].id])
end
local all = row:top(1000)
check.equal(#all, 61)
local seen = {}
for i, entry in ipairs(all) do
   check.is(not seen[entry.id])
   seen[entry.id] = true
   check.is(i == 1 or all[i - 1].logit > entry.logit or all[i - 1].id < entry.id)
end
check.raises("row:top: the count must be an integer from 1 to 2147483647, got 0", function() return row:top(0) end)
check.raises("row:top: the count must be an integer from 1 to 2147483647, got 2.5", function() return row:top(2.5) end)

-- Hidden states.
local vector = rows.hidden[0][1]
check.equal(#vector, 32)
check.equal(type(vector[1]), "number")
check.equal(vector[0], nil)
check.equal(vector[33], nil)
check.equal(tostring(vector), "vector of 32")
same({ [0] = vector[1] }, { [0] = m:score({ context = { 9 }, hidden = { 0 } }).hidden[0][0][1] })
check.equal(rows.hidden[2][3][7], m:score({ context = { 3, 1, 4, 1, 5, 9, 6 }, hidden = { 2 } }).hidden[2][0][7])
check.equal(rows.hidden[3], nil)

-- What m:score refuses.
local prefix = "model:score: "
check.raises(prefix .. "option \"context\" is required: a list of integers, each from 0 to 60", function() m:score {} end)
check.raises(prefix .. "the context needs at least one token", function() m:score { context = {} } end)
check.raises(prefix .. "option \"context\" must be a list of integers, each from 0 to 60, got 61", function()
   m:score { context = { 1, 61 } }
end)
check.raises(prefix .. "2 parents for 1 nodes", function() m:score { context = { 1 }, nodes = { 2 }, parents = { 0, 0 } } end)
check.raises(prefix .. "parent of node 1 is 1, must be from 0 to 0", function()
   m:score { context = { 1 }, nodes = { 2 }, parents = { 1 } }
end)
check.raises_with(prefix .. "option \"hidden\" must be a list of integers, each from 0 to 2", function()
   m:score { context = { 1 }, hidden = { 3 } }
end)
check.raises(prefix .. "unknown option \"node\"; did you mean \"nodes\"? (known: context, nodes, parents, hidden)", function()
   m:score { context = { 1 }, node = {} }
end)
check.raises(prefix .. "expects one table of options, got nothing", function() m:score() end)
local long = {}
for i = 1, 65 do
   long[i] = i % 61
end
check.fails("limit", "model:score: 65 tokens do not fit the context of 64 tokens; raise the model's `context`",
   m:score { context = long })
check.fails("limit", "`context`", m:score { context = { 1 }, nodes = table.move(long, 1, 64, 1, {}) })
for i = 66, 1000 do
   long[i] = 1
end
check.fails("limit", "`context`", m:score { context = long })
check.equal(#m:score { context = { 1 } }[0], 61, "works after refusals")

-- Rows outlive the model and the list they came in.
local kept = m:score({ context = { 1, 2 }, hidden = { 1 } })
local kept_row, kept_vector = kept[0], kept.hidden[1][0]
local value, entry = kept_row[5], kept_vector[5]
m:close()
m:close()
kept = nil -- luacheck: ignore
collectgarbage()
collectgarbage()
check.equal(kept_row[5], value)
check.equal(kept_vector[5], entry)
check.equal(tostring(m), "cop.model (closed)")
check.raises("model: this model is closed", function() return m.layers end)
check.raises("model:score: this model is closed", function() return m:score { context = { 1 } } end)
check.raises("cop.propose.model: this model is closed", function() return cop.propose.model { m } end)
check.raises("cop.generate: this model is closed", function() return cop.generate { model = m, tokens = { 1 } } end)
do
   local scoped <close> = cop.model { path = path, threads = 1 }
   check.equal(scoped.layers, 2)
end

-- A part keeps its model alive after both the object and its name are gone.
local draft = cop.propose.model { cop.model { path = path, threads = 1 } }
collectgarbage()
check.is(tostring(draft):find("cop.propose.model { model = cop.model (", 1, true), tostring(draft))
