--- Coupled sampling: how often draft and target draw the same token when they share their noise.

local cop = require("coppice")

local function kept(rule, target, draft)
   return function()
      return cop.exact_law { rule = rule, draw = "independent", widths = { 1 }, target = target,
         draft = draft }.expected_accepted
   end
end

local target, draft = { .5, .3, .2 }, { .2, .3, .5 }

return {
   name = "couplings",
   about = "probability that the draft is kept",
   source = "Gumbel coupling: Daliri et al., arXiv:2408.07978",
   values = {
      { "coupled, target (.5, .3, .2), draft (.2, .3, .5)", "41/65", kept(cop.accept.coupled {}, target, draft) },
      { "coupled, target (1/3, 2/3), draft (2/3, 1/3)", "2/3",
         kept(cop.accept.coupled {}, { 1 / 3, 2 / 3 }, { 2 / 3, 1 / 3 }) },
      { "the most that any coupling keeps", "7/10", kept(cop.accept.token {}, target, draft),
         source = "1 - total variation" },
   },
}
