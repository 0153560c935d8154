--- cop.propose.parallel from a script: how a model and its mask are named, and that answers stay what they are.

local check, test = ...
local cop = require("coppice")

local target = cop.model { path = test.tiny { seed = 7, tokenizer = true, vocab = 300 } }
local draft = cop.model { path = test.tiny { seed = 7, noise = 0.1, tokenizer = true, vocab = 300 } }
local prompt = { 72, 101, 108, 108, 111, 32, 119 }

local function answer(proposer, tree)
   return cop.generate {
      model = target, tokens = prompt, max_tokens = 48, ignore_eos = true, proposer = proposer, tree = tree
   }
end

local plain = answer()
local trees = { cop.tree.chain { depth = 4 }, cop.tree.best_first { budget = 12 }, cop.tree.widths { 3, 2, 1 } }
for _, tree in ipairs(trees) do
   local with = answer(cop.propose.parallel { draft, mask_token = 7 }, tree)
   check.list(with.tokens, plain.tokens, tostring(tree))
   check.is(with.drafted > 0 and with.accepted > 0, tostring(tree))
end

-- Rows are the same for all nodes of a level.
local function draft_once(proposer, tree)
   return cop.propose_once { proposer = proposer, model = target, context = prompt, tree = tree }
end
local three = cop.propose.parallel { model = draft, mask_token = 7, depth = 3 }
local once = draft_once(three, cop.tree.widths { 2, 2, 1, 1 })
check.equal(#once.tokens, 2 + 4 + 4)
for i = 3, 5, 2 do
   check.equal(once.tokens[i], once.tokens[3])
   check.equal(once.probabilities[i], once.probabilities[3])
end
check.equal(#draft_once(cop.propose.parallel { draft, mask_token = 7 }).tokens, 12)

check.raises_with("does not say which token is its mask; write mask_token =", function()
   return answer(cop.propose.parallel { draft })
end)
check.raises_with("cop.propose.parallel: mask_token = 300 is outside the draft's vocabulary of 300 tokens", function()
   return answer(cop.propose.parallel { draft, mask_token = 300 })
end)
check.raises_with("cop.propose.parallel drafts with nothing", function()
   return cop.propose.parallel {}
end)
