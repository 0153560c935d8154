--- cop.steps: step-level speculation. A draft model writes a step, a sentence or a line of reasoning; a judge keeps
-- it, or the target writes that step itself.
--
-- It stands on cop.generate, one call a step, so token-level speculation goes on below (`inside`). At temperature 0
-- a judge that refuses everything gives the target's own answer, one that keeps everything the draft's. Each call
-- reads the whole text before its step.

local cop, core = ...

local spec = {
   { "target", "model", required = true, help = "judges, and writes what is refused" },
   { "draft", "model", required = true,
      help = "writes each step first; of another vocabulary than the target's it reads and writes text" },
   { "prompt", "string", help = "plain text" },
   { "tokens", "table", help = "the prompt as ids of the target" },
   { "messages", "table", help = "a chat: { role =, content = }, …" },
   { "judge", "any", default = "digit",
      help = "function(step) → a score or a boolean, step = { text =, tokens =, index =, prefix = ids before it,"
         .. " target =, draft = }, as a process-reward model of RSD; or \"digit\": the target rates the step 0 to 9"
         .. " by one token (SpecReason); \"log_prob\": mean log-probability under the target; \"cues\": keeps a step"
         .. " without one of the words `cues` (Speculative Thinking)" },
   { "threshold", "number", help = "a score of at least this keeps the step; absent: 7 for digit (SpecReason), 0.7"
      .. " for functions (RSD), -1 for log_prob (ours)" },
   { "question", "string", default = "\n\nFrom 0 (wrong) to 9 (right), how good is the last step? One digit: ",
      help = "what \"digit\" puts behind the step" },
   { "cues", "table", help = "words, lower case; absent: wait, hmm, alternatively, however, let me check" },
   { "boundary", "string", default = "\n\n", help = "ends a step, which keeps it (a blank line: RSD)" },
   { "max_steps", "integer", min = 1, max = 100000, default = 100, help = "steps at most (100: RSD)" },
   { "step_tokens", "integer", min = 1, max = 2 ^ 20, default = 512,
      help = "a step ends here without a boundary, too" },
   { "max_tokens", "integer", min = 1, max = 2 ^ 31 - 1, default = 1024, help = "tokens at most" },
   { "temperature", "number", min = 0, default = 0, help = "of both models" },
   { "top_k", "integer", min = 0, help = "0: off" },
   { "top_p", "number", min = 0, max = 1, help = "1: off" },
   { "min_p", "number", min = 0, max = 1, help = "0: off" },
   { "seed", "long", default = 0, help = "64 bits" },
   { "ignore_eos", "boolean", default = false, help = "end tokens are tokens like others" },
   { "inside", "table", help = "options of cop.generate for what the target writes: proposer, tree, rule, …" },
   { "on_step", "function", help = "function(step) after each; false ends the answer" },
}

-- ---- Judges --------------------------------------------------------------------------------------

