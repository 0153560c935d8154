--- cop.rows and cop.replay on rows that are written here, with the values of toy laws.

local check, test = ...
local cop = require("coppice")
local A, T = cop.accept, cop.tree

local function save(tensors)
   local header, data, at = {}, {}, 0
   for _, t in ipairs(tensors) do
      local name, dtype, shape, pack, values = t[1], t[2], t[3], t[4], t[5]
      local parts = {}
      for i, value in ipairs(values) do
         parts[i] = pack == "raw" and value or string.pack(pack, value)
      end
      local bytes = table.concat(parts)
      header[#header + 1] = ('"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(name, dtype,
         table.concat(shape, ","), at, at + #bytes)
      data[#data + 1], at = bytes, at + #bytes
   end
   local text = "{" .. table.concat(header, ",") .. "}"
   text = text .. (" "):rep(-#text % 8)
   local path = os.tmpname()
   local file = assert(io.open(path, "wb"))
   file:write(string.pack("<I8", #text), text, table.concat(data))
   file:close()
   return path
end

--- Every prefix of up to `depth` tokens below one root, each with the same two rows.
local function full(depth, target, draft)
   local tokens, parents, level = { 0 }, { -1 }, { 0 }
   for _ = 1, depth do
      local below = {}
      for _, parent in ipairs(level) do
         for token = 0, #target - 1 do
            tokens[#tokens + 1], parents[#parents + 1] = token, parent
            below[#below + 1] = #tokens - 1
         end
      end
      level = below
   end
   local p, q = {}, {}
   for _ = 1, #tokens do
      table.move(target, 1, #target, #p + 1, p)
      table.move(draft, 1, #draft, #q + 1, q)
   end
   return tokens, parents, p, q
end

local function file_of(tokens, parents, positions, p, q, dtype, pack, kind)
   local n, vocab = #tokens, #p // #tokens
   local list = {
      { "target." .. kind, dtype, { n, vocab }, pack, p }, { "draft." .. kind, dtype, { n, vocab }, pack, q },
      { "tokens", "I64", { n }, "<i8", tokens },
   }
   list[#list + 1] = parents and { "parents", "I32", { n }, "<i4", parents } or nil
   list[#list + 1] = positions and { "positions", "I32", { #positions }, "<i4", positions } or nil
   local path = save(list)
   local rows, message = cop.rows { path = path }
   os.remove(path)
   return assert(rows, message)
end

local function arm(rule, tree, draw)
   return cop.arm { "x", rule = rule, tree = tree, draw = draw }
end

--- The only arm of a replay in which every cell is exact.
local function accepted(rows, rule, tree, draw)
   local told = cop.replay { rows = rows, arms = { arm(rule, tree, draw) } }.arms[1]
   check.equal(told.exact, 1)
   check.equal(told.estimated + told.refused, 0)
   check.near(told.block_efficiency, told.expected_accepted + 1)
   check.equal(told.low, told.expected_accepted)
   return told.expected_accepted, told
end

-- ---- Exact values --------------------------------------------------------------------------------

-- Block verification's example, (1/3, 2/3) against (2/3, 1/3). As f32 the two keep their ratio of 1 : 2.
local tokens, parents, p, q = full(4, { 1 / 3, 2 / 3 }, { 2 / 3, 1 / 3 })
local toy = file_of(tokens, parents, { 0 }, p, q, "F32", "<f", "probabilities")
check.equal(toy.count, 31)
check.equal(toy.vocab, 2)
check.near(toy:target(3)[2], 2 / 3)
for depth, row in ipairs { { 2 / 3, 2 / 3 }, { 10 / 9, 11 / 9 }, { 38 / 27, 5 / 3 }, { 130 / 81, 166 / 81 } } do
   local chain = T.chain { depth = depth }
   check.near(accepted(toy, A.token {}, chain), row[1], 1e-12, "token")
   check.near(accepted(toy, A.block {}, chain), row[2], 1e-12, "block")
   check.near(accepted(toy, A.traversal {}, chain), row[2], 1e-12, "traversal")
end
local paths = T.independent_paths { count = 2, depth = 2 }
check.near(accepted(toy, A.traversal {}, paths, "independent"), 115 / 81)
check.near(accepted(toy, A.recursive {}, paths, "independent"), 4 / 3)
check.near(accepted(toy, A.traversal {}, T.widths { 2, 1 }, "without_replacement"), 16 / 9)
check.near(accepted(toy, A.recursive {}, T.widths { 2, 1 }, "without_replacement"), 5 / 3)

-- By depth: token by token 2/3 of the first; of two, 2/3 · 2/3.
local _, told = accepted(toy, A.token {}, T.chain { depth = 2 })
check.near(told.at_least[1], 2 / 3)
check.near(told.at_least[2], 4 / 9)
check.near(told.rate[2], 2 / 3)

-- Traversal's running example, three tokens, doubles.
tokens, parents, p, q = full(3, { 0.3, 0.4, 0.3 }, { 0.6, 0.3, 0.1 })
local three = file_of(tokens, parents, { 0 }, p, q, "F64", "<d", "probabilities")
for depth, row in ipairs { { 0.7, 0.7 }, { 1.19, 1.25 }, { 1.533, 1.704 } } do
   check.near(accepted(three, A.token {}, T.chain { depth = depth }), row[1], 1e-12)
   check.near(accepted(three, A.traversal {}, T.chain { depth = depth }), row[2], 1e-12)
   check.near(accepted(three, A.block {}, T.chain { depth = depth }), row[2], 1e-12)
end
check.near(accepted(three, A.traversal {}, T.widths { 1, 2 }, "without_replacement"), 27 / 20)
check.near(accepted(three, A.recursive {}, T.widths { 1, 2 }, "without_replacement"), 21 / 16)

-- ---- Logits, formats, temperature ----------------------------------------------------------------

-- f16 logits 0 and 1 (0x3c00): at temperature 1/2 the odds are e^2; a text in order needs no parents.
local f16 = file_of({ 0, 1 }, nil, nil, { 0, 0x3c00, 0x3c00, 0 }, { 0, 0, 0x3c00, 0 }, "F16", "<I2", "logits")
check.list(f16.parents, { -1, 0 })
check.list(f16.positions, { 0, 1 })
check.near(f16:target(0)[2], 1 / (1 + math.exp(-1)))
check.near(f16:target(0, 0.5)[2], 1 / (1 + math.exp(-2)))
check.near(f16:draft(0)[1], 0.5)
local warm = cop.replay { rows = f16, temperature = 0.5, arms = { arm(A.token {}, T.chain { depth = 1 }) } }.arms[1]
check.equal(warm.exact, 2)
-- sum of min: (1/2 + 1/(1 + e^2)) at row 0, 1 at row 1
check.near(warm.expected_accepted, (0.5 + 1 / (1 + math.exp(2)) + 1) / 2)

-- ---- What was not recorded -----------------------------------------------------------------------

-- A text 0 1 0: below row 0 only the prefix {1} is there, so a chain of 2 that may draft 0 is refused, a
-- chain of 1 is not.
local text = file_of({ 0, 1, 0 }, nil, nil, { 0.25, 0.75, 0.5, 0.5, 0.25, 0.75 }, { 0.5, 0.5, 0.75, 0.25, 0, 1 },
   "F32", "<f", "probabilities")
local two = cop.replay { rows = text, arms = {
   cop.arm { "two", rule = A.token {}, tree = T.chain { depth = 2 } },
   cop.arm { "one", rule = A.token {}, tree = T.chain { depth = 1 } },
} }
check.equal(two.arms[1].refused, 3)
check.equal(two.arms[1].expected_accepted, nil)
check.equal(two.arms[1].cells[1].reason, "no row was recorded after { 0 }")
check.equal(two.arms[2].exact, 3)
check.near(two.arms[2].expected_accepted, (0.75 + 0.75 + 0.75) / 3)
check.equal(two.common, 0)
check.is(tostring(two):find("two: refused at 3 positions: no row was recorded after", 1, true))

-- Temperature 0: what lies beside the target's best path is not needed. Row 0: best 1, the draft's best
-- is 0 (a tie): nothing kept, though {0} was not recorded. Row 1: target's best 0, draft's 0, then row 2:
-- target 1, draft 1: both kept. Row 2: the draft's best 1 is the target's, and {1} was not recorded.
local greedy = cop.replay { rows = text, temperature = 0, arms = { arm(A.match {}, T.chain { depth = 2 }) } }.arms[1]
check.equal(greedy.cells[1].kind, "exact")
check.equal(greedy.cells[1].expected_accepted, 0.0)
check.equal(greedy.cells[2].expected_accepted, 2.0)
check.equal(greedy.cells[3].kind, "refused")

-- A vocabulary too large for enumeration: rows 0 and 1 agree on token 39, the recorded one; after row 2 the
-- draft prefers 0 and the target 1. A chain of 4 from row 0 keeps two.
local last, first = {}, {}
for i = 1, 40 do last[i], first[i] = i == 40 and 1 or 0, i == 1 and 1 or 0 end
local big_p, big_q = table.move(last, 1, 40, 1, {}), table.move(last, 1, 40, 1, {})
table.move(last, 1, 40, 41, big_p)
table.move(last, 1, 40, 41, big_q)
table.move(last, 1, 40, 81, big_p)
table.move(first, 1, 40, 81, big_q)
local big = file_of({ 5, 39, 39 }, nil, nil, big_p, big_q, "F32", "<f", "logits")
local follow = cop.replay { rows = big, temperature = 0, arms = { arm(A.token {}, T.chain { depth = 4 }) } }.arms[1]
check.equal(follow.exact, 3)
check.equal(follow.cells[1].expected_accepted, 2.0)
check.equal(follow.cells[3].expected_accepted, 0.0)
check.near(follow.at_least[1], 2 / 3)
check.near(follow.at_least[2], 1 / 3)

-- The recorded tokens as drafts: at row 0 the draft is 1, kept with min(1, 0.75/0.5), then 0 with 2/3.
local given = cop.replay { rows = text, arms = { arm(A.token {}, nil, "independent") } }
check.near(given.arms[1].cells[1].expected_accepted, 1 + 0.5 / 0.75, 1e-7)
check.near(given.arms[1].cells[2].expected_accepted, 0.5 / 0.75, 1e-7)
check.equal(given.arms[1].cells[3].reason, "no tokens were recorded below it")
check.is(tostring(given):find("only if they were drawn from the draft rows", 1, true))

-- ---- Estimated -----------------------------------------------------------------------------------

-- 400 tokens: target uniform, draft uniform on the upper half: half of the drafts are kept by `token`.
local wide_p, wide_q = {}, {}
for i = 1, 400 do wide_p[i], wide_q[i] = 1 / 400, i > 200 and 1 / 200 or 0 end
local wide = file_of({ 7 }, nil, nil, wide_p, wide_q, "F64", "<d", "probabilities")
local many = cop.replay { rows = wide, samples = 2000, seed = 3, arms = {
   cop.arm { "token", rule = A.token {}, tree = T.chain { depth = 1 } },
   cop.arm { "pairs", rule = A.recursive {}, tree = T.widths { 2 }, draw = "without_replacement" },
} }
local one, pair = many.arms[1], many.arms[2]
check.equal(one.estimated, 1)
check.is(one.low < 0.5 and 0.5 < one.high, "the interval holds the exact value")
check.near(one.high - one.low, 2 * 1.96 * 0.5 / math.sqrt(2000), 1e-3)
check.equal(pair.estimated, 1)
-- after a first refusal the residual lies on the lower half: the second sibling is never kept
check.is(pair.low < 0.5 and 0.5 < pair.high)
check.is(tostring(many):find("interval of the coins", 1, true))

-- ---- Refusals ------------------------------------------------------------------------------------

local function replay(options) -- an error has to name a line of this file
   local result, message, code = cop.replay(options)
   return result, message, code
end

local token_chain = arm(A.token {}, T.chain { depth = 1 })
check.raises("cop.replay: needs exactly one of: rows, run", replay, { arms = { token_chain } })
check.raises("cop.replay: rows must be what cop.rows { path = } returned, got a table", replay,
   { rows = {}, arms = { token_chain } })
check.raises("cop.replay: arms is empty", replay, { rows = toy, arms = {} })
check.raises("cop.replay: arms[1] must be a cop.arm { … }, got a table", replay, { rows = toy, arms = { {} } })
check.raises("cop.replay: two arms are called \"x\"", replay, { rows = toy, arms = { token_chain, token_chain } })
check.raises("cop.replay: arm \"x\": rule is missing", replay,
   { rows = toy, arms = { arm(nil, T.chain { depth = 1 }) } })
check.raises("cop.replay: arm \"x\": needs a tree, or the draw by which the recorded tokens were drawn", replay,
   { rows = toy, arms = { arm(A.token {}) } })
check.raises("cop.replay: arm \"x\": option \"top_k\" cannot be replayed: the recorded rows are what they are",
   replay, { rows = toy, arms = { cop.arm { "x", rule = A.token {}, tree = T.chain { depth = 1 }, top_k = 3 } } })
check.raises_with("say relaxed = true", replay,
   { rows = toy, arms = { arm(A.typical {}, T.chain { depth = 1 }, "independent") } })
check.raises_with("unknown option \"sample\"", replay, { rows = toy, arms = { token_chain }, sample = 3 })
local relaxed = cop.replay { rows = toy, arms = { cop.arm { "loose", relaxed = true, draw = "independent",
   rule = A.lenience { factor = 0.5 }, tree = T.chain { depth = 1 } } } }
check.near(relaxed.arms[1].expected_accepted, 1) -- min(1, (1/3) / (0.5 · 2/3)) = 1 for both tokens

check.raises("cop.replay: arm \"x\": relaxed rules are replayed at temperature 1, for they may read raw logits", replay,
   { rows = toy, temperature = 0, arms = { cop.arm { "x", relaxed = true, rule = A.typical {},
      tree = T.chain { depth = 1 } } } })

check.fails("io", "", cop.rows { path = "no/such/rows.safetensors" })
check.fails("io", "no trace.db", cop.replay { run = "no/such/run", arms = { token_chain } })

local good = {
   { "target.logits", "F32", { 2, 2 }, "<f", { 0, 0, 0, 0 } },
   { "draft.logits", "F32", { 2, 2 }, "<f", { 0, 0, 0, 0 } },
   { "tokens", "I32", { 2 }, "<i4", { 0, 1 } }, { "parents", "I32", { 2 }, "<i4", { -1, 0 } },
}
local function broken(text_of, change)
   local list = {}
   for i, t in ipairs(good) do
      list[i] = table.move(t, 1, 5, 1, {})
   end
   list = change(list) or list
   local path = save(list)
   check.fails("format", text_of, cop.rows { path = path })
   os.remove(path)
end
broken("tensor \"tokens\" is missing", function(t) table.remove(t, 3) end)
broken("needs exactly one of the tensors \"draft.logits\", \"draft.probabilities\"", function(t) table.remove(t, 2) end)
broken("tensor \"tokens\": entry 1 is 2, must be from 0 to 1", function(t) t[3][5] = { 0, 2 } end)
broken("tensor \"parents\": entry 1 is 1, must be from -1 to 0", function(t) t[4][5] = { -1, 1 } end)
broken("tensor \"parents\" must have an entry for each token", function(t)
   t[4][3], t[4][5] = { 1 }, { -1 }
end)
broken("tensor \"draft.logits\" has another vocabulary", function(t)
   t[2][3], t[2][5] = { 2, 3 }, { 0, 0, 0, 0, 0, 0 }
end)
broken("tensor \"target.logits\" must be [rows, vocabulary]", function(t)
   t[1][3], t[1][5] = { 1, 2 }, { 0, 0 }
end)
broken("tensor \"target.logits\" must be F16, BF16, F32 or F64", function(t) t[1][2], t[1][4] = "I32", "<i4" end)
broken("tensor \"tokens\" must be a list of I32 or I64", function(t) t[3][2], t[3][4] = "F32", "<f" end)

local function bad_row(text_of, kind, values)
   local rows = file_of({ 0 }, nil, nil, values, { 1, 0 }, "F32", "<f", kind)
   check.raises_with(text_of, replay, { rows = rows, arms = { token_chain } })
end
bad_row("probabilities sum to 0.75", "probabilities", { 0.5, 0.25 })
bad_row("row 0 of the target: entry of token 1 is -0.5", "probabilities", { 1.5, -0.5 })
bad_row("row 0 of the target: entry of token 0 is", "logits", { 0 / 0, 0 })
bad_row("row 0 of the target has no token", "logits", { -math.huge, -math.huge })
check.is(test ~= nil)
