--- Trees that EAGLE-2 and OPT-Tree build from a draft distribution that depends on the last token.

local cop = require("coppice")

local after = { [0] = { .5, .3, .15, .05 }, { .1, .6, .2, .1 }, { .25, .25, .4, .1 }, { .7, .1, .1, .1 } }

local function built(tree)
   return cop.build_tree { tree = tree, draw = "deterministic", rows = function(prefix)
      return after[prefix[#prefix] or 0]
   end }
end

--- The paths of a tree's nodes, sorted: "0 00 1".
local function paths(tree)
   return function()
      local made, path, list = built(tree), { [0] = "" }, {}
      for node, token in ipairs(made.tokens) do
         path[node] = path[made.parents[node]] .. token
         list[node] = path[node]
      end
      table.sort(list)
      return table.concat(list, ", ")
   end
end

local function sum(tree)
   return function()
      local total = 0
      for _, score in ipairs(built(tree).scores) do
         total = total + score
      end
      return total
   end
end

local function eagle(top_k, depth, budget)
   return cop.tree.expand_rerank { top_k = top_k, depth = depth, budget = budget }
end
local opt = "OPT-Tree, arXiv:2406.17276"

return {
   name = "tree-builders",
   about = "paths below the root, and sums of their draft probabilities",
   source = "EAGLE-2, arXiv:2406.16858",
   tolerance = 1e-9,
   values = {
      { "expand_rerank, top 2, 5 nodes", "0, 00, 01, 1, 11", paths(eagle(2, 2, 5)) },
      { "expand_rerank, top 2, 5 nodes: sum", "1.38", sum(eagle(2, 2, 5)) },
      { "expand_rerank, top 2, 7 nodes", "0, 00, 000, 01, 1, 11, 111", paths(eagle(2, 3, 7)) },
      { "expand_rerank, top 2, 7 nodes: sum", "1.613", sum(eagle(2, 3, 7)) },
      { "expand_rerank, top 3, 8 nodes: sum", "1.763", sum(eagle(3, 3, 8)) },
      { "opt_tree, 3 nodes", "0, 00, 1", paths(cop.tree.opt_tree { budget = 3 }), source = opt },
      { "opt_tree, 4 nodes", "0, 00, 1, 11", paths(cop.tree.opt_tree { budget = 4 }), source = opt },
   },
}
