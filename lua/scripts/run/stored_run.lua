--- cop.open_run: a run that is stored, for reading.
--
--     local run = assert(cop.open_run "runs/demo")
--     for arm in run:arms() do … end                 -- name, sampling, rule, options, …
--     for request in run:requests { arm = "draft" } do … end
--     for cycle in run:cycles(request) do … end      -- of all requests without an argument
--     run:metrics()                                  -- one entry for each arm and sampling
--     run:sql("SELECT arm, value FROM block_efficiency WHERE value > ?", 2)
--
-- Nothing is ever written: a run may be read while it goes on.

local cop, core = ...

local decode = core.system.json.decode

local Run = { __name = "coppice.run" }
Run.__index = Run

function Run:__tostring()
   return ("cop.open_run \"%s\" (%s)"):format(self.folder, self.name or "no name")
end

local must = core.use("must")

local function ask(self, sql, ...)
   if not self.trace then
      core.raise("the run is closed")
   end
   return must(self.trace:rows(sql, ...))
end

--- path: the folder of a run. → a run | nil, message, code
function cop.open_run(path)
   if type(path) ~= "string" then
      core.raise(("cop.open_run: expects the folder of a run, got a %s"):format(core.type(path)))
   end
   local folder = path:gsub("(.)/+$", "%1")
   if core.system.kind(folder .. "/trace.db") == nil then
      return nil, ("cop.open_run: \"%s\" is not the folder of a run: it has no trace.db"):format(folder), "io"
   end
   local manifest, problem = { identity = {}, made_by = {} }
   if core.system.kind(folder .. "/manifest.json") ~= nil then
      manifest, problem = core.use("manifest").read(folder .. "/manifest.json")
      if not manifest then
         return nil, "cop.open_run: " .. problem, "format"
      end
   end
   local trace, message, code = core.trace.open(folder .. "/trace.db", "read")
   if not trace then
      return nil, "cop.open_run: " .. message, code
   end
   return setmetatable({ folder = folder, manifest = manifest, name = manifest.identity.name, trace = trace }, Run)
end

function Run:close()
   if self.trace then
      self.trace:close()
      self.trace = nil
   end
end

Run.__close = Run.close

core.use("merge") -- cop.merge_runs

-- ---- Iterators -----------------------------------------------------------------------------------

local function iterate(list, make)
   local at = 0
   return function()
      at = at + 1
      return list[at] and make(list[at])
   end
end

local function arm_of(row)
   return {
      id = row.id, name = row.name, sampling = row.sampling, temperature = row.temperature,
      is_plain = row.is_plain ~= 0, lossless = row.is_lossless ~= 0, proposer = row.proposer, tree = row.builder,
      rule = row.rule, length = row.length, draw = row.draw, shape = row.shape,
      options = row.options and decode(row.options) or {},
   }
end

--- Arms in the order in which they were entered; plain decoding is one of each sampling.
function Run:arms()
   return iterate(ask(self, "SELECT * FROM arms ORDER BY id"), arm_of)
end

local page = 64 -- rows that are held at once

local function request_of(row)
   row.tokens = decode(row.tokens)
   return row
end

local filters = {
   { "arm", "string" }, { "sampling", "string" }, { "category", "string" }, { "prompt", "integer" },
   { "failed", "boolean" },
}

--- Refuses a name that is not in the run.
local function check_name(self, what, name, sql)
   local known = {}
   for i, row in ipairs(name and ask(self, sql) or {}) do
      if row.name == name then
         return
      end
      known[i] = row.name
   end
   if name then
      core.unknown("run:requests", what, name, known)
   end
end

--- Requests in the order in which they were finished. given: arm, sampling, category (names), prompt
-- (its number), failed (only those with, or only those without an error).
function Run:requests(given)
   local o = core.options("run:requests", given or {}, filters)
   check_name(self, "arm", o.arm, "SELECT DISTINCT name FROM arms ORDER BY id")
   check_name(self, "sampling", o.sampling, "SELECT DISTINCT sampling AS name FROM arms ORDER BY id")
   check_name(self, "category", o.category, "SELECT DISTINCT category AS name FROM requests WHERE category NOT NULL"
      .. " ORDER BY id")
   local last, list, at = 0, {}, 0
   return function()
      at = at + 1
      if at > #list then
         list, at = ask(self, "SELECT r.*, a.name AS arm_name, a.sampling FROM requests r JOIN arms a ON a.id = r.arm"
            .. " WHERE r.id > ?1 AND (?2 IS NULL OR a.name = ?2) AND (?3 IS NULL OR a.sampling = ?3)"
            .. " AND (?4 IS NULL OR r.category = ?4) AND (?5 IS NULL OR r.prompt = ?5)"
            .. " AND (?6 IS NULL OR (r.error NOT NULL) = ?6) ORDER BY r.id LIMIT " .. page, last, o.arm, o.sampling,
            o.category, o.prompt, o.failed ~= nil and (o.failed and 1 or 0) or nil), 1
      end
      local row = list[at]
      last = row and row.id or last
      return row and request_of(row)
   end
