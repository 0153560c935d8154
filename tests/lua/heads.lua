--- cop.propose.medusa, hydra, mlp: the supplied heads of SmolLM2 against what PyTorch drafted with them.

local check, test = ...
local cop = require("coppice")

local path = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
local file = io.open(path)
if not (file and test.shared) then
   return print("heads.lua: skipped: needs " .. path .. " and the folder of reference values")
end
file:close()

-- Stored to five digits; sums of another order differ in the last of them.
local tolerance = 1e-4
local target = cop.model { path = path, precision = "f32", kv = "f32", threads = 2 }

local function compare(proposer, prompt, what)
   local context = table.move(prompt.prompt_ids, 1, #prompt.prompt_ids, 1, {})
   context[#context + 1] = prompt.target_greedy_ids[1]
   local once = cop.propose_once { proposer = proposer, model = target, context = context, draw = "deterministic" }
   check.list(once.tokens, prompt.draft_ids, what)
   for i, expected in ipairs(prompt.draft_logprob) do
      local got = math.log(once.probabilities[i])
      local text = ("%s, draft %d: %.6f, not %.6f"):format(what, i, got, expected)
      check.is(math.abs(got - expected) <= tolerance, text)
   end
   -- Any builder: its first path is the chain.
   local widths = cop.tree.widths { 3, 2 }
   local tree = cop.propose_once { proposer = proposer, model = target, context = context, tree = widths }
   check.equal(#tree.tokens, 9)
   check.equal(tree.tokens[1], prompt.draft_ids[1])
   check.equal(tree.tokens[4], prompt.draft_ids[2])
end

for name, folder in pairs { medusa = "medusa-smollm2", hydra = "hydra-smollm2", mlp = "mlp-speculator-smollm2" } do
   folder = test.shared .. "/models/" .. folder
   local reference = assert(io.open(folder .. "/reference.json"))
   local prompts = test.core.system.json.decode(reference:read("a")).prompts
   reference:close()
   local proposer = cop.propose[name] { folder }
   for i, prompt in ipairs(prompts) do
      compare(proposer, prompt, ("%s, prompt %d"):format(name, i))
   end
   local lone = cop.propose_once { proposer = proposer, model = target, context = { 1 } }
   check.list(lone.tokens, {}, "no state before the first token")
end

local medusa = cop.propose.medusa { test.shared .. "/models/medusa-smollm2" }
check.raises_with("\"medusa\" drafts from hidden states of the target, and no model is given", function()
   return cop.propose_once { proposer = medusa, context = { 1, 2 } }
end)
