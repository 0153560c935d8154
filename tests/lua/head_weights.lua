--- weights = of heads: what is refused, and SmolLM2's heads in Q8_0: rows near those of the files, the same rows
--- whatever the threads, the same answers.

local check, test = ...
local cop = require("coppice")

for _, kind in ipairs { "medusa", "hydra", "mlp", "eagle", "redrafter", "mtp", "parallel" } do
   local wanted = ("cop.propose.%s: option \"weights\" must be one of \"file\", \"q8_0\", got "):format(kind)
   check.raises_with(wanted .. "\"q4_0\"", function() return cop.propose[kind] { "none", weights = "q4_0" } end)
   check.raises_with(wanted .. "8", function() return cop.propose[kind] { "none", weights = 8 } end)
end
local draft = cop.model { path = test.tiny { seed = 7 }, threads = 1 }
check.raises_with("cop.propose.parallel: weights is for heads",
   function() return cop.propose.parallel { draft, mask_token = 3, weights = "q8_0" } end)
cop.propose.parallel { draft, mask_token = 3, weights = "file" }

local path = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
local there = io.open(path)
if not there then
   return print("head_weights.lua: no model here: its heads are skipped")
end
there:close()
local one, two = cop.model { path = path, threads = 1 }, cop.model { path = path, threads = 2 }
local context = one.tokenizer:encode("The library of Maren Street opened a repair evening in")

--- { [id] = probability } of the 300 likeliest tokens below the root.
local function law(proposer, model)
   local once = cop.propose_once { proposer = proposer, model = model, context = context, draw = "without_replacement",
      tree = cop.tree.widths { 300 }, seed = 5, vocab_size = model.vocab_size }
   local of = {}
   for i, id in ipairs(once.tokens) do
      of[id] = once.probabilities[i]
   end
   return of
end

local heads = { { "medusa", "experiments/heads/medusa-smollm2" }, { "hydra", "experiments/heads/hydra-smollm2" },
   { "eagle", "experiments/heads/eagle3-smollm2" } }
if test.shared then
   heads[4] = { "eagle", test.shared .. "/models/eagle1-smollm2" }
   heads[5] = { "mlp", test.shared .. "/models/mlp-speculator-smollm2" }
end
local question = { { role = "user", content = "List five fruits and their colours." } }
local answer = cop.generate { model = two, messages = question, max_tokens = 48 }
local bush = cop.tree.expand_rerank { top_k = 4, depth = 3, budget = 10 }
for _, head in ipairs(heads) do
   local kind, folder = head[1], head[2]
   local stored = cop.propose[kind] { folder, weights = "file" }
   local quantised = cop.propose[kind] { folder, weights = "q8_0" }
   check.is(tostring(quantised):find("weights = \"q8_0\"", 1, true), tostring(quantised))

   -- A product moves by 0.7 % of its length where numbers are even (tests/algorithms/propose/live_drafts.h); states of
   -- a trained model have channels far above the rest, beside which steps are coarse: 0.02 to 0.06 was measured.
   local before, after, distance = law(stored, one), law(quantised, one), 0
   for id, p in pairs(before) do
      distance = distance + math.abs(p - (after[id] or 0)) / 2
   end
   check.is(distance > 1e-6 and distance < 0.1, ("%s: total variation %g"):format(folder, distance))
   for id, p in pairs(law(quantised, two)) do
      check.equal(p, after[id], folder)
   end

   for _, tree in ipairs { cop.tree.chain { depth = 3 }, bush } do
      local function drafted(proposer)
         return cop.generate { model = two, messages = question, max_tokens = 48, proposer = proposer, tree = tree }
      end
      local result, other = drafted(quantised), drafted(stored)
      check.list(result.tokens, answer.tokens, folder)
      check.is(math.abs(result.accepted - other.accepted) <= 6,
         ("%s: %d drafted tokens accepted, %d"):format(folder, result.accepted, other.accepted))
   end
end
if not test.shared then
   print("head_weights.lua: no folder of reference values here: EAGLE-1 and MLP heads are skipped")
end
