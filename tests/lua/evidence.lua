--- cop.verify_rows, build_tree, propose_once, philox, process_row.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

-- ---- Philox: known answers of Random123 ---------------------------------------------------------

local all = 0xffffffff
check.list(cop.philox({ 0, 0, 0, 0 }, { 0, 0 }), { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 })
check.list(cop.philox({ all, all, all, all }, { all, all }), { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd })
check.list(cop.philox({ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 }),
   { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 })
check.equal(math.type(cop.philox({ 0, 0, 0, 0 }, { 0, 0 })[1]), "integer")
check.raises("cop.philox: word 2 of the key must be an integer from 0 to 4294967295, got 4294967296", function()
   return cop.philox({ 0, 0, 0, 0 }, { 0, all + 1 })
end)
check.raises("cop.philox: the counter must be a list of 4 integers, got 1", function() return cop.philox({ 0 }, { 0, 0 }) end)
check.raises("cop.philox: the key must be a list of 2 integers, got nothing", function() return cop.philox({ 0, 0, 0, 0 }) end)

-- ---- process_row --------------------------------------------------------------------------------

local logits = { math.log(8), math.log(4), math.log(2), math.log(2), -math.huge }
local function processed(options)
   options.logits = options.logits or logits
   return cop.process_row(options)
end
local function row_is(got, expected)
   check.equal(#got, #expected)
   for i = 1, #expected do
      check.near(got[i], expected[i], 1e-14)
   end
end
row_is(processed {}, { 0.5, 0.25, 0.125, 0.125, 0 })
row_is(processed { temperature = 0.5 }, { 64 / 88, 16 / 88, 4 / 88, 4 / 88, 0 })
row_is(processed { temperature = 0 }, { 1, 0, 0, 0, 0 })
row_is(processed { top_k = 2 }, { 2 / 3, 1 / 3, 0, 0, 0 })
row_is(processed { top_k = 3 }, { 0.5, 0.25, 0.125, 0.125, 0 }) -- ties with the third stay
row_is(processed { top_p = 0.7 }, { 2 / 3, 1 / 3, 0, 0, 0 })
row_is(processed { top_p = 0 }, { 1, 0, 0, 0, 0 }) -- at least one token stays
row_is(processed { min_p = 1 }, { 1, 0, 0, 0, 0 })
row_is(processed { top_k = 100 }, { 0.5, 0.25, 0.125, 0.125, 0 })
check.raises("cop.process_row: logits has an entry 0; a list's first entry, which stands at 1, is token 0", function()
   cop.process_row { logits = { [0] = 1, 2, 3 } }
end)
row_is(processed { min_p = 0.3 }, { 2 / 3, 1 / 3, 0, 0, 0 })
-- the order matters: at temperature 0.5 the best two hold 80/88
row_is(processed { temperature = 0.5, top_p = 0.8 }, { 0.8, 0.2, 0, 0, 0 })
row_is(processed { temperature = 0.5, top_p = 0.8, order = { "top_p", "temperature" } }, { 64 / 84, 16 / 84, 4 / 84, 0, 0 })
row_is(processed { temperature = 0.5, min_p = 0.2, order = { "min_p", "temperature" } }, { 64 / 88, 16 / 88, 4 / 88, 4 / 88, 0 })
row_is(processed { temperature = 0.5, min_p = 0.2 }, { 0.8, 0.2, 0, 0, 0 })
check.raises_with("option \"top_k\" is given, but option \"order\" leaves the step out", processed,
   { top_k = 2, temperature = 0.5, order = { "temperature" } })
check.raises("cop.process_row: unknown step \"topk\"; did you mean \"top_k\"? (known: repetition_penalty, presence_penalty, frequency_penalty, "
   .. "logit_bias, banned, min_tokens, processor, temperature, top_k, top_p, min_p)", function()
   return processed { order = { "topk" } }
end)
check.raises("cop.process_row: option \"order\" names top_k twice", function() return processed { order = { "top_k", "top_k" } } end)
check.fails("numeric", "", cop.process_row { logits = { 0 / 0, 1 } })
check.raises("cop.process_row: option \"logits\" is required: a literal row or a row object", function() return cop.process_row {} end)

-- ---- verify_rows --------------------------------------------------------------------------------

local target, draft = { 0.25, 0.75 }, { 0.5, 0.5 }
local function verified(options)
   options.rule = options.rule or cop.accept.token {}
   options.tree = options.tree or { tokens = { 0, 1 } }
   options.target = options.target or { target, target, target }
   options.draft = options.draft or { draft, draft }
   return cop.verify_rows(options)
end
-- node 1 (token 0) is kept below 1/2, node 2 (token 1) always; then the last coin picks from the target
local kept = verified { coins = { 0.4, 0.9, 0.2 } }
check.equal(kept.accepted, 2)
check.list(kept.tokens, { 0, 1, 0 })
check.list(kept.nodes, { 1, 2 })
check.equal(kept.origin, "bonus")
check.list(verified({ coins = { 0.4, 0.9, 0.3 } }).tokens, { 0, 1, 1 })
local refused = verified { coins = { 0.5, 0.3 } }
check.equal(refused.accepted, 0)
check.list(refused.tokens, { 1 })
check.equal(refused.origin, "recovered")
check.list(verified({ coins = { 0.4, 0.9 }, pick = "argmax" }).tokens, { 0, 1, 1 })
check.list(verified({ seed = 3 }).tokens, verified({ seed = 3 }).tokens)
check.raises_with("the rule asks for more coins than the 1 given", function() return verified { coins = { 0.4 } } end)
check.raises("cop.verify_rows: coin 1 must be a number in [0, 1), got 1", function() return verified { coins = { 1 } } end)
check.raises("cop.verify_rows: needs exactly one of: coins, seed", function() return verified {} end)
check.raises("cop.verify_rows: target row of node 2 is missing: a row for each of the nodes 0 to 2", function()
   return verified { coins = { 0.1 }, target = { target, target } }
end)
check.raises_with("cop.verify_rows: tree: option \"tokens\"", function() return verified { coins = { 0.1 }, tree = { tokens = { 2, 0 } } } end)
check.raises("cop.verify_rows: tree: parent of node 1 is 1, must be from 0 to 0", function()
   return verified { coins = { 0.1 }, tree = { tokens = { 0, 1 }, parents = { 1, 0 } } }
end)
check.raises_with("cop.verify_rows: tree: unknown option \"token\"", function() return verified { seed = 1, tree = { token = {} } } end)
-- logits in place of laws
local ln = { math.log(0.25), math.log(0.75) }
check.list(cop.verify_rows({ rule = cop.accept.token {}, tree = { tokens = { 0, 1 } }, logits = { ln, ln, ln }, draft = { draft, draft },
   coins = { 0.4, 0.9, 0.2 } }).tokens, { 0, 1, 0 })
check.list(cop.verify_rows({ rule = cop.accept.token {}, tree = { tokens = { 0, 1 } },
   logits = { target = { ln, ln, ln }, draft = { { 0, 0 }, { 0, 0 } } }, coins = { 0.4, 0.9, 0.2 } }).tokens, { 0, 1, 0 })
check.raises("cop.verify_rows: target is given twice: as laws and as logits", function()
   return verified { coins = { 0.1 }, logits = { ln, ln, ln } }
end)
-- the exact law for these tokens: kept 0 with 1/2 then kept 1 always
local law = verified { enumerate = true }
check.near(law.accepted[0], 0.5)
check.near(law.accepted[2], 0.5)
check.near(law.expected_accepted, 1)
check.raises("cop.verify_rows: enumerate = true needs no coins, seed or pick", function() return verified { enumerate = true, seed = 1 } end)

-- coins belong to nodes: a test that comes late takes its own node's coin, the last token one past the nodes'
local function tests_node(asked)
   return cop.accept.custom { name = "asks", verify = function(tree, t, _, draws)
      local accepted = {}
      for _, node in ipairs(asked) do
         if draws:flip("accept", node, 0.5) and tree:parent(node) == (accepted[#accepted] or 0) then
            accepted[#accepted + 1] = node
         end
      end
      return accepted, draws:pick("last", 0, t(0))
   end }
end
local tree = { tokens = { 0, 1, 0, 1 }, parents = { 0, 0, 2, 2 } }
local rows = { target, target, target, target, target }
local function asked(order, coins, more)
   local options = { rule = tests_node(order), tree = tree, target = rows, draft = { draft, nil, draft }, coins = coins }
   for key, value in pairs(more or {}) do
      options[key] = value
   end
   return cop.verify_rows(options)
end
check.list(asked({ 2, 4 }, { 0.9, 0.1, 0.9, 0.1, 0.2 }).nodes, { 2, 4 })
check.list(asked({ 2, 4 }, { 0.9, 0.1, 0.9, 0.1, 0.2 }).tokens, { 1, 1, 0 })
check.list(asked({ 2, 4 }, { 0.9, 0.1, 0.9, 0.1, 0.3 }).tokens, { 1, 1, 1 })
check.list(asked({ 2, 3 }, { 0.1, 0.1, 0.9, 0.1, 0.2 }).nodes, { 2 })
check.list(asked({ 2 }, { 0.9, 0.1, 0.2 }).tokens, { 1, 0 }, "no coin past the nodes: the next one")
check.list(asked({ 2 }, { 0.9, 0.1 }, { pick = 0.2 }).tokens, { 1, 0 })
check.list(asked({ 2 }, { 0.9, 0.1 }, { pick = 0.3 }).tokens, { 1, 1 })
check.list(asked({ 2 }, { 0.9, 0.1 }, { pick = "argmax" }).tokens, { 1, 1 })
check.raises_with("the rule asks for more coins than the 1 given", asked, { 2 }, { 0.1 })
check.raises_with("option \"pick\" must be \"argmax\" or a number in [0, 1), got 1", asked, { 2 }, { 0.9, 0.1 }, { pick = 1 })
check.raises_with("option \"pick\" goes with coins, a seed has its own", function() return verified { seed = 1, pick = "argmax" } end)
-- sample_match draws at each node from the start
check.list(cop.verify_rows({ rule = cop.accept.sample_match {}, tree = tree, target = rows, coins = { 0.3, 0.2, 0.9 } }).tokens, { 1, 0, 1 })

-- seeds agree with the exact law, on merged trees and with several drafters too
local function agrees(options)
   options.enumerate = true
   local exact = cop.verify_rows(options)
   local expected, counts, n = {}, {}, 4000
   for _, outcome in ipairs(exact.outcomes) do
      expected[table.concat(outcome.tokens, " ")] = outcome.probability
   end
   options.enumerate = nil
   for seed = 1, n do
      options.seed = seed
      local key = table.concat(cop.verify_rows(options).tokens, " ")
      counts[key] = (counts[key] or 0) + 1
   end
   for key, count in pairs(counts) do
      local p = expected[key]
      check.is(p, key .. " is no outcome of the exact law")
      check.is(math.abs(count - n * p) < 5 * math.sqrt(n * p), key)
   end
   for key, p in pairs(expected) do
      check.is(counts[key] or p * n < 20, key)
   end
   return exact
end
local three = { { 0.5, 0.3, 0.2 }, { 0.2, 0.2, 0.6 }, { 0.1, 0.8, 0.1 }, { 0.3, 0.3, 0.4 } }
local q = { { 0.2, 0.3, 0.5 }, { 0.6, 0.2, 0.2 } }
agrees { rule = cop.accept.token {}, tree = { tokens = { 2, 0 } }, target = { three[1], three[2], three[3] }, draft = q }
agrees { rule = cop.accept.recursive {}, draw = "without_replacement", target = three, draft = q,
   tree = { tokens = { 2, 1, 0 }, parents = { 0, 0, 1 } } }
agrees { rule = cop.accept.recursive {}, target = three, draft = q,
   tree = { tokens = { 2, 1, 0 }, parents = { 0, 0, 1 }, merged = true, multiplicity = { 2, 1, 2 } } }
local mixed = agrees { rule = cop.accept.recursive {}, target = { three[1], three[2], three[3] },
   drafts = { { { 0, 0, 1 } }, { { 0, 1, 0 } } }, tree = { tokens = { 2, 1 }, parents = { 0, 0 } } }
-- token 2 is kept with .2; the rest (5/8, 3/8, 0) keeps token 1 with 3/8
check.near(mixed.accepted[1], 0.2 + 0.8 * 3 / 8)
-- rules without need of rows get none; rows given as logits show them
check.near(cop.verify_rows({ rule = cop.accept.sample_match {}, tree = { tokens = { 1 } }, target = { target, target },
   enumerate = true }).expected_accepted, 0.75)
local raw = cop.verify_rows { tree = { tokens = { 1 } }, logits = { ln, ln }, enumerate = true,
   rule = cop.accept.custom { name = "raw", verify = function(_, t, d) return {}, (not d(0) and t:logits(0)[1] < 0) and 1 or 0 end } }
check.list(raw.outcomes[1].tokens, { 1 })
check.raises("cop.verify_rows: tree: nodes 1 and 2 are equal siblings in a merged tree", function()
   return verified { seed = 1, tree = { tokens = { 1, 1 }, parents = { 0, 0 }, merged = true } }
end)
local twins = { tokens = { 1, 1 }, parents = { 0, 0 } }
for _, draw in ipairs { "without_replacement", "greedy_draw", "hub_pair", "beam", "selected" } do
   local text = "tree: nodes 1 and 2 are equal siblings, which draw = \"" .. draw .. "\" never gives; draw = \"independent\" does"
   check.raises("cop.verify_rows: " .. text, function()
      return cop.verify_rows { rule = cop.accept.sample_match {}, draw = draw, tree = twins, seed = 1,
                               target = { { .5, .5 }, { .5, .5 }, { .5, .5 } } }
   end)
   check.raises("cop.exact_law: " .. text, function()
      return cop.exact_law { rule = cop.accept.sample_match {}, draw = draw, tree = twins, target = { .5, .5 }, draft = { .5, .5 } }
   end)
end
check.raises("cop.verify_rows: tree: option \"multiplicity\" needs merged = true", function()
   return verified { seed = 1, tree = { tokens = { 1, 0 }, multiplicity = { 1, 1 } } }
end)
check.raises("cop.verify_rows: tree: 1 paths through node 1, but 2 through its children", function()
   return verified { seed = 1, tree = { tokens = { 1, 0 }, merged = true, multiplicity = { 1, 2 } } }
end)

-- ---- build_tree ---------------------------------------------------------------------------------

local sketch = cop.build_tree { tree = cop.tree.widths { 2, 1 } }
check.list(sketch.parents, { 0, 0, 1, 2 })
check.list(sketch.ranks, { 1, 2, 1, 1 })
check.equal(sketch.tokens, nil)
check.list(cop.build_tree({ tree = cop.tree.chain { depth = 3 } }).parents, { 0, 1, 2 })
local laws = function(prefix) return prefix[1] == 0 and { 0.1, 0.2, 0.7 } or { 0.5, 0.3, 0.2 } end
local built = cop.build_tree { tree = cop.tree.widths { 2, 2 }, rows = laws }
check.list(built.tokens, { 0, 1, 2, 1, 0, 1 })
check.list(built.parents, { 0, 0, 1, 1, 2, 2 })
check.near(built.probabilities[3], 0.7)
check.list(cop.build_tree({ tree = cop.tree.paths { { 1 }, { 2 }, { 2, 1 } }, rows = laws }).tokens, { 0, 1, 0 })
local drawn = cop.build_tree { tree = cop.tree.widths { 3 }, rows = { 0.5, 0.3, 0.2 }, draw = "without_replacement", seed = 7 }
table.sort(drawn.tokens)
check.list(drawn.tokens, { 0, 1, 2 })
-- a wider count keeps the narrower one's paths
local narrow = cop.build_tree { tree = cop.tree.independent_paths { count = 2, depth = 2 }, rows = { 0.5, 0.3, 0.2 }, seed = 7 }
local wide = cop.build_tree { tree = cop.tree.independent_paths { count = 9, depth = 2 }, rows = { 0.5, 0.3, 0.2 }, seed = 7 }
local function paths(drawing)
   local list, of, sum = {}, {}, 0
   for i, parent in ipairs(drawing.parents) do
      of[i] = (parent == 0 and "" or of[parent] .. " ") .. drawing.tokens[i]
      list[of[i]] = drawing.multiplicity[i]
      sum = sum + (parent == 0 and drawing.multiplicity[i] or 0)
   end
   return list, sum
end
local few, two = paths(narrow)
local many, nine = paths(wide)
check.equal(two, 2)
check.equal(nine, 9)
for path, count in pairs(few) do
   check.is(many[path] >= count, path)
end
check.equal(wide.tokens[1], narrow.tokens[1])
check.raises_with("cop.build_tree: cop.tree.chain cannot pick children by draw = \"beam\"", function()
   return cop.build_tree { tree = cop.tree.chain {}, rows = laws, draw = "beam" }
end)
check.raises("cop.build_tree: option \"tree\" is required: a tree builder (cop.tree.…)", function() return cop.build_tree {} end)
check.raises_with("tests/lua/evidence.lua:", function()
   return cop.build_tree { tree = cop.tree.chain { depth = 3 }, rows = function(prefix) return #prefix < 2 and laws(prefix) or error("boom") end }
end)

-- ---- propose_once -------------------------------------------------------------------------------

local function lookup(context, tokens, options)
   options = options or {}
   options.tokens = tokens
   return cop.propose_once({ proposer = cop.propose.lookup(options), context = context }).tokens
end
local text = { 5, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2 }
check.list(lookup(text, 3, { variant = "original", max_ngram = 3 }), { 3, 9, 1 })
check.list(lookup(text, 10, { variant = "original", max_ngram = 3 }), {})
check.list(lookup(text, 10, { variant = "hf", max_ngram = 2 }), { 3, 9, 1, 2, 4, 7, 1, 2 })
check.list(lookup(text, 3, { variant = "vllm", min_ngram = 1, max_ngram = 3 }), { 3, 9, 1 })
check.list(lookup({ 1, 2, 3, 4, 2, 3 }, 3, { variant = "hf", max_ngram = 3 }), { 4, 2, 3 })
check.list(lookup({ 1, 2, 3 }, 5), {})
local function match(context, options)
   return cop.propose_once({ proposer = cop.propose.lookup(options), context = context }).match
end
for _, variant in ipairs { "original", "hf", "vllm" } do
   check.equal(match(text, { variant = variant, tokens = 2, max_ngram = 3 }), 2, variant)
   check.equal(match({ 1, 2, 3, 9, 1, 2, 3 }, { variant = variant, tokens = 2, max_ngram = 3 }), 3, variant)
   check.equal(match({ 1, 2, 3, 9, 1, 2, 3 }, { variant = variant, tokens = 2, max_ngram = 1 }), 1, variant)
   check.equal(match({ 1, 2, 3 }, { variant = variant, tokens = 2 }), 0, variant)
end
check.equal(cop.propose_once({ proposer = cop.propose.lookup {}, context = text }).probabilities, nil, "points have none")

local function cache(context, tokens, static)
   return cop.propose_once({ proposer = cop.propose.ngram_cache { tokens = tokens, static = static }, context = context }).tokens
end
check.list(cache({ 7, 8, 9, 7, 8, 9, 7 }, 8), { 8, 9, 7, 8, 9, 7, 8, 9 })
check.list(cache({ 7, 8, 9, 7, 8 }, 4, { { 5, 7, 8, 3, 7, 8, 3, 7, 8, 4 } }), { 3, 7, 8, 3 })
check.list(cache({ 7, 8 }, 4, { {}, { 5, 7, 8 } }), {})
local sam = cop.propose_once { proposer = cop.propose.suffix_automaton { tokens = 3 }, context = { 1, 2, 3, 4, 1, 2, 3 } }
check.list(sam.tokens, { 4, 1, 2 })
check.equal(sam.match, 3)
local tree_a = { { 1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 4, 6 } }
local function suffix(options)
   options.history, options.max_tokens = tree_a, 8
   return cop.propose_once { proposer = cop.propose.suffix_tree(options), context = { 9, 1, 2, 3 } }
end
local path = suffix {}
check.list(path.tokens, { 4, 1, 2 })
check.near(path.probabilities[1], 2 / 3, 1e-12)
check.near(path.scores[3], 1 / 3, 1e-12)
check.near(path.expected_accepted, 4 / 3, 1e-12)
check.equal(path.match, 3)
local bushy = suffix { shape = "tree", factor = 2 }
check.list(bushy.tokens, { 4, 5, 1, 6, 1, 2 })
check.list(bushy.parents, { 0, 0, 1, 1, 2, 3 })
check.equal(suffix({ min_probability = 0.7 }).match, 3)
local function recycled(shape)
   return #cop.propose_once({ proposer = cop.propose.recycling {}, context = { 1 }, tree = shape }).tokens
end
check.equal(recycled(), 80, "the published tree")
check.equal(recycled(cop.tree.chain { depth = 3 }), 3)
check.raises("cop.propose.suffix_tree: option \"history\": token 2 of list 1 is id 50, which is outside the vocabulary of 10", function()
   local proposer = cop.propose.suffix_tree { history = { { 1, 50 } } }
   return cop.propose_once { proposer = proposer, context = { 1 }, vocab_size = 10 }
end)

local m = cop.model { path = test.tiny { seed = 7 }, threads = 1, precision = "f32" }
local once = cop.propose_once { proposer = cop.propose.model { m }, context = { 1, 2, 3 }, tree = cop.tree.chain { depth = 3 } }
local plain = cop.generate { model = m, tokens = { 1, 2, 3 }, max_tokens = 3, ignore_eos = true }
check.list(once.tokens, plain.tokens)
check.equal(once.match, nil, "no lookup")
check.list(once.parents, { 0, 1, 2 })
local row = m:score({ context = { 1, 2, 3 } })[0]
check.near(once.probabilities[1], math.exp(row[once.tokens[1]] - row:logsumexp()), 1e-6)
check.list(cop.propose_once({ proposer = cop.propose.model { m }, context = { 1, 2, 3 }, model = m }).tokens,
   cop.propose_once({ proposer = cop.propose.model { m }, context = { 1, 2, 3 } }).tokens)
check.raises("cop.propose_once: token id 1 of the list must be an integer from 0 to 60, got 61", function()
   return cop.propose_once { proposer = cop.propose.model { m }, context = { 61 } }
end)
-- Where nothing says how many ids there are, a proposer of a script may draft any; of several drafters the largest
-- vocabulary counts.
local function points(ids)
   return cop.propose.custom { name = "points", rows = "points", expand = function(_, nodes)
      local list = {}
      for i = 1, #nodes do
         list[i] = ids
      end
      return list
   end }
end
check.list(cop.propose_once({ proposer = points { 70000, 6 }, context = { 1 }, tree = cop.tree.widths { 2, 1 } }).tokens,
   { 70000, 6, 70000, 70000 })
check.list(cop.propose_once({ proposer = cop.propose.mixture { points { 5 }, cop.propose.model { m } }, context = { 1, 2 },
   tree = cop.tree.widths { 2 } }).tokens, { 5,
   cop.propose_once({ proposer = cop.propose.model { m }, context = { 1, 2 }, tree = cop.tree.chain { depth = 1 } }).tokens[1] })
check.list(cop.propose_once({ proposer = cop.propose.custom { name = "rows", rows = "dense", expand = function()
   return { { 0.1, 0.2, 0.3, 0.4 } }
end }, context = { 1 }, tree = cop.tree.chain { depth = 1 } }).tokens, { 3 })
check.raises_with("row 1 of expand: token id 1 must be an integer from 0 to 3, got 5", function()
   cop.propose_once { proposer = points { 5 }, context = { 1 }, vocab_size = 4 }
end)
check.raises_with("row 1 of expand: a token id must be an integer from 0 to 3, got 5", function()
   cop.propose_once { proposer = cop.propose.custom { name = "s", rows = "sparse", expand = function()
      return { { [5] = 1 } }
   end }, context = { 1 }, vocab_size = 4 }
end)
check.raises("cop.propose_once: the context needs at least one token", function()
   return cop.propose_once { proposer = cop.propose.lookup {}, context = {} }
end)
check.raises("cop.propose_once: the proposer supplies points without probabilities: draw must be \"deterministic\"", function()
   return cop.propose_once { proposer = cop.propose.lookup {}, context = text, draw = "independent" }
end)
check.raises("cop.propose_once: token id 2 of the list must be an integer from 0 to 60, got 99", function()
   return cop.propose_once { proposer = cop.propose.lookup {}, context = { 1, 99 }, model = m }
end)
local dice = { proposer = cop.propose.model { m }, context = { 1, 2, 3 }, draw = "independent", tree = cop.tree.widths { 4 }, seed = 5 }
check.list(cop.propose_once(dice).tokens, cop.propose_once(dice).tokens)
