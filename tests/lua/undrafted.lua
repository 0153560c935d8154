--- A cycle without drafted nodes says why; the answer is that of plain decoding all the same.

local check, test = ...
local cop = require("coppice")

local path = test.tiny { seed = 7, tokenizer = true, vocab = 300 }
local target = cop.model { path = path, context = 96 }
local draft = cop.model { path = path, context = 32 }
local unseen = { 11, 23, 37, 52, 64, 71, 88, 95 } -- no token twice

local function generate(options)
   options.model, options.tokens, options.ignore_eos = target, options.tokens or unseen, true
   options.max_tokens = options.max_tokens or 60
   return cop.generate(options)
end

local function reasons(r)
   local list = {}
   for i, cycle in ipairs(r.cycles) do
      check.equal(cycle.undrafted == nil, cycle.nodes > 0, "cycle " .. i)
      list[i] = cycle.undrafted or "-"
   end
   return list
end

local plain = generate {}
for _, cycle in ipairs(plain.cycles) do
   check.equal(cycle.undrafted, nil) -- there is no proposer
end

-- Nothing to go on: nothing of the text has been there before.
local by_text = {
   lookup = cop.propose.lookup {}, suffix_tree = cop.propose.suffix_tree {},
   suffix_automaton = cop.propose.suffix_automaton {}, ngram_cache = cop.propose.ngram_cache {},
   lookahead = cop.propose.lookahead { prompt_pool = false },
   mixture = cop.propose.mixture { cop.propose.lookup {}, cop.propose.suffix_automaton {} },
   cascade = cop.propose.cascade { cop.propose.lookup {}, cop.propose.ngram_cache {}, depths = { 1, 2 } },
}
for name, proposer in pairs(by_text) do
   local r = generate { proposer = proposer }
   check.list(r.tokens, plain.tokens, name)
   check.equal(reasons(r)[1], "nothing", name)
   for _, tokens in ipairs { { 5 }, { 5, 5 } } do
      local few = generate { proposer = proposer, tokens = tokens, max_tokens = 8 }
      check.list(few.tokens, generate({ tokens = tokens, max_tokens = 8 }).tokens, name)
      reasons(few)
   end
end

-- The draft's context ends first: over from there on.
local by_model = {
   model = cop.propose.model { draft },
   intersection = cop.propose.model { draft, vocabulary = "intersection" },
   string = cop.propose.model { draft, vocabulary = "string" },
   staged = cop.propose.staged { draft, cop.propose.lookup {} },
   parallel = cop.propose.parallel { draft, mask_token = 7 },
   mixture = cop.propose.mixture { cop.propose.model { draft }, cop.propose.model { draft, depth = 2 } },
   cascade = cop.propose.cascade { cop.propose.model { draft }, cop.propose.model { draft }, depths = { 1, 2 } },
}
local spelt = { intersection = true, string = true } -- unused pieces are many tokens there
for name, proposer in pairs(by_model) do
   local r = generate { proposer = proposer, max_tokens = 80 }
   check.list(r.tokens, generate({ max_tokens = 80 }).tokens, name)
   local list, first = reasons(r), nil
   check.equal(list[1], "-", name)
   for i, reason in ipairs(list) do
      first = first or (reason == "over" and i)
      local is_last = i == #list and reason == "limit"
      check.is(not first or reason == "over" or is_last, name .. ": " .. table.concat(list, " "))
   end
   check.is(first, name .. ": " .. table.concat(list, " "))
   check.is(spelt[name] or (r.cycles[first].context + 1 > 32 and r.cycles[first - 1].context + 1 <= 32), name)
   local long = {}
   for i = 1, 40 do
      long[i] = i
   end
   check.equal(reasons(generate { proposer = proposer, tokens = long, max_tokens = 8 })[1], "over", name)
end

-- So where its cache was given few pages: two, of 16 tokens.
local poor = cop.model { path = path, context = 96, pages = 2 }
for name, proposer in pairs {
   model = cop.propose.model { poor }, string = cop.propose.model { poor, vocabulary = "string" },
   staged = cop.propose.staged { poor, cop.propose.lookup {} },
   parallel = cop.propose.parallel { poor, mask_token = 7 },
} do
   local r = generate { proposer = proposer, max_tokens = 80 }
   check.equal(r.finish, "length", name)
   check.list(r.tokens, generate({ max_tokens = 80 }).tokens, name)
   local list = reasons(r)
   check.equal(list[1] .. " " .. list[#list - 1], "- over", name)
end

-- Layers of the target draft no further than its context, whoever asks: about any text, or ahead of the engine's tree.
local roomy = cop.model { path = path, context = 200 }
for _, how in ipairs { { exit = 1 }, { skip_attention = { 1 } } } do
   local layers = cop.propose.layer_skip(how)
   local r = generate { proposer = cop.propose.staged { roomy, layers }, max_tokens = 200 }
   check.list(r.tokens, generate({ max_tokens = 200 }).tokens)
   check.equal(#r.tokens, 96 - #unseen)
   for n, drafted in pairs { [90] = 5, [94] = 3, [96] = 1, [97] = 0, [120] = 0 } do
      local ids = {}
      for i = 1, n do
         ids[i] = i
      end
      check.equal(#cop.propose_once({ proposer = layers, model = target, context = ids }).tokens, drafted, n)
   end
end

-- One token is left, or the length policy drafts none.
local one = generate { proposer = cop.propose.model { draft }, max_tokens = 1 }
check.list(reasons(one), { "limit" })
local policy = cop.length.custom { name = "never", decide = function() return false end }
local never = generate { proposer = cop.propose.model { draft }, length = policy, max_tokens = 5 }
for _, reason in ipairs(reasons(never)) do
   check.is(reason == "length" or reason == "limit", reason)
end

-- A shape that a proposer brings along is not one that a script could name.
check.raises_with("the proposer's own tree cannot pick children by draw = \"independent\"; it can by \"deterministic\"",
   function() return generate { proposer = cop.propose.lookahead {}, draw = "independent", temperature = 1 } end)
