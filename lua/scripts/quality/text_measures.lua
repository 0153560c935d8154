--- Quality measures of answers by name: quality = { "rouge1", "gsm8k_strict", … } of an experiment.
--
-- Each is a function of (item, answer, baseline) as those of cop.quality.custom: nil says that it has
-- nothing to say about this answer (no reference, too short). `needs` names what an item must hold:
-- "reference": texts to compare with, item.reference[turn]; "answer": the gold answer, item.answer.
-- "tests": what HumanEval's items have. The datasets of dataset_formats.lua fill all. Yes/no measures
-- give 1 or 0.

local cop, core = ...

local humaneval, choice = core.use("humaneval"), core.use("choice")

-- ---- References ----------------------------------------------------------------------------------

--- The texts that the dataset gives for this turn; several are alternatives.
local function references(item, turn)
   local list = type(item.reference) == "table" and item.reference[turn]
   if type(list) == "string" then
      return { list }
   end
   local texts = {}
   for _, text in ipairs(type(list) == "table" and list or {}) do
      texts[#texts + 1] = type(text) == "string" and text or nil
   end
   return texts
end

--- The best of the alternatives.
local function best_of(score)
   return function(item, answer)
      local best
      for _, reference in ipairs(references(item, answer.turn)) do
         best = math.max(best or 0.0, score(reference, answer.text))
      end
      return best
   end
end

local function rouge(key)
   return best_of(function(reference, text) return cop.quality.rouge(reference, text)[key] end)
end

local function bleu(item, answer)
   local list = references(item, answer.turn)
   return #list > 0 and cop.quality.bleu({ list }, { answer.text }) or nil
end

-- ---- Gold answers --------------------------------------------------------------------------------

--- As lm-evaluation-harness compares: without commas, dollar signs, one full stop, and in one case.
local function normalised(text)
   return (text:gsub(",", ""):gsub("%$", ""):gsub("^.*#### ", ""):gsub("%.$", ""):lower())
end

local function gsm8k(how)
   return function(item, answer)
      if item.answer == nil then
         return nil
      end
      local found = cop.quality.gsm8k_answer(answer.text, how)
      return found ~= nil and normalised(found) == normalised(tostring(item.answer))
   end
end

-- ---- The text alone ------------------------------------------------------------------------------

--- Different n-grams of words over all of them; nil for a text of fewer words.
local function distinct(text, n)
   local words, seen, different = {}, {}, 0
   for word in text:gmatch("%S+") do
      words[#words + 1] = word
   end
   local total = #words - n + 1
   for i = 1, total do
      local gram = table.concat(words, " ", i, i + n - 1)
      different = different + (seen[gram] and 0 or 1)
      seen[gram] = true
   end
   return total > 0 and different / total or nil
end

local function repetition(_, answer)
   local share = distinct(answer.text, 4)
   return share and 1 - share
end

--- Place of the first token that plain decoding has not, from 1; nil: there is none.
local function first_divergence(_, answer, baseline)
   if not baseline or answer == baseline then
      return nil
   end
   local at = 1
   while answer.tokens[at] and answer.tokens[at] == baseline.tokens[at] do
      at = at + 1
   end
   return at
end

-- ---- The table -----------------------------------------------------------------------------------

local list = {
   { name = "rouge1", needs = "reference", better = "higher", of = rouge("r1"),
     help = "ROUGE-1, F-measure, the best of the references (0 to 1)" },
   { name = "rouge2", needs = "reference", better = "higher", of = rouge("r2"), help = "ROUGE-2, the same" },
   { name = "rougeL", needs = "reference", better = "higher", of = rouge("rl"), help = "ROUGE-L, the same" },
   { name = "bleu", needs = "reference", better = "higher", of = bleu,
     help = "sentence BLEU, smoothing exp (0 to 100); of a corpus: cop.quality.bleu" },
   { name = "chrf", needs = "reference", better = "higher",
     of = best_of(function(reference, text) return cop.quality.chrf(reference, text) end),
     help = "chrF2 of characters (0 to 100)" },
   { name = "gsm8k_strict", needs = "answer", yes_no = true, better = "higher", of = gsm8k("strict"),
     help = "yes/no: the number behind the first \"#### \" is the gold answer" },
   { name = "gsm8k_flexible", needs = "answer", yes_no = true, better = "higher", of = gsm8k("flexible"),
     help = "yes/no: the last number of the text is the gold answer" },
   { name = "multiple_choice", needs = "choices", yes_no = true, better = "higher", of = choice.measure,
     help = "yes/no: the letter that the answer gives (cop.quality.choice_answer) is the right one" },
   { name = "pass_at_1", needs = "tests", yes_no = true, better = "higher", of = humaneval.measure,
     help = "yes/no: the answer's program passes its tests in the sandbox (10 s, 1 GiB); pass_at_K: the unbiased"
        .. "\n                      estimate for K answers, of repeats = K or more" },
   { name = "distinct_2", better = "higher", of = function(_, answer) return distinct(answer.text, 2) end,
     help = "different pairs of words / all pairs (Li et al. 2016)" },
   { name = "repetition", better = "lower", of = repetition,
     help = "1 - different runs of four words / all of them (seq-rep-4, Welleck et al. 2019)" },
   { name = "first_divergence", better = "higher", of = first_divergence,
     help = "place of the first token that plain decoding has not; answers that are the same have no value" },
}

local text_measures = { list = list, names = {}, by_name = {} }
for i, entry in ipairs(list) do
   text_measures.names[i], text_measures.by_name[entry.name] = entry.name, entry
end

local function has(item, needs)
   if needs == "answer" then
      return type(item.answer) == "string" or type(item.answer) == "number"
   elseif needs == "choices" then
      return choice.is_choice(item)
   elseif needs == "tests" then
      return humaneval.has_tests(item)
   end
   for turn = 1, #item.turns do
      if #references(item, turn) > 0 then
         return true
      end
   end
   return false
end

local advice = {
   reference = "a reference text (fields = { prompt =, reference = } of cop.dataset names the field)",
   answer = "a gold answer (item.answer, as the gsm8k format reads it)",
   choices = "the right choice (item.labels and item.answer, as the multiple_choice format reads them)",
   tests = "the task's tests (item.test and item.entry_point, as the humaneval format reads them)",
}

--- How many prompts a measure can be had of.
function text_measures.count(name, prompts)
   local needs, n = text_measures.by_name[name].needs, 0
   for _, item in ipairs(prompts) do
      n = n + ((not needs or has(item, needs)) and 1 or 0)
   end
   return n
end

--- Refuses a measure that none of the prompts can be measured by.
function text_measures.check(name, prompts)
   local needs = text_measures.by_name[name].needs
   if text_measures.count(name, prompts) == 0 and needs then
      core.raise(("cop.experiment: quality \"%s\" compares with %s, and no prompt has one"):format(name, advice[needs]))
   end
end

return text_measures
