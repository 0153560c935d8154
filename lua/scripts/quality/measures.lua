--- Measures that are a script's own functions: cop.metric.custom of an answer's cycles, and
-- cop.quality.custom of the answer itself.
--
-- They are called when every answer is stored, once for each answer without a value, and their values
-- go into the trace beside those of our own measures. A function that fails, or returns no number,
-- costs its own value only; nil says that the measure has nothing to say about an answer.

local cop, core = ...

local measures = {}

local Measure = { __name = "coppice.measure" }
Measure.__index = Measure

function Measure:__tostring()
   return ("cop.%s.custom { name = \"%s\" }"):format(self.kind, self.name)
end

local options = {
   metric = { { "name", "string", required = true }, { "of", "function", required = true } },
   quality = {
      { "name", "string", required = true }, { "of", "function", required = true },
      { "better", "choice", choices = "higher|lower", default = "higher" },
   },
}

local function constructor(kind)
   local owner = ("cop.%s.custom"):format(kind)
   return function(given)
      local self = core.options(owner, given, options[kind])
      if self.name == "" or self.name:find("%c") or not utf8.len(self.name) then
         core.raise(owner .. ": the name must be printable text")
      end
      self.kind = kind
      return setmetatable(self, Measure)
   end
end

cop.metric, cop.quality = cop.metric or {}, cop.quality or {}
cop.metric.custom, cop.quality.custom = constructor("metric"), constructor("quality")

--- One of ours as a measure (text_measures.lua, humaneval.lua).
function measures.built_in(entry)
   return setmetatable({ kind = "quality", name = entry.name, of = entry.of, of_prompts = entry.of_prompts,
      better = entry.better, is_ours = true }, Measure)
end

--- Whether a value of a script is a measure of this kind.
function measures.is(value, kind)
   return getmetatable(value) == Measure and value.kind == kind
end

