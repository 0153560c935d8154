--- The shapes of records that datasets have: how one is recognised by its fields, and read.
--
-- A reader makes an item of a decoded record:
--
--     turns      texts of the user, one for each turn; the answers between them are the arm's own
--     id, category   a short text or a number, or nothing
--     reference  list: what the file gives as answers, entry t for turn t (texts, or lists of them)
--     system     text that stands before the first turn
--     chat       false: the text is to be continued as it stands, not answered as a message
--
-- and what only one format has (answer, choices, labels, entry_point, test). Every other field of the record is the
-- item's too, under its own name. It returns nil and what is wrong with
-- which field, or false for a record in which nobody asks anything.

local _, core = ...

local formats = {}
local null = core.system.json.null

-- ---- Values --------------------------------------------------------------------------------------

local label_bytes = 200 -- ids and categories are printed and stored with every answer

local function is_list(value)
   return type(value) == "table" and getmetatable(value) ~= nil
end

local function kind(value)
   if value == nil then
      return "nothing"
   elseif value == null then
      return "null"
   elseif type(value) == "table" then
      return is_list(value) and (#value == 0 and "an empty list" or "a list") or "an object"
   end
   return ({ string = "text", number = "a number", boolean = "true or false" })[type(value)] or type(value)
end

--- A name or value from the file, short and printable.
local function show(value)
   local text = tostring(value):gsub("%c", "?")
   return utf8.len(text) and #text > 40 and text:sub(1, utf8.offset(text, 0, 38) - 1) .. "…" or text
end

local function field_names(record)
   local names = {}
   for name in pairs(record) do
      names[#names + 1] = show(name)
   end
   table.sort(names)
   local more = #names > 12 and (" and %d more"):format(#names - 12) or ""
   return table.concat(names, ", ", 1, math.min(#names, 12)) .. more
end

local function wrong(name, wanted, value)
   return nil, ("field \"%s\" must be %s, got %s"):format(show(name), wanted, kind(value))
end

--- A text that must be there. `may_be_empty` for what follows a prompt.
local function text_of(record, name, may_be_empty)
   local value = record[name]
   if value == nil then
      return nil, ("no text in field \"%s\" (fields: %s)"):format(show(name), field_names(record))
   elseif type(value) ~= "string" then
      return wrong(name, "text", value)
   elseif value == "" and not may_be_empty then
      return nil, ("field \"%s\" is empty"):format(show(name))
   end
   return value
end

--- A text that may be missing, null or empty → text or nil | nil, problem
local function maybe_text(record, name)
   local value = record[name]
   if value == nil or value == null or value == "" then
      return nil
   elseif type(value) ~= "string" then
      return wrong(name, "text", value)
   end
   return value
end

--- A text or number that names something → label or nil | nil, problem
local function label_of(record, name)
   local value = record[name]
   if value == nil or value == null or value == "" or type(value) == "number" then
      return type(value) == "number" and value or nil
   elseif type(value) ~= "string" then
      return wrong(name, "text or a number", value)
   elseif #value > label_bytes or value:find("%c") then
      return nil, ("field \"%s\" must be at most %d bytes of printable text"):format(show(name), label_bytes)
   end
   return value
end

--- Texts of a list, all of them there.
local function texts_of(record, name)
   local value = record[name]
   if not is_list(value) or #value == 0 then
      return nil, ("\"%s\" must be a list of strings, got %s"):format(show(name), kind(value))
   end
   for i, text in ipairs(value) do
      if type(text) ~= "string" then
         return nil, ("\"%s\" must be a list of strings, entry %d is %s"):format(show(name), i, kind(text))
      elseif text == "" then
         return nil, ("\"%s\": entry %d is empty"):format(show(name), i)
      end
   end
   return value
end

local function reference_of(record, name)
   local value = record[name]
   if value == nil or value == null then
      return nil
   elseif type(value) == "string" then
      return { value }
   elseif not is_list(value) then
      return wrong(name, "text or a list", value)
   end
   return value
end

--- Fills an item's fields by readers: { target, reader, field }; the first problem ends it.
local function fill(item, record, steps)
   for _, step in ipairs(steps) do
      local value, problem = step[2](record, step[3], step[4])
      if problem then
         return nil, problem
      end
      item[step[1]] = value
   end
   return item
end

-- ---- MT-bench, Spec-Bench, EAGLE's question files: question_id, category, turns, reference --------

local function read_questions(record)
   local id = record.question_id ~= nil and "question_id" or "id"
   return fill({ id_field = id }, record, {
      { "turns", texts_of, "turns" }, { "id", label_of, id }, { "category", label_of, "category" },
      { "reference", reference_of, "reference" },
   })
end

-- ---- GSM8K: question, answer with the number behind "####" ---------------------------------------

--- The number behind the first answer mark: without "$", thousands' commas and a full stop, its sign
-- kept. nil: there is no mark.
function formats.final_number(text)
   local tail = text:match("####[ \t]*([^\r\n]*)")
   return tail and tail:gsub("[,$%s]", ""):gsub("%.$", "") or nil
end

local function read_gsm8k(record)
   local item, problem = fill({ id_field = "id" }, record, {
      { "question", text_of, "question" }, { "answer", text_of, "answer" }, { "id", label_of, "id" },
      { "category", label_of, "category" },
   })
   if not item then
      return nil, problem
   end
   local number = formats.final_number(item.answer)
   if not number then
      return nil, "field \"answer\" has no \"####\" before its number"
   end
   item.turns, item.reference, item.question, item.answer = { item.question }, { item.answer }, nil, number
   return item
end

-- ---- HumanEval: task_id, prompt, entry_point, canonical_solution, test ---------------------------
-- The prompt is the head of a Python function. It is continued as it stands, as the benchmark is
-- meant; chat = true asks for it in words instead.

local request = "Complete this Python function. Answer with the whole function in one code block."

local function read_humaneval(record, o)
   local item, problem = fill({ id_field = "task_id", chat = false }, record, {
      { "prompt", text_of, "prompt" }, { "id", label_of, "task_id" }, { "entry_point", text_of, "entry_point" },
      { "test", maybe_text, "test" }, { "reference", reference_of, "canonical_solution" },
   })
   if not item then
      return nil, problem
   end
   if o.chat then
      item.chat = true
      item.turns = { ("%s\n\n```python\n%s\n```"):format(request, (item.prompt:gsub("\n+$", ""))) }
   else
      item.turns = { item.prompt }
   end
   item.prompt = nil
   return item
end

-- ---- Multiple choice: MMLU (question, choices, answer: a place from 0), ARC, CommonsenseQA, OpenBookQA
-- (question or question_stem, choices { text, label }, answerKey: a label) --------------------------

--- Texts and labels of the choices → texts, labels | nil, problem
local function choices_of(record)
   local value = record.choices
   if is_list(value) then
      local texts, problem = texts_of(record, "choices")
      local labels = {}
      for i = 1, texts and #texts or 0 do
         labels[i] = string.char(64 + i)
      end
      return texts, texts and labels or problem
   elseif type(value) ~= "table" or value == null then
      return wrong("choices", "a list of texts, or { text, label }", value)
   end
   local texts, problem = texts_of(value, "text")
   local labels, trouble = texts_of(value, "label")
   if texts and labels and #texts ~= #labels then
      trouble = ("has %d entries for %d texts"):format(#labels, #texts)
      labels = nil
   end
   if not texts or not labels then
      return nil, "field \"choices\": " .. (problem or trouble)
   end
   return texts, labels
end

--- The label of the right choice → label | nil, problem
local function right_choice(record, labels)
   local name = record.answerKey ~= nil and "answerKey" or "answer"
   local value = record[name]
   local label = math.type(value) == "integer" and name == "answer" and labels[value + 1] or value
   for _, known in ipairs(labels) do
      if known == label then
         return label
      end
   end
   return nil, ("field \"%s\" must be one of %s%s, got %s"):format(name, table.concat(labels, ", "),
      name == "answer" and (" or a number from 0 to %d"):format(#labels - 1) or "",
      (type(value) == "string" or type(value) == "number") and show(value) or kind(value))
end

local function read_choice(record)
   local question = record.question_stem ~= nil and "question_stem" or "question"
   local item, problem = fill({ id_field = "id" }, record, {
      { "question", text_of, question }, { "id", label_of, "id" },
      { "category", label_of, record.category ~= nil and "category" or "subject" },
   })
   if not item then
      return nil, problem
   end
   local texts, labels = choices_of(record)
   if not texts then
      return nil, labels
   elseif #texts < 2 or #texts > 26 then
      return nil, ("field \"choices\" must have 2 to 26 entries, got %d"):format(#texts)
   end
   item.answer, problem = right_choice(record, labels)
   if not item.answer then
      return nil, problem
   end
   local lines = { item.question, "" }
   for i, text in ipairs(texts) do
      lines[#lines + 1] = ("%s. %s"):format(labels[i], text)
   end
   lines[#lines + 1] = "\nAnswer with the letter of the right choice."
   item.turns, item.question, item.choices, item.labels = { table.concat(lines, "\n") }, nil, texts, labels
   return item
end

-- ---- ShareGPT and chat messages: conversations { from, value } or messages { role, content } ------

local speakers = {
   human = "user", user = "user", gpt = "assistant", assistant = "assistant", chatgpt = "assistant",
   bing = "assistant", bard = "assistant", system = "system",
}

--- One message → speaker, text | nil, problem
local function read_message(list, i, name)
   local message, place = list[i], ("%s[%d]"):format(name, i)
   if type(message) ~= "table" or is_list(message) then
      return nil, ("\"%s\" must be an object, got %s"):format(place, kind(message))
   end
   local who = message.from ~= nil and "from" or "role"
   local what = message.value ~= nil and "value" or "content"
   local speaker = type(message[who]) == "string" and speakers[message[who]]
   if not speaker then
      return nil, ("\"%s.%s\": who is %s? (known: human, user, gpt, assistant, system)"):format(place, who,
         type(message[who]) == "string" and "\"" .. show(message[who]) .. "\"" or kind(message[who]))
   elseif type(message[what]) ~= "string" then
      return nil, ("\"%s.%s\" must be text, got %s"):format(place, what, kind(message[what]))
   end
   return speaker, message[what]
end

local function append(list, at, text)
   list[at] = list[at] and list[at] .. "\n\n" .. text or text
end

--- Files of this kind hold conversations that begin with an answer: what nobody asked for is left out.
-- Messages in a row by one speaker are one message.
local function read_messages(item, list, name)
   local turn, last = 0, nil
   item.turns, item.reference = {}, {}
   for i = 1, #list do
      local speaker, text = read_message(list, i, name)
      if not speaker then
         return nil, text
      end
      if text ~= "" and speaker == "system" and turn == 0 then
         item.system = item.system and item.system .. "\n\n" .. text or text
      elseif text ~= "" and speaker == "user" then
         turn = last == "user" and turn or turn + 1
         append(item.turns, turn, text)
      elseif text ~= "" and speaker == "assistant" and turn > 0 then
         append(item.reference, turn, text)
      end
      last = text ~= "" and speaker or last
   end
   return turn > 0 and item
end

local function read_sharegpt(record)
   local name = record.conversations ~= nil and "conversations" or "messages"
   local item, problem = fill({ id_field = "id" }, record, {
      { "id", label_of, "id" }, { "category", label_of, "category" },
   })
   if not item then
      return nil, problem
   elseif not is_list(record[name]) then
      return nil, ("\"%s\" must be a list of messages, got %s"):format(name, kind(record[name]))
   end
   return read_messages(item, record[name], name)
end

-- ---- Alpaca: instruction, input, output (Dolly: context, response) -------------------------------

local function read_alpaca(record)
   local input = record.input ~= nil and "input" or "context"
   local output = record.output ~= nil and "output" or "response"
   local item, problem = fill({ id_field = "id" }, record, {
      { "instruction", text_of, "instruction", true }, { "input", maybe_text, input }, { "id", label_of, "id" },
      { "category", label_of, "category" }, { "reference", reference_of, output },
   })
   if not item then
      return nil, problem
   end
   local parts = { item.instruction ~= "" and item.instruction or nil }
   parts[#parts + 1] = item.input
   if #parts == 0 then
      return nil, "fields \"instruction\" and \"input\" are empty"
   end
   item.turns, item.instruction, item.input = { table.concat(parts, "\n\n") }, nil, nil
   return item
end

-- ---- JSON lines with fields of any name ----------------------------------------------------------

local usual_fields = { "prompt", "text", "question", "instruction", "problem" }

local function prompt_field(record)
   for _, field in ipairs(usual_fields) do
      if record[field] ~= nil and record[field] ~= null then
         return field
      end
   end
   if record.prompt_token_ids ~= nil then
      return nil, "\"prompt_token_ids\" are ids of another tokenizer; a prompt is text"
   end
   return nil, ("which field holds the prompt? give field= (fields: %s)"):format(field_names(record))
end

--- A field that nobody named is taken when it fits and left otherwise.
local function guessed(record, name, reader)
   return (reader(record, name))
end

local named_readers = {
   { "id", label_of }, { "category", label_of }, { "reference", reference_of }, { "system", maybe_text },
}

local function read_fields(record, o)
   local fields = o.fields or {}
   local field, problem = fields.prompt, nil
   if not field then
      field, problem = prompt_field(record)
   end
   if not field then
      return nil, problem
   end
   local item = {
      id_field = record.id ~= nil and "id" or "question_id",
      category = guessed(record, "category", label_of), reference = guessed(record, "reference", reference_of),
   }
   item.id = guessed(record, item.id_field, label_of)
   local steps = {}
   for _, named in ipairs(named_readers) do
      local target, reader = named[1], named[2]
      if fields[target] then
         steps[#steps + 1] = { target, reader, fields[target] }
         item.id_field = target == "id" and fields.id or item.id_field
      end
   end
   if is_list(record[field]) then
      steps[#steps + 1] = { "turns", texts_of, field }
      return fill(item, record, steps)
   end
   steps[#steps + 1] = { "text", text_of, field }
   item, problem = fill(item, record, steps)
   if not item then
      return nil, problem
   end
   item.turns, item.text = { item.text }, nil
   return item
end

-- ---- The table -----------------------------------------------------------------------------------

local function has(...)
   local names = { ... }
   return function(record)
      for _, name in ipairs(names) do
         if record[name] == nil then
            return false
         end
      end
      return true
   end
end

local function never()
   return false
end

--- In the order in which they are asked. Spec-Bench's and EAGLE's files have MT-bench's shape.
local list = {
   { name = "mt_bench", recognise = has("turns"), read = read_questions },
   { name = "spec_bench", recognise = never, read = read_questions },
   { name = "eagle", recognise = never, read = read_questions },
   { name = "sharegpt", read = read_sharegpt, recognise = function(record)
      return record.conversations ~= nil or is_list(record.messages)
   end },
   { name = "humaneval", recognise = has("task_id", "prompt", "entry_point"), read = read_humaneval },
   { name = "multiple_choice", read = read_choice, recognise = function(record)
      return (record.question or record.question_stem) ~= nil and record.choices ~= nil
         and (record.answer or record.answerKey) ~= nil
   end },
   { name = "gsm8k", read = read_gsm8k, recognise = function(record)
      return record.question ~= nil and type(record.answer) == "string" and record.answer:find("####", 1, true)
   end },
   { name = "alpaca", read = read_alpaca, recognise = function(record)
      return record.instruction ~= nil and (record.input or record.context or record.output or record.response) ~= nil
   end },
   { name = "jsonl", recognise = function() return true end, read = read_fields },
}

formats.by_name = {}
for _, format in ipairs(list) do
   formats.by_name[format.name] = format
end

--- The format of a file, from its first record.
function formats.recognise(record)
   for _, format in ipairs(list) do
      if format.recognise(record) then
         return format
      end
   end
end

--- Plain text: every line is a prompt.
function formats.read_plain(line)
   if not utf8.len(line) then
      return nil, ("not UTF-8 at byte %d"):format(select(2, utf8.len(line)))
   end
   return { turns = { line } }
end

--- Names that mean something in an item: a field of the file never gets there by its name alone.
local taken = {
   index = true, line = true, id_field = true, turns = true, id = true, category = true, reference = true,
   system = true, chat = true, conversations = true, messages = true,
}

--- Fields that the reader did not take: for filters and measures.
local function add_fields(item, record)
   for name, value in pairs(record) do
      if item[name] == nil and not taken[name] and value ~= null then
         item[name] = value
      end
   end
end

--- The problem of a text that is no JSON, with the field in whose value it lies.
local function with_field(problem, text)
   local before = text:sub(1, math.tointeger(problem:match("at byte (%d+)")) or 0)
   local field = before:match(".*\"([^\"\\%c]+)\"%s*:")
   return field and #field <= 60 and ("%s (field \"%s\")"):format(problem, field) or problem
end

--- One record's text → item | nil, problem | false. o.format: a format, or nil to recognise one,
-- which is left there for the records that follow.
function formats.read(text, o)
   local record, problem = core.system.json.decode(text)
   if record == nil then
      return nil, with_field(problem, text)
   elseif type(record) ~= "table" or is_list(record) then
      return nil, ("a record must be an object, got %s"):format(kind(record))
   end
   o.format = o.format or formats.recognise(record)
   local item
   item, problem = o.format.read(record, o)
   if item then
      add_fields(item, record)
   end
   return item, problem
end

return formats
