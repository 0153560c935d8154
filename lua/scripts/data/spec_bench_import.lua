--- A run of answer files of Spec-Bench's form, model_answer/<model-id>.jsonl, made by whatever program: each file
-- is an arm, the first one (or the one named) its plain decoding.
--
-- Such a file has, for each turn, a text, the new tokens, the wall time and the verify steps, and for each
-- choice the tokens that each step added. So a run of them tells speeds with prefill inside, block efficiency
-- and the distribution of progress. It does not tell what was drafted, so that acceptance rates and shapes are
-- absent; nor where a step's time went, the memory, the options. There are no tokens: the bytes of a text stand
-- in for them, so that agreement is of texts. What is not known is NULL in the trace.

local _, core = ...

local import = {}

local system, json = core.system, core.system.json

local must, files = core.use("must"), core.use("answer_files")
local label, byte_list = files.label, files.byte_list

--- Whether a line is one of an answer file.
function import.is_record(record)
   return type(record) == "table" and record.question_id ~= nil and type(record.choices) == "table"
end

-- ---- One record ----------------------------------------------------------------------------------

--- A list of `n` things that `is` right; what they are is said in `what`. n nil: of any length.
local function list_of(choice, field, what, is, n)
   local list = choice[field]
   if type(list) ~= "table" or n and #list ~= n then
      error(n and ("\"%s\" must be a list of %d, one for each turn"):format(field, n)
         or ("\"%s\" must be a list"):format(field), 0)
   end
   for i, value in ipairs(list) do
      if not is(value) then
         error(("\"%s\", entry %d, must be %s"):format(field, i, what), 0)
      end
   end
   return list
end

local function is_text(value) return type(value) == "string" end
local function is_count(value) return math.tointeger(value) ~= nil and value >= 0 and value < 1 << 30 end
local function is_time(value) return type(value) == "number" and value >= 0 and value < math.huge end

--- What a program writes in place of an answer that it could not give.
local function has_failed(text) return text == "ERROR" end

--- Steps of each turn, where their numbers add up to the steps that there are; some programs count from 0.
local function counted(steps, turns, total)
   for more = 0, 1 do
      local sum, counts = 0, {}
      for i, n in ipairs(steps) do
         counts[i] = has_failed(turns[i]) and 0 or n + more
         sum = sum + counts[i]
      end
      if sum == total then
         return counts
      end
   end
end

