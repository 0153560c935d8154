--- cop.exact_law and cop.relaxed_law: numbers worked out by hand, and what they refuse.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")

-- One level: target (1/4, 3/4), draft (1/2, 1/2). Kept: 1/4 + 1/2.
local law = cop.exact_law {
   rule = cop.accept.token {}, draw = "independent", widths = { 1 }, target = { 0.25, 0.75 }, draft = { 0.5, 0.5 },
}
check.near(law.total_variation, 0)
check.near(law.expected_accepted, 0.75)
check.near(law.accepted[0], 0.25)
check.near(law.accepted[1], 0.75)
check.equal(law.accepted[2], nil)
check.equal(law.draw, "independent")
check.equal(law.shape, "chain")
check.equal(math.type(law.cases), "integer")
-- kept 0 then 0 or 1; kept 1 then 0 or 1; refused 0 then 1
check.equal(#law.outcomes, 5)
local sum = 0
for _, outcome in ipairs(law.outcomes) do
   check.equal(#outcome.tokens, outcome.accepted + 1)
   sum = sum + outcome.probability
   if outcome.accepted == 0 then
      check.list(outcome.tokens, { 1 })
      check.near(outcome.probability, 0.25)
   end
end
check.near(sum, 1)

-- Two levels, target (1/3, 2/3), draft (2/3, 1/3): each level keeps with probability 2/3.
law = cop.exact_law {
   rule = cop.accept.token {}, draw = "independent", widths = { 1, 1 }, target = { 1 / 3, 2 / 3 }, draft = { 2 / 3, 1 / 3 },
}
check.near(law.expected_accepted, 10 / 9)
check.near(law.accepted[0], 1 / 3)
check.near(law.accepted[1], 2 / 9)
check.near(law.accepted[2], 4 / 9)
check.near(law.total_variation, 0)

-- Rows that depend on the context; the function sees the ids below the root.
local prefixes = {}
law = cop.exact_law {
   rule = cop.accept.sample_match {}, draw = "without_replacement", paths = { { 1 }, { 2 }, { 1, 1 } },
   target = function(prefix)
      prefixes[table.concat(prefix, " ")] = true
      return prefix[1] == 0 and { 0.1, 0.2, 0.7 } or { 0.6, 0.4, 0 }
   end,
   draft = function(prefix) return prefix[1] and { 0, 0.5, 0.5 } or { 0.2, 0.3, 0.5 } end,
}
check.near(law.total_variation, 0)
check.is(prefixes[""] and prefixes["0"] and prefixes["2"])
check.equal(law.shape, "tree")
-- the same shape by digits
local digits = cop.exact_law {
   rule = cop.accept.sample_match {}, draw = "without_replacement", paths = { "0", "1", "00" },
   target = { 0.6, 0.4, 0 }, draft = { 0.2, 0.3, 0.5 },
}
check.near(digits.total_variation, 0)

-- Merged paths: a rule sees how often each node was drawn.
local seen = {}
law = cop.exact_law {
   rule = cop.accept.custom {
      name = "looks", lossless_for = { { draw = "independent", shape = "paths" } },
      verify = function(tree, t, _, draws)
         check.equal(tree.merged, true)
         check.equal(tree:multiplicity(0), 2)
         local key = tree:token(1) .. "*" .. tree:multiplicity(1)
         seen[key] = true
         return {}, draws:pick("last", 0, t(0))
      end,
   },
   independent_paths = 2, depth = 2, target = { 0.25, 0.75 }, draft = { 0.5, 0.5 },
}
check.near(law.total_variation, 0)
check.equal(law.draw, "independent")
check.equal(law.shape, "paths")
check.is(seen["0*1"] and seen["0*2"] and seen["1*1"] and seen["1*2"])

-- A given tree: tokens as they stand, the draw is the claim.
law = cop.exact_law {
   rule = cop.accept.sample_match {}, draw = "deterministic", tree = { tokens = { 1, 0 }, parents = { 0, 0 } },
   target = { 0.25, 0.75 }, draft = { 0.5, 0.5 },
}
check.near(law.expected_accepted, 1)
check.near(law.total_variation, 0)

-- without a draw: the rule's first claim that fits; the recursive rule meets 1 with 1 (it is all of the draft)
law = cop.exact_law { rule = cop.accept.recursive {}, tree = { tokens = { 1, 0 }, parents = { 0, 0 } },
   target = { 0.25, 0.75 }, draft = { 0.5, 0.5 } }
check.equal(law.draw, "without_replacement")
check.near(law.expected_accepted, 1)

-- A builder in Lua: the width depends on the elder siblings, which the rule without replacement may not notice.
local grows = cop.tree.custom { name = "grows", depth = 2, nodes = 9, grow = function(tree, rows)
   for _, node in ipairs(tree:frontier()) do
      local asked = 1
      tree:draw(node, 1)
      local first = tree:children(node)[1]
      while asked < 3 and first and tree:token(first) ~= 0 and rows(node)[0] > 0 do
         asked = asked + 1
         if tree:draw(node, 1) == 0 or tree:token(tree:children(node)[asked]) == 1 then
            break
         end
      end
   end
end }
local function depends(prefix)
   return ({ [0] = { 0.5, 0.3, 0.2 }, { 0.1, 0.6, 0.3 }, { 0.25, 0.25, 0.5 } })[(prefix[#prefix] or 0) % 3]
end
local function other(prefix)
   return ({ [0] = { 0.2, 0.3, 0.5 }, { 0.4, 0.6, 0 }, { 0.7, 0.2, 0.1 } })[(prefix[#prefix] or 2) % 3]
end
for _, draw in ipairs { "independent", "without_replacement" } do
   law = cop.exact_law { rule = cop.accept.recursive {}, draw = draw, tree = grows, target = depends, draft = other }
   check.near(law.total_variation, 0, 1e-13)
   check.is(law.accepted[2] > 0.05)
end

-- Length policies, a script's too; the token that ended the draft stays in it.
local short = cop.length.custom { name = "short", decide = function(state)
   for _, node in ipairs(state.frontier) do
      if node > 0 and state.tree:token(node) == 2 then
         return false
      end
   end
   return true
end }
for _, length in ipairs { short, cop.length.confidence { threshold = 0.4 } } do
   law = cop.exact_law { rule = cop.accept.token {}, widths = { 1, 1, 1 }, target = depends, draft = other, length = length }
   check.near(law.total_variation, 0, 1e-13)
   local whole = cop.exact_law { rule = cop.accept.token {}, widths = { 1, 1, 1 }, target = depends, draft = other }
   check.is(law.expected_accepted < whole.expected_accepted - 0.05)
end

-- A tree that lets deeper nodes push out others, but not by what a policy reads: 0 is drawn before 1 (nearly always); below
-- 1 the draft is sure of 0 (.7) and goes on, which would leave no room for that very 0, or is not and would keep its 1.
local function sure_of_one(prefix)
   return #prefix == 0 and { 0.9, 0.1, 0 } or #prefix == 1 and ({ [0] = { 0.5, 0.5, 0 }, { 0.7, 0.3, 0 } })[prefix[1]] or { 0.4, 0.3, 0.3 }
end
local function as_below(prefix)
   return #prefix == 0 and { 0.5, 0.5, 0 } or sure_of_one(prefix)
end
for _, rule in ipairs { cop.accept.recursive {}, cop.accept.traversal {}, cop.accept.transport {} } do
   for _, length in ipairs { cop.length.confidence { threshold = 0.6 }, short } do
      law = cop.exact_law { rule = rule, draw = "without_replacement", tree = cop.tree.threshold { budget = 5, threshold = 0.01 },
         target = as_below, draft = sure_of_one, length = length }
      check.near(law.total_variation, 0, 1e-13) -- 0.105 with confidence where it may
      check.is(law.expected_accepted > 1)
   end
end

-- Several drafters on paths.
law = cop.exact_law { rule = cop.accept.recursive {}, draw = "independent", paths = { { 1 }, { 2 }, { 1, 1 }, { 1, 2 } },
   target = depends, drafts = { other, { 0.1, 0.1, 0.8 } } }
check.near(law.total_variation, 0, 1e-13)
-- Temperature 0: one-hot rows, deterministic draws; every lossless rule is match.
for _, rule in ipairs { cop.accept.match {}, cop.accept.token {}, cop.accept.sample_match {} } do
   law = cop.exact_law {
      rule = rule, widths = { 1, 1 }, temperature = 0, target = { 0.25, 0.75 }, draft = { 0.4, 0.6 },
   }
   check.near(law.expected_accepted, 2)
   check.equal(#law.outcomes, 1)
   check.list(law.outcomes[1].tokens, { 1, 1, 1 })
   check.equal(law.draw, "deterministic")
end

-- Several drafters: sibling j comes from drafts[j].
law = cop.exact_law {
   rule = cop.accept.sample_match {}, draw = "independent", widths = { 2 }, target = { 0.5, 0.5 },
   drafts = { { 1, 0 }, function() return { 0, 1 } end },
}
check.near(law.expected_accepted, 1)
check.near(law.total_variation, 0)

-- A child without a drafter of its own: nobody's row takes its place.
for _, shape in ipairs { { widths = { 3 } }, { tree = { tokens = { 0, 1, 0 }, parents = { 0, 0, 0 } } } } do
   check.raises_with("cop.exact_law: option \"drafts\" has 2 rows, but node 0 has more children; give one row for each "
      .. "sibling, or draft = the row that all come from", function()
      return cop.exact_law { rule = cop.accept.sample_match {}, draw = "independent", widths = shape.widths,
         tree = shape.tree, target = { 0.5, 0.5 }, drafts = { { 1, 0 }, { 0, 1 } } }
   end)
end
check.raises_with("cop.exact_law: option \"drafts\" has 1 row,", function()
   return cop.exact_law { rule = cop.accept.sample_match {}, draw = "independent", widths = { 2 },
      target = { 0.5, 0.5 }, drafts = { { 1, 0 } } }
end)

-- greedy_block owes tokens up to a depth that may not depend on what was drafted.
local varying = cop.tree.custom { name = "varying", shape = "chain", depth = 3, grow = function(tree)
   if tree.size > 0 and tree:token(1) == 0 then
      return false
   end
   tree:draw(tree.size, 1)
end }
local uneven = { rule = cop.accept.greedy_block {}, tree = varying, target = { 0.5, 0.3, 0.2 }, draft = { 0.2, 0.5, 0.3 } }
check.raises_with("the tree is 1 deep here and 3 there; take a tree of fixed depth, or ask cop.relaxed_law", function()
   return cop.exact_law(uneven)
end)
uneven.temperature = 0 -- every rule is match
check.near(cop.exact_law(uneven).total_variation, 0)

-- Hundreds of coins a branch: it says so, and soon.
check.raises_with("about 502 in each; take a smaller vocabulary, depth or width, or a rule that asks fewer", function()
   return cop.relaxed_law { widths = { 1 }, target = { 0.5, 0.5 }, draft = { 0.4, 0.6 },
      rule = cop.accept.custom { name = "flips", verify = function(_, target, _, draws)
         for i = 1, 500 do
            draws:flip("flip " .. i, 0, 0.5)
         end
         return {}, draws:pick("recover", 0, target(0))
      end } }
end)

-- relaxed_law takes what exact_law refuses, and says more.
local pair = { rule = cop.accept.match {}, draw = "independent", widths = { 1 }, target = { 0.25, 0.75 }, draft = { 0.5, 0.5 } }
check.raises_with("or ask cop.relaxed_law", function() return cop.exact_law(pair) end)
law = cop.relaxed_law(pair)
check.equal(#law.position, 2)
check.equal(#law.position[1], 2)
check.near(law.acceptance, 1 - law.accepted[0])
check.near(law.total_variation_per_position[1], math.abs(law.position[1][1] - 0.25))
check.near(law.kl[1], 0.25 * math.log(0.25 / law.position[1][1]) + 0.75 * math.log(0.75 / law.position[1][2]))
local lost = cop.relaxed_law {
   rule = cop.accept.custom { name = "zero", verify = function() return {}, 0 end },
   draw = "independent", widths = { 1 }, target = { 0.25, 0.75 }, draft = { 0.5, 0.5 },
}
check.near(lost.position[1][1], 1)
check.near(lost.total_variation_per_position[1], 0.75)
check.equal(lost.kl[1], math.huge)
check.near(lost.total_variation, 0.75)

-- Refusals.
local function refuses(text, change)
   local o = { rule = cop.accept.token {}, draw = "independent", widths = { 1 }, target = { 0.5, 0.5 }, draft = { 0.5, 0.5 } }
   for key, value in pairs(change) do
      o[key] = value or nil
   end
   check.raises_with("cop.exact_law: " .. text, function() return cop.exact_law(o) end)
end
refuses("unknown option \"width\"; did you mean \"widths\"?", { width = 1 })
refuses("needs exactly one of: widths, paths, independent_paths, tree", { widths = false })
refuses("needs exactly one of: widths, paths, independent_paths, tree", { paths = { "0" } })
refuses("options \"independent_paths\" and \"depth\" go together", { widths = false, independent_paths = 2 })
refuses("options \"independent_paths\" and \"depth\" go together", { depth = 2 })
refuses("needs exactly one of: draft, drafts", { draft = false })
refuses("needs exactly one of: draft, drafts", { drafts = { { 0.5, 0.5 } } })
refuses("option \"rule\" is required: a rule (cop.accept.…)", { rule = false })
refuses("option \"temperature\" must be 0 or 1: the rows are laws already", { temperature = 0.5 })
refuses("target: probabilities sum to 1.5, not to 1", { target = { 1, 0.5 } })
refuses("target: probability of token 1 is -0.5", { target = { 1.5, -0.5 } })
refuses("draft has 3 entries, expected 2", { draft = { 0.5, 0.5, 0 } })
refuses("target must be a row: a list whose first entry is token 0, or a row object; got 5", { target = 5 })
refuses("target is an empty row", { target = {} })
refuses("target: entry of token 1 must be a number, got \"x\"", { target = { 0.5, "x" } })
refuses("option \"widths\" must be a list of integers", { widths = { 0 } })
check.raises_with("tests/lua/law.lua:", function()
   return cop.exact_law { rule = cop.accept.token {}, draw = "independent", widths = { 1, 1 }, target = { 0.5, 0.5 },
      draft = function(prefix) return #prefix == 0 and { 0.5, 0.5 } or error("boom") end }
end)
-- A function of rows that fails: the message names the constructor and the option.
for message, row in pairs {
   ["expected"] = function() error("expected") end,
   ["draft must be a row: a list whose first entry is token 0"] = function() end,
   ["draft has 1 entries, expected 2"] = function() return { 1 } end,
} do
   local ok, text = pcall(cop.exact_law,
      { rule = cop.accept.token {}, target = { 0.5, 0.5 }, draft = row, widths = { 1 } })
   check.equal(ok, false)
   check.equal(text:find("cop.exact_law: draft: ", 1, true) ~= nil and text:find(message, 1, true) ~= nil, true, text)
end

check.raises_with("draft: probabilities sum to 2", function()
   return cop.exact_law { rule = cop.accept.token {}, draw = "independent", widths = { 1, 1 }, target = { 0.5, 0.5 },
      draft = function(prefix) return #prefix == 0 and { 0.5, 0.5 } or { 1, 1 } end }
end)
check.raises_with("more than 200000 branches", function()
   return cop.exact_law { rule = cop.accept.sample_match {}, draw = "independent", widths = { 3, 3, 3 },
      target = { 0.2, 0.3, 0.5 }, draft = { 0.2, 0.3, 0.5 } }
end)

-- Rows from floats sum to 1 within noise, which is divided away: the law is exact all the same.
for _, noise in ipairs { 1e-7, -9e-7, 1e-10 } do
   local noisy = cop.exact_law { rule = cop.accept.block {}, draw = "independent", widths = { 1, 1 },
      target = { 1 / 3, 2 / 3 + noise }, draft = { 2 / 3 - noise, 1 / 3 } }
   check.near(noisy.total_variation, 0)
   check.near(noisy.expected_accepted, 11 / 9, 1e-5)
end
check.raises_with("sum to 1.00001, not to 1", function()
   cop.exact_law { rule = cop.accept.block {}, draw = "independent", widths = { 1 }, target = { 0.5, 0.50001 },
      draft = { 0.5, 0.5 } }
end)
