--- The running example of traversal verification, on chains and trees.

local cop = require("coppice")
local A = cop.accept

local function accepted(rule, draw, widths)
   return function()
      return cop.exact_law { rule = rule, draw = draw, widths = widths, target = { .3, .4, .3 },
         draft = { .6, .3, .1 } }.expected_accepted
   end
end

local values, widths = {}, {}
for depth, row in ipairs {
   { "7/10", "7/10" }, { "119/100", "5/4" }, { "1533/1000", "213/125" }, { "17731/10000", "20887/10000" },
} do
   widths[depth] = 1
   local chain = table.move(widths, 1, depth, 1, {})
   values[#values + 1] = { ("token, drafts of %d"):format(depth), row[1], accepted(A.token {}, "independent", chain),
      source = "arXiv:2211.17192" }
   values[#values + 1] = { ("block, drafts of %d"):format(depth), row[2], accepted(A.block {}, "independent", chain),
      source = "arXiv:2403.10444" }
   values[#values + 1] = { ("traversal, drafts of %d"):format(depth), row[2],
      accepted(A.traversal {}, "independent", chain) }
end
for _, row in ipairs {
   { "two children", { 2 }, "7/8", "7/8" }, { "one child, then two", { 1, 2 }, "27/20", "21/16" },
   { "three children", { 3 }, "1", "1" },
} do
   values[#values + 1] = { "traversal, " .. row[1], row[3], accepted(A.traversal {}, "without_replacement", row[2]) }
   values[#values + 1] = { "recursive, " .. row[1], row[4], accepted(A.recursive {}, "without_replacement", row[2]),
      source = "RSD, arXiv:2402.14160" }
end

return {
   name = "traversal-example",
   about = "drafted tokens kept by a cycle; target (.3, .4, .3), draft (.6, .3, .1)",
   source = "arXiv:2505.12398, sections 2 and 3",
   values = values,
}
