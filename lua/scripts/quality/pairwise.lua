--- cop.quality.pairwise: whether a judge prefers an arm's answer to plain decoding's of the same prompt.
--
-- A judge tends to like the place in which an answer stands, so it is asked twice, with the answers in both
-- orders, and the value is the mean: 1 won, 0 lost, 0.5 a tie or a judge that goes by the place. The mean over
-- prompts is the win rate; equal answers are a tie that nobody is asked about. A judge that raises costs the
-- value of that answer alone.

local cop, core = ...

local options = {
   { "judge", "any", required = true, positional = true },
   { "name", "string", default = "win_rate" },
   { "instruction", "string", default = "Which answer is better? Reply with one letter, A or B." },
}

local verdicts = { first = 1.0, second = 0.0, tie = 0.5 }

--- What a script's judge said, as the share that the first answer won.
local function share_of(value)
   local share = verdicts[value] or value
   if type(share) ~= "number" or not (share >= 0 and share <= 1) then
      local got = type(value) == "string" and ("\"%s\""):format(value) or type(value) == "number" and tostring(value)
         or "a " .. core.type(value)
      error("the judge must return \"first\", \"second\", \"tie\" or a number from 0 (second) to 1 (first), got "
         .. got, 0)
   end
   return share + 0.0
end

-- ---- A model as judge ----------------------------------------------------------------------------

--- The one token that a letter is.
local function letter_id(model, letter)
   local ids = model.tokenizer:encode(letter)
   if #ids ~= 1 then
      core.raise(("cop.quality.pairwise: the judge's tokenizer has no token for \"%s\""):format(letter))
   end
   return ids[1]
end

--- P(A) / (P(A) + P(B)) of what the model would reply: no coin, one pass.
local function by_model(model, instruction)
   local tokenizer = model.tokenizer
   local a, b = letter_id(model, "A"), letter_id(model, "B")
   return function(item, first, second)
      local text = ("Question:\n%s\n\nAnswer A:\n%s\n\nAnswer B:\n%s\n\n%s"):format(item.turns[first.turn], first.text,
         second.text, instruction)
      local ok, _, ids = pcall(tokenizer.chat, tokenizer, { { role = "user", content = text } }, { generation = true })
      if not ok or not ids then
         ids = tokenizer:encode(text .. "\n", { bos = tokenizer.adds_bos })
      end
      local rows, problem = model:score { context = ids }
      if not rows then
         error(problem, 0)
      end
      return 1 / (1 + math.exp(rows[0][b] - rows[0][a]))
   end
end

local function judge_of(o)
   if type(o.judge) == "function" then
      return o.judge
   elseif core.type(o.judge) ~= "model" then
      core.raise("cop.quality.pairwise: judge must be a function(item, first, second) or a cop.model, got a "
         .. core.type(o.judge))
   elseif not o.judge.tokenizer then
      core.raise("cop.quality.pairwise: the judge has no tokenizer, so it cannot read answers")
   end
   return by_model(o.judge, o.instruction)
end

--- cop.quality.pairwise { judge, name = "win_rate", instruction = } → a measure for quality = { … }
function cop.quality.pairwise(given)
   local o = core.options("cop.quality.pairwise", given, options)
   local judge = judge_of(o)
   return cop.quality.custom { name = o.name, better = "higher", of = function(item, answer, baseline)
      if answer.is_plain or not baseline then
         return nil
      elseif answer == baseline then
         return 0.5
      end
      return (share_of(judge(item, answer, baseline)) + 1 - share_of(judge(item, baseline, answer))) / 2
   end }
end
