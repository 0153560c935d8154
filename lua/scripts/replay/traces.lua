--- cop.traces: acceptance that was recorded at every output position, of other engines and other machines.
--
--     local traces = assert(cop.traces { path = "specdecode_traces/gsm8k.jsonl" })
--     print(traces)                        -- requests, mean lengths, acceptance by depth of each drafter
--
-- One request a line, as SpecDecode-Bench's simulator reads them:
--
--     { "id": …, "prompt_token_ids": [ids], "acc_NAME": { "acc_len": [n, …] }, … }
--
-- where entry i is what a cycle commits that begins at output position i, last token included: at least 1.
-- "prompt_length": n may stand for the ids, and the bare list for { "acc_len": list }.

local cop, core = ...

local Traces = { __name = "coppice.traces" }
Traces.__index = Traces

local function fail(path, number, ...)
   error({ text = ("%s, line %d: %s"):format(path, number, (...):format(select(2, ...))) }, 0)
end

-- ---- Reading -------------------------------------------------------------------------------------

local function prompt_of(path, number, item)
   local ids, length = item.prompt_token_ids, math.tointeger(item.prompt_length)
   if type(ids) == "table" then
      return #ids
   elseif not length or length < 0 then
      fail(path, number, "field \"prompt_token_ids\" must be a list of ids (or \"prompt_length\" a whole number)")
   end
   return length
end

local function progress_of(path, number, field, value)
   local list = type(value) == "table" and value.acc_len or value
   if type(list) ~= "table" or #list == 0 then
      fail(path, number, "field \"%s\" must hold a list of numbers in \"acc_len\", not empty", field)
   end
   for i = 1, #list do
      local n = math.tointeger(list[i])
      if not n or n < 1 or n > 1 << 20 then
         fail(path, number, "field \"%s\": entry %d is %s; what a cycle commits is a whole number of at least 1", field,
            i, tostring(list[i]))
      end
      list[i] = n
   end
   return list
end

local function request_of(path, number, line)
   local item, problem = core.system.json.decode(line)
   if type(item) ~= "table" then
      fail(path, number, "not a JSON object%s", problem and (": " .. problem) or "")
   end
   local request = { id = item.id, prompt = prompt_of(path, number, item), progress = {} }
   for field, value in pairs(item) do
      local drafter = type(field) == "string" and field:match("^acc_(.+)$")
      if drafter then
         request.progress[drafter] = progress_of(path, number, field, value)
      end
   end
   if not next(request.progress) then
      fail(path, number, "no field \"acc_NAME\": what would the drafters have had accepted?")
   end
   return request
end

--- Drafters that every request has, by name.
local function common_drafters(requests)
   local counts, list = {}, {}
   for _, request in ipairs(requests) do
      for drafter in pairs(request.progress) do
         counts[drafter] = (counts[drafter] or 0) + 1
      end
   end
   for drafter, count in pairs(counts) do
      list[#list + 1] = count == #requests and drafter or nil
   end
   table.sort(list)
   return list
end

local function read(path)
   local file, problem = io.open(path, "rb")
   if not file then
      return nil, "cop.traces: " .. problem, "io"
   end
   local self, number = setmetatable({ path = path, requests = {} }, Traces), 0
   self.name = path:gsub("^.*/", ""):gsub("%.jsonl?$", ""):gsub("^combined_", "")
   for line in file:lines() do
      number = number + 1
      if line:find("%S") then
         table.insert(self.requests, request_of(path, number, line))
      end
   end
   file:close()
   self.drafters = common_drafters(self.requests)
   if #self.requests == 0 then
      return nil, ("cop.traces: %s holds no request"):format(path), "format"
   elseif #self.drafters == 0 then
      return nil, ("cop.traces: %s: no drafter was recorded for every request"):format(path), "format"
   end
   return self
end

--- cop.traces { path = } → traces | nil, message, code
function cop.traces(given)
   local o = core.options("cop.traces", given, { { "path", "string", required = true, positional = true } })
   local ok, traces, message, code = pcall(read, o.path)
   if ok then
      return traces, message, code
   elseif type(traces) == "table" then
      return nil, "cop.traces: " .. traces.text, "format"
   end
   return nil, ("cop.traces: %s: %s"):format(o.path, tostring(traces)), "io"
end

function core.is_traces(value)
   return getmetatable(value) == Traces
end

-- ---- What they hold ------------------------------------------------------------------------------

--- Depths 0 … `depth` were reached once more.
local function count(reached, depth)
   for d = 0, depth do
      reached[d] = (reached[d] or 0) + 1
   end
end

local function rates(reached)
   local out = {}
   for d = 1, #reached do
      out[d] = reached[d] / reached[d - 1]
   end
   return out
end

local function shares(reached)
   local out = {}
   for d = 1, #reached do
      out[d] = reached[d] / reached[0]
   end
   return out
end

--- Refuses a drafter that was not recorded.
function Traces:check_drafter(owner, drafter)
   for _, known in ipairs(self.drafters) do
      if known == drafter then
         return
      end
   end
   core.unknown(owner, "drafter", drafter, self.drafters)
end

--- What answers from position 0 on would have taken with drafts of `length` tokens (nil or "oracle": as
-- long as will be accepted) → { requests =, prompt =, output = (means), cycles =, block_efficiency =,
-- rate = { of depth d given d - 1 }, at_least = { share of cycles that kept d drafted tokens },
-- rate_everywhere = { as rate, of a cycle at every position } }.
function Traces:statistics(drafter, length)
   self:check_drafter("traces:statistics", drafter)
   length = length == nil and "oracle" or length
   if length ~= "oracle" and (not math.tointeger(length) or length < 0) then
      core.raise(("traces:statistics: length must be a whole number or \"oracle\", got %s"):format(tostring(length)))
   end
   local most = length == "oracle" and math.huge or length + 1
   local kept, everywhere, prompt, output, committed = { [0] = 0 }, { [0] = 0 }, 0, 0, 0
   for _, request in ipairs(self.requests) do
      local list, at = request.progress[drafter], 1
      prompt, output = prompt + request.prompt, output + #list
      for i, progress in ipairs(list) do
         count(everywhere, progress - 1)
         if i == at then
            progress = math.min(progress, most)
            count(kept, progress - 1)
            at, committed = at + progress, committed + progress
         end
      end
   end
   local n = #self.requests
   return { requests = n, prompt = prompt / n, output = output / n, cycles = kept[0],
      block_efficiency = committed / kept[0], rate = rates(kept), rate_everywhere = rates(everywhere),
      at_least = shares(kept) }
end

local columns = {
   { title = "drafter", align = "left" }, { title = "requests" }, { title = "prompt" }, { title = "output" },
   { title = "tokens a cycle" }, { title = "accepted at depth 1, 2, … given the one before", align = "left" },
}

function Traces:__tostring()
   local rows = {}
   for i, drafter in ipairs(self.drafters) do
      local told, depths = self:statistics(drafter), {}
      for d = 1, math.min(6, #told.rate) do
         depths[d] = ("%.3f"):format(told.rate[d])
      end
      rows[i] = { drafter, tostring(told.requests), ("%.1f"):format(told.prompt), ("%.1f"):format(told.output),
         ("%.3f"):format(told.block_efficiency), table.concat(depths, " ") }
   end
   local lines = core.table(columns, rows)
   table.insert(lines, 1, ("cop.traces \"%s\", drafts as long as will be accepted"):format(self.path))
   return table.concat(lines, "\n")
end
