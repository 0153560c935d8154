--- One level of siblings: how often one of k drafts is kept, rule by rule, and what could be kept at most.

local cop = require("coppice")
local A = cop.accept

local rows = {
   A = { target = { 1 / 3, 2 / 3 }, draft = { 2 / 3, 1 / 3 } },
   B = { target = { .5, .3, .2 }, draft = { .2, .3, .5 } },
   C = { target = { .1, .2, .3, .4 }, draft = { .4, .3, .2, .1 } },
}

local function kept(case, k, rule, draw)
   return function()
      return cop.exact_law { rule = rule, draw = draw, widths = { k }, target = rows[case].target,
         draft = rows[case].draft }.expected_accepted
   end
end

local function optimum(case, k, draw)
   return function()
      return cop.optimum { draw = draw, widths = { k }, target = rows[case].target, draft = rows[case].draft }.value
   end
end

--- Case, k, then as the columns below.
local published = {
   { "A", 2, "7/9", "1", "0.811420", "2/3", "8/9", "1", "1" },
   { "B", 2, "19/25", "41/50", "0.791355", "483/1000", "43/50", "69/70", "9/10" },
   { "B", 3, "101/125", "1", "0.858519", "6161/10000", "247/250", "1", "1" },
   { "C", 2, "18/25", "107/140", "0.75", "7/20", "79/100", "701/840", "23/30" },
   { "C", 3, "96/125", "14117/16800", "0.793950", "2323/5000", "871/1000", "1", "14/15" },
}

local columns = {
   { "recursive, with replacement", A.recursive {}, "independent", "SpecInfer, arXiv:2305.09781" },
   { "recursive, without replacement", A.recursive {}, "without_replacement", "RSD, arXiv:2402.14160" },
   { "kseq", A.kseq {}, "independent", "SpecTr, arXiv:2310.15141" },
   { "sample_match", A.sample_match {}, "independent", "SpecInfer's baseline, arXiv:2305.09781" },
   { "optimum, independent", nil, "independent", "Hu et al., arXiv:2502.18779" },
   { "optimum, without replacement", nil, "without_replacement", "Hu et al., arXiv:2502.18779" },
   { "greedy_draw", A.greedy_draw {}, "greedy_draw", "Hu et al., arXiv:2502.18779" },
}

local values = {}
for case, share in pairs { A = "2/3", B = "7/10", C = "3/5" } do
   values[#values + 1] = { case .. ", one draft: token", share, kept(case, 1, A.token {}, "independent"),
      source = "arXiv:2211.17192" }
end
table.sort(values, function(a, b) return a[1] < b[1] end)
for _, row in ipairs(published) do
   for i, column in ipairs(columns) do
      local case, k = row[1], row[2]
      values[#values + 1] = { ("%s, %d drafts: %s"):format(case, k, column[1]), row[i + 2],
         column[2] and kept(case, k, column[2], column[3]) or optimum(case, k, column[3]), source = column[4] }
   end
end
for case, value in pairs { A = "1", B = "9/10", C = "23/30" } do
   values[#values + 1] = { case .. ", pairs: spechub", value, kept(case, 2, A.spechub {}, "hub_pair"),
      source = "SpecHub, arXiv:2411.05289" }
end
table.sort(values, function(a, b) return a[1] < b[1] end)

return {
   name = "one-level-acceptance",
   about = "probability that one of k siblings is kept",
   source = "closed forms of the papers named at each value",
   values = values,
}
