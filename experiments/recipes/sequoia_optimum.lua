--- Sequoia's optimal trees for the acceptance vector that its authors publish: expected tokens by number of
--- nodes and levels, root included.

local cop = require("coppice")

local function tokens(nodes, levels)
   return function()
      return 1 + cop.build_tree { tree = cop.tree.sequoia { budget = nodes - 1, depth = levels - 1 } }.expected_accepted
   end
end

local values = {}
for _, row in ipairs {
   { 2, { "1.63418" } }, { 4, { "1.79910", "2.14432", "2.29143" } },
   { 8, { "1.86057", "2.37433", "2.59326", "2.69805", "2.73217" } },
   { 16, { "1.90255", "2.52068", "2.86451", "3.01259", "3.08764", "3.12516", "3.13029" } },
} do
   for i, published in ipairs(row[2]) do
      values[#values + 1] = { ("%d nodes, %d levels"):format(row[1], i + 1), published, tokens(row[1], i + 1) }
   end
end
local small = { .6, .2, .1 }
for _, row in ipairs { { 2, "1.6" }, { 3, "1.96" }, { 4, "2.176" }, { 8, "2.7456" }, { 16, "3.30256" } } do
   values[#values + 1] = { ("%d nodes, acceptance .6 .2 .1"):format(row[1]), row[2], function()
      return 1 + cop.build_tree { tree = cop.tree.sequoia { budget = row[1] - 1, depth = 5,
         acceptance = small } }.expected_accepted
   end, tolerance = 1e-9 }
end

return {
   name = "sequoia-optimum",
   about = "expected tokens of a cycle",
   source = "arXiv:2402.12374 and its repository's acceptance vector",
   values = values,
}
