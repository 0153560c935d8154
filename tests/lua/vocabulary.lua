--- vocabulary = of the draft model and of heads: the law over fewer ids, the same answers, what is refused.

local check, test = ...
local cop = require("coppice")

--- { [id] = probability } of all tokens below the root.
local function law(proposer, model, context, width, temperature)
   local once = cop.propose_once { proposer = proposer, model = model, context = context, draw = "without_replacement",
      tree = cop.tree.widths { width }, temperature = temperature, seed = 5, vocab_size = model.vocab_size }
   local of = {}
   for i, id in ipairs(once.tokens) do
      of[id] = once.probabilities[i]
   end
   return of, #once.tokens
end

--- The law over `ids` is the whole one, renormalised.
local function compare(make, model, context, ids, width, what)
   local whole = law(make(nil), model, context, width)
   local some, n = law(make(ids), model, context, width)
   local sum = 0
   for _, id in ipairs(ids) do
      sum = sum + (whole[id] or 0)
   end
   check.equal(n, math.min(#ids, width), what)
   for id, p in pairs(some) do
      check.near(p, whole[id] / sum, 1e-6, what)
   end
end

-- A draft whose numbers are known: after token 2 it says .1 .2 .3 .4; of 1 and 3 that is 1/3 and 2/3.
local rows = { { .4, .3, .2, .1 }, { .25, .25, .25, .25 }, { .1, .2, .3, .4 }, { .7, .1, .1, .1 } }
local draft = cop.model { path = test.bigram(rows), threads = 1, precision = "f32" }
local known, n = law(cop.propose.model { draft, vocabulary = { 3, 1 } }, draft, { 2 }, 4)
check.equal(n, 2)
check.near(known[1], 1 / 3, 1e-4)
check.near(known[3], 2 / 3, 1e-4)
known, n = law(cop.propose.model { draft, vocabulary = 3 }, draft, { 2 }, 4)
check.equal(n, 3)
check.near(known[2], 1 / 2, 1e-4)
check.equal(tostring(cop.propose.model { draft, vocabulary = 3 }):match("vocabulary = 3") ~= nil, true)

-- The first ids, and the ends of an answer (256 and 258) in place of the last of them.
local spoken = cop.model { path = test.tiny { seed = 7, vocab = 263, tokenizer = true }, threads = 1 }
known, n = law(cop.propose.model { spoken, vocabulary = 100 }, spoken, { 2 }, 263)
check.equal(n, 100)
check.is(known[0] and known[97] and known[256] and known[258] and not known[98] and not known[99] and not known[257])

-- Rules stay exact: two tokens of many answers, beside those of plain decoding.
local others = { { .1, .2, .3, .4 }, { .4, .1, .1, .4 }, { .3, .3, .2, .2 }, { .25, .35, .1, .3 } }
local target = cop.model { path = test.bigram(others), threads = 1, precision = "f32" }
local function counts(options, seed)
   local of = {}
   for i = 1, 16 do
      of[i] = 0
   end
   for i = 1, 2500 do
      options.model, options.tokens, options.max_tokens, options.temperature = target, { 2 }, 2, 1
      options.seed, options.ignore_eos = seed + i, true
      local tokens = cop.generate(options).tokens
      of[1 + 4 * tokens[1] + tokens[2]] = of[1 + 4 * tokens[1] + tokens[2]] + 1
   end
   return of
end
local function drafted()
   return cop.propose.model { draft, vocabulary = { 1, 3 } }
end
local plain = counts({}, 0)
for name, options in pairs {
   token = { rule = cop.accept.token {}, tree = cop.tree.chain { depth = 2 }, draw = "independent" },
   block = { rule = cop.accept.block {}, tree = cop.tree.chain { depth = 2 }, draw = "independent" },
   recursive = { rule = cop.accept.recursive {}, tree = cop.tree.widths { 2, 1 }, draw = "without_replacement" },
} do
   options.proposer = drafted()
   local p = cop.stats.chi_square(plain, counts(options, 1000000)).p
   check.is(p > 1e-4, ("%s: %g"):format(name, p))
end

-- What is refused, and where.
local function refused(text, vocabulary)
   check.raises_with(text, function()
      return cop.generate { model = target, tokens = { 1 }, max_tokens = 1,
         proposer = cop.propose.model { draft, vocabulary = vocabulary } }
   end)
end
local wanted = "cop.propose.model: option \"vocabulary\" must be a list of token ids (from 0), a number of tokens, or "
   .. "one of \"same\", \"auto\", \"intersection\", \"text\", \"string\", got "
refused(wanted .. "0", 0)
refused(wanted .. "2.5", 2.5)
refused(wanted .. "-1", { 1, -1 })
refused(wanted .. "an empty list", {})
refused(wanted .. "\"all\"", "all")
refused("vocabulary holds token id 4; the target's ids are 0 to 3", { 1, 4 })
refused("vocabulary holds token id 1 twice", { 1, 2, 1 })
refused("vocabulary has 5 tokens; the target has 4", 5)
check.raises_with("option \"vocabulary\" must be a list of token ids (from 0) or a number of tokens, got \"same\"",
   function() return cop.propose.medusa { "no-such-folder", vocabulary = "same" } end)

-- Heads of SmolLM2, with output layers of the target and of their own.
local path = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
local there = io.open(path)
if not there then
   return print("vocabulary.lua: no model here: its heads are skipped")
end
there:close()
local smollm2 = cop.model { path = path, threads = 2 }
local heads = { { "medusa", "experiments/heads/medusa-smollm2" }, { "hydra", "experiments/heads/hydra-smollm2" },
   { "eagle", "experiments/heads/eagle3-smollm2" } }
if test.shared then
   heads[4] = { "eagle", test.shared .. "/models/eagle1-smollm2" }
   heads[5] = { "mlp", test.shared .. "/models/mlp-speculator-smollm2" }
   heads[6] = { "eagle", test.shared .. "/models/eagle3-smollm2" } -- has a vocabulary of its own
end
local context = smollm2.tokenizer:encode("The library of Maren Street opened a repair evening in")
local question = { { role = "user", content = "List five fruits and their colours." } }
local answer = cop.generate { model = smollm2, messages = question, max_tokens = 32 }
for i, head in ipairs(heads) do
   local kind, folder = head[1], head[2]
   local function make(vocabulary)
      return cop.propose[kind] { folder, vocabulary = vocabulary }
   end
   -- What the head drafts at all, best first: every third of it.
   local ids = {}
   for id in pairs(law(make(nil), smollm2, context, 300)) do
      ids[#ids + 1] = id
   end
   table.sort(ids)
   local some = {}
   for j = 1, #ids, 3 do
      some[#some + 1] = ids[j]
   end
   compare(make, smollm2, context, some, 300, head[2])
   local grown = cop.tree.expand_rerank { top_k = 3, depth = 1, budget = 6 }
   for _, tree in ipairs { cop.tree.chain { depth = 3 }, grown } do
      local result = cop.generate { model = smollm2, messages = question, max_tokens = 32, proposer = make(8192),
         tree = tree }
      check.list(result.tokens, answer.tokens, folder)
      check.is(i ~= 3 or result.accepted > 0, "nothing accepted")
   end
   -- A request's processor sees every id, and may raise one that is not drafted.
   local function raised(proposer)
      return cop.generate { model = smollm2, messages = question, max_tokens = 8, proposer = proposer,
         processor = function(_, row) row[answer.tokens[2]] = 50 end }.tokens
   end
   check.list(raised(make { some[1], some[3], some[2] }), raised(), folder)
end
if not test.shared then
   return print("vocabulary.lua: no folder of reference values here: EAGLE-1, MLP and narrow EAGLE-3 heads are skipped")
end
check.raises_with("none of the 1 tokens of vocabulary is drafted", function()
   local eagle3 = cop.propose.eagle { heads[6][2], vocabulary = { 49151 } }
   return cop.propose_once { proposer = eagle3, model = smollm2, context = context }
end)
