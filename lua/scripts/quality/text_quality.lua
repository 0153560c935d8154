--- cop.quality: how good an answer's text is, without another model. Plain functions; what papers name.
--
--   rouge         Lin 2004, as Google's rouge-score: lower-cased runs of a-z and 0-9, no stemming
--   bleu          Papineni et al. 2002, as sacreBLEU with "13a" tokens (Post 2018, arXiv:1804.08771)
--   chrf          Popović 2015, as sacreBLEU's chrF2: characters up to 6 in a row, no white space
--   gsm8k_answer  the two filters of lm-evaluation-harness's gsm8k task
--   pass_at_k     Chen et al. 2021, arXiv:2107.03374

local cop, core = ...

cop.quality = cop.quality or {}

local numbers = core.use("numbers")

local function check_text(owner, name, value)
   if type(value) ~= "string" then
      core.raise(("%s: %s must be a text, got a %s"):format(owner, name, core.type(value)))
   end
end

--- White space of Unicode as ASCII blanks, as Python's split() sees it.
local function with_blanks(text)
   if text:find("[\x1c-\x1f\x80-\xff]") then
      text = text:gsub("[\x1c-\x1f]", " "):gsub("\u{85}", " "):gsub("\u{a0}", " "):gsub("\u{1680}", " ")
         :gsub("\xe2\x80[\x80-\x8a\xa8\xa9\xaf]", " "):gsub("\u{205f}", " "):gsub("\u{3000}", " ")
   end
   return text
end

-- ROUGE ---------------------------------------------------------------------------------------------

