--- cop.arm and cop.experiment: a comparison, described. Describing runs nothing: :check() says what
-- would run and refuses what is unsound, :run() does it (run.lua).

local cop, core = ...

core.use("measures") -- cop.metric and cop.quality
core.use("sandbox") -- cop.quality.run_program
core.use("humaneval") -- cop.quality.humaneval
core.use("choice") -- cop.quality.choice_answer
core.use("pairwise") -- cop.quality.pairwise
core.use("quality") -- cop.quality.names

-- ---- The last failure ----------------------------------------------------------------------------
-- A script may hand on the nil of `cop.model { … }`; whoever then misses a model repeats why.

local failure = {}

local function remembering(name)
   local open = cop[name]
   cop[name] = function(...)
      local object, message, code = open(...)
      failure[name] = object == nil and message or nil
      return object, message, code
   end
end

for _, name in ipairs { "model", "dataset" } do
   if cop[name] then
      remembering(name)
   end
end

local function missing(owner, what, by)
   local reason = failure[by] and (": " .. failure[by]) or (", a cop.%s { … }"):format(by)
   core.raise(("%s: %s is missing%s"):format(owner, what, reason))
end

--- Without a proposer things decode plainly: not where it is missing because it could not be made.
function core.check_proposer(owner, proposer, problem)
   local reason = proposer == nil and (core.failed_part("propose") or problem)
   if reason then
      core.raise(("%s: proposer is missing: %s"):format(owner, reason))
   end
end

-- ---- Arms ----------------------------------------------------------------------------------------

local sampling_options = {
   { "top_k", "integer", min = 0, max = 1 << 30 },
   { "top_p", "number", min = 0, max = 1 },
   { "min_p", "number", min = 0, max = 1 },
}

