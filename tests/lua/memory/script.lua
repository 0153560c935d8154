--- A little of everything, run again and again while memory runs out.

-- luacheck: no max line length

local cop = ...

local rule = cop.accept.custom {
   name = "mine", lossless_for = { "any" }, state = { a = 1 },
   verify = function(tree, target, draft, draws, state)
      state.a = state.a + 1
      local row = draft(0)
      return {}, draws:pick("last", 0, row and target(0) or { [0] = 1, [1] = tree.size })
   end,
}
cop.exact_law { rule = rule, draw = "independent", widths = { 2 }, target = { 0.5, 0.5 }, draft = function() return { 0.25, 0.75 } end }
cop.relaxed_law { rule = cop.accept.token {}, draw = "independent", paths = { "0" }, target = { 0.5, 0.5 }, draft = { 0.5, 0.5 } }
cop.verify_rows { rule = cop.accept.token {}, tree = { tokens = { 0 } }, target = { { 0.5, 0.5 }, { 0.5, 0.5 } }, draft = { { 0.5, 0.5 } }, seed = 1 }
cop.propose_once {
   context = { 1, 2, 1 }, tree = cop.tree.custom { name = "t", grow = function(tree) tree:draw(0, 1) return false end },
   proposer = cop.propose.custom { name = "p", rows = "sparse", expand = function() return { { [1] = 0.5, [0] = 0.5 } } end },
}
cop.build_tree { tree = cop.tree.widths { 2 }, rows = { 0.5, 0.5 } }
cop.process_row { logits = { 1, 2 }, order = { "top_k" }, top_k = 1 }
pcall(cop.tree.chain, { dept = 1 })
return tostring(rule)
