--- cop.accept.custom: a rule in Lua, through the proof and through the engine.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

-- The token rule, written as a script would.
local function residual(target, draft)
   local weights = {}
   for id = 0, #target - 1 do
      weights[id] = math.max(0, target[id] - draft[id])
   end
   return weights
end
local function token_rule(change)
   return cop.accept.custom {
      name = "mine",
      lossless_for = { { draw = "independent", shape = "chain" } },
      verify = change or function(tree, target, draft, draws)
         local accepted, node = {}, 0
         while tree:children(node)[1] do
            local child = tree:children(node)[1]
            local id = tree:token(child)
            local t, d = target(node), draft(node)
            if not draws:flip("accept", child, t[id] / d[id]) then
               return accepted, draws:pick("recover", node, residual(t, d))
            end
            accepted[#accepted + 1] = child
            node = child
         end
         return accepted, draws:pick("bonus", node, target(node))
      end,
   }
end
local mine = token_rule()
check.equal(tostring(mine), "cop.accept.custom { name = \"mine\" }")
check.equal(mine.name, "mine")
check.equal(mine.kind, "accept")

local function target(prefix) return #prefix % 2 == 0 and { 0.2, 0.5, 0.3 } or { 0, 0.4, 0.6 } end
local function draft(prefix) return #prefix % 2 == 0 and { 0.5, 0.25, 0.25 } or { 0.5, 0.5, 0 } end
local case = { draw = "independent", widths = { 1, 1 }, target = target, draft = draft }
local function law_of(rule, more)
   local o = { rule = rule }
   for _, source in ipairs { case, more or {} } do
      for key, value in pairs(source) do
         o[key] = value
      end
   end
   return cop.exact_law(o)
end
local ours, theirs = law_of(mine), law_of(cop.accept.token {})
check.near(ours.total_variation, 0)
check.near(ours.expected_accepted, theirs.expected_accepted)
check.equal(#ours.outcomes, #theirs.outcomes)
for i, outcome in ipairs(ours.outcomes) do
   check.list(outcome.tokens, theirs.outcomes[i].tokens)
   check.equal(outcome.accepted, theirs.outcomes[i].accepted)
   check.near(outcome.probability, theirs.outcomes[i].probability)
end

-- The same with row:minus, which leaves the work to C.
local quick = law_of(token_rule(function(tree, t, d, draws)
   local accepted, node = {}, 0
   for child = 1, tree.size do
      if not draws:flip("accept", child, t(node)[tree:token(child)] / d(node)[tree:token(child)]) then
         check.near(t(node):minus(d(node)):sum(), node == 0 and 0.3 or 0.6)
         return accepted, draws:pick("recover", node, t(node):minus(d(node)))
      end
      accepted[#accepted + 1], node = child, child
   end
   return accepted, draws:pick("bonus", node, t(node))
end))
check.near(quick.total_variation, 0)
check.near(quick.expected_accepted, theirs.expected_accepted)

-- A rule that draws from the target after a rejection is seen through.
local wrong = law_of(token_rule(function(tree, t, d, draws)
   local child = tree:children(0)[1]
   local id = tree:token(child)
   if draws:flip("accept", child, t(0)[id] / d(0)[id]) then
      return { child }, draws:pick("bonus", child, t(child))
   end
   return {}, draws:pick("recover", 0, t(0))
end), { widths = { 1 } })
check.is(wrong.total_variation > 0.01)

-- What it does not claim is refused, and taken by relaxed_law.
check.raises_with("relaxed", function() return law_of(mine, { widths = { 2 } }) end)
check.is(cop.relaxed_law { rule = mine, draw = "independent", widths = { 1 }, target = { 0.5, 0.5 }, draft = { 1, 0 } })

-- The tree, rows and draws that a rule sees.
local seen = {}
local spy = cop.accept.custom {
   name = "spy",
   lossless_for = { "independent", { draw = "without_replacement", shape = "tree", temperature = "any" }, "any" },
   verify = function(tree, t, d, draws)
      seen = { tree = tree, target = t, draft = d, draws = draws, row = t(0) }
      seen.size, seen.length, seen.merged, seen.drawn = tree.size, #tree, tree.merged, tree.drawn
      seen.children, seen.parent, seen.depth = tree:children(0), tree:parent(3), tree:depth(3)
      seen.root_parent = tree:parent(0)
      seen.leaf = d(3)
      seen.second = d(0, 2)
      seen.third = d(0, 3)
      seen.values = { t(0)[0], t(0)[1], d(0)[0], d(1)[1], #t(0), t(0)[2] }
      seen.logits = { t:logits(0)[0], t:logits(0):top(1)[1].id, t:logits(0):logsumexp(), d:logits(0)[1] }
      seen.top = t(0):top(2)
      return {}, draws:pick("last", 0, t(0))
   end,
}
local law = cop.relaxed_law {
   rule = spy, draw = "independent", tree = { tokens = { 0, 1, 0 }, parents = { 0, 0, 1 } },
   target = { 0.25, 0.75 }, draft = { 0.5, 0.5 },
}
check.near(law.total_variation, 0)
check.equal(seen.size, 3)
check.equal(seen.length, 3)
check.equal(seen.merged, false)
check.equal(seen.drawn, "independent")
check.list(seen.children, { 1, 2 })
check.equal(seen.parent, 1)
check.equal(seen.depth, 2)
check.equal(seen.root_parent, nil)
check.equal(seen.leaf, nil, "no row below a leaf")
check.is(seen.second)
check.equal(seen.third, nil)
check.list(seen.values, { 0.25, 0.75, 0.5, 0.5, 2 })
check.near(seen.logits[1], math.log(0.25), 1e-15, "a literal row's logits are its logarithms")
check.equal(seen.logits[2], 1)
check.equal(seen.logits[3], 0.0)
check.near(seen.logits[4], math.log(0.5), 1e-15)
check.equal(seen.top[1].id, 1)
check.near(seen.top[1].probability, 0.75)

-- Afterwards they are dead.
check.raises_with("this tree was valid only until the function that received it returned", function() return seen.tree.size end)
check.raises_with("this row was valid only until", function() return seen.row[0] end)
check.raises_with("these rows were valid only until", function() return seen.target(0) end)
check.raises_with("these rows were valid only until", function() return seen.draft(0) end)
check.raises_with("these draws were valid only until", function() return seen.draws:flip("x", 0, 0.5) end)
check.equal(tostring(seen.row), "row (no longer valid)")
check.equal(tostring(seen.tree), "tree (no longer valid)")

-- Every wrong answer and question has its message.
local function broken(text, verify, more)
   local o = { rule = cop.accept.custom { name = "bad", verify = verify }, widths = { 2, 1 }, draw = "independent",
      target = { 0.5, 0.5 }, draft = { 0.5, 0.5 } }
   for key, value in pairs(more or {}) do
      o[key] = value
   end
   local ok, message = pcall(cop.relaxed_law, o)
   check.equal(ok, false)
   local rest = message:match("^cop%.accept%.custom \"bad\": (.*)$")
   check.is(rest, message)
   check.is(rest:sub(1, #text) == text or rest:gsub("^tests/lua/custom_rule%.lua:%d+: ", ""):sub(1, #text) == text, message)
end
broken("verify must return a list of nodes and the last token; the first value is nothing", function() end)
broken("verify must return a list of nodes and the last token; the first value is 3", function() return 3 end)
broken("accepted node 1 of verify's list is 9; this tree's nodes are 1 to 4", function() return { 9 }, 0 end)
broken("accepted node 1 of verify's list is 0; this tree's nodes are 1 to 4", function() return { 0 }, 0 end)
broken("accepted node 1 of verify's list is \"1\"; this tree's nodes are 1 to 4", function() return { "1" }, 0 end)
broken("node 1 is twice in verify's list", function() return { 1, 1 }, 0 end)
broken("verify's first value is no list: it has holes, or keys that are not 1, 2, ...", function() return { a = 1 }, 0 end)
broken("verify's first value is no list: it has holes, or keys that are not 1, 2, ...", function() return { [0] = 1 }, 0 end)
broken("node 1 is twice in verify's list", function() return { 1, 3, 1 }, 0 end)
broken("verify's list is no path: the parent of node 2 is 0, not 1", function() return { 1, 2 }, 0 end)
broken("verify's list is no path: the parent of node 3 is 1, not 0", function() return { 3 }, 0 end)
broken("verify must return the last token as its second value, an id from 0 to 1; got nothing", function() return {} end)
broken("verify must return the last token as its second value, an id from 0 to 1; got 2", function() return {}, 2 end)
broken("verify must return the last token as its second value, an id from 0 to 1; got 0.5", function() return {}, 0.5 end)
broken("tests/lua/custom_rule.lua:", function() error("boom") end)
broken("tests/lua/custom_rule.lua:", function() return nil + 1 end)
broken("a node of this tree must be an integer from 0 to 4, got 5", function(tree) return tree:token(5) end)
broken("target(5): the tree has nodes 0 to 4", function(_, t) return t(5) end)
broken("draws: the purpose must be a string, got 5", function(_, _, _, draws) draws:flip(5, 0, 0.5) end)
broken("draws:flip: the probability must be a number, got nothing", function(_, _, _, draws) draws:flip("x", 0) end)
broken("draws:pick: the weight of token 1 must be a number of at least 0, got -1", function(_, _, _, draws)
   draws:pick("x", 0, { [0] = 1, [1] = -1 })
end)
broken("draws:pick: a token id must be an integer from 0 to 1, got 2", function(_, _, _, draws) draws:pick("x", 0, { [2] = 1 }) end)
broken("draws: ", function(_, _, _, draws) draws:pick("x", 0, { [0] = 0 }) end)
broken("draws: ", function(_, _, _, draws)
   draws:flip("x", 0, 0.5)
   draws:flip("x", 0, 0.5) -- the same question twice
end)
broken("row:minus: needs two rows of a rule, of one vocabulary; got nothing", function(_, t) return t(0):minus() end)
broken("draws:pick: the weights must be a row, row:minus(other) or a table id -> weight; got 5", function(_, _, _, draws)
   draws:pick("x", 0, 5)
end)
broken("draws:race: the number of ids must be an integer from 1 to 2, got 0", function(_, t, _, draws) draws:race("x", 0, t(0), 0) end)
broken("attempt to yield from outside a coroutine", function() coroutine.yield() end)

-- The same from verify_rows and in an answer; in a run the request fails (tests/lua/run/experiment.lua).
for text, verify in pairs {
   ["node 1 is twice in verify's list"] = function() return { 1, 1 }, 0 end,
   ["verify's list is no path: the parent of node 2 is 1, not 0"] = function() return { 2 }, 0 end,
   ["got 2"] = function() return {}, 2 end,
   ["the first value is nothing"] = function() end,
   ["no verdict"] = function() error("no verdict") end,
   ["ended with token 1, to which the target gives no probability after node 0"] = function() return {}, 1 end,
} do
   for _, more in ipairs { { coins = { 0.1, 0.1, 0.1 } }, { seed = 1 }, { enumerate = true } } do
      more.rule = cop.accept.custom { name = "bad", verify = verify }
      more.tree, more.target, more.draft = { tokens = { 0, 0 } }, { { 1, 0 }, { 1, 0 }, { 1, 0 } }, { { 1, 0 }, { 1, 0 } }
      local ok, message = pcall(cop.verify_rows, more)
      check.equal(ok, false)
      check.is(message:find("bad", 1, true) and message:find(text, 1, true), message)
   end
end

-- Races, and weights by token id, are exact.
local race = cop.relaxed_law {
   rule = cop.accept.custom { name = "race", verify = function(_, t, _, draws) return {}, draws:race("r", 0, t(0), 2)[2] end },
   draw = "independent", widths = { 1 }, target = { 0.2, 0.3, 0.5 }, draft = { 1, 0, 0 },
}
check.near(race.position[1][1], 0.3 * 0.2 / 0.7 + 0.5 * 0.2 / 0.5)
local weighted = cop.relaxed_law {
   rule = cop.accept.custom { name = "w", verify = function(_, _, _, draws) return {}, draws:pick("p", 0, { [0] = 3, [2] = 1 }) end },
   draw = "independent", widths = { 1 }, target = { 0.2, 0.3, 0.5 }, draft = { 1, 0, 0 },
}
check.near(weighted.position[1][1], 0.75)
check.near(weighted.position[1][3], 0.25)

-- Shared noise: the draft races with the runners that draws:race("shared", node, …) has for the token after the node.
local coupled = {
   name = "coupled", lossless_for = { { draw = "independent", shape = "chain" } }, shares_noise = true,
   verify = function(tree, t, _, draws)
      local accepted, node = {}, 0
      while true do
         local last, found = draws:race("shared", node, t(node), 1)[1], nil
         for _, child in ipairs(tree:children(node)) do
            found = tree:token(child) == last and child or found
         end
         if not found then
            return accepted, last
         end
         accepted[#accepted + 1] = found
         node = found
      end
   end,
}
local together = { rule = cop.accept.custom(coupled), widths = { 1, 1 }, target = { 0.5, 0.3, 0.2 }, draft = { 0.2, 0.3, 0.5 } }
local met = cop.exact_law(together)
check.near(met.expected_accepted, 41 / 65 + (41 / 65) ^ 2)
check.near(met.total_variation, 0)
coupled.shares_noise = false
together.rule = cop.accept.custom(coupled)
check.near(cop.exact_law(together).expected_accepted, 0.29 + 0.29 ^ 2)

-- State is carried per sequence, from cycle to cycle, and starts anew with each branch.
local counts = {}
local counting = cop.accept.custom {
   name = "counting", lossless_for = { "any" }, state = { calls = 0, weight = 0.5, [7] = 1 },
   verify = function(_, t, _, draws, state)
      counts[#counts + 1] = state.calls
      check.equal(math.type(state.calls), "integer")
      check.equal(state.weight, 0.5 + state.calls)
      check.equal(state[7], 1)
      state.calls = state.calls + 1
      state.weight = state.weight + 1
      return {}, draws:pick("last", 0, t(0))
   end,
}
cop.exact_law {
   rule = counting, draw = "independent", widths = { 1 }, target = { 0, 1 }, draft = { 1, 0 }, horizon = 3,
}
check.list(counts, { 0, 1, 2 })
for text, change in pairs {
   ["state.a must stay a number, got nothing"] = function(state) state.a = nil end,
   ["state.a must stay a number, got \"x\""] = function(state) state.a = "x" end,
   ["state has 2 keys, began with 1: name all of them in the constructor"] = function(state) state.b = 1 end,
} do
   check.raises_with(text, function()
      return cop.relaxed_law {
         rule = cop.accept.custom { name = "s", state = { a = 1 }, verify = function(_, _, _, _, state)
            change(state)
            return {}, 0
         end },
         draw = "independent", widths = { 1 }, target = { 1, 0 }, draft = { 1, 0 },
      }
   end)
end

-- Constructors.
local function refuses(text, options)
   check.raises("cop.accept.custom: " .. text, function() return cop.accept.custom(options) end)
end
local function nothing() end
refuses("option \"verify\" is required: a function", { name = "x" })
refuses("option \"name\" is required: a string", { verify = nothing })
refuses("option \"name\" must not be empty", { name = "", verify = nothing })
refuses("option \"verify\" must be a function, got 5", { name = "x", verify = 5 })
refuses("lossless_for: unknown draw \"independant\"; did you mean \"independent\"? (known: independent, without_replacement, "
   .. "deterministic, greedy_draw, hub_pair, beam, selected)", { name = "x", verify = nothing, lossless_for = { "independant" } })
refuses("lossless_for: unknown shape \"trees\"; did you mean \"tree\"? (known: chain, paths, tree)",
   { name = "x", verify = nothing, lossless_for = { { draw = "independent", shape = "trees" } } })
refuses("lossless_for: unknown key \"drawn\"; did you mean \"draw\"? (known: draw, shape, temperature)",
   { name = "x", verify = nothing, lossless_for = { { drawn = "independent" } } })
refuses("lossless_for: unknown temperature \"cold\" (known: any, zero)",
   { name = "x", verify = nothing, lossless_for = { { draw = "independent", temperature = "cold" } } })
refuses("lossless_for: an entry must be a draw or a table, got 1", { name = "x", verify = nothing, lossless_for = { 1 } })
refuses("state: values must be numbers, got \"x\"", { name = "x", verify = nothing, state = { a = "x" } })
refuses("state: keys must be names or integers, got 1.5", { name = "x", verify = nothing, state = { [1.5] = 1 } })

-- In the engine: the same tokens as the rule in C with the same purposes, and as plain at temperature 0.
local m = cop.model { path = test.tiny { seed = 7 }, threads = 1, precision = "f32" }
local other = cop.model { path = test.tiny { seed = 7, noise = 0.1, noise_seed = 1 }, threads = 1, precision = "f32" }
local plain = cop.generate { model = m, tokens = { 1, 2, 3 }, max_tokens = 20, ignore_eos = true }
local matching = cop.accept.custom {
   name = "matching", lossless_for = { { draw = "deterministic", temperature = "zero" } },
   verify = function(tree, t, _, draws)
      local accepted, node = {}, 0
      repeat
         local best, found = t(node):top(1)[1].id, nil
         check.equal(t:logits(node):top(1)[1].id, best)
         for _, child in ipairs(tree:children(node)) do
            found = tree:token(child) == best and child or found
         end
         if found then
            accepted[#accepted + 1] = found
            node = found
         end
      until not found
      return accepted, draws:pick("last", node, t(node))
   end,
}
local r = cop.generate {
   model = m, tokens = { 1, 2, 3 }, max_tokens = 20, ignore_eos = true, rule = matching,
   proposer = cop.propose.model { other }, tree = cop.tree.widths { 2, 2, 1 },
}
check.list(r.tokens, plain.tokens)
check.equal(r.rule, "matching")
check.is(r.accepted > 0)
-- An error in the middle of an answer: raised with its line; everything is usable afterwards.
local calls = 0
check.raises_with("cop.accept.custom \"dies\": tests/lua/custom_rule.lua:", function()
   return cop.generate {
      model = m, tokens = { 1, 2, 3 }, max_tokens = 20, ignore_eos = true, relaxed = true,
      rule = cop.accept.custom { name = "dies", verify = function(_, t)
         calls = calls + 1
         if calls == 3 then
            error("at the third call")
         end
         return {}, t(0):top(1)[1].id
      end },
      proposer = cop.propose.model { other },
   }
end)
check.equal(calls, 3)
check.list(cop.generate({ model = m, tokens = { 1, 2, 3 }, max_tokens = 20, ignore_eos = true }).tokens, plain.tokens)

-- A rule whose function refers to the rule itself is collected.
local weak = setmetatable({}, { __mode = "v" })
do
   local rule
   rule = cop.accept.custom { name = "self", verify = function() return rule end }
   weak[1] = rule
end
collectgarbage()
collectgarbage()
check.equal(weak[1], nil)