local function joined(a, b)
   return table.move(b, 1, #b, #a + 1, table.move(a, 1, #a, 1, {}))
end

local judges = {}

function judges.digit(step, o)
   local target = step.target
   local asked = target.tokenizer:encode(step.before .. step.text .. o.question)
   local row, best = target:score({ context = asked })[0], nil
   for digit = 0, 9 do
      local ids = target.tokenizer:encode(tostring(digit))
      local logit = row[ids[#ids]]
      if not best or logit > best.logit then
         best = { digit = digit, logit = logit }
      end
   end
   return best.digit, 1
end

local CHUNK = 64 -- rows at a time: a row has an entry for every token of the vocabulary

function judges.log_prob(step)
   local context, sum, passes = step.prefix, 0, 0
   for first = 1, #step.tokens, CHUNK do
      local nodes = table.move(step.tokens, first, math.min(first + CHUNK - 1, #step.tokens), 1, {})
      local rows = step.target:score { context = context, nodes = nodes }
      for i, token in ipairs(nodes) do
         sum = sum + rows[i - 1][token] - rows[i - 1]:logsumexp()
      end
      context, passes = joined(context, nodes), passes + 1
   end
   return sum / #step.tokens, passes
end

function judges.cues(step, o)
   local text = (" " .. step.text:lower() .. " "):gsub("[^%w']+", " ")
   for _, cue in ipairs(o.cues or { "wait", "hmm", "alternatively", "however", "let me check" }) do
      if text:find(" " .. cue .. " ", 1, true) then
         return false, 0
      end
   end
   return true, 0
end

local thresholds = { digit = 7, log_prob = -1 }

--- Fills in o.judge, which returns a verdict and its target passes, and o.threshold.
local function choose_judge(o)
   local name = o.judge
   o.threshold = o.threshold or thresholds[name] or 0.7
   if type(name) == "string" then
      o.judge = judges[name] or core.unknown("cop.steps", "judge", name, { "cues", "digit", "log_prob" })
   elseif type(name) ~= "function" then
      core.raise("cop.steps: option \"judge\" must be a function or the name of a judge, got a " .. core.type(name))
   end
end

--- Whether the step is kept, its score (nil for a yes or no), and the target's passes.
local function judged(o, step)
   local is_fine, verdict, passes = pcall(o.judge, step, o)
   if not is_fine then
      error(type(verdict) == "string" and "cop.steps: judge: " .. verdict or verdict, 0)
   elseif type(verdict) == "number" then
      return verdict >= o.threshold, verdict, passes or 0
   elseif type(verdict) ~= "boolean" then
      error(("cop.steps: the judge must return a score or a boolean, got a %s"):format(core.type(verdict)), 0)
   end
   return verdict, nil, passes or 0
end

-- ---- Steps ---------------------------------------------------------------------------------------

local function raise_without_tokenizer(model, name)
   if not model.tokenizer then
      core.raise(("cop.steps: the %s has no tokenizer, and steps are found in text"):format(name))
   end
end

--- The end of the first boundary that begins behind leading white space, or nil.
local function boundary_end(text, boundary)
   local from = text:find("%S")
   local _, last = text:find(boundary, from or #text + 1, true)
   return last
end

--- The fewest tokens that hold the boundary: what came after it belongs to the next step.
local function cut(tokenizer, tokens, boundary)
   local text = ""
   for i, id in ipairs(tokens) do
      text = text .. tokenizer:piece(id)
      if boundary_end(text, boundary) then
         return table.move(tokens, 1, i, 1, {}), i < #tokens
      end
   end
   return tokens, false
end

--- One step of a model: its tokens, the answer of cop.generate, and whether the text ends with it.
local function write(model, ids, o, left, seed, more)
   local options, text = {}, ""
   for key, value in pairs(more or {}) do
      options[key] = value
   end
   for _, key in ipairs { "temperature", "top_k", "top_p", "min_p", "ignore_eos" } do
      options[key] = o[key]
   end
   options.model, options.tokens, options.seed = model, ids, seed
   options.max_tokens = math.min(left, o.step_tokens)
   options.on_token = function(piece)
      text = text .. piece
      return not boundary_end(text, o.boundary)
   end
   local answer, message, code = cop.generate(options)
   if not answer then
      return nil, message, code
   end
   local tokens, was_cut = cut(model.tokenizer, answer.tokens, o.boundary)
   return tokens, answer, answer.finish == "eos" and not was_cut
end

--- A draft's step as tokens of the target.
local function drafted(o, ids, left, seed)
   if o.draft.vocab_size == o.target.vocab_size then
      return write(o.draft, ids, o, left, seed)
   end
   local reader = o.draft.tokenizer
   local tokens, answer, is_last = write(o.draft, reader:encode(o.target.tokenizer:decode(ids), { special = true }), o,
      left, seed)
   if tokens then
      tokens = o.target.tokenizer:encode(reader:decode(tokens))
      tokens = table.move(tokens, 1, math.min(#tokens, left), 1, {})
   end
   return tokens, answer, is_last
end

local Answer = {
   __name = "steps",
   __tostring = function(r)
      return ("answer in %d steps (%s), %d of %d drafted ones kept"):format(#r.steps, r.finish, r.accepted, r.drafted)
   end,
}

local function prompt_of(o)
   if (o.prompt and 1 or 0) + (o.tokens and 1 or 0) + (o.messages and 1 or 0) ~= 1 then
      core.raise("cop.steps: needs exactly one of: prompt, tokens, messages")
   end
   local tokenizer = o.target.tokenizer
   local ids = o.tokens or o.prompt and tokenizer:encode(o.prompt, { bos = tokenizer.adds_bos })
      or select(2, tokenizer:chat(o.messages, { generation = true }))
   if #ids == 0 then
      core.raise("cop.steps: the prompt is empty: it has no token to go on from")
   end
   return ids
end

--- One step, from the draft or the target, into the answer r: true when the text ends with it.
local function take_step(o, r, ids)
   local index, left = #r.steps + 1, o.max_tokens - #r.tokens
   local before = joined(ids, r.tokens)
   local tokens, answer, is_last = drafted(o, before, left, o.seed + 2 * index)
   if not tokens then
      return nil, answer, is_last
   end
   local step = { index = index, origin = "draft", tokens = tokens, text = o.target.tokenizer:decode(tokens),
      prefix = before, before = o.target.tokenizer:decode(before), target = o.target, draft = o.draft }
   local is_kept, score, passes = false, nil, 0
   if #tokens > 0 then
      r.drafted = r.drafted + 1
      is_kept, score, passes = judged(o, step)
   end
   local told = { index = index, origin = "draft", tokens = tokens, text = step.text, score = score }
   r.forward_passes, r.draft_tokens = r.forward_passes + passes, r.draft_tokens + #tokens
   if is_kept then
      r.accepted = r.accepted + 1
   else
      tokens, answer, is_last = write(o.target, before, o, left, o.seed + 2 * index + 1, o.inside)
      if not tokens then
         return nil, answer, is_last
      end
      r.forward_passes, r.target_tokens = r.forward_passes + answer.forward_passes, r.target_tokens + #tokens
      told = { index = index, origin = "target", tokens = tokens, text = o.target.tokenizer:decode(tokens),
         score = score, refused = { tokens = told.tokens, text = told.text } }
   end
   r.steps[index] = told
   r.tokens = joined(r.tokens, tokens)
   return is_last or #tokens == 0, told
end

--- Runs until an end; what it was is r.finish: "eos", "length" (tokens or steps), "cancelled" by on_step.
function cop.steps(given)
   local o = core.options("cop.steps", given, spec)
   raise_without_tokenizer(o.target, "target")
   raise_without_tokenizer(o.draft, "draft")
   if o.boundary == "" then
      core.raise("cop.steps: option \"boundary\" must be text that ends a step, like \"\\n\\n\"")
   end
   choose_judge(o)
   local ids, started = prompt_of(o), core.system.clock()
   local r = { tokens = {}, steps = {}, drafted = 0, accepted = 0, draft_tokens = 0, target_tokens = 0,
      forward_passes = 0, seconds = 0, lossless = false, promise = "L4, none: measured only" }
   while not r.finish do
      local is_last, told, code = take_step(o, r, ids)
      if is_last == nil then
         return nil, told, code
      elseif o.on_step and o.on_step(told) == false then
         r.finish = "cancelled"
      elseif is_last then
         r.finish = "eos"
      elseif #r.tokens >= o.max_tokens or #r.steps >= o.max_steps then
         r.finish = "length"
      end
   end
   r.text = o.target.tokenizer:decode(r.tokens, { special = false })
   r.acceptance = r.drafted > 0 and r.accepted / r.drafted or 0
   r.seconds = core.system.clock() - started
   return setmetatable(r, Answer)
end
