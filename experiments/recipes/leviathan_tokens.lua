--- Tokens of a cycle when every draft is kept with probability alpha: (1 - alpha^(n + 1)) / (1 - alpha),
--- found by enumerating the rule, not by the formula.

local cop = require("coppice")

local function tokens(alpha, depth)
   local widths = {}
   for level = 1, depth do
      widths[level] = 1
   end
   return function()
      return 1 + cop.exact_law { rule = cop.accept.token {}, draw = "independent", widths = widths,
         target = { alpha, 1 - alpha }, draft = { 1, 0 } }.expected_accepted
   end
end

local values = {}
for _, row in ipairs {
   { .5, { [1] = "1.5", [3] = "1.875", [5] = "1.9688", [10] = "1.9990" } },
   { .8, { [1] = "1.8", [3] = "2.952", [5] = "3.6893", [10] = "4.5705" } },
   { .9, { [1] = "1.9", [3] = "3.439", [5] = "4.6856", [10] = "6.8619" } },
   { .6, { [2] = "1.96" } }, { .7, { [3] = "2.53" } },
} do
   for _, depth in ipairs { 1, 2, 3, 5, 10 } do
      if row[2][depth] then
         values[#values + 1] = { ("alpha %g, drafts of %d"):format(row[1], depth), row[2][depth],
            tokens(row[1], depth) }
      end
   end
end

return {
   name = "leviathan-tokens",
   about = "tokens of a cycle",
   source = "arXiv:2211.17192, equation 1 and table 1",
   values = values,
}
