--- lm-evaluation-harness's sample logs, samples_<task>_<date>.jsonl: a line for each document and filter, with
-- doc_id, doc, target, arguments, resps (a list for each request, one text for each repeat), filtered_resps,
-- filter, metrics (names), doc_hash, prompt_hash, target_hash, and each metric under its name.
--
-- Out: one file for each arm and sampling. A measure that a task of theirs has becomes its filter and metric
-- (gsm8k_strict: exact_match of strict-match, …); all others share the filter "none" under their own names.
-- A document with several answers has the mean of their values, all texts stand in resps.
--
-- In: a run of which each file is an arm, the first one (or the one named) its plain decoding. There are no
-- tokens and no times in these logs: the bytes of a text stand in for tokens, so that agreement is of texts, and
-- all counts are 0.

local cop, core = ...

local lm_eval = {}

local system, json = core.system, core.system.json

local must, files = core.use("must"), core.use("answer_files")
local label, byte_list = files.label, files.byte_list

-- ---- Filters -------------------------------------------------------------------------------------

local function gsm8k(how)
   return function(text) return cop.quality.gsm8k_answer(text, how) or "[invalid]" end
end

--- Measures that are a task's own there: filter, metric, and what the filter leaves of an answer.
local filters = {
   gsm8k_strict = { filter = "strict-match", metric = "exact_match", leaves = gsm8k("strict") },
   gsm8k_flexible = { filter = "flexible-extract", metric = "exact_match", leaves = gsm8k("flexible") },
   pass_at_1 = { filter = "create_test", metric = "pass@1", leaves = function(text) return text end },
}

local by_theirs = {}
for name, entry in pairs(filters) do
   by_theirs[entry.filter .. " " .. entry.metric] = name
end

-- ---- Out -----------------------------------------------------------------------------------------

--- The prompts of a run: those given, or those of the file that the manifest names, if it is still the same.
local function items_of(run, given)
   local facts = run.manifest.identity.prompts or {}
   local list = given
   if not list and type(facts.path) == "string" and system.kind(facts.path) == "file" then
      local ok, read = pcall(cop.dataset, { path = facts.path, duplicate_ids = true })
      list = ok and read and read.sha256 == facts.sha256 and read or nil
   end
   local by_index = {}
   for _, item in ipairs(list or {}) do
      by_index[item.index] = item
   end
   return by_index
end

local hidden = { index = true, line = true, chat = true, turns = true }

--- A document as it can be: what the record of the dataset had.
local function doc_of(item, row)
   local doc = { id = row.question, category = row.category, turn = row.turn > 1 and row.turn or nil }
   for key, value in pairs(item or {}) do
      if type(key) == "string" and not hidden[key] and type(value) ~= "function" and type(value) ~= "userdata" then
         doc[key] = value
      end
   end
   doc.question = item and item.turns[row.turn] or nil
   return doc
end

local function target_of(item, turn)
   local reference = item and type(item.reference) == "table" and item.reference[turn]
   if type(reference) == "table" then
      reference = reference[1]
   end
   return tostring(reference or item and item.answer or "")
end

