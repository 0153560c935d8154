--- cop.simulate: what speculation would bring at a batch size, from recorded acceptance and a cost model.
--
--     print(cop.simulate { data = "gsm8k.jsonl", drafter = "eagle", length = 3, batch = { 1, 8, 32 } })
--
-- The simulator of arXiv:2601.11580 ("Speculative Decoding: Performance or Illusion?"); core/trace/simulate.h says how
-- time is counted. A speed-up is the mean throughput of the sampled requests over their mean plain throughput, both
-- by the same cost model. Nothing is measured: a plan for a machine that is not here.
--
-- price says who is paid for a draft: "model" the draft model, "lookup" the lookup. Of several drafters the longest
-- draft counts at each position; "winner" pays the one that had it (the lookup, where they tie), "both" pays both
-- every cycle, and "lookup", which is what the paper's simulator did, drafts a model's wins almost for free.

local cop, core = ...

local owner = "cop.simulate"

local function refuse(text, ...)
   core.raise((owner .. ": " .. text):format(...))
end

-- ---- Cost models ---------------------------------------------------------------------------------

--- Fitted by the paper's authors.
local machines = {
   ["llama-3.1-8b-h100"] = {
      target = { kv = 3.92645679e-8, token = 2.10103129e-5, fixed = 5.88590713e-3 },
      draft = { kv = 2.37768493e-9, token = 8.41429603e-7, fixed = 2.13526175e-3 },
      lookup = 0.005875, overhead = 1.20683946e-3,
   },
}

local pass_options = {
   { "kv", "number", min = 0, required = true }, { "token", "number", min = 0, required = true },
   { "fixed", "number", min = 0, required = true },
}
local cost_options = {
   { "target", "table", required = true }, { "draft", "table" }, { "lookup", "number", min = 0, default = 0 },
   { "overhead", "number", min = 0, default = 0 },
}

local function flat(cost)
   local t, d = cost.target, cost.draft or { kv = 0, token = 0, fixed = 0 }
   return { t.kv, t.token, t.fixed, d.kv, d.token, d.fixed, cost.lookup, cost.overhead }
end

--- A name, a table of coefficients, or what cop.cost has measured (its result or its file).
local function read_cost(given)
   if type(given) == "string" and machines[given] then
      return machines[given]
   elseif type(given) == "table" and given.target then
      local cost = core.options(owner .. ": cost", given, cost_options)
      cost.target = core.options(owner .. ": cost.target", cost.target, pass_options)
      cost.draft = cost.draft and core.options(owner .. ": cost.draft", cost.draft, pass_options)
      return cost
   end
   local curve = core.use("curve")
   local measured, problem = curve.given(given)
   if not measured then
      refuse("cost must be \"llama-3.1-8b-h100\", { target = { kv =, token =, fixed = }, draft = …, lookup =,"
         .. " overhead = } or what cop.cost saved: %s", problem)
   end
   return curve.planes(measured)
end

-- ---- Drafters ------------------------------------------------------------------------------------

local MODEL, LOOKUP = 1, 2 -- bits of core/trace/simulate.h

local function kind_of(drafter)
   return drafter == "ngram" and LOOKUP or MODEL
end

local function drafters_of(o, traces)
   local list = o.drafter == "combined" and { "eagle", "ngram" } or { o.drafter }
   if type(o.drafter) == "table" then
      list = o.drafter
   end
   for _, drafter in ipairs(list) do
      traces:check_drafter(owner, drafter)
   end
   if #list == 0 then
      refuse("drafter names no drafter")
   end
   return list
end