--- Two letters outside ASCII have a lower case in it: the dotted capital I and the Kelvin sign.
local function words_of(text)
   local words = {}
   for word in text:gsub("\u{130}", "i "):gsub("\u{212a}", "k"):lower():gmatch("[a-z0-9]+") do
      words[#words + 1] = word
   end
   return words
end

--- n-grams with their counts, and how many there are.
local function grams_of(words, n)
   local counts = {}
   for i = 1, #words - n + 1 do
      local gram = table.concat(words, "\0", i, i + n - 1)
      counts[gram] = (counts[gram] or 0) + 1
   end
   return counts, math.max(#words - n + 1, 0)
end

local function f_measure(common, n_reference, n_candidate)
   if common == 0 then
      return 0.0
   end
   local precision, recall = common / n_candidate, common / n_reference
   return 2 * precision * recall / (precision + recall)
end

local function rouge_n(reference, candidate, n)
   local wanted, n_wanted = grams_of(reference, n)
   local given, n_given = grams_of(candidate, n)
   local common = 0
   for gram, count in pairs(given) do
      common = common + math.min(count, wanted[gram] or 0)
   end
   return f_measure(common, n_wanted, n_given)
end

local function longest_common(a, b)
   local row = {}
   for j = 0, #b do
      row[j] = 0
   end
   for i = 1, #a do
      local diagonal = 0
      for j = 1, #b do
         local above = row[j]
         row[j] = a[i] == b[j] and diagonal + 1 or math.max(above, row[j - 1])
         diagonal = above
      end
   end
   return row[#b]
end

--- F-measures of one pair of texts → { r1 =, r2 =, rl = }.
function cop.quality.rouge(reference, candidate)
   check_text("cop.quality.rouge", "the reference", reference)
   check_text("cop.quality.rouge", "the candidate", candidate)
   local a, b = words_of(reference), words_of(candidate)
   return { r1 = rouge_n(a, b, 1), r2 = rouge_n(a, b, 2), rl = f_measure(longest_common(a, b), #a, #b) }
end

-- BLEU ----------------------------------------------------------------------------------------------

local entities = { { "&quot;", '"' }, { "&amp;", "&" }, { "&lt;", "<" }, { "&gt;", ">" } }

--- Tokens "13a": punctuation apart, but for points and commas inside numbers.
local function tokens_13a(text)
   text = with_blanks(text):gsub("%s+$", ""):gsub("<skipped>", ""):gsub("%-\n", ""):gsub("\n", " ")
   for _, entity in ipairs(entities) do
      text = text:gsub(entity[1], entity[2])
   end
   text = (" " .. text .. " "):gsub("[{-~[-` -&(-+:-@/]", " %0 ")
   text = text:gsub("([^0-9])([.,])", "%1 %2 "):gsub("([.,])([^0-9])", " %1 %2"):gsub("([0-9])(%-)", "%1 %2 ")
   local tokens = {}
   for token in text:gmatch("%S+") do
      tokens[#tokens + 1] = token
   end
   return tokens
end

local orders = 4

--- Adds one candidate's clipped n-gram matches against all of its references; of their lengths the
-- closest counts, ties to the shorter.
local function add_sentence(sums, references, candidate)
   local tokens = tokens_13a(candidate)
   local most, closest = {}, nil
   for _, reference in ipairs(references) do
      local words = tokens_13a(reference)
      local gap, best = math.abs(#words - #tokens), closest and math.abs(closest - #tokens)
      if not closest or gap < best or gap == best and #words < closest then
         closest = #words
      end
      for n = 1, orders do
         for gram, count in pairs(grams_of(words, n)) do
            most[gram] = math.max(most[gram] or 0, count)
         end
      end
   end
   sums.candidate, sums.reference = sums.candidate + #tokens, sums.reference + closest
   for n = 1, orders do
      local given, total = grams_of(tokens, n)
      sums.total[n] = sums.total[n] + total
      for gram, count in pairs(given) do
         sums.correct[n] = sums.correct[n] + math.min(count, most[gram] or 0)
      end
   end
end

--- → score, { precisions = as counted, brevity_penalty =, candidate_length =, reference_length = }
local function bleu_score(sums, is_smoothed)
   local logs, smooth = 0.0, 1
   local brevity = sums.candidate < sums.reference and math.exp(1 - sums.reference / sums.candidate) or 1.0
   local parts = { precisions = {}, brevity_penalty = brevity, candidate_length = sums.candidate,
      reference_length = sums.reference }
   for n = 1, orders do
      parts.precisions[n] = sums.total[n] > 0 and sums.correct[n] / sums.total[n] or 0.0
   end
   if sums.correct[1] == 0 then
      return 0.0, parts
   end
   for n = 1, orders do
      local correct, total = sums.correct[n], sums.total[n]
      if total == 0 or correct == 0 and not is_smoothed then
         return 0.0, parts
      end
      if correct == 0 then
         smooth = smooth * 2
         correct = 1 / smooth
      end
      logs = logs + math.log(correct / total)
   end
   return 100 * brevity * math.exp(logs / orders), parts
end

local bleu_options = { { "smoothing", "choice", choices = "exp|none", default = "exp" } }

--- Corpus BLEU from 0 to 100, and what it is made of. references[i]: a text, or a list of texts, for candidates[i].
function cop.quality.bleu(references, candidates, options)
   local owner = "cop.quality.bleu"
   local o = core.options(owner, options or {}, bleu_options)
   if type(references) ~= "table" or type(candidates) ~= "table" or #references ~= #candidates or #candidates == 0 then
      core.raise(owner .. ": needs a list of references and a list of as many candidates")
   end
   local sums = { candidate = 0, reference = 0, total = { 0, 0, 0, 0 }, correct = { 0, 0, 0, 0 } }
   for i, candidate in ipairs(candidates) do
      local list = type(references[i]) == "table" and references[i] or { references[i] }
      check_text(owner, ("candidates[%d]"):format(i), candidate)
      for j = 1, math.max(#list, 1) do
         check_text(owner, ("reference %d of candidates[%d]"):format(j, i), list[j])
      end
      add_sentence(sums, list, candidate)
   end
   return bleu_score(sums, o.smoothing == "exp")
end

-- chrF ----------------------------------------------------------------------------------------------

local character_orders = 6

local function characters_of(text)
   local list = {}
   for character in with_blanks(text):gsub("%s+", ""):gmatch(utf8.len(text) and utf8.charpattern or ".") do
      list[#list + 1] = character
   end
   return list
end

--- F-measure of characters in a row that weighs recall twice, 0 to 100: precision and recall are means
-- over the orders that both texts have.
function cop.quality.chrf(reference, candidate)
   check_text("cop.quality.chrf", "the reference", reference)
   check_text("cop.quality.chrf", "the candidate", candidate)
   local a, b = characters_of(reference), characters_of(candidate)
   local precision, recall, n_orders = 0.0, 0.0, 0
   for n = 1, math.min(character_orders, #a, #b) do
      local wanted, n_wanted = grams_of(a, n)
      local given, n_given = grams_of(b, n)
      local common = 0
      for gram, count in pairs(given) do
         common = common + math.min(count, wanted[gram] or 0)
      end
      precision, recall, n_orders = precision + common / n_given, recall + common / n_wanted, n_orders + 1
   end
   if precision == 0 then
      return 0.0
   end
   precision, recall = precision / n_orders, recall / n_orders
   return 100 * 5 * precision * recall / (4 * precision + recall)
end

-- Likelihood ----------------------------------------------------------------------------------------

--- exp of the mean negative log-probability (nats) of a text's tokens.
function cop.quality.perplexity(logprobs)
   if type(logprobs) ~= "table" or #logprobs == 0 then
      core.raise("cop.quality.perplexity: needs a list of log-probabilities")
   end
   local sum = 0.0
   for i = 1, #logprobs do
      local value = logprobs[i]
      if type(value) ~= "number" or value ~= value or value > 0 then
         core.raise(("cop.quality.perplexity: logprobs[%d] must be a number of at most 0, got %s"):format(i,
            tostring(value)))
      end
      sum = sum + value
   end
   return math.exp(-sum / #logprobs)
end

-- Tasks ---------------------------------------------------------------------------------------------

--- The last of: an optional minus and two or more of $ 0-9 . , ; or an optional minus and digits.
local function last_number(text)
   local found, at = nil, 1
   while at <= #text do
      local run = text:match("^%-?[$0-9.,]+", at)
      local piece = run and #run:gsub("^%-", "") >= 2 and run or text:match("^%-?[0-9]+", at)
      found = piece or found
      at = at + (piece and #piece or 1)
   end
   return found
end

--- The number that an answer gives, as it is written there; nil when there is none. "strict" wants
-- "#### 42" (the first), "flexible" takes the last thing that looks like a number.
function cop.quality.gsm8k_answer(text, how)
   local owner = "cop.quality.gsm8k_answer"
   check_text(owner, "the answer", text)
   if how == "strict" then
      return text:match("#### (%-?[0-9.,]+)")
   elseif how == "flexible" then
      return last_number(text)
   end
   core.raise(("%s: the second argument must be \"strict\" or \"flexible\", got %s"):format(owner, tostring(how)))
end

--- Probability that one of k answers, drawn from n of which `correct` pass, passes.
function cop.quality.pass_at_k(n, correct, k)
   local owner = "cop.quality.pass_at_k"
   numbers.whole(owner, "n", n)
   numbers.whole(owner, "correct", correct)
   numbers.whole(owner, "k", k)
   if correct > n or k < 1 or k > n then
      core.raise(("%s: needs correct <= n and 1 <= k <= n, got n = %d, correct = %d, k = %d"):format(owner, n, correct,
         k))
   end
   -- C(n - correct, k) / C(n, k), as a product over the fewer of correct and k
   local all_fail = 1.0
   for i = 0, math.min(correct, k) - 1 do
      all_fail = all_fail * (1 - math.max(correct, k) / (n - i))
      if all_fail < 1e-17 then
         return 1.0
      end
   end
   return 1 - all_fail
end
