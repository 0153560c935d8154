--- cop.generate: one answer, on an engine of its own that is closed before the answer is returned.

local cop, core = ...

local draws = "independent|without_replacement|deterministic|greedy_draw|hub_pair|beam|selected"

local spec = {
   { "model", "model", required = true, help = "the target" },
   { "prompt", "any", help = "plain text: strings of special tokens stay text" },
   { "tokens", "table", help = "the prompt as token ids" },
   { "messages", "table", help = "a chat: { role =, content = }, …" },
   { "proposer", "propose", help = "absent: plain decoding" },
   { "tree", "tree", help = "absent: the proposer's own chain" },
   { "length", "length", help = "how much of the tree to draft; absent: all of it" },
   { "draw", "choice", choices = draws, help = "absent: the one that rule, tree and proposer fit" },
   { "rule", "accept", help = "absent: match at temperature 0, sample_match above" },
   { "relaxed", "boolean", default = false, help = "allows a pair that is not lossless" },
   { "temperature", "number", min = 0, default = 0, help = "0: the best token" },
   { "top_k", "integer", min = 0, help = "0: off" },
   { "top_p", "number", min = 0, max = 1, help = "1: off" },
   { "min_p", "number", min = 0, max = 1, help = "0: off" },
   { "seed", "long", default = 0, help = "64 bits" },
   { "max_tokens", "integer", min = 1, max = 2 ^ 31 - 1, default = 128, help = "tokens at most" },
   { "min_tokens", "integer", min = 0, max = 2 ^ 31 - 1, default = 0, help = "no end before" },
   { "stop", "any", help = "a string or a list of strings: the answer ends before it" },
   { "stop_tokens", "integers", min = 0, max = 2 ^ 31 - 1, help = "the answer ends before one of them" },
   { "ignore_eos", "boolean", default = false, help = "end tokens are tokens like others" },
   { "logprobs", "integer", min = 0, max = 2 ^ 31 - 1, help = "best tokens to report per position" },
   { "on_token", "function", help = "function(text, info): streaming; false cancels" },
}
for _, row in ipairs(core.processing_options) do
   spec[#spec + 1] = row
end
core.generate_spec = spec

local function tokenizer_of(model, option)
   if not model.tokenizer then
      core.raise(("cop.generate: this model has no tokenizer, so %s cannot be used: give tokens"):format(option))
   end
   return model.tokenizer
end

--- The prompt's ids.
local function prompt_of(o)
   local given = (o.prompt and 1 or 0) + (o.tokens and 1 or 0) + (o.messages and 1 or 0)
   if given ~= 1 then
      core.raise("cop.generate: needs exactly one of: prompt, tokens, messages")
   end
   local ids = o.tokens
   if o.prompt then
      if type(o.prompt) ~= "string" then
         core.raise(("cop.generate: option \"prompt\" must be a string, got %s"):format(tostring(o.prompt)))
      end
      local tokenizer = tokenizer_of(o.model, "prompt")
      ids = tokenizer:encode(o.prompt, { bos = tokenizer.adds_bos })
   elseif o.messages then
      ids = select(2, tokenizer_of(o.model, "messages"):chat(o.messages, { generation = true }))
   end
   if #ids == 0 then
      core.raise("cop.generate: the prompt is empty: it has no token to go on from")
   end
   return ids
end

--- Codes of failures that a script has caused, which are raised.
local broken = { callback = true, argument = true, limit = true, unsound = true, unsupported = true }

local function run(engine)
   repeat
      local active, results, code = engine:step()
      if not active then
         if broken[code] then
            error("cop.generate: " .. results, 0)
         end
         return nil, results, code
      end
      if results[1] then
         return results[1]
      end
   until active == 0
   core.raise("cop.generate: the engine ended without an answer")
end

--- What on_token raises says so, where it is text.
local function named(on_token)
   return on_token and function(...)
      local is_fine, verdict = pcall(on_token, ...)
      if not is_fine then
         error(type(verdict) == "string" and "cop.generate: on_token: " .. verdict or verdict, 0)
      end
      return verdict
   end
end

local Answer = {
   __name = "answer",
   __tostring = function(r)
      return ("answer: %d tokens (%s), block efficiency %.2f"):format(#r.tokens, r.finish, r.block_efficiency or 0)
   end,
}

function cop.generate(options)
   local o = core.options("cop.generate", options, spec)
   if o.logprobs and o.logprobs > o.model.vocab_size then
      core.raise(("cop.generate: option \"logprobs\" must be from 0 to %d, the vocabulary, got %d"):format(
         o.model.vocab_size, o.logprobs))
   end
   core.check_proposer("cop.generate", o.proposer)
   local ids = prompt_of(o)
   local engine <close>, message, code = core.engine(core.with_processing({
      owner = "cop.generate", target = o.model, proposer = o.proposer, tree = o.tree, length = o.length, rule = o.rule,
      draw = o.draw, relaxed = o.relaxed, temperature = o.temperature,
      top_k = o.top_k, top_p = o.top_p, min_p = o.min_p,
   }, o))
   if not engine then
      return nil, message, code
   end
   local facts = engine.facts
   local id
   id, message, code = engine:submit {
      tokens = ids, seed = o.seed, max_tokens = o.max_tokens, min_tokens = o.min_tokens,
      stop = o.stop, stop_tokens = o.stop_tokens, ignore_eos = o.ignore_eos,
      logprobs = o.logprobs, on_text = named(o.on_token), cycles = true,
   }
   if not id then
      return nil, message, code
   end
   local answer
   answer, message, code = run(engine)
   if not answer then
      return nil, message, code
   end
   if answer.finish == "error" and broken[answer.code] then
      error("cop.generate: " .. answer.error, 0)
   end
   answer.draw, answer.rule, answer.lossless = facts.draw, facts.rule, facts.lossless
   answer.tree, answer.proposer, answer.length = facts.tree, facts.proposer, facts.length
   return setmetatable(answer, Answer)
end
