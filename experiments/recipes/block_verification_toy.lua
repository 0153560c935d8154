--- Block verification keeps more drafts than token-level tests: the motivating example of its paper, and
--- what other rules make of the same two rows.

local cop = require("coppice")
local A = cop.accept

local function accepted(rule, shape)
   shape.rule, shape.target, shape.draft = rule, { 1 / 3, 2 / 3 }, { 2 / 3, 1 / 3 }
   return function() return cop.exact_law(shape).expected_accepted end
end

local function chain(rule, depth)
   local widths = {}
   for level = 1, depth do
      widths[level] = 1
   end
   return accepted(rule, { draw = "independent", widths = widths })
end

local values = {}
for depth, row in ipairs {
   { token = "2/3", block = "2/3" }, { token = "10/9", block = "11/9" }, { token = "38/27", block = "5/3" },
   { token = "130/81", block = "166/81" },
} do
   local at = (", drafts of %d"):format(depth)
   values[#values + 1] = { "token" .. at, row.token, chain(A.token {}, depth) }
   values[#values + 1] = { "block" .. at, row.block, chain(A.block {}, depth) }
   values[#values + 1] = { "hierarchical" .. at, row.block, chain(A.hierarchical {}, depth),
      source = "HSD in its exact form, arXiv:2601.05724" }
   values[#values + 1] = { "traversal" .. at, row.block, chain(A.traversal {}, depth), source = "arXiv:2505.12398" }
end
for _, row in ipairs {
   { "traversal, 1 path", "11/9", A.traversal {}, 1, "arXiv:2505.12398" },
   { "traversal, 2 paths", "115/81", A.traversal {}, 2, "arXiv:2505.12398" },
   { "recursive, 1 path", "10/9", A.recursive {}, 1, "SpecInfer, arXiv:2305.09781" },
   { "recursive, 2 paths", "4/3", A.recursive {}, 2, "SpecInfer, arXiv:2305.09781" },
   { "multipath_block, 1 path", "11/9", A.multipath_block {}, 1, "GBV, arXiv:2602.16961" },
   { "multipath_block, 2 paths", "131/81", A.multipath_block {}, 2, "GBV, arXiv:2602.16961" },
} do
   values[#values + 1] = { row[1] .. " of 2", row[2],
      accepted(row[3], { draw = "independent", independent_paths = row[4], depth = 2 }), source = row[5] }
end
values[#values + 1] = { "traversal, two children then one, without replacement", "16/9",
   accepted(A.traversal {}, { draw = "without_replacement", widths = { 2, 1 } }), source = "arXiv:2505.12398" }
values[#values + 1] = { "recursive, two children then one, without replacement", "5/3",
   accepted(A.recursive {}, { draw = "without_replacement", widths = { 2, 1 } }), source = "RSD, arXiv:2402.14160" }

return {
   name = "block-verification-toy",
   about = "drafted tokens kept by a cycle; target (1/3, 2/3), draft (2/3, 1/3), whatever came before",
   source = "arXiv:2403.10444, motivating example",
   values = values,
}