end

--- Cycles of a request in their order; without one those of all requests, each with its `request`.
function Run:cycles(request)
   if request ~= nil and (type(request) ~= "table" or not math.tointeger(request.id)) then
      core.raise(("run:cycles: expects a request of run:requests(), got a %s"):format(core.type(request)))
   end
   local next_request = request and iterate({ request }, function(r) return r end) or self:requests()
   local list, at = {}, 0
   return function()
      at = at + 1
      while at > #list do
         local owner = next_request()
         if not owner then
            return nil
         end
         list, at = ask(self, "SELECT * FROM cycles WHERE request = ? ORDER BY cycle", owner.id), 1
      end
      local cycle = core.use("measures").cycle(list[at])
      cycle.request = list[at].request
      return cycle
   end
end

-- ---- Metrics -------------------------------------------------------------------------------------

local function add_metric(by_arm, rows, definition)
   for _, row in ipairs(rows) do
      local entry = by_arm[row.arm_id]
      if definition.key then
         entry[definition.name] = entry[definition.name] or {}
         entry[definition.name][row[definition.key]] = row.value
      else
         entry[definition.name] = row.value
      end
   end
end

--- Every metric of cop.help("metrics"), for each arm and sampling: { arm =, sampling =, is_plain =,
-- lossless =, block_efficiency =, …, rate_at_depth_vllm = { [1] =, … }, … }. A metric that says
-- nothing about an arm is absent.
function Run:metrics()
   local list, by_arm = {}, {}
   for arm in self:arms() do
      local entry = { arm = arm.name, sampling = arm.sampling, is_plain = arm.is_plain, lossless = arm.lossless }
      list[#list + 1], by_arm[arm.id] = entry, entry
   end
   must(self.trace:cache())
   for _, definition in ipairs(core.trace.definitions()) do
      add_metric(by_arm, ask(self, ("SELECT * FROM %s"):format(definition.name)), definition)
   end
   return list
end

--- Where the trace contradicts itself: { { identity =, request =, left_side =, right_side = }, … };
-- empty for every run that this program wrote.
function Run:broken_identities()
   return ask(self, "SELECT * FROM broken_identities")
end

local export_options = {
   { "format", "choice", choices = "jsonl|csv|spec_bench|lm_eval", required = true },
   { "out", "string", required = true },
   { "prompts", "any" },
}

--- Writes the run as text: format = "jsonl" (out: a file), "csv", "spec_bench" or "lm_eval" (out: a folder;
-- prompts: the dataset, when its file has changed or there was none). → true, or the paths of the last two | nil,
-- message, code
function Run:export(given)
   local o = core.options("run:export", given, export_options)
   if not self.trace then
      core.raise("the run is closed")
   elseif o.format == "spec_bench" then
      return core.use("spec_bench").export(self, o.out)
   elseif o.format == "lm_eval" then
      local prompts = o.prompts ~= nil and core.as_dataset(o.prompts)
      if prompts == nil then
         core.raise("run:export: prompts must be a cop.dataset { … } or the list of the experiment")
      end
      return core.use("lm_eval").export(self, o.out, prompts)
   end
   return core.use("transfer").export(self, o.format, o.out)
end

local import_options = {
   { "path", "string", required = true }, { "out", "string", required = true }, { "plain", "string" },
}

--- Makes a run of what export has written, a .jsonl file or a folder of CSV files; of lm-eval's sample logs, a
-- file or a folder with samples_*.jsonl; or of Spec-Bench's answer files, one or a folder of them (plain: which of
-- them the others are compared with, by the name of the log's folder, of the answer file). → the run, opened | nil,
-- message, code
function cop.import_run(given)
   local o = core.options("cop.import_run", given, import_options)
   local n, problem, code = core.use("transfer").import(o.path, o.out, o.plain)
   if not n then
      return nil, "cop.import_run: " .. problem, code
   end
   return cop.open_run(o.out)
end

local readers = { select = true, with = true, values = true, explain = true }

--- One question in SQL; question marks stand for the values. → rows, each { column = value }
-- | nil, message, code
function Run:sql(text, ...)
   if type(text) ~= "string" then
      core.raise(("run:sql: expects a text, got a %s"):format(core.type(text)))
   elseif not readers[(text:match("^%s*(%a+)") or ""):lower()] then
      core.raise("run:sql: runs are only read: SELECT, WITH, VALUES or EXPLAIN")
   elseif not self.trace then
      core.raise("the run is closed")
   end
   for i = 1, select("#", ...) do
      local value = select(i, ...)
      if value ~= nil and type(value) ~= "string" and type(value) ~= "number" then
         core.raise(("run:sql: value %d must be a number, a string or nil, got a %s"):format(i, core.type(value)))
      end
   end
   return self.trace:rows(text, ...)
end

for name, method in pairs(Run) do -- errors at the script's line
   if name:find("^%l") then
      Run[name] = core.wrap(method)
   end
end