--- Checks a script's metrics; those of `list` that are there already (of quality) keep their names.
function measures.add(list, given)
   local names = {}
   for _, measure in ipairs(list) do
      names[measure.name] = true
   end
   for i, measure in ipairs(given) do
      if not measures.is(measure, "metric") then
         core.raise(("cop.experiment: metrics[%d] must be a cop.metric.custom { … }, got a %s"):format(i,
            core.type(measure)))
      elseif names[measure.name] then
         core.raise(("cop.experiment: two measures are called \"%s\""):format(measure.name))
      end
      names[measure.name] = true
      list[#list + 1] = measure
   end
   return list
end

-- ---- What the functions are given ----------------------------------------------------------------

local decode = core.system.json.decode

--- An answer: { text =, tokens =, finish =, turn =, arm =, is_plain = }. Equal: the same tokens and the same end.
local Answer = { __name = "coppice.answer" }
Answer.__index = Answer
Answer.__eq = function(a, b)
   return a.text == b.text and a.finish == b.finish and table.concat(a.tokens, " ") == table.concat(b.tokens, " ")
end
Answer.__tostring = function(self) return self.text end

local function answer_of(arm, row)
   return row and setmetatable({ text = row.text or "", tokens = decode(row.tokens), finish = row.finish,
      turn = row.turn, arm = arm.name, is_plain = arm.is_plain or false }, Answer)
end

local function baseline_of(run, plain, row)
   local rows = run.trace:rows("SELECT text, tokens, finish, turn FROM requests WHERE arm = ? AND prompt = ?"
      .. " AND repeat = ? AND turn = ? AND error IS NULL", plain.id, row.prompt, row["repeat"], row.turn)
   return answer_of(plain, rows and rows[1])
end

local function seconds(...)
   local sum = 0.0
   for i = 1, select("#", ...) do
      local us = select(i, ...)
      sum = us and sum and sum + us
   end
   return sum and sum * 1e-6
end

--- A cycle's row of the trace, with the names that cop.generate gives it. What an imported file did not say is nil.
function measures.cycle(row)
   return {
      cycle = row.cycle, progress = row.progress, kept = row.kept, accepted = decode(row.accepted), last = row.last,
      origin = row.origin, nodes = row.nodes, depth = row.depth, root = row.root, tokens = decode(row.tokens),
      parents = decode(row.parents), draft_logprobs = decode(row.logprobs),
      undrafted = row.undrafted, D = seconds(row.draft_us), V = seconds(row.score_us),
      H = seconds(row.verify_us, row.commit_us, row.other_us), lua = seconds(row.lua_us),
      context = row.context_length, scored = row.tokens_scored, batch = row.batch_size,
      kv_bytes = row.kv_bytes_moved,
   }
end

local function cycles_of(run, id)
   local list = {}
   for i, row in ipairs(run.trace:rows("SELECT * FROM cycles WHERE request = ? ORDER BY cycle", id) or {}) do
      list[i] = measures.cycle(row)
   end
   return list
end

--- A request: its row of the trace, and whose it is.
local function request_of(group, arm, item, row)
   local request = {}
   for key, value in pairs(row) do
      request[key] = value
   end
   request.tokens, request.arm, request.item = decode(row.tokens), arm.name, item
   request.sampling, request.temperature, request.is_plain = group.label, group.sampling.temperature, arm.is_plain
   return request
end

-- ---- Calling them --------------------------------------------------------------------------------

local function call(run, measure, group, arm, item, row)
   if measure.kind == "metric" then
      return pcall(measure.of, cycles_of(run, row.id), request_of(group, arm, item, row))
   end
   return pcall(measure.of, item, answer_of(arm, row), baseline_of(run, group.arms[1], row))
end

--- → a number | nil | nil, what is wrong
local function checked(ok, value)
   if not ok then
      return nil, (tostring(value):gsub("\n.*", ""))
   elseif type(value) == "boolean" then
      return value and 1.0 or 0.0
   elseif value == nil then
      return nil
   elseif type(value) ~= "number" then
      return nil, ("it returned a %s, not a number"):format(core.type(value))
   elseif value ~= value or value == math.huge or value == -math.huge then
      return nil, ("it returned %s"):format(tostring(value))
   end
   return value + 0.0
end

local missing = "SELECT r.* FROM requests r LEFT JOIN quality q ON q.measure = ?2 AND q.arm = r.arm"
   .. " AND q.prompt = r.prompt AND q.repeat = r.repeat AND q.turn = r.turn WHERE r.arm = ?1 AND r.error IS NULL"
   .. " AND q.arm IS NULL ORDER BY r.prompt, r.repeat, r.turn"

local function note_failure(failed, group, arm, place, problem)
   failed.count = failed.count + 1
   failed.first = failed.first or ("arm %s, %s, %s: %s"):format(arm.name, group.label, place, problem)
end

--- What is said of all answers to a prompt together.
local function measure_prompts(run, measure, group, arm, failed)
   measure.of_prompts(run.trace, arm, function(prompt, value)
      run.trace:quality(arm.id, prompt, 1, 1, measure.name, value)
   end, function(prompt, problem)
      note_failure(failed, group, arm, ("prompt %d"):format(prompt), problem)
   end)
end

local function measure_arm(run, measure, group, arm, items, failed)
   for _, row in ipairs(run.trace:rows(missing, arm.id, measure.name) or {}) do
      local item = items[row.prompt]
      if core.system.interrupted() then
         return
      elseif item then
         local value, problem = checked(call(run, measure, group, arm, item, row))
         if value then
            run.trace:quality(arm.id, row.prompt, row["repeat"], row.turn, measure.name, value)
         elseif problem then
            note_failure(failed, group, arm, ("prompt %d, turn %d"):format(row.prompt, row.turn), problem)
         end
         run.console:progress(run.done, run.total, run.counted, measure.name .. " of " .. arm.name)
      end
   end
end

--- Stores the values that answers lack, and says once for each measure what went wrong.
function measures.store(run)
   local items = {}
   for _, item in ipairs(run.e.prompts) do
      items[item.index] = item
   end
   for _, measure in ipairs(run.e.measures) do
      local failed = { count = 0 }
      for _, group in ipairs(run.groups) do
         for _, arm in ipairs(group.arms) do
            if measure.of_prompts then
               measure_prompts(run, measure, group, arm, failed)
            else
               measure_arm(run, measure, group, arm, items, failed)
            end
         end
      end
      if failed.count > 0 then
         run.console:line(("!!! %s \"%s\": %d values are missing; the first: %s"):format(measure.kind, measure.name,
            failed.count, failed.first))
      end
   end
end

return measures
