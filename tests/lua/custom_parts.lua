--- cop.propose.custom, cop.tree.custom, cop.length.custom.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

local m = cop.model { path = test.tiny { seed = 7 }, threads = 1, precision = "f32" }
local prompt = { 1, 2, 3 }
local plain = cop.generate { model = m, tokens = prompt, max_tokens = 24, ignore_eos = true }
local function generate(more)
   local o = { model = m, tokens = prompt, max_tokens = 24, ignore_eos = true }
   for key, value in pairs(more) do
      o[key] = value
   end
   return cop.generate(o)
end

-- ---- Proposers ----------------------------------------------------------------------------------

-- An oracle that knows the answer, in each kind of row, is accepted always.
local function oracle(kind, row_of)
   local log = { started = 0, finished = 0, observed = 0 }
   local at
   return log, cop.propose.custom {
      name = "oracle-" .. kind, rows = kind, depth = 4,
      start = function(ids, sequence)
         check.list(ids, prompt)
         check.equal(sequence, 0)
         log.started, at = log.started + 1, 0
      end,
      expand = function(tree, nodes, sequence)
         check.equal(sequence, 0)
         local rows = {}
         for i, node in ipairs(nodes) do
            local id = plain.tokens[at + tree:depth(node) + 1]
            rows[i] = id and row_of(id)
         end
         return rows
      end,
      observe = function(info)
         log.observed = log.observed + 1
         check.equal(info.cycle, log.observed - 1)
         check.equal(#info.tokens, #info.accepted + 1)
         for i, id in ipairs(info.tokens) do
            check.equal(id, plain.tokens[at + i] or id)
         end
         at = at + #info.tokens
      end,
      finish = function() log.finished = log.finished + 1 end,
   }
end
local function dense(id)
   local row = {}
   for i = 1, 61 do
      row[i] = i == id + 1 and 0.4 or 0.6 / 60
   end
   return row
end
for kind, row_of in pairs {
   dense = dense,
   sparse = function(id) return { [(id + 1) % 61] = 0.25, [id] = 0.75 } end,
   points = function(id) return { id } end,
} do
   local log, proposer = oracle(kind, row_of)
   local r = generate { proposer = proposer }
   check.list(r.tokens, plain.tokens, kind)
   check.equal(r.accepted, r.drafted, kind .. ": something was refused")
   check.equal(r.forward_passes, 5, kind) -- 24 tokens, 5 at a time
   check.equal(log.started, 1)
   check.equal(log.finished, 1)
   check.equal(log.observed, 5)
   check.equal(r.proposer, "oracle-" .. kind)
end

-- Siblings from a tree; a row that is missing ends that branch; errors name the row.
local _, wide = oracle("dense", dense)
check.list(generate({ proposer = wide, tree = cop.tree.widths { 2, 2 } }).tokens, plain.tokens)
local asked = 0
local shy = cop.propose.custom { name = "shy", rows = "points", expand = function(_, nodes)
   asked = asked + 1
   return asked % 2 == 0 and { { 5 } } or #nodes > 0 and {} or nil
end }
check.list(generate({ proposer = shy }).tokens, plain.tokens)

local function broken(kind, text, expand)
   local ok, message = pcall(generate, { proposer = cop.propose.custom { name = "bad", rows = kind, expand = expand } })
   check.equal(ok, false)
   check.is(message:find("cop.propose.custom \"bad\": ", 1, true) and message:find(text, 1, true), message)
end
broken("dense", "row 1 of expand has 2 entries, expected 61", function() return { { 0.5, 0.5 } } end)
broken("dense", "row 1 of expand: probabilities sum to 122", function()
   local row = {}
   for i = 1, 61 do row[i] = 2 end
   return { row }
end)
broken("dense", "row 1 of expand: probability of token 3 is -1", function()
   local row = dense(0)
   row[4] = -1
   return { row }
end)
broken("dense", "row 1 of expand must be a row: a list whose first entry is token 0, or a row object; got 5", function() return { 5 } end)
broken("sparse", "row 1 of expand: probabilities sum to 0.5", function() return { { [3] = 0.5 } } end)
broken("sparse", "row 1 of expand: a token id must be an integer from 0 to 60, got 61", function() return { { [61] = 1 } } end)
broken("points", "row 1 of expand: token id 2 must be an integer from 0 to 60, got 61", function() return { { 1, 61 } } end)
broken("points", "row 1 of expand must be a table, got 7", function() return { 7 } end)
broken("points", "expand returned 2 rows for 1 nodes", function() return { { 1 }, { 2 } } end)
broken("points", "expand must return a list of rows, got 5", function() return 5 end)
broken("points", "tests/lua/custom_parts.lua:", function() error("boom") end)
check.raises_with("cop.propose.custom \"s\": tests/lua/custom_parts.lua:", function()
   return generate { proposer = cop.propose.custom { name = "s", rows = "points", expand = function() end,
      start = function() error("at the start") end } }
end)
check.raises_with("cop.propose.custom \"o\": tests/lua/custom_parts.lua:", function()
   return generate { proposer = cop.propose.custom { name = "o", rows = "points", expand = function() end,
      observe = function() error("while observing") end } }
end)
check.list(generate({}).tokens, plain.tokens)
check.raises("cop.propose.custom: option \"rows\" must be one of \"dense\", \"sparse\", \"points\", got \"logits\"", function()
   return cop.propose.custom { name = "x", rows = "logits", expand = print }
end)
check.raises("cop.propose.custom: option \"expand\" is required: a function", function()
   return cop.propose.custom { name = "x", rows = "points" }
end)
-- Rows of a model as rows of a proposer, through m:score: the target as its own draft.
local ids
local mirror = cop.propose.custom {
   name = "mirror", rows = "sparse", depth = 3,
   start = function(committed) ids = { table.unpack(committed) } end,
   expand = function(tree, nodes)
      local context = { table.unpack(ids) }
      local path, node = {}, nodes[1]
      while node ~= 0 do
         table.insert(path, 1, tree:token(node))
         node = tree:parent(node)
      end
      table.move(path, 1, #path, #context + 1, context)
      return { { [m:score({ context = context })[0]:top(1)[1].id] = 1 } }
   end,
   observe = function(info) table.move(info.tokens, 1, #info.tokens, #ids + 1, ids) end,
}
local mirrored = generate { proposer = mirror }
check.list(mirrored.tokens, plain.tokens)
check.equal(mirrored.accepted, mirrored.drafted)

-- ---- Tree builders ------------------------------------------------------------------------------

local rows = function(prefix) return #prefix == 0 and { 0.5, 0.3, 0.2 } or { 0.1, 0.2, 0.7 } end
local levels = {}
local greedy = cop.tree.custom {
   name = "greedy", depth = 3, nodes = 10,
   grow = function(tree, row, budget)
      levels[#levels + 1] = budget
      check.equal(tree.level, #levels)
      for _, node in ipairs(tree:frontier()) do
         check.near(row(node)[0], tree.level == 1 and 0.5 or 0.1)
         check.equal(tree:draw(node, tree.level == 1 and 2 or 1), tree.level == 1 and 2 or 1)
      end
      return tree.level < 2
   end,
}
local built = cop.build_tree { tree = greedy, rows = rows }
check.list(built.tokens, { 0, 1, 2, 2 })
check.list(built.parents, { 0, 0, 1, 2 })
check.list(levels, { 10, 8 })
check.near(built.probabilities[3], 0.7)
-- as random draws it is proven, like any other builder
local coin = cop.tree.custom { name = "coin", depth = 2, nodes = 6, grow = function(tree)
   for _, node in ipairs(tree:frontier()) do
      tree:draw(node, 2)
   end
end }
check.near(cop.exact_law {
   rule = cop.accept.sample_match {}, draw = "independent", tree = coin, target = { 0.5, 0.3, 0.2 }, draft = rows }.total_variation, 0)
-- chosen children are a deterministic draw
local chosen = cop.tree.custom { name = "chosen", depth = 2, nodes = 4, grow = function(tree)
   for _, node in ipairs(tree:frontier()) do
      tree:add(node, 2)
   end
end }
check.list(cop.build_tree({ tree = chosen, rows = rows }).tokens, { 2, 2 })
check.raises_with("tree:add: a chosen child is a deterministic draw, but this tree's draw is \"independent\"", function()
   return cop.build_tree { tree = chosen, rows = rows, draw = "independent" }
end)
check.raises_with("tree:draw: node 2 is not one of the nodes that are expanded on level 1", function()
   return cop.build_tree { rows = rows, tree = cop.tree.custom { name = "x", grow = function(tree)
      tree:draw(0, 2)
      tree:draw(2, 1)
   end } }
end)
check.raises_with("shape = \"chain\" allows one", function()
   return cop.build_tree { rows = rows, tree = cop.tree.custom { name = "x", shape = "chain", grow = function(tree) tree:draw(0, 2) end } }
end)
check.raises_with("cop.tree.custom \"x\": tests/lua/custom_parts.lua:", function()
   return cop.build_tree { rows = rows, tree = cop.tree.custom { name = "x", grow = function() error("boom") end } }
end)
local _, proposer = oracle("dense", dense)
local grown = generate { proposer = proposer, tree = coin }
check.list(grown.tokens, plain.tokens)
check.equal(grown.tree, "coin")

-- ---- Length policies ----------------------------------------------------------------------------

local states = {}
local short = cop.length.custom { name = "short", decide = function(state)
   states[#states + 1] = state
   check.equal(type(state.level), "number")
   check.is(state.level <= state.limit)
   check.equal(state.cost == nil, #states == state.level) -- in the first cycle
   if state.cost then -- seconds and size of the cycle before
      check.equal(state.cost.nodes, 1 + state.cost.levels)
      check.is(state.cost.D >= 0 and state.cost.V > 0 and state.cost.H > 0)
   end
   check.is(state.level == 1 and state.rows(0) == nil or state.rows(state.frontier[1])[0] >= 0)
   return state.level <= 2
end }
local _, deep = oracle("dense", dense)
local cut = generate { proposer = deep, length = short }
check.list(cut.tokens, plain.tokens)
check.equal(cut.forward_passes, 8) -- 24 tokens, 3 at a time
check.equal(cut.length, "short")
check.is(#states > 8)
check.raises_with("valid only until", function() return states[2].rows(1) end)
check.near(cop.exact_law {
   rule = cop.accept.token {}, draw = "independent", widths = { 1, 1, 1 }, target = { 0.5, 0.3, 0.2 }, draft = rows,
   length = cop.length.custom { name = "by row", decide = function(state)
      return state.level == 1 or state.rows(state.frontier[1])[state.tree:token(state.frontier[1])] > 0.3
   end } }.total_variation, 0)
local _, again = oracle("dense", dense)
for text, decide in pairs {
   ["cop.length.custom \"x\": decide must return true or false, got nothing"] = function() end,
   ["cop.length.custom \"x\": tests/lua/custom_parts.lua:"] = function() error("boom") end,
} do
   check.raises_with(text, function() return generate { proposer = again, length = cop.length.custom { name = "x", decide = decide } } end)
   check.raises_with(text, function()
      return cop.exact_law { rule = cop.accept.token {}, draw = "independent", widths = { 1 }, target = { 0.5, 0.5 },
         draft = { 0.5, 0.5 }, length = cop.length.custom { name = "x", decide = decide } }
   end)
end

-- Custom parts of every kind survive a collection while an engine or a law runs with them.
local collected = generate {
   proposer = select(2, oracle("dense", dense)),
   tree = cop.tree.custom { name = "t", depth = 2, nodes = 2, shape = "chain", grow = function(tree)
      collectgarbage()
      tree:draw(tree:frontier()[1], 1)
   end },
   length = cop.length.custom { name = "l", decide = function()
      collectgarbage()
      return true
   end },
}
check.list(collected.tokens, plain.tokens)
