--- Proposers that look into texts, on random ones, beside slow definitions that count substrings: prompt
--- lookup, n-gram caches, suffix decoding.

local check = ...
local cop = require("coppice")

-- Park and Miller's generator, so that a failure can be run again.
local state = 20261130
local function random(n)
   state = state * 48271 % 2147483647
   return state % n
end

local function random_text(most, vocabulary)
   local text = {}
   for i = 1, 1 + random(most) do
      text[i] = random(vocabulary)
   end
   return text
end

local function equal_at(text, at, other, from, n)
   for i = 0, n - 1 do
      if text[at + i] ~= other[from + i] then
         return false
      end
   end
   return true
end

-- ---- Lookup -------------------------------------------------------------------------------------

local function copy(text, from, to)
   return table.move(text, from, math.min(to, #text), 1, {})
end

local lookups = {}

function lookups.original(text, how)
   for n = math.min(how.max_ngram, #text), 1, -1 do
      for i = 1, #text - n do
         if i + n + how.tokens - 1 <= #text and equal_at(text, i, text, #text - n + 1, n) then
            return copy(text, i + n, i + n + how.tokens - 1)
         end
      end
   end
   return {}
end

local function first_match(text, least, most, tokens)
   for n = math.min(most, #text - 1), least, -1 do
      for i = 1, #text - n do
         if equal_at(text, i, text, #text - n + 1, n) then
            return copy(text, i + n, i + n + tokens - 1)
         end
      end
   end
   return {}
end

function lookups.hf(text, how)
   return first_match(text, 1, how.max_ngram, how.tokens)
end

function lookups.vllm(text, how)
   return first_match(text, how.min_ngram, how.max_ngram, how.tokens)
end

for case = 1, 150 do
   local text = random_text(40, 2 + random(4))
   local how = { max_ngram = 1 + random(4), tokens = 1 + random(11) }
   how.variant = ({ "original", "hf", "vllm" })[1 + random(3)]
   if how.variant == "vllm" then
      how.min_ngram = 1 + random(how.max_ngram)
   end
   local got = cop.propose_once { proposer = cop.propose.lookup(how), context = text }
   check.list(got.tokens, lookups[how.variant](text, how), how.variant .. " " .. case)
end

-- ---- N-gram caches ------------------------------------------------------------------------------

--- followers[n-gram as text][token] = count
local function count_followers(texts, lengths)
   local followers = {}
   for _, text in ipairs(texts) do
      for at = 2, #text do
         for _, n in ipairs(lengths) do
            if at > n then
               local key = table.concat(text, " ", at - n, at - 1)
               followers[key] = followers[key] or {}
               followers[key][text[at]] = (followers[key][text[at]] or 0) + 1
            end
         end
      end
   end
   return followers
end

--- The follower of the greatest weight if it passes; "tie" where two are equal and pass.
local function choose(counts, weight, samples, percent)
   local total, best, most, is_tie = 0, nil, 0, false
   for token, count in pairs(counts) do
      local w = count * weight(token)
      total = total + count
      is_tie = w == most or (w < most and is_tie)
      if w > most then
         best, most, is_tie = token, w, false
      end
   end
   if total < samples or 100 * counts[best] < percent * total then
      return nil
   end
   return is_tie and "tie" or best
end

local function ngram_draft(text, static, tokens)
   local samples, percent = { 2, 2, 1, 1 }, { 66, 50, 50, 50 }
   local context, corpus = count_followers({ text }, { 1, 2, 3, 4 }), count_followers(static, { 2 })
   local longer, draft = copy(text, 1, #text), {}
   for _ = 1, tokens do
      local known = #longer > 1 and corpus[table.concat(longer, " ", #longer - 1)]
      local token
      for n = math.min(4, #longer), 1, -1 do
         local counts = context[table.concat(longer, " ", #longer - n + 1)]
         token = token or (counts and choose(counts, function(id)
            return known and known[id] and 100 * known[id] or 1
         end, samples[n], percent[n]))
      end
      if known then
         token = token or choose(known, function() return 1 end, samples[2], percent[2])
      end
      if not token or token == "tie" then
         return draft, token == "tie"
      end
      draft[#draft + 1], longer[#longer + 1] = token, token
   end
   return draft, false
end

local n_compared = 0
for case = 1, 150 do
   local vocabulary = 2 + random(6)
   local text, static = random_text(40, vocabulary), {}
   for i = 1, random(3) do
      static[i] = random_text(30, vocabulary)
   end
   local tokens = 1 + random(11)
   local draft, is_tie = ngram_draft(text, static, tokens)
   if not is_tie then
      local proposer = cop.propose.ngram_cache { tokens = tokens, static = static }
      check.list(cop.propose_once({ proposer = proposer, context = text }).tokens, draft, "caches " .. case)
      n_compared = n_compared + 1
   end
end
check.is(n_compared > 50, "too many ties")

-- ---- Suffix decoding ----------------------------------------------------------------------------

local function occurrences(texts, string)
   local n, first, before = 0, math.huge, 0
   for _, text in ipairs(texts) do
      for at = 1, #text - #string + 1 do
         if equal_at(text, at, string, 1, #string) then
            n, first = n + 1, math.min(first, before + at)
         end
      end
      before = before + #text
   end
   return n, first
end

local function extended(string, token)
   local longer = copy(string, 1, #string)
   longer[#longer + 1] = token
   return longer
end

--- Children of a string that occur often enough, most frequent first, of equal ones the older.
local function children(texts, string, vocabulary, least)
   local list = {}
   for token = 0, vocabulary - 1 do
      local longer = extended(string, token)
      local count, first = occurrences(texts, longer)
      if count > 0 and count >= least then
         list[#list + 1] = { string = longer, token = token, count = count, first = first }
      end
   end
   table.sort(list, function(a, b)
      return a.count > b.count or (a.count == b.count and a.first < b.first)
   end)
   return list
end

--- The draft after one match: its nodes, in the order in which they are taken.
local function after_match(texts, match, vocabulary, how)
   local total, nodes, open = occurrences(texts, match), {}, { { string = match } }
   local budget = math.min(how.max_tokens, math.floor(#match * how.factor + 1e-6))
   while #open > 0 do
      table.sort(open, function(a, b)
         return (a.count or total) > (b.count or total)
      end)
      local node = table.remove(open, 1)
      if node.count then
         if #nodes == budget then
            break
         end
         nodes[#nodes + 1] = node
      end
      if #node.string < how.max_depth then
         local below = children(texts, node.string, vocabulary, how.min_probability * total)
         for i = 1, how.shape == "path" and math.min(1, #below) or #below do
            open[#open + 1] = below[i]
         end
      end
   end
   local sum = 0
   for _, node in ipairs(nodes) do
      sum = sum + node.count
   end
   return { nodes = nodes, total = total, score = sum / total, match = #match }
end

local function suffix_draft(context, history, vocabulary, how)
   local best = { score = 0, nodes = {} }
   for _, texts in ipairs { { context }, history } do
      local own
      for m = 1, math.min(#context, how.max_depth) - 1 do
         local match = copy(context, #context - m + 1, #context)
         if occurrences(texts, match) < (texts[1] == context and 2 or 1) then
            break
         end
         local draft = after_match(texts, match, vocabulary, how)
         own = own and own.score > draft.score + 1e-12 and own or draft
      end
      best = own and own.score > best.score + 1e-12 and own or best
   end
   return best
end

for case = 1, 120 do
   local vocabulary = 2 + random(3)
   local context, history = random_text(24, vocabulary), {}
   for i = 1, random(3) do
      history[i] = random_text(30, vocabulary)
   end
   local how = {
      shape = random(2) == 0 and "path" or "tree",
      max_tokens = 1 + random(12),
      max_depth = ({ 4, 7, 64 })[1 + random(3)],
      factor = ({ 0.5, 1, 2 })[1 + random(3)],
      min_probability = ({ 0.05, 0.1, 0.4 })[1 + random(3)],
      history = history,
   }
   local best = suffix_draft(context, history, vocabulary, how)
   local got = cop.propose_once { proposer = cop.propose.suffix_tree(how), context = context }
   local what = ("suffix decoding %d, %s"):format(case, how.shape)
   check.equal(#got.tokens, #best.nodes, what)
   check.is(#best.nodes == 0 or got.match == best.match, what .. ": match")
   table.sort(got.probabilities or {}, function(a, b) return a > b end) -- nodes come level by level
   for i, node in ipairs(best.nodes) do
      check.near(got.probabilities[i], node.count / best.total, 1e-12, what)
      check.is(how.shape == "tree" or got.tokens[i] == node.token, what .. ": token " .. i)
   end
end
