--- cop.propose.eagle: published parts draft what they drafted elsewhere, and answers stay the target's.

-- luacheck: no max line length

local check, test = ...
local cop, core = require("coppice"), test.core

check.raises_with("cop.propose.eagle: option \"path\" is required", function() return cop.propose.eagle {} end)
check.fails("io", "no-such-folder/config.json", cop.propose.eagle { "no-such-folder" })
check.raises_with("cop.propose.eagle: unknown option \"dept\"; did you mean \"depth\"?", function()
   return cop.propose.eagle { "no-such-folder", dept = 2 }
end)

local path = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
local there = io.open(path)
if not (test.shared and there) then
   print("eagle.lua: no model or no folder of reference values here: skipped")
   return
end
there:close()

local function folder(name)
   return ("%s/models/%s"):format(test.shared, name)
end
local names = { "eagle1-smollm2", "eagle3-smollm2" }

-- Rows need a target.
check.raises_with("\"eagle\" drafts from hidden states of the target, and no model is given", function()
   return cop.propose_once { proposer = cop.propose.eagle { folder(names[1]) }, context = { 1, 2 } }
end)
check.raises_with("the head was made for a target of hidden size 576; this one has 32", function()
   local tiny = cop.model { path = test.tiny { seed = 7 }, threads = 1 }
   return cop.propose_once { proposer = cop.propose.eagle { folder(names[1]) }, model = tiny, context = { 1, 2 } }
end)

-- Chains as recorded; an EAGLE-2 tree holds the best of that chain under the same probabilities.
local exact = cop.model { path = path, threads = 2, precision = "f32", kv = "f32" }
for _, name in ipairs(names) do
   local file = assert(io.open(folder(name) .. "/reference.json"))
   local recorded = core.system.json.decode(file:read("a"))
   file:close()
   for _, prompt in ipairs(recorded.prompts) do
      local context = table.move(prompt.prompt_ids, 1, #prompt.prompt_ids, 1, {})
      context[#context + 1] = prompt.target_greedy_ids[1]
      local depth = #prompt.draft_ids
      local head = cop.propose.eagle { folder(name), depth = depth }
      local chain = cop.propose_once { proposer = head, model = exact, context = context, draw = "deterministic" }
      check.list(chain.tokens, prompt.draft_ids, name)
      for i, logprob in ipairs(prompt.draft_logprob) do
         check.near(math.log(chain.probabilities[i]), logprob, 1e-4, name)
      end
      local tree = cop.propose_once { proposer = head, model = exact, context = context, draw = "deterministic",
         tree = cop.tree.expand_rerank { top_k = 4, depth = depth - 1, budget = 24 } }
      check.equal(#tree.tokens, 24)
      local best, value = 0, 1
      for i = 1, depth do -- down the likeliest children: the chain, as far as the budget reaches
         local child
         for node, parent in ipairs(tree.parents) do
            if parent == best and tree.tokens[node] == chain.tokens[i] then
               child = node
            end
         end
         if not child then
            check.is(i > 1, name)
            break
         end
         best, value = child, value * chain.probabilities[i]
         check.equal(tree.probabilities[child], chain.probabilities[i], name)
         check.near(tree.scores[child], value, 1e-12, name)
      end
   end
end

-- Temperature 0: the tokens of plain decoding, whatever the tree.
local m = cop.model { path = path, threads = 2 }
local questions = { "List five fruits and their colours.", "Write a short poem about the sea." }
local trees = { cop.tree.chain { depth = 4 }, cop.tree.expand_rerank { top_k = 4, depth = 3, budget = 15 }, cop.tree.widths { 4, 2, 1 } }
local function answer(question, proposer, tree)
   return cop.generate { model = m, messages = { { role = "user", content = question } }, max_tokens = 32, proposer = proposer, tree = tree }
end
for _, question in ipairs(questions) do
   local plain = answer(question)
   for _, name in ipairs(names) do
      local head = cop.propose.eagle { folder(name) }
      for _, tree in ipairs(trees) do
         local result = answer(question, head, tree)
         check.list(result.tokens, plain.tokens, name)
         check.is(result.accepted > 0, name .. " accepted nothing")
      end
   end
end