--- progress and payee at every position that all the drafters have.
local function longest(request, drafters)
   local length = math.huge
   for _, drafter in ipairs(drafters) do
      length = math.min(length, #request.progress[drafter])
   end
   local progress, payee = {}, {}
   for i = 1, length do
      for _, drafter in ipairs(drafters) do
         local own = request.progress[drafter][i]
         if own > (progress[i] or 0) or own == progress[i] and kind_of(drafter) == LOOKUP then
            progress[i], payee[i] = own, kind_of(drafter)
         end
      end
   end
   return progress, payee
end

local function paid(payee, price)
   local fixed = ({ model = MODEL, lookup = LOOKUP, both = MODEL | LOOKUP })[price]
   for i = 1, #payee do
      payee[i] = fixed or payee[i]
   end
   return payee
end

local function requests_of(traces, drafters, price)
   local list = {}
   for i, request in ipairs(traces.requests) do
      local progress, payee = longest(request, drafters)
      list[i] = { prompt = request.prompt, progress = progress, drafter = paid(payee, price) }
   end
   return list
end

--- How often a lookup that has nothing accepted had found something: the paper's four data sets.
local match_of = { sharegpt = 0.2, cnn = 0.4, gsm8k = 0.2, instructcoder = 0.8 }

local function match(o, traces, drafters)
   if #drafters > 1 or kind_of(drafters[1]) == MODEL or o.length == "oracle" then
      return 1
   end
   return o.match or match_of[traces.name] or refuse("match is missing: of positions of \"%s\" at which nothing"
      .. " was accepted, the share at which the lookup found something all the same (1: everywhere)", traces.name)
end

-- ---- The result ----------------------------------------------------------------------------------

local Simulation = { __name = "coppice.simulation" }
Simulation.__index = Simulation

function core.is_simulation(value)
   return getmetatable(value) == Simulation
end

local columns = {
   { title = "batch" }, { title = "speed-up" }, { title = "tokens/s" }, { title = "plain tokens/s" },
   { title = "tokens a cycle" }, { title = "seconds an answer" }, { title = "plain" },
}

function Simulation:__tostring()
   local rows = {}
   for i, b in ipairs(self.batches) do
      rows[i] = { tostring(b.batch), ("%.2f"):format(b.speedup), ("%.0f"):format(b.throughput),
         ("%.0f"):format(b.plain_throughput), ("%.3f"):format(b.block_efficiency), ("%.3f"):format(b.seconds),
         ("%.3f"):format(b.plain_seconds) }
   end
   local lines = core.table(columns, rows)
   table.insert(lines, 1, ("%s, %s, %s, price \"%s\", %d requests: simulated, nothing was measured"):format(self.name,
      table.concat(self.drafters, " + "), self.length == "oracle" and "oracle" or ("%d drafted"):format(self.length),
      self.price, self.samples))
   return table.concat(lines, "\n")
end

local function mean(list, of)
   local sum = 0.0
   for i = 1, #list do
      sum = sum + of(i, list[i])
   end
   return sum / #list
end

local function one_batch(setting, batch)
   setting.batch = batch
   local told = core.trace.simulate(setting)
   local function tokens(i)
      return batch * #setting.requests[told.requests[i] // 1 | 0].progress
   end
   local out = { batch = batch,
      throughput = mean(told.seconds, function(i, seconds) return tokens(i) / seconds end),
      plain_throughput = mean(told.plain_seconds, function(i, seconds) return tokens(i) / seconds end),
      seconds = mean(told.seconds, function(_, seconds) return seconds end),
      plain_seconds = mean(told.plain_seconds, function(_, seconds) return seconds end),
      mean_speedup = mean(told.seconds, function(i, seconds) return told.plain_seconds[i] / seconds end),
      cycles = told.cycles, block_efficiency = told.cycles > 0 and told.committed / told.cycles or nil }
   out.speedup, out.latency_speedup = out.throughput / out.plain_throughput, out.plain_seconds / out.seconds
   return out
end

-- ---- cop.simulate --------------------------------------------------------------------------------

local options = {
   { "data", "any", required = true },
   { "drafter", "any", required = true },
   { "length", "any", required = true },
   { "batch", "integers", min = 1, max = 4096 },
   { "cost", "any", default = "llama-3.1-8b-h100" },
   { "price", "choice", choices = "model|lookup|winner|both" },
   { "match", "number", min = 0, max = 1 },
   { "samples", "integer", min = 1, max = 1 << 24 },
   { "seed", "integer", min = 0, max = 0xffffffff, default = 42 },
}

local function check_length(o)
   if o.length ~= "oracle" then
      local length = math.tointeger(o.length)
      if not length or length < 0 or length > 4096 then
         refuse("length must be the number of drafted tokens of a cycle, 0 to 4,096, or \"oracle\", got %s",
            tostring(o.length))
      end
      o.length = length
   end
   if type(o.drafter) ~= "string" and type(o.drafter) ~= "table" then
      refuse("drafter must be a name, \"combined\" or a list of names, got a %s", core.type(o.drafter))
   end
end

--- → { batches = { { batch =, speedup =, throughput =, plain_throughput =, seconds =, plain_seconds =,
-- latency_speedup =, mean_speedup =, block_efficiency =, cycles = }, … }, name =, samples = } | nil, message, code
function cop.simulate(given)
   local o = core.options(owner, given, options)
   check_length(o)
   local traces = o.data
   if type(o.data) == "string" then
      local message, code
      traces, message, code = cop.traces { path = o.data }
      if not traces then
         return nil, message, code
      end
   elseif not core.is_traces(o.data) then
      refuse("data must be a file of traces or what cop.traces returned, got a %s", core.type(o.data))
   end
   local drafters = drafters_of(o, traces)
   local price = o.price or (#drafters > 1 or kind_of(drafters[1]) == LOOKUP) and "lookup" or "model"
   local samples = o.samples or math.min(300, #traces.requests)
   if samples > #traces.requests then
      refuse("samples = %d, but \"%s\" holds %d requests", samples, traces.name, #traces.requests)
   end
   local setting = { requests = requests_of(traces, drafters, price), samples = samples, seed = o.seed,
      length = o.length == "oracle" and -1 or o.length, match = match(o, traces, drafters),
      skips_empty = #drafters == 1 and kind_of(drafters[1]) == LOOKUP, cost = flat(read_cost(o.cost)) }
   local self = { name = traces.name, drafters = drafters, length = o.length, price = price, samples = samples,
      match = setting.match, batches = {} }
   for i, batch in ipairs(o.batch or { 1 }) do
      self.batches[i] = one_batch(setting, batch)
   end
   return setmetatable(self, Simulation)
end
