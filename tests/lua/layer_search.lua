--- cop.propose.layer_skip { search = … }: answers stay what they are, whoever else is served.

local check, test = ...
local cop = require("coppice")

local target = cop.model { path = test.tiny { seed = 7, layers = 6, tokenizer = true, vocab = 300 } }
local prompt = {}
for i = 1, 60 do
   prompt[i] = (37 * i) % 250
end

local function answer(proposer, options)
   options = options or {}
   options.model, options.tokens, options.max_tokens, options.ignore_eos = target, prompt, 80, true
   options.proposer = proposer
   return cop.generate(options)
end

local plain = answer()
local searching = cop.propose.layer_skip { search = 0.45, search_window = 20 }
for _, tree in ipairs { cop.tree.chain { depth = 3 }, cop.tree.widths { 3, 2 }, cop.tree.best_first { budget = 6 } } do
   local r = answer(searching, { tree = tree })
   check.list(r.tokens, plain.tokens, tostring(tree))
   check.is(r.drafted > 0 and r.accepted > 0, tostring(tree))
end

-- Above temperature 0 rows count, and they follow from the sequence alone.
local one = answer(searching, { temperature = 1, seed = 5 })
local two = answer(searching, { temperature = 1, seed = 5 })
check.list(one.tokens, two.tokens)
check.equal(one.accepted, two.accepted)

check.raises_with("search finds what to leave out; leave exit, skip_attention and skip_mlp out", function()
   return cop.propose.layer_skip { search = 0.45, exit = 2 }
end)
check.raises_with("skip_mlp = { 3, 5 } or search = 0.45", function()
   return cop.propose.layer_skip {}
end)
check.raises_with("search keeps the first and the last layer, and the target has 2 in all", function()
   local small = cop.model { path = test.tiny { seed = 7, tokenizer = true, vocab = 300 } }
   return cop.generate { model = small, tokens = prompt, proposer = searching, max_tokens = 2 }
end)