--- Answers of an arm by prompt and turn, in their order: { row = the first, texts =, … }.
local function documents_of(run, arm)
   local list, last = {}, nil
   for _, row in ipairs(must(run.trace:rows("SELECT prompt, turn, repeat, question, category, text FROM requests"
      .. " WHERE arm = ? AND error IS NULL ORDER BY prompt, turn, repeat", arm.id))) do
      if not last or last.row.prompt ~= row.prompt or last.row.turn ~= row.turn then
         last = { row = row, texts = json.list {} }
         list[#list + 1] = last
      end
      last.texts[#last.texts + 1] = row.text or ""
   end
   return list
end

--- [prompt][turn][measure] = mean of the values
local function values_of(run, arm)
   local values = {}
   for _, row in ipairs(must(run.trace:rows("SELECT prompt, turn, measure, AVG(value) AS value FROM quality"
      .. " WHERE arm = ? GROUP BY prompt, turn, measure", arm.id))) do
      values[row.prompt] = values[row.prompt] or {}
      values[row.prompt][row.turn] = values[row.prompt][row.turn] or {}
      values[row.prompt][row.turn][row.measure] = row.value
   end
   return values
end

local function arguments_of(run, arm, prompt)
   local identity = run.manifest.identity
   return { gen_args_0 = { arg_0 = prompt, arg_1 = { ["until"] = json.list(identity.stop or {}),
      do_sample = arm.temperature > 0, temperature = arm.temperature, max_gen_toks = identity.max_tokens } } }
end

--- The lines of one document: one for each filter that has a value.
local function add_lines(lines, sample, texts, values)
   local names, others = {}, json.list {}
   for name in pairs(values) do
      names[#names + 1] = name
   end
   table.sort(names)
   local function add(filter, metrics, leaves)
      local line = {}
      for key, value in pairs(sample) do
         line[key] = value
      end
      line.filter, line.metrics, line.filtered_resps = filter, metrics, json.list {}
      for i, text in ipairs(texts) do
         line.filtered_resps[i] = leaves and leaves(text) or text
      end
      return line
   end
   for _, name in ipairs(names) do
      local entry = filters[name]
      if entry then
         local line = add(entry.filter, json.list { entry.metric }, entry.leaves)
         line[entry.metric] = values[name]
         lines[#lines + 1] = json.encode(line)
      else
         others[#others + 1] = name
      end
   end
   if #others > 0 or #names == 0 then
      local line = add("none", others)
      for _, name in ipairs(others) do
         line[name] = values[name]
      end
      lines[#lines + 1] = json.encode(line)
   end
end

local function lines_of(run, arm, items)
   local lines, all = {}, values_of(run, arm)
   for i, document in ipairs(documents_of(run, arm)) do
      local row = document.row
      local item = items[row.prompt]
      local doc, target = doc_of(item, row), target_of(item, row.turn)
      local prompt = doc.question or ""
      add_lines(lines, { doc_id = i - 1, doc = doc, target = target, arguments = arguments_of(run, arm, prompt),
         resps = json.list { document.texts }, doc_hash = system.hash(json.encode(doc)),
         prompt_hash = system.hash(prompt), target_hash = system.hash(target) }, document.texts,
         (all[row.prompt] or {})[row.turn] or {})
   end
   return lines
end

local function plain_name(text)
   return (text:gsub("[^%w=._-]+", "_"))
end

--- Writes out/<arm>-<sampling>/samples_<run>_<date>.jsonl for every arm. → list of paths | nil, message, code
function lm_eval.export(run, out, prompts)
   local items, paths = items_of(run, prompts), {}
   local date = must(run.trace:rows("SELECT strftime('%Y-%m-%dT%H-%M-%S', MAX(ended)) AS date FROM requests"))[1].date
   for arm in run:arms() do
      local folder = ("%s/%s"):format(out, plain_name(("%s-%s"):format(arm.name, arm.sampling)))
      local path = ("%s/samples_%s_%s.jsonl"):format(folder, plain_name(run.name or "run"), date or "none")
      local lines = lines_of(run, arm, items)
      local ok, problem, code = system.folder(folder)
      if ok then
         ok, problem, code = system.write(path, #lines > 0 and table.concat(lines, "\n") .. "\n" or "")
      end
      if not ok then
         return nil, problem, code
      end
      paths[#paths + 1] = path
   end
   return paths
end

-- ---- In ------------------------------------------------------------------------------------------

--- The sample logs at a path: a file, or those of a folder and of the folders in it.
local function logs_at(path)
   if system.kind(path) == "file" then
      return { path }
   end
   local list = {}
   for _, name in ipairs(system.list(path) or {}) do
      local inner = path .. "/" .. name
      if system.kind(inner) == "folder" then
         for _, deeper in ipairs(system.list(inner) or {}) do
            list[#list + 1] = deeper:find("^samples_.*%.jsonl$") and inner .. "/" .. deeper or nil
         end
      elseif name:find("^samples_.*%.jsonl$") then
         list[#list + 1] = inner
      end
   end
   return list
end

--- Whether there are sample logs at a path: its first line says so.
function lm_eval.is_log(path)
   local record = files.first_record(logs_at(path)[1])
   return type(record) == "table" and record.doc_id ~= nil and record.resps ~= nil
end

--- Arms are named by the folder of their file (the model, there); files of one folder by their own names.
local function arm_names(paths)
   local names, seen = {}, {}
   for i, path in ipairs(paths) do
      names[i] = path:match("([^/]+)/[^/]*$") or path
      seen[names[i]] = (seen[names[i]] or 0) + 1
   end
   for i, path in ipairs(paths) do
      if seen[names[i]] > 1 or not path:find("/") then
         names[i] = path:match("([^/]*)%.jsonl$") or path
      end
   end
   return names
end

--- The texts of a line, a list → texts | nil, problem
local function texts_of(record)
   local list = type(record.resps) == "table" and record.resps[1]
   if type(list) == "string" then
      list = { list } -- some versions flatten lists of one
   end
   for _, text in ipairs(type(list) == "table" and list or {}) do
      if type(text) ~= "string" then
         return nil, "\"resps\" must hold texts; log-likelihoods of choices are no answers"
      end
   end
   if type(list) ~= "table" or #list == 0 then
      return nil, "\"resps\" must be a list with a list of texts"
   end
   return list
end

local insert_request = "INSERT INTO requests (session, arm, prompt, repeat, turn, question, category, n_tokens, tokens,"
   .. " text, finish, forward_passes, drafted, accepted, progress, decode_seconds)"
   .. " VALUES (1, ?1, ?2, ?3, 1, ?4, ?5, 0, ?6, ?7, 'eos', 0, 0, 0, 0, 0.0)"

local function add_answers(trace, arm, record)
   local texts, problem = texts_of(record)
   if not texts then
      error(problem, 0)
   end
   local doc = type(record.doc) == "table" and record.doc or {}
   for i, text in ipairs(texts) do
      must(trace:rows(insert_request, arm, record.doc_id + 1, i,
         label(doc.id) or label(doc.task_id) or label(doc.question_id) or tostring(record.doc_id),
         label(doc.category) or label(doc.subject), byte_list(text), text))
   end
end

--- A metric of a filter is one measure: ours where we have it, else "metric" or "metric,filter".
local function measure_name(record, metric)
   local filter = type(record.filter) == "string" and record.filter or "none"
   return by_theirs[filter .. " " .. metric] or filter == "none" and metric or metric .. "," .. filter
end

local function add_values(trace, arm, record)
   for _, metric in ipairs(type(record.metrics) == "table" and record.metrics or {}) do
      local value = type(metric) == "string" and record[metric]
      if type(value) == "boolean" then
         value = value and 1.0 or 0.0
      end
      if type(value) == "number" and value - value == 0 then -- others are what an aggregate is made of
         must(trace:quality(arm, record.doc_id + 1, 1, 1, measure_name(record, metric), value + 0.0))
      end
   end
end

local function add_log(trace, arm, path)
   local seen = {}
   files.each_record(path, "samples", function(record)
      if math.type(record.doc_id) ~= "integer" or record.doc_id < 0 or record.doc_id >= 1 << 20 then
         error("\"doc_id\" must be a whole number from 0", 0)
      elseif not seen[record.doc_id] then
         add_answers(trace, arm, record)
      end
      seen[record.doc_id] = true
      add_values(trace, arm, record)
   end)
end

--- Fills a new trace. plain: the name of the arm that the others are compared with. → manifest
function lm_eval.import(path, trace, plain)
   local paths = logs_at(path)
   local names = arm_names(paths)
   local first = plain == nil and 1 or nil
   for i, name in ipairs(names) do
      first = name == plain and i or first
   end
   if not first then
      error(("no log is called \"%s\" (there are %s)"):format(plain, table.concat(names, ", ")), 0)
   end
   must(trace:rows("INSERT INTO sessions (id, name, state) VALUES (1, 'lm-eval', 'finished')"))
   for i, name in ipairs(names) do
      local arm = must(trace:arm { name = name, sampling = "lm-eval", temperature = 0.0, is_plain = i == first,
         is_lossless = false, rule = "lm-eval" })
      add_log(trace, arm, paths[i])
   end
   local measures, quality = json.list {}, json.list {}
   for _, row in ipairs(must(trace:rows("SELECT DISTINCT measure FROM quality ORDER BY measure"))) do
      quality[#quality + 1] = row.measure
      measures[#measures + 1] = { name = row.measure, better = "higher", is_ours = filters[row.measure] ~= nil }
   end
   return { format = 1, identity = { name = "lm-eval", arms = json.list(names), quality = quality }, made_by = {},
      measures = measures }
end

return lm_eval
