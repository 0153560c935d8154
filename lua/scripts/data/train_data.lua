--- Texts to train on, and their way into the file of training data: prompts that the target answers,
-- questions that it asks itself first, or texts as they are.

local _, core = ...

local data = {}

--- Texts of one turn of the writer: what is generated together is written together, in order.
local CHUNK = 96

-- ---- Where texts come from -----------------------------------------------------------------------

--- First words of questions that the target finishes; it takes them in turns.
local openings = {
   "What", "How", "Why", "Can you", "Write", "Explain", "Give me", "Tell me", "Who", "Where", "When", "Which",
   "Describe", "List", "Compare", "I need", "I want to", "Please", "Create", "Is it", "Are there", "Suggest",
   "Write a short story about", "Write a Python function that", "Summarize", "Translate", "Solve", "Calculate",
   "What is the difference between", "How do I", "What are the benefits of", "Write an email to", "Help me",
   "Imagine", "Define", "Design", "Rewrite the following sentence:", "Name three", "Outline", "In one paragraph,",
}

local function is_ids(value)
   return type(value) == "table" and #value > 0 and math.type(value[1]) == "integer"
end

--- → { count =, kind = "questions" | "ids" | "prompts", … }; raises for what is none of these.
function data.source(o)
   if o.data == nil then
      return { kind = "questions", count = o.questions or 3000 }
   elseif o.questions then
      core.raise("cop.train: give data, or how many questions the target asks itself, not both")
   elseif type(o.data) == "table" and is_ids(o.data[1]) then
      for i, ids in ipairs(o.data) do
         if not is_ids(ids) then
            core.raise(("cop.train: data[%d] is no list of token ids, as data[1] is"):format(i))
         end
      end
      return { kind = "ids", count = #o.data, list = o.data }
   end
   local set = core.as_dataset(o.data)
   if not set then
      core.raise("cop.train: data must be a cop.dataset, a list of texts, or lists of token ids, not empty")
   end
   return { kind = "prompts", count = #set, list = set, sha256 = set.sha256 }
end

--- What a text depends on. More questions go on in the same file.
function data.recipe(o, source)
   local words = { "1", source.kind, source.sha256 or "", tostring(o.answers),
      tostring(o.max_tokens), tostring(o.seed), tostring(o.chat), table.concat(o.temperature, " ") }
   if source.kind == "ids" then
      for _, ids in ipairs(source.list) do
         words[#words + 1] = table.concat(ids, " ")
      end
   end
   return core.system.hash(table.concat(words, "|"))
end

-- ---- Prompts -------------------------------------------------------------------------------------

local function tokenizer_of(o)
   return o.target.tokenizer
      or core.raise("cop.train: the target has no tokenizer: give data as lists of token ids")
end

--- The text before what a user says, up to his first word.
local function before_question(o)
   local mark = "Q0Q0Q0"
   local text = core.use("plan").try(o.target.tokenizer.chat, o.target.tokenizer,
      { { role = "user", content = mark } }, { generation = false })
   return text and text:sub(1, (text:find(mark, 1, true) or 1) - 1) or ""
end

--- Runs jobs { ids =, index =, temperature =, … } to their ends. each(job, result) may end it with nil, message.
local function serve(o, jobs, settings, each)
   local by_request, options = {}, { owner = "cop.train", target = o.target, temperature = settings.temperature,
      top_p = settings.top_p, batch = math.min(o.batch, math.max(#jobs, 1)) }
   local engine <close>, problem, code = core.engine(options)
   if not engine then
      return nil, problem, code
   end
   for _, job in ipairs(jobs) do
      local id
      id, problem, code = engine:submit { tokens = job.ids, id = job.index, seed = settings.seed,
         max_tokens = settings.max_tokens }
      if not id then
         return nil, problem, code
      end
      by_request[job.index] = job
   end
   repeat
      local active, results, failed = engine:step()
      if not active then
         return nil, results, failed
      end
      for _, result in ipairs(results) do
         if result.finish == "error" then
            return nil, ("cop.train: text %d: %s"):format(result.request, tostring(result.error)), result.code
         elseif result.finish == "cancelled" then
            return nil, "cop.train: stopped", "cancelled"
         end
         each(by_request[result.request], result)
      end
      if core.system.interrupted() then
         return nil, "cop.train: stopped", "cancelled"
      end
   until active == 0
   return true
end

--- The questions of a chunk, written by the target: { [index] = text }.
local function ask(o, first, last)
   local tokenizer, head, jobs, texts = tokenizer_of(o), before_question(o), {}, {}
   for index = first, last do
      local opening = openings[index % #openings + 1]
      jobs[#jobs + 1] = { index = index, opening = opening,
         ids = tokenizer:encode(head .. opening, { special = true, bos = tokenizer.adds_bos }) }
   end
   local ok, problem, code = serve(o, jobs, { temperature = 1, top_p = 0.95, seed = o.seed, max_tokens = 48 },
      function(job, result)
         texts[job.index] = job.opening .. result.text:match("^[^\n]*")
      end)
   if not ok then
      return nil, problem, code
   end
   return texts
end

--- The prompts of a chunk as ids, in order.
local function prompts_of(o, source, first, last)
   local jobs, texts = {}, nil
   if source.kind == "questions" then
      local problem, code
      texts, problem, code = ask(o, first, last)
      if not texts then
         return nil, problem, code
      end
   end
   for index = first, last do
      local item = source.list and source.list[index + 1]
      local ids = item
      if source.kind ~= "ids" then
         ids = core.use("prompt").ids(tokenizer_of(o), item or {}, texts and { texts[index] } or { item.turns[1] },
            o.chat)
      end
      if #ids == 0 then
         return nil, ("cop.train: text %d of the data is empty"):format(index + 1), "argument"
      end
      jobs[#jobs + 1] = { index = index, ids = ids, temperature = o.temperature[index % #o.temperature + 1] }
   end
   return jobs
end

-- ---- Writing -------------------------------------------------------------------------------------

local function answer_all(o, jobs)
   for i, temperature in ipairs(o.temperature) do
      local mine = {}
      for _, job in ipairs(jobs) do
         if job.index % #o.temperature + 1 == i then
            mine[#mine + 1] = job
         end
      end
      local ok, problem, code = serve(o, mine, { temperature = temperature, seed = o.seed + 1,
         max_tokens = o.max_tokens }, function(job, result) job.answer = result.tokens end)
      if not ok then
         return nil, problem, code
      end
   end
   return true
end

--- What a prompt may take of the context, so that an answer has room.
local function shorten(o, jobs)
   local most = o.target.context - (o.answers and math.min(o.max_tokens, o.target.context // 2) or 0)
   for _, job in ipairs(jobs) do
      if #job.ids > most then
         job.ids = table.move(job.ids, 1, most, 1, {})
      end
   end
end

local function write_chunk(o, source, writer, first, last)
   local jobs, problem, code = prompts_of(o, source, first, last)
   if not jobs then
      return nil, problem, code
   end
   shorten(o, jobs)
   if o.answers then
      local ok
      ok, problem, code = answer_all(o, jobs)
      if not ok then
         return nil, problem, code
      end
   end
   local tokens = 0
   for _, job in ipairs(jobs) do
      local ids, n_prompt = table.move(job.ids, 1, #job.ids, 1, {}), o.answers and #job.ids or 0
      table.move(job.answer or {}, 1, #(job.answer or {}), #ids + 1, ids)
      local ok
      ok, problem, code = writer:add(ids, n_prompt, job.index)
      if not ok then
         return nil, problem, code
      end
      tokens = tokens + #ids
   end
   return tokens
end

--- Makes the file whole, from where it ends. → texts made now, tokens | nil, message, code
function data.make(o, source, layers, fingerprint, console)
   local writer <close>, next_index, code = core.train.writer(o.target, o.cache, fingerprint, data.recipe(o, source),
      layers)
   if not writer then
      return nil, next_index, code
   end
   local made, tokens, started = 0, 0, core.system.clock()
   for first = next_index, source.count - 1, CHUNK do
      local last = math.min(first + CHUNK, source.count) - 1
      local count, problem
      count, problem, code = write_chunk(o, source, writer, first, last)
      if not count then
         return nil, problem, code
      end
      made, tokens = made + last - first + 1, tokens + count
      console:progress(last + 1, source.count, made, ("texts  %.0f tokens/s"):format(
         tokens / (core.system.clock() - started)))
   end
   local ok, problem
   ok, problem, code = writer:close()
   if not ok then
      return nil, problem, code
   end
   return made, tokens
end

return data
