--- Tree builders through cop.build_tree: the values of proposers.md 14.1, 14.2, 14.3, 14.8, 14.11.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")

local function depths(tree)
   local depth = { [0] = 0 }
   for node, parent in ipairs(tree.parents) do
      depth[node] = depth[parent] + 1
   end
   return depth
end

--- Nodes per level, the root's first.
local function levels(tree)
   local sizes = { 1 }
   for node, depth in pairs(depths(tree)) do
      if node > 0 then
         sizes[depth + 1] = (sizes[depth + 1] or 0) + 1
      end
   end
   return table.concat(sizes, ",")
end

-- ---- Sequoia ------------------------------------------------------------------------------------

local function sequoia(options)
   return cop.build_tree { tree = cop.tree.sequoia(options) }
end
local expected_tokens = {
   [2] = { 1.63418 },
   [4] = { 1.79910, 2.14432, 2.29143 },
   [8] = { 1.86057, 2.37433, 2.59326, 2.69805, 2.73217 },
   [16] = { 1.90255, 2.52068, 2.86451, 3.01259, 3.08764, 3.12516, 3.13029 },
}
for size, row in pairs(expected_tokens) do
   for level = 2, 10 do
      local tree = sequoia { budget = size - 1, depth = level - 1 }
      check.near(1 + tree.expected_accepted, row[level - 1] or row[#row], 5e-6, size .. " nodes, " .. level .. " levels")
   end
end
check.equal(levels(sequoia { budget = 7 }), "1,2,2,1,1,1")
check.equal(levels(sequoia { budget = 7, depth = 9 }), "1,2,2,1,1,1")
check.equal(levels(sequoia { budget = 15 }), "1,3,4,4,1,1,1,1")
check.equal(levels(sequoia { budget = 15, depth = 4 }), "1,3,5,4,3")
-- a rank that is worth its node for the next one's sake
local broom = sequoia { budget = 3, acceptance = { 0.3, 0.05, 0.9 } }
check.near(broom.expected_accepted, 1.25)
check.list(broom.parents, { 0, 0, 0 })
check.list(broom.ranks, { 1, 2, 3 })
check.list(broom.scores, { 0.3, 0.05, 0.9 })
-- the authors' demonstration: 4 nodes, at 4.887774 with one more draft pass than they need
local demo = { budget = 31, depth = 9, costs = { 10, 10, 10, 12, 14, 18 }, sizes = { 1, 2, 4, 8, 16, 32 }, draft_cost = 0.3 }
local chain = sequoia(demo)
check.list(chain.parents, { 0, 1, 2 })
check.near((10 + 4 * 0.3) / (1 + chain.expected_accepted), 4.887774, 1e-6)
check.near((10 + 3 * 0.3) / (1 + chain.expected_accepted), 4.756851, 1e-6)
demo.costs = { 10, 10, 10, 10, 10.5, 18 } -- 8 nodes for the same, 16 for little more
check.equal(#sequoia(demo).parents, 15)
demo.draft_cost = 2 -- levels cost more than they bring
check.equal(levels(sequoia(demo)), levels(sequoia { budget = 15, depth = 2 }))
check.list(sequoia({ budget = 5, acceptance = { 0.5 }, depth = 3 }).parents, { 0, 1, 2 }) -- no larger tree there
check.list(sequoia({ budget = 5, acceptance = { 0.5, 0, 0 }, depth = 1 }).ranks, { 1 })
-- of 2 ranks on one level there is no tree of 4 nodes and more, however cheap it would be
local broad = sequoia { budget = 6, depth = 1, acceptance = { 0.86, 0.76 }, costs = { 1, 1.1, 1.2, 1.2, 1.2, 1.2, 1.2 } }
check.list(broad.parents, { 0, 0 })
check.near(broad.expected_accepted, 1.62)
-- as deep as the budget: 2.6 s for 2.71 tokens, 2.3 s for 1.99
local deep = { budget = 2, acceptance = { 0.9, 0.09 }, costs = { 2, 2, 2 }, draft_cost = 0.3 }
for _, bound in ipairs { 2, 3, false } do
   deep.depth = bound or nil
   check.list(sequoia(deep).parents, { 0, 1 })
end
-- where the only cost is for 4 nodes, one that is never accepted is the fourth
local filled = sequoia { budget = 3, depth = 1, acceptance = { 0.5, 0.25, 0 }, costs = { 1 }, sizes = { 4 } }
check.list(filled.scores, { 0.5, 0.25, 0.0 })
check.raises_with("cop.tree.sequoia: none of the costs is for a tree of 2 to 7 nodes", function()
   return cop.tree.sequoia { budget = 6, depth = 1, acceptance = { 0.86 }, costs = { 1 }, sizes = { 5 } }
end)
check.raises_with("cop.tree.sequoia: 1 sizes for 2 costs", function()
   return cop.tree.sequoia { costs = { 1, 2 }, sizes = { 3 } }
end)
check.raises_with("cop.tree.sequoia: none of the costs is for a tree of 2 to 5 nodes", function()
   return cop.tree.sequoia { budget = 4, costs = { 1 } }
end)

-- ---- Medusa lists -------------------------------------------------------------------------------

local cumulative = {
   { .560388, .671720, .727137, .759940, .779945 }, { .316352, .423583, .485089, .528206, .562500 },
   { .201044, .287898, .347540, .383449, .416874 }, { .147366, .225025, .273733, .310885, .339712 },
   { .117545, .186630, .234592, .272117, .299826 },
}
local function accuracy(head, rank)
   return cumulative[head] and cumulative[head][rank] and cumulative[head][rank] - (cumulative[head][rank - 1] or 0) or 0
end
--- A head's row: five tokens in order of rank, the rest of the mass among many.
local function head_row(prefix)
   local row, rest = {}, 1 - cumulative[#prefix + 1][5]
   for rank = 1, 5 do
      row[rank] = accuracy(#prefix + 1, rank)
   end
   for token = 6, 200 do
      row[token] = rest / 195
   end
   return row
end
local function path_names(tree)
   local names = { [0] = "" }
   for node, parent in ipairs(tree.parents) do
      names[node] = names[parent] .. (tree.tokens and tree.tokens[node] or tree.ranks[node] - 1)
   end
   return names
end
for _, case in ipairs { { 1, 1.56039, "0" }, { 2, 1.73767, "0 00" }, { 4, 1.90909, "0 1 00 01" }, { 8, 2.06984, "0 1 2 00 01 02 10 000" } } do
   local tree = cop.build_tree { tree = cop.tree.best_first { budget = case[1], depth = 5, top_k = 5 }, rows = head_row }
   check.near(1 + tree.expected_accepted, case[2], 5e-6)
   check.equal(table.concat(path_names(tree), " "), case[3])
end
check.near(1 + cop.build_tree({ tree = cop.tree.best_first { budget = 5, depth = 5, top_k = 1 }, rows = head_row }).expected_accepted, 1.77918, 5e-6)

-- The search itself, in the order in which the lists are printed.
local accuracies = {}
for head = 1, 5 do
   accuracies[head] = {}
   for rank = 1, 5 do
      accuracies[head][rank] = accuracy(head, rank)
   end
end
local function digits(found)
   local list = {}
   for i, path in ipairs(found.paths) do
      list[i] = ""
      for _, rank in ipairs(path) do
         list[i] = list[i] .. rank - 1
      end
   end
   return table.concat(list, " ")
end
local found = cop.search_paths { accuracies = accuracies, budget = 8 }
check.equal(digits(found), "0 00 1 01 2 000 10 02")
check.near(found.expected_tokens, 2.06984, 5e-6)
check.near(found.values[4], .560388 * (.423583 - .316352), 1e-12)
check.equal(#cop.build_tree({ tree = found.tree }).parents, 8)
-- ranks keep their order, also where the second is right more often; what is never right waits to the last, and is left
-- out where nothing is behind it
found = cop.search_paths { accuracies = { { 0.2, 0.5, 0, 0.1 }, { 0.5 } } }
check.equal(digits(found), "0 1 10 00 2 3 30")
check.near(found.expected_tokens, 1 + 0.2 + 0.5 + 0.25 + 0.1 + 0.1 + 0.05, 1e-12)
check.raises_with("option \"accuracies\"[2] must sum to at most 1, not 1.2", function()
   return cop.search_paths { accuracies = { { 0.5 }, { 0.7, 0.5 } } }
end)
check.raises_with("option \"accuracies\" must be a list for each head", function()
   return cop.search_paths { accuracies = { 0.5, 0.4 } }
end)
check.raises_with("option \"accuracies\"[1][2] must be from 0 to 1", function()
   return cop.search_paths { accuracies = { { 0.5, -1 } } }
end)
check.raises_with("there is no tree", function() return cop.search_paths { accuracies = { { 0, 0 } } } end)

local mc_sim = cop.tree.paths { { 1 }, { 1, 1 }, { 2 }, { 1, 2 }, { 3 }, { 1, 1, 1 }, { 2, 1 }, { 1, 3 }, { 4 }, { 1, 4 }, { 5 }, { 1, 5 },
   { 3, 1 }, { 1, 6 }, { 1, 1, 2 }, { 6 }, { 1, 7 }, { 7 }, { 1, 8 }, { 1, 2, 1 }, { 2, 2 }, { 8 }, { 1, 9 }, { 1, 1, 3 }, { 4, 1 }, { 1, 10 },
   { 9 }, { 10 }, { 2, 1, 1 }, { 1, 3, 1 }, { 2, 3 }, { 1, 1, 4 }, { 5, 1 }, { 3, 2 }, { 1, 1, 5 }, { 1, 1, 6 }, { 1, 1, 1, 1 }, { 1, 2, 2 },
   { 1, 1, 7 }, { 1, 4, 1 }, { 6, 1 }, { 2, 4 }, { 1, 1, 8 }, { 1, 1, 9 }, { 1, 1, 10 }, { 7, 1 }, { 1, 5, 1 }, { 2, 5 }, { 8, 1 }, { 1, 2, 3 },
   { 3, 1, 1 }, { 4, 2 }, { 3, 3 }, { 9, 1 }, { 1, 6, 1 }, { 2, 6 }, { 2, 1, 2 }, { 1, 3, 2 }, { 10, 1 }, { 1, 7, 1 }, { 1, 1, 1, 2 }, { 2, 7 },
   { 1, 8, 1 } }
local medusa = cop.build_tree { tree = mc_sim }
local value, total, usable = { [0] = 1 }, 1, 0
local depth = depths(medusa)
for node, parent in ipairs(medusa.parents) do
   value[node] = value[parent] * accuracy(depth[node], medusa.ranks[node])
   total = total + value[node]
   usable = usable + (value[node] > 0 and 1 or 0)
end
check.near(total, 2.34001, 5e-6)
check.equal(usable, 38)
check.equal(levels(medusa), "1,10,28,23,2")
check.list({ table.unpack(medusa.parents, 60, 63) }, { 21, 28, 39, 39 })

-- Leaves, mask ones (a node sees itself and what is above it), and the longest paths.
local function buffers(built)
   local is_parent, ones, leaves, deepest = {}, 1, 0, {}
   local at = depths(built)
   for node, parent in ipairs(built.parents) do
      is_parent[parent] = true
      ones = ones + at[node] + 1
   end
   for node in ipairs(built.parents) do
      leaves = leaves + (is_parent[node] and 0 or 1)
      local path, above = {}, node
      while above > 0 do
         table.insert(path, 1, above)
         above = built.parents[above]
      end
      deepest[#path] = (deepest[#path] and deepest[#path] .. " | " or "") .. table.concat(path, " ")
   end
   return leaves, ones, deepest[#deepest]
end
check.list({ buffers(medusa) }, { 42, 207, "1 11 39 62 | 1 11 39 63" })
local eagle = cop.build_tree { tree = cop.tree.paths { "0", "1", "2", "3", "00", "01", "02", "10", "11", "20", "21", "30", "000", "001", "002",
   "010", "011", "020", "021", "100", "0000", "0001", "0002", "00000", "00001" } }
check.list(eagle.parents, { 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 13, 13, 13, 21, 21 })
check.list({ buffers(eagle) }, { 15, 92, "1 5 13 21 24 | 1 5 13 21 25" })

-- More published lists, by the same accuracies: levels, leaves, expected tokens.
local published = {
   { "1,10,23,23,7", 42, 2.35193, -- vicuna_7b_stage2
      "0 00 1 01 000 10 2 02 001 03 3 010 20 4 002 04 11 100 0000 5 003 05 020 30 011 06 6 07 004 40 12 08 7 030 0001 "
      .. "005 21 006 101 0010 200 50 09 012 8 040 021 13 007 0002 008 110 0100 60 9 013 0003 102 050 31 0020 70 14" },
   { "1,10,32,20,1", 44, 2.34379, -- vicuna_7b_stage1
      "0 00 1 2 01 10 3 02 4 000 03 5 20 04 6 05 11 001 7 30 06 8 9 010 07 08 40 002 12 09 21 50 100 003 13 020 011 004 "
      .. "60 14 005 22 030 31 006 70 15 101 200 007 80 0000 41 012 040 90 021 23 16 008 050 32 51" },
   { "1,10,27,23,3", 44, 2.35137, -- zephyr_stage2
      "0 00 1 01 2 000 10 02 3 03 4 20 001 04 5 05 010 11 6 002 30 06 7 07 08 003 100 09 020 12 40 8 9 21 011 004 0000 "
      .. "50 030 13 005 006 60 200 101 012 040 14 31 22 007 70 021 008 013 050 15 009 110 0001 0010 41 23" },
}
for _, list in ipairs(published) do
   local paths = {}
   for path in list[4]:gmatch("%d+") do
      paths[#paths + 1] = path
   end
   local built = cop.build_tree { tree = cop.tree.paths(paths) }
   local at, kept, sum = depths(built), { [0] = 1 }, 1
   for node, parent in ipairs(built.parents) do
      kept[node] = kept[parent] * accuracy(at[node], built.ranks[node])
      sum = sum + kept[node]
   end
   check.near(sum, list[3], 5e-6)
   check.equal(levels(built), list[1])
   check.equal((buffers(built)), list[2])
end

-- ---- Toys: the row depends on the last token ----------------------------------------------------

local after = { [0] = { .5, .3, .15, .05 }, { .1, .6, .2, .1 }, { .25, .25, .4, .1 }, { .7, .1, .1, .1 } }
local function rows(prefix)
   return after[prefix[#prefix] or 0]
end
--- "0 .5, 1 .3": the paths of a tree with their scores, sorted by score.
local function valued(tree, options)
   options = options or {}
   options.tree, options.rows = tree, rows
   local built = cop.build_tree(options)
   local names, list = path_names(built), {}
   for node in ipairs(built.parents) do
      list[node] = node
   end
   table.sort(list, function(a, b)
      local near = math.abs(built.scores[a] - built.scores[b]) < 1e-12
      return near and a < b or not near and built.scores[a] > built.scores[b]
   end)
   for place, node in ipairs(list) do
      list[place] = ("%s %.6g"):format(names[node], built.scores[node])
   end
   return table.concat(list, ", "), built
end
local text, tree = valued(cop.tree.expand_rerank { top_k = 2, depth = 1, budget = 5 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25, 11 0.18, 01 0.15")
check.near(tree.expected_accepted, 1.38)
text, tree = valued(cop.tree.expand_rerank { top_k = 2, depth = 2, budget = 7 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25, 11 0.18, 01 0.15, 000 0.125, 111 0.108")
check.near(tree.expected_accepted, 1.613)
text, tree = valued(cop.tree.expand_rerank { top_k = 3, depth = 2, budget = 8 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25, 11 0.18, 2 0.15, 01 0.15, 000 0.125, 111 0.108")
check.near(tree.expected_accepted, 1.763)
-- one child each is a chain of depth + 1 tokens; of equals the shallower node stays
text = valued(cop.tree.expand_rerank { top_k = 1, depth = 3, budget = 60 })
check.equal(text, "0 0.5, 00 0.25, 000 0.125, 0000 0.0625")
text = valued(cop.tree.expand_rerank { top_k = 3, depth = 2, budget = 5 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25, 11 0.18, 2 0.15")
check.equal(#valued(cop.tree.expand_rerank { top_k = 2, depth = 1, budget = 60 }):gsub("[^,]", ""), 5) -- 6 candidates

text, tree = valued(cop.tree.opt_tree { budget = 3 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25")
check.near(tree.expected_accepted, 1.05)
text, tree = valued(cop.tree.opt_tree { budget = 4 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25, 11 0.18")
check.near(tree.expected_accepted, 1.23)
for level, sum in ipairs { 0.95, 1.05, 1.05 } do -- E by level
   local shallow = cop.build_tree { tree = cop.tree.opt_tree { budget = 3, delta = 0, depth = level }, rows = rows }
   check.near(shallow.expected_accepted, sum)
end
check.near(cop.build_tree({ tree = cop.tree.opt_tree { budget = 4, delta = 1 }, rows = rows }).expected_accepted, 1) -- level 1 adds 1

text = valued(cop.tree.best_first { budget = 8 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25, 11 0.18, 2 0.15, 01 0.15, 000 0.125, 111 0.108")
text = valued(cop.tree.best_first { budget = 4, decay = 0.5 })
check.equal(text, "0 0.25, 1 0.15, 2 0.075, 00 0.0625")
text = valued(cop.tree.best_first { budget = 6, top_k = 1 })
check.equal(text, "0 0.5, 00 0.25, 000 0.125, 0000 0.0625, 00000 0.03125, 000000 0.015625")

-- slots in order of value: 0 (1), 1 (.5), 00 (.5), 11 (.3), 01 (.25), 000 (.25)
local dyspec = "0 0.5, 1 0.3, 00 0.25, 11 0.18, 01 0.15, 000 0.125"
check.equal(valued(cop.tree.threshold { budget = 6 }), dyspec)
check.equal(valued(cop.tree.threshold { budget = 60, threshold = 0.25 }), dyspec)
for budget, last in ipairs { "0 0.5", "1 0.3", "00 0.25", "11 0.18" } do
   check.equal(valued(cop.tree.threshold { budget = budget, threshold = 0.01 }):match("[^,]*$"):gsub("^ ", ""), last)
end
for seed = 1, 20 do -- slot value x what the token is of the rest = product of draft probabilities
   local sampled = cop.build_tree { tree = cop.tree.threshold { budget = 9, threshold = 0.1 }, rows = rows,
      draw = "without_replacement", seed = seed }
   local slot, score = { [0] = 1 }, { [0] = 1 }
   for node, parent in ipairs(sampled.parents) do
      check.is(slot[parent] >= 0.1 - 1e-12)
      score[node] = score[parent] * sampled.probabilities[node]
      check.near(sampled.scores[node], score[node])
      slot[parent] = slot[parent] - score[node]
      slot[node] = score[node]
   end
   check.is(#sampled.parents <= 9)
end

text = valued(cop.tree.beam { width = 2, depth = 3 })
check.equal(text, "0 0.5, 1 0.3, 00 0.25, 11 0.18, 000 0.125, 111 0.108")
-- beam search drops what leads to no beam
check.equal(valued(cop.tree.beam_search { width = 2, depth = 2 }), "0 0.5, 1 0.3, 00 0.25, 11 0.18")
local fading = function(prefix)
   return prefix[1] == 0 and { .25, .25, .25, .25 } or prefix[1] == 1 and { .9, .1, 0, 0 } or { .4, .35, .25, 0 }
end
local function merged(width, n)
   local built = cop.build_tree { tree = cop.tree.beam_search { width = width, depth = n }, rows = fading }
   return table.concat(path_names(built), " ")
end
check.equal(merged(1, 2), "0 00")                       -- 1 0 would be better: beams are greedy
check.equal(merged(2, 2), "0 1 00 10")                  -- 0.4 · 0.25 and 0.35 · 0.9
check.equal(merged(3, 2), "0 1 00 01 10")               -- 2 dies out
check.equal(merged(3, 1), "0 1 2")
check.raises_with("cop.tree.beam_search: 100 levels of 100 nodes, a tree holds at most 4096", function()
   return cop.tree.beam_search { width = 100, depth = 100 }
end)

local narrow = cop.build_tree { tree = cop.tree.beam { width = 2, depth = 3 }, rows = rows, draw = "beam", seed = 5 }
local wide = path_names(cop.build_tree { tree = cop.tree.beam { width = 5, depth = 3 }, rows = rows, draw = "beam", seed = 5 })
local known = {}
for _, name in ipairs(wide) do
   known[name] = true
end
for _, name in ipairs(path_names(narrow)) do
   check.is(known[name], "a wider beam holds the narrower one")
end

-- every static tree is closed; trees of given tokens too, whatever was dropped
for seed = 1, 10 do
   for _, builder in ipairs { cop.tree.best_first { budget = 7 }, cop.tree.expand_rerank { top_k = 3, budget = 6 }, cop.tree.opt_tree { budget = 5 } } do
      local built = cop.build_tree { tree = builder, rows = rows, draw = "selected", seed = seed }
      local score = { [0] = 1 }
      for node, parent in ipairs(built.parents) do
         check.is(parent < node)
         score[node] = score[parent] * built.probabilities[node]
         check.near(built.scores[node], score[node])
      end
   end
end

check.raises_with("cop.tree.best_first cannot pick children by draw = \"without_replacement\"; it can by \"deterministic\" or \"selected\"", function()
   return cop.build_tree { tree = cop.tree.best_first {}, rows = rows, draw = "without_replacement" }
end)
check.raises_with("the shape of cop.tree.threshold depends on the rows", function()
   return cop.build_tree { tree = cop.tree.threshold {} }
end)
check.raises_with("cop.tree.beam: 100 levels of 100 nodes, a tree holds at most 4096", function()
   return cop.tree.beam { width = 100, depth = 100 }
end)
check.raises_with("cop.tree.expand_rerank: top_k = 200 and depth = 5 draft 200200 nodes; at most 65536 can be drafted", function()
   return cop.tree.expand_rerank { top_k = 200 }
end)

-- A list without entries is no way of leaving an option out.
for name, build in pairs {
   ["cop.tree.sequoia: option \"acceptance\" must be a list of numbers, each from 0 to 1"] =
      function() cop.tree.sequoia { acceptance = {} } end,
   ["cop.tree.sequoia: option \"costs\" must be a list of numbers, each of at least 0"] =
      function() cop.tree.sequoia { costs = {} } end,
   ["cop.tree.sequoia: option \"sizes\" must be a list of integers, each from 1 to 4097"] =
      function() cop.tree.sequoia { costs = { 1, 2 }, sizes = {} } end,
   ["cop.tree.widths: option \"widths\" must be a list of integers, each from 1 to 4096"] =
      function() cop.tree.widths { widths = {} } end,
   ["cop.tree.paths: option \"paths\" must be a list of paths such as {1}, {1, 1}, {2}, ranks from 1 to 4096"] =
      function() cop.tree.paths { paths = {} } end,
   ["cop.length.adaptive: option \"costs\" must be a list of numbers, each from 1e-12 to 1000000"] =
      function() cop.length.adaptive { costs = {} } end,
   ["cop.propose.cascade: option \"depths\" must be a list of integers, each from 1 to 4095"] =
      function() cop.propose.cascade { cop.propose.lookup {}, cop.propose.lookup {}, depths = {} } end,
   ["cop.exact_law: option \"widths\" must be a list of integers"] =
      function() cop.exact_law { rule = cop.accept.token {}, target = { 1 }, draft = { 1 }, widths = {} } end,
} do
   check.raises(name .. ", got an empty list", build)
end