--- The same from the tokens that the turns have: a turn's steps end where they have made its tokens.
local function dealt(tokens, turns, lengths)
   local counts, at = {}, 0
   for i, n in ipairs(tokens) do
      local sum, first = 0, at
      while not has_failed(turns[i]) and at < #lengths and sum < n do
         at = at + 1
         sum = sum + lengths[at]
      end
      counts[i] = at - first
   end
   counts[#counts] = counts[#counts] + #lengths - at
   return counts
end

local function read_choice(choice)
   if type(choice) ~= "table" then
      error("an entry of \"choices\" must be an object", 0)
   end
   local turns = list_of(choice, "turns", "a text", is_text)
   local n = #turns
   if n == 0 or n > 32 then
      error("\"turns\" must hold 1 to 32 texts", 0)
   end
   local out = { turns = turns, tokens = list_of(choice, "new_tokens", "a whole number from 0", is_count, n),
      seconds = list_of(choice, "wall_time", "seconds", is_time, n),
      lengths = list_of(choice, "accept_lengths", "a whole number from 0", is_count) }
   local name = choice.decoding_steps ~= nil and "decoding_steps" or choice.idxs ~= nil and "idxs" or nil
   local steps = name and list_of(choice, name, "a whole number from 0", is_count, n)
   out.counts = steps and counted(steps, turns, #out.lengths) or dealt(out.tokens, turns, out.lengths)
   return out
end

-- ---- Into the trace ------------------------------------------------------------------------------

local insert_request = "INSERT INTO requests (session, arm, prompt, repeat, turn, question, category, n_tokens, tokens,"
   .. " text, finish, error, forward_passes, accepted, progress, seconds, decode_seconds)"
   .. " VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15)"

local insert_cycle = "INSERT INTO cycles (request, cycle, parents, tokens, logprobs, accepted, n_accepted, progress,"
   .. " kept, batch_size) VALUES (?1, ?2, '[]', '[]', '[]', '[]', ?3, ?3 + 1, ?4, 1)"

local function add_turn(trace, key, choice, turn, lengths)
   local accepted, text = 0, choice.turns[turn]
   for _, length in ipairs(lengths) do
      accepted = accepted + math.max(length - 1, 0)
   end
   local failed = has_failed(text)
   must(trace:rows(insert_request, key.arm, key.prompt, key.number, turn, key.question, key.category,
      math.tointeger(choice.tokens[turn]), byte_list(text), text, failed and "error" or "eos",
      failed and "the answer file says ERROR" or nil, #lengths, accepted, accepted + #lengths,
      choice.seconds[turn] + 0.0))
   local id = must(trace:rows("SELECT last_insert_rowid() AS id"))[1].id
   for i, length in ipairs(lengths) do
      must(trace:rows(insert_cycle, id, i, math.max(math.tointeger(length) - 1, 0), math.tointeger(length)))
   end
end

local function add_record(trace, arm, prompt, record)
   local at
   for number, given in ipairs(record.choices) do
      local choice = read_choice(given)
      at = 0
      for turn in ipairs(choice.turns) do
         local lengths = table.move(choice.lengths, at + 1, at + choice.counts[turn], 1, {})
         at = at + choice.counts[turn]
         add_turn(trace, { arm = arm, prompt = prompt, number = number, question = label(record.question_id),
            category = label(record.category) }, choice, turn, lengths)
      end
   end
   if not at then
      error("\"choices\" holds no answer", 0)
   end
end

--- Questions are numbered as they come in the files: [id] = prompt, and n of them.
local function number_of(numbers, id)
   if not numbers[id] then
      numbers.n = numbers.n + 1
      numbers[id] = numbers.n
   end
   return numbers[id]
end

local function add_file(trace, arm, path, numbers)
   local seen = {}
   files.each_record(path, "answers", function(record, number)
      local id = import.is_record(record) and label(record.question_id)
      if not id then
         error("\"question_id\" and \"choices\" are what an answer of Spec-Bench's has", 0)
      elseif seen[id] then
         error(("question %s has been answered in line %d already (their own scripts keep the last one)")
            :format(id, seen[id]), 0)
      end
      seen[id] = number
      add_record(trace, arm, number_of(numbers, "id " .. id), record)
   end)
end

-- ---- What a report says --------------------------------------------------------------------------

--- Whether a manifest is of such a run.
function import.is_source(manifest)
   return manifest.identity.source == "spec_bench"
end

import.legend = {
   "from answer files of Spec-Bench's form. block efficiency: mean of their accept_lengths (some cut the last one)."
      .. " tokens/s: new_tokens over wall_time, prefill inside.",
   "speed-up: tokens/s over those of the arm that stands for plain decoding; interval by a paired bootstrap over"
      .. " questions (2,000 resamples).",
   "speed_up_spec_bench of run:metrics() is what their script prints but for the baseline's tokens: it cuts the texts"
      .. " anew, here they are new_tokens less one a turn.",
   "exact match: of texts, as their equal.py compares. agreement: bytes before the first difference.",
   "what such files do not tell, and is absent: drafted tokens and so acceptance rates and shapes, D, V, H, memory,"
      .. " options, temperature, whether an arm is lossless, in which order things ran.",
}

-- ---- Files ---------------------------------------------------------------------------------------

--- The answer files at a path: the file itself, or all .jsonl files of a folder.
local function files_at(path)
   if system.kind(path) == "file" then
      return { path }
   end
   local list = {}
   for _, name in ipairs(system.list(path) or {}) do
      list[#list + 1] = name:find("%.jsonl$") and path .. "/" .. name or nil
   end
   table.sort(list)
   return list
end

--- Whether there are answer files at a path: the first line of the first one says so.
function import.is_answers(path)
   return import.is_record(files.first_record(files_at(path)[1]))
end

--- What the name of a file says: ours end in their sampling ("draft-T=0"), of others it is not known.
local function arm_of(path)
   local file = path:match("([^/]*)%.jsonl$") or path:match("[^/]*$")
   local name, sampling = file:match("^(.+)%-(T=.+)$")
   return { file = file, path = path, name = name or file, sampling = sampling or "answers",
      temperature = tonumber((sampling or ""):match("^T=([%d.]+)")) or 0.0, is_lossless = false,
      rule = "answer file" }
end

local likely = { "^plain", "vanilla", "baseline" }

--- How much a name says that its arm is plain decoding: the one that the script names, or a usual name.
local function claim_of(arm, plain)
   if plain then
      return arm.file == plain and 1 or 0
   end
   for i, pattern in ipairs(likely) do
      if arm.file:find(pattern) then
         return 1 / i
      end
   end
   return 0
end

--- Marks plain decoding, one of each sampling: the one named, or the one whose name says so, or the first.
local function mark_plain(arms, plain)
   local best, is_there = {}, plain == nil
   for _, arm in ipairs(arms) do
      local there = best[arm.sampling]
      best[arm.sampling] = (not there or claim_of(arm, plain) > claim_of(there, plain)) and arm or there
      is_there = is_there or arm.file == plain
   end
   if not is_there then
      local names = {}
      for i, arm in ipairs(arms) do
         names[i] = arm.file
      end
      error(("no file is called \"%s\" (there are %s)"):format(plain, table.concat(names, ", ")), 0)
   end
   for _, arm in ipairs(arms) do
      arm.is_plain = best[arm.sampling] == arm
   end
end

--- Fills a new trace. plain: the name of the file (without .jsonl) that the others are compared with. → manifest
function import.import(path, trace, plain)
   local arms, named, numbers = {}, json.list {}, { n = 0 }
   for i, file in ipairs(files_at(path)) do
      arms[i] = arm_of(file)
      named[i] = { name = arms[i].name, sampling = arms[i].sampling }
   end
   mark_plain(arms, plain)
   must(trace:rows("INSERT INTO sessions (id, name, state) VALUES (1, 'spec-bench', 'finished')"))
   for _, arm in ipairs(arms) do
      add_file(trace, must(trace:arm(arm)), arm.path, numbers)
   end
   return { format = 1, identity = { name = "spec-bench", source = "spec_bench", arms = named }, made_by = {} }
end

return import