table.move(core.processing_options, 1, #core.processing_options, #sampling_options + 1, sampling_options)

local function extended(options)
   return table.move(sampling_options, 1, #sampling_options, #options + 1, options)
end

local arm_options = extended {
   { "name", "string", required = true, positional = true },
   { "proposer", "propose" },
   { "tree", "tree" },
   { "draw", "string" },
   { "rule", "accept" },
   { "length", "length" },
   { "relaxed", "boolean", default = false },
   { "temperature", "number", min = 0, max = 100 },
   { "target", "any", help = "another model that decodes plainly: the draft alone" },
   { "seed", "long", help = "another seed than the experiment's: the noise between two runs" },
}

local Arm = { __name = "coppice.arm" }
Arm.__index = Arm

function Arm:__tostring()
   local parts = {}
   for _, key in ipairs { "proposer", "tree", "rule", "length" } do
      parts[#parts + 1] = self[key] and tostring(self[key]) or nil
   end
   return ("cop.arm \"%s\" (%s)"):format(self.name, #parts > 0 and table.concat(parts, ", ") or "plain decoding")
end

--- cop.arm { "name", proposer =, tree =, draw =, rule =, length =, relaxed =, sampling… }. Baselines that
-- say what a difference is worth: without a proposer, target = another model decodes plainly (the draft
-- alone); seed = another seed than the experiment's is the noise between two plain runs.
function cop.arm(given)
   local arm = core.options("cop.arm", given, arm_options)
   core.check_proposer("cop.arm", arm.proposer, failure.model)
   if arm.name == "" or arm.name:find("%c") then
      core.raise("cop.arm: the name must be printable text")
   elseif arm.name == "plain" then
      core.raise("cop.arm: \"plain\" is the name of the baseline, which runs by itself")
   end
   return setmetatable(arm, Arm)
end

-- ---- Experiments ---------------------------------------------------------------------------------

local options = extended {
   { "name", "string", required = true },
   { "target", "any" },
   { "prompts", "any" },
   { "arms", "table", required = true },
   { "seed", "long", default = 0 },
   { "temperature", "any", default = 0 },
   { "max_tokens", "integer", min = 1, max = 1 << 24, default = 128 },
   { "min_tokens", "integer", min = 0, max = 1 << 24, default = 0 },
   { "repeats", "integer", min = 1, max = 64, default = 1 },
   { "batch", "integer", min = 1, max = 256, default = 1 },
   { "interleave", "boolean", default = false, help = "arms answer a prompt side by side, a cycle each in turn" },
   { "chat", "boolean", default = true },
   { "stop", "any" },
   { "stop_tokens", "table" },
   { "ignore_eos", "boolean", default = false },
   { "quality", "table" },
   { "metrics", "table" },
   { "observe", "function" },
   { "published", "table" },
   { "margin", "any", help = "the loss that is not to be lost: of yes/no measures, or { measure = number }" },
   { "record", "table" },
   { "budget", "table" },
}

local budget_options = {
   { "seconds", "number", min = 0, max = 1e9 },
   { "passes", "integer", min = 1, max = 1 << 60 },
}

local Experiment = { __name = "coppice.experiment" }
Experiment.__index = Experiment

function Experiment:__tostring()
   return ("cop.experiment \"%s\" (%d arms, %d prompts)"):format(self.name, #self.arms, #self.prompts)
end

--- A number or a list of numbers, as a list without repetitions.
local function temperatures(value)
   local list, seen, out = type(value) == "table" and value or { value }, {}, {}
   for _, t in ipairs(list) do
      if type(t) ~= "number" or t ~= t or t < 0 or t > 100 then
         core.raise(("cop.experiment: temperature must be a number from 0 to 100 or a list of them, got %s")
            :format(tostring(t)))
      end
      if not seen[t + 0.0] then
         seen[t + 0.0] = true
         out[#out + 1] = t
      end
   end
   if #out == 0 then
      core.raise("cop.experiment: temperature must be a number from 0 to 100 or a list of them")
   end
   return out
end

--- Replayed rows need no proposer; an experiment's arm that has all but one would be plain decoding again.
local function check_needed(arm)
   for _, key in ipairs { "tree", "draw", "rule", "length" } do
      if arm[key] ~= nil and not arm.proposer then
         core.raise(("cop.experiment: arm \"%s\" has a %s but no proposer; one that cannot open its files is nil, "
            .. "and a message"):format(arm.name, key))
      end
   end
end

--- Answers of two models are compared token by token: they must be cut alike.
local function have_one_tokenizer(a, b)
   local probe = "Zwei 12 apples, naïve (x_1 == 3)\n\tthe end."
   if not b.tokenizer or a.tokenizer.size ~= b.tokenizer.size
      or table.concat(a.tokenizer:encode(probe), " ") ~= table.concat(b.tokenizer:encode(probe), " ") then
      return false
   end
   for id = 0, a.tokenizer.size - 1, 97 do
      if a.tokenizer:piece(id) ~= b.tokenizer:piece(id) then
         return false
      end
   end
   return true
end

--- An arm by another model is plain decoding by it.
local function check_targets(e)
   for _, arm in ipairs(e.arms) do
      if arm.target ~= nil then
         if core.type(arm.target) ~= "model" then
            core.raise(("cop.experiment: the target of arm \"%s\" must be a cop.model { … }, got a %s"):format(arm.name,
               core.type(arm.target)))
         elseif arm.proposer then
            core.raise(("cop.experiment: arm \"%s\" has a target of its own, so it decodes plainly: without a proposer")
               :format(arm.name))
         elseif not have_one_tokenizer(e.target, arm.target) then
            core.raise(("cop.experiment: arm \"%s\": its model has another tokenizer than the target, so their answers"
               .. " cannot be compared"):format(arm.name))
         end
      end
   end
end

local function check_arms(arms)
   local names = {}
   for i, arm in ipairs(arms) do
      if getmetatable(arm) ~= Arm then
         core.raise(("cop.experiment: arms[%d] must be a cop.arm { … }, got a %s"):format(i, core.type(arm)))
      elseif names[arm.name] then
         core.raise(("cop.experiment: two arms are called \"%s\""):format(arm.name))
      end
      names[arm.name] = true
      check_needed(arm)
   end
end

local function check_parts(e)
   if e.target == nil then
      missing("cop.experiment", "target", "model")
   elseif core.type(e.target) ~= "model" then
      core.raise(("cop.experiment: target must be a cop.model { … }, got a %s"):format(core.type(e.target)))
   elseif e.prompts == nil then
      missing("cop.experiment", "prompts", "dataset")
   end
   e.prompts = core.as_dataset(e.prompts)
   if not e.prompts then
      core.raise("cop.experiment: prompts must be a cop.dataset { … } or a list of texts")
   elseif not e.target.tokenizer then
      core.raise("cop.experiment: the target has no tokenizer, so prompts cannot be read")
   elseif #e.arms == 0 then
      core.raise("cop.experiment: arms must be a list of at least one cop.arm { … }; plain decoding runs by itself, "
         .. "as what arms are compared with")
   end
end

local published_options = {
   { "arm", "string", required = true },
   { "metric", "string", required = true },
   { "value", "number", required = true },
   { "sampling", "string", default = "T=0" },
   { "tolerance", "number", min = 0, max = 10, default = 0.05 },
   { "source", "string", required = true },
}

--- Values that others have measured, to be told beside ours.
local function published_of(list)
   local known, out = {}, {}
   for _, definition in ipairs(core.trace.definitions()) do
      known[#known + 1] = not definition.key and definition.name or nil
      known[definition.name] = not definition.key
   end
   for i, given in ipairs(list or {}) do
      out[i] = core.options(("cop.experiment: published[%d]"):format(i), given, published_options)
      if not known[out[i].metric] then
         core.unknown("cop.experiment", "metric", out[i].metric, known)
      end
   end
   return out
end

local function budget_of(given)
   if given == nil then
      return nil
   end
   local budget = core.options("cop.experiment: budget", given, budget_options)
   if not budget.seconds and not budget.passes then
      core.raise("cop.experiment: budget needs seconds, passes (of the target) or both")
   end
   return budget
end

--- One experiment for each target, in a study: runs/NAME/TARGET. arms may be a function of the target.
local function of_targets(given)
   local list, names = {}, {}
   for i, target in ipairs(given.target) do
      if core.type(target) ~= "model" then
         core.raise(("cop.experiment: target[%d] must be a cop.model { … }, got a %s"):format(i, core.type(target)))
      end
      local name = target.path:gsub("/+$", ""):match("[^/]*$"):gsub("[^%w._-]", "-"):gsub("^%W+", "")
      names[name] = (names[name] or 0) + 1
      local own = {}
      for key, value in pairs(given) do
         own[key] = value
      end
      own.target, own.name = target, names[name] > 1 and ("%s-%d"):format(name, names[name]) or name
      if type(given.arms) == "function" then
         own.arms = given.arms(target)
      end
      list[i] = cop.experiment(own)
   end
   return cop.study { name = given.name, experiments = list }
end

--- cop.experiment { name =, target =, prompts =, arms =, … }; a list of targets makes a cop.study.
function cop.experiment(given)
   if type(given) == "table" and core.type(given.target) == "table" and given.target[1] ~= nil then
      return of_targets(given)
   end
   local e = core.options("cop.experiment", given, options)
   if not e.name:find("^[%w][%w._-]*$") then
      core.raise("cop.experiment: the name becomes a folder: letters, digits, \".\", \"_\" and \"-\"")
   end
   check_arms(e.arms)
   check_parts(e)
   check_targets(e)
   e.temperature = temperatures(e.temperature)
   e.quality, e.measures = core.use("quality").names(e.quality or {}, e.prompts, e.repeats)
   e.margin = core.use("quality").margin(e.margin, e.quality)
   core.use("measures").add(e.measures, e.metrics or {})
   e.record = core.use("row_files").option(e.record, e.arms)
   e.published, e.budget = published_of(e.published), budget_of(e.budget)
   e.where = core.script_line()
   e.script = core.script
   return setmetatable(e, Experiment)
end

--- "script.lua:12: ", the line of the script that is running, or "".
function core.script_line()
   for level = 2, 200 do
      local info = debug.getinfo(level, "Sl")
      if not info then
         return ""
      elseif info.currentline > 0 and info.source:sub(1, 9) ~= "=coppice/" then
         return ("%s:%d: "):format(info.short_src, info.currentline)
      end
   end
   return ""
end

--- A dry run: raises on what is unsound; else prints and returns what would run.
function Experiment:check()
   local plan = core.use("plan").make(self)
   core.use("plan").check_prompts(self)
   core.use("quality").check(self)
   local text = core.use("plan").describe(self, plan)
   print(text)
   return text
end

--- Runs it: { out = "runs/NAME", resume = true, shard = "1/4" } → a result, or nil, message, code.
-- result.state is "finished" or "interrupted". Requests that failed do not end a run: result.failed
-- counts them, result.failures says why, and `coppice run` ends with status 1.
function Experiment:run(given)
   local o = core.options("experiment:run", given or {}, {
      { "out", "string" }, { "resume", "boolean" }, { "shard", "string" },
   })
   local line = core.run_options or {} -- what the command line says, where the script says nothing
   local function pick(key, default)
      if o[key] ~= nil then
         return o[key]
      elseif line[key] ~= nil then
         return line[key]
      end
      return default
   end
   local result, problem, code = core.use("run")(self, { out = pick("out"), resume = pick("resume", true),
      shard = pick("shard") })
   core.run_problem = problem -- for `coppice run`, where a script returns the result and drops this
   return result, problem, code
end

-- C functions in front keep the frame of a script that returns what they return (see module.c).
Experiment.check, Experiment.run = core.wrap(Experiment.check), core.wrap(Experiment.run)

local Result = { __name = "coppice.result" }

--- Marks what :run() returns, so that a script may return it to `coppice run`.
function core.result(value)
   return setmetatable(value, Result)
end

function core.is_result(value)
   return getmetatable(value) == Result
end

function core.is_experiment(value)
   return getmetatable(value) == Experiment
end
