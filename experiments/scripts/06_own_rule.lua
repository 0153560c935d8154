--- A rule of one's own, in Lua: from the idea over its exact law to a comparison.
---
--- The idea: keep a drafted token when it is among the target's `best` tokens at that place. Its law is computed
--- before anything runs, by enumerating every branch on rows of three tokens: how far from the target is it?

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   limit = 6,
   max_tokens = 48,
   best = 2,
}

--- How many tokens the target finds more probable.
local function rank(row, token)
   local ahead = 0
   for _, entry in ipairs(row:top(args.best)) do
      ahead = ahead + (entry.id ~= token and row[entry.id] > row[token] and 1 or 0)
   end
   return ahead
end

local among_best = cop.accept.custom {
   name = "among_best",
   lossless_for = {}, -- nothing is promised, so arms need relaxed = true
   verify = function(tree, target, _, draws)
      local kept, node = {}, 0
      while true do
         local child = tree:children(node)[1]
         if not child or rank(target(node), tree:token(child)) >= args.best then
            return kept, draws:pick("last", node, target(node))
         end
         kept[#kept + 1], node = child, child
      end
   end,
}

-- The rule's distance from the target on one pair of rows, and those of the rules it competes with.
local rows = { target = { 0.5, 0.3, 0.2 }, draft = { 0.2, 0.3, 0.5 }, draw = "independent", widths = { 1 } }

local function law(rule)
   return cop.relaxed_law { rule = rule, target = rows.target, draft = rows.draft, draw = rows.draw,
      widths = rows.widths }
end

for _, rule in ipairs { cop.accept.token {}, cop.accept.typical {}, among_best } do
   print(("%s: accepted %.3f, total variation from the target %.3f"):format(rule, law(rule).expected_accepted,
      law(rule).total_variation_per_position[1]))
end

local drafter = cop.propose.model { cop.model { path = args.draft } }

local function arm(name, rule)
   return cop.arm { name, proposer = drafter, tree = cop.tree.chain { depth = 4 }, rule = rule,
      relaxed = name ~= "token" }
end

return cop.experiment {
   name = "own-rule",
   target = cop.model { path = args.model },
   prompts = cop.dataset { path = args.prompts, limit = args.limit },
   seed = 17,
   temperature = 1,
   max_tokens = args.max_tokens,
   arms = { arm("token", cop.accept.token {}), arm("typical", cop.accept.typical {}), arm("among_best", among_best) },
   quality = { "target_nll" },
}
