--- The measured cost curve V(n, context) of a model on this machine: measured once, saved next to the
-- runs, and used to predict what an arm's cycles should have taken.

local cop, core = ...

local curve = {}
local json = core.system.json

--- What the times depend on names the file.
local function key(model)
   return ("%s-%s-%s-%s-%d"):format(core.use("manifest").hash(model.path):sub(1, 12), model.level or model.device,
      model.precision, model.kv, model.threads)
end

--- Dense where trees are small: a pass grows in steps.
curve.usual_sizes = { 1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 24, 32, 64 }

--- For a run in runs/NAME: runs/cost/KEY.json.
function curve.path(model, run_folder)
   local parent = run_folder and (run_folder:gsub("/+$", ""):match("^(.*)/[^/]*$") or ".") or "runs"
   return ("%s/cost/%s.json"):format(parent, key(model))
end

-- Points are checked one by one; no reader divides by what is 0 or not a number.
local form = {
   score = "list", draft = "list", bandwidth = "number", peak_bytes = "number", model = "text", precision = "text",
   kv = "text", measured = "text", version = "text",
   machine = { processor = "text", cores = "number", level = "text", device = "text", threads = "number",
      fingerprint = "text" },
   roofline = { bytes = "number", bandwidth = "number", work = "number", is_int8 = "flag", peak = "number" },
}
local roofline_fields = { "bytes", "bandwidth", "work", "peak" }

local function is_count(value, least)
   local number = math.type(value) and math.tointeger(value)
   return number and number >= least
end

function curve.is_point(p)
   return type(p) == "table" and is_count(p.nodes, 1) and is_count(p.context, 0)
      and type(p.seconds) == "number" and p.seconds > 1e-12 and p.seconds < math.huge
      and (p.spread == nil or type(p.spread) == "number")
end

--- → nil | what is wrong with a curve that came from somewhere
local function problem_of(cost)
   local problem = core.use("shape").problem(cost, form)
   if problem or not cost.score or not cost.score[1] then
      return problem or "it has no score = { { nodes =, context =, seconds = }, … }"
   end
   for _, name in ipairs { "score", "draft" } do
      for i, point in ipairs(cost[name] or {}) do
         if not curve.is_point(point) then
            return ("%s[%d] must have nodes, context and seconds above 0"):format(name, i)
         end
      end
   end
   for _, name in ipairs(cost.roofline and roofline_fields or {}) do
      if not cost.roofline[name] then
         return ("\"roofline.%s\" is missing"):format(name)
      end
   end
end

--- A curve from the text of its file. → cost | nil, what is wrong
function curve.decode(text)
   local cost, problem = json.decode(text)
   problem = problem or problem_of(cost)
   return not problem and cost or nil, problem
end

--- → cost | nil, what is wrong
function curve.read(path)
   local file, reason = io.open(path, "rb")
   if not file then
      return nil, reason
   end
   local text, broken = file:read("a")
   file:close()
   if not text then
      return nil, ("%s: %s"):format(path, tostring(broken))
   end
   local cost, problem = curve.decode(text)
   return cost, problem and ("%s: %s"):format(path, problem)
end

--- The one that was measured here; nil where there is none, or a damaged one.
function curve.saved(model, run_folder)
   local cost = curve.read(curve.path(model, run_folder))
   local here = cost and core.use("manifest").machine(model)
   if not cost or not cost.machine or cost.machine.fingerprint ~= here.fingerprint then
      return nil
   end
   cost.path = curve.path(model, run_folder)
   return cost
end

--- The usual sizes and contexts as far as they fit the model's own context; what was asked for is
-- taken as it is (cop.cost has refused what does not fit).
local function fitting(model, sizes, contexts, is_asked)
   local room, fit_sizes, fit_contexts = model.context, {}, {}
   for _, n in ipairs(sizes) do
      if is_asked or n <= math.max(1, room // 2) then
         fit_sizes[#fit_sizes + 1] = n
      end
   end
   local most = math.max(table.unpack(fit_sizes))
   for _, c in ipairs(contexts) do
      if c + most <= room then
         fit_contexts[#fit_contexts + 1] = c
      end
   end
   if #fit_contexts == 0 then
      fit_contexts[1] = math.max(1, room - most)
   end
   return fit_sizes, fit_contexts
end

--- Points for every context. `tries` nil: as many as fit into `budget` seconds, 3 to 25.
local function points(model, sizes, contexts, tries, budget)
   local out = json.list {}
   for _, context in ipairs(contexts) do
      local list, problem, code = core.system.measure.score(model, context, sizes, tries or 25,
         tries and math.huge or budget / #contexts)
      if not list then
         return nil, problem, code
      end
      table.move(list, 1, #list, #out + 1, out)
   end
   return out
end

--- Multiply-accumulates of one token, from the model's shape.
local function work(model)
   local attention = (model.heads + 2 * model.kv_heads) * model.head_dim + model.heads * model.head_dim
   local layer = model.hidden_size * attention + 3 * model.hidden_size * model.ffn_size
   return model.layers * layer + model.vocab_size * model.hidden_size
end

--- No pass of n tokens can be faster: every weight is read once, every token multiplies all of them.
function curve.floor_seconds(roofline, n)
   local reading = roofline.bandwidth > 0 and roofline.bytes / roofline.bandwidth or 0
   local counting = roofline.is_int8 and roofline.peak > 0 and n * roofline.work / roofline.peak or 0
   return math.max(reading, counting)
end

--- → { score = points, draft = points, … }, not saved. o: sizes, contexts, tries, budget, drafts,
-- bandwidth.
function curve.measure(model, o)
   local sizes, contexts = fitting(model, o.sizes or curve.usual_sizes, o.contexts or { 32, 512 }, o.sizes)
   local score, problem, code = points(model, sizes, contexts, o.tries, o.budget or 1.5)
   if not score then
      return nil, problem, code
   end
   local drafts = json.list {}
   for _, draft in ipairs(o.drafts or {}) do
      local _, draft_contexts = fitting(draft, { 1 }, o.contexts or { 32, 512 })
      local list
      list, problem, code = points(draft, { 1 }, draft_contexts, o.tries and 3 * o.tries, 0.3)
      if not list then
         return nil, problem, code
      end
      for _, point in ipairs(list) do
         point.path = draft.path
         drafts[#drafts + 1] = point
      end
   end
   local cost = { score = score, draft = drafts, peak_bytes = curve.peak_bytes(), model = model.path,
      machine = core.use("manifest").machine(model), precision = model.precision, kv = model.kv,
      measured = os.date("!%Y-%m-%dT%H:%M:%SZ"), version = cop.version }
   if o.bandwidth then
      cost.bandwidth = core.system.measure.bandwidth(model.threads, 10)
      cost.roofline = { bytes = model.bytes, bandwidth = cost.bandwidth, work = work(model),
         is_int8 = model.precision == "int8", peak = core.system.measure.int8_peak(model.threads) }
   end
   return cost
end

--- Most memory that this process has held.
function curve.peak_bytes()
   local file = io.open("/proc/self/status")
   local text = file and file:read("a") or ""
   if file then
      file:close()
   end
   local kilobytes = math.tointeger(tonumber(text:match("VmHWM:%s*(%d+)")))
   return kilobytes and kilobytes * 1024
end

function curve.save(cost, path)
   local ok, problem, code = core.system.folder(path:match("^(.*)/[^/]*$"))
   if ok then
      ok, problem, code = core.system.write(path, json.encode(cost, 1) .. "\n")
   end
   cost.path = path
   return ok, problem, code
end

--- The largest share of its seconds by which a point's tries differ.
local function noise(cost)
   local most = 0.0
   for _, point in ipairs(cost.score) do
      most = math.max(most, (point.spread or 0) / point.seconds)
   end
   return most
end

--- More noise than this was the work of others: a median of such tries may be twice what a pass takes.
local most_noise = 0.4

--- Whether it says what drafts cost: one of single tokens (`sizes` are the script's) says that they are free.
local function has_drafts(cost)
   local most = 0
   for _, point in ipairs(cost.score) do
      most = math.max(most, point.nodes)
   end
   return most >= 4
end

--- The saved curve, or a quick measurement that is saved; a noisy one is measured again, and the quieter of the
-- two stays, as is one that has no drafts. nil when it cannot be had: a run goes on without predictions.
function curve.ensure(model, run_folder, console)
   local cost = curve.saved(model, run_folder)
   local is_whole = cost and has_drafts(cost)
   if is_whole and noise(cost) <= most_noise then
      return cost
   end
   console:progress(0, 1, 0, "measuring the cost of a forward pass")
   -- weights that stay in the processor's cache are no matter of the memory's speed
   local new = curve.measure(model, { bandwidth = model.bytes > 1 << 25 })
   if new and (not is_whole or noise(new) < noise(cost)) then
      cost = new
      curve.save(cost, curve.path(model, run_folder))
   end
   return cost
end

-- ---- A machine that changes its speed ------------------------------------------------------------

--- Those of the curve's sizes that are measured again in the pauses of a run.
local followed = { [1] = true, [2] = true, [4] = true, [8] = true, [16] = true }

--- How passes take now, behind the curve's shortest context: { { nodes =, factor = now / then }, … }.
-- nil: it could not be measured.
function curve.drift(model, cost)
   local context, sizes, before = math.huge, {}, {}
   for _, point in ipairs(cost.score) do
      context = math.min(context, point.context)
   end
   for _, point in ipairs(cost.score) do
      if point.context == context and (followed[point.nodes] or #sizes == 0) then
         sizes[#sizes + 1], before[#sizes + 1] = point.nodes, point.seconds
      end
   end
   local now = core.system.measure.score(model, context, sizes, 5, 0)
   for i, point in ipairs(now or {}) do
      now[i] = { nodes = point.nodes, factor = point.seconds / before[i] }
   end
   return now
end

function curve.median(list)
   table.sort(list)
   local n = #list
   return (list[(n + 1) // 2] + list[n // 2 + 1]) / 2
end

--- The median factor of each size: a pause that something else fell into says nothing of the rest.
local function usual_factors(drifts)
   local usual = {}
   for i, point in ipairs(drifts[1]) do
      local factors = {}
      for k, drift in ipairs(drifts) do
         factors[k] = drift[i].factor
      end
      usual[i] = { nodes = point.nodes, factor = curve.median(factors) }
   end
   return usual
end

local function factor_at(factors, nodes)
   local left = factors[1]
   for _, right in ipairs(factors) do
      if nodes <= right.nodes then
         local share = right.nodes > left.nodes and (nodes - left.nodes) / (right.nodes - left.nodes) or 0
         return left.factor + share * (right.factor - left.factor)
      end
      left = right
   end
   return left.factor
end

local function copied(from)
   local to = {}
   for name, value in pairs(from) do
      to[name] = value
   end
   return to
end

--- The curve as the machine usually was when `drifts`, a list of what curve.drift returned, were measured.
function curve.drifted(cost, drifts)
   if #drifts == 0 then
      return cost
   end
   local factors, out = usual_factors(drifts), copied(cost)
   out.score, out.drifts = json.list {}, json.list(drifts)
   for i, point in ipairs(cost.score) do
      local factor, moved = factor_at(factors, point.nodes), copied(point)
      moved.seconds, moved.spread = factor * point.seconds, point.spread and factor * point.spread
      out.score[i] = moved
   end
   return out
end

-- ---- Curves of other machines -----------------------------------------------------------------

--- What cop.cost returned, or the path of the file that it saved. → cost | nil, what is wrong
function curve.given(value)
   if type(value) == "string" then
      return curve.read(value)
   end
   local problem = type(value) == "table" and problem_of(value) or type(value) ~= "table" and "no table"
   return not problem and value or nil, problem and "it: " .. problem
end

--- Gauss–Jordan on n rows of n + 1; → the solution, or nil where a row depends on others.
local function solved(rows)
   local scale, out = {}, {}
   for i, row in ipairs(rows) do
      scale[i] = row[i]
   end
   for i, row in ipairs(rows) do
      if row[i] < 1e-10 * scale[i] then
         return nil
      end
      for k, other in ipairs(rows) do
         local factor = k ~= i and other[i] / row[i] or 0
         for j = 1, #row do
            other[j] = other[j] - factor * row[j]
         end
      end
   end
   for i, row in ipairs(rows) do
      out[i] = row[#row] / row[i]
   end
   return out
end

--- Least squares, of relative errors, of seconds = the sum of some of fixed, kv * context, token * nodes. nil: no
-- such plane, or one with a coefficient below 0.
local function plane_of(list, names)
   local rows = {}
   for i = 1, #names do
      rows[i] = {}
      for j = 1, #names + 1 do
         rows[i][j] = 0.0
         for _, point in ipairs(list) do
            local of = { fixed = 1.0, kv = point.context, token = point.nodes }
            rows[i][j] = rows[i][j] + of[names[i]] * (of[names[j]] or point.seconds) / point.seconds ^ 2
         end
      end
   end
   local found, out = solved(rows), { fixed = 0.0, kv = 0.0, token = 0.0 }
   for i, name in ipairs(names) do
      if not found or found[i] < 0 then
         return nil
      end
      out[name] = found[i]
   end
   return out
end

local function plane(list)
   return plane_of(list, { "fixed", "kv", "token" }) or plane_of(list, { "fixed", "token" })
      or plane_of(list, { "fixed", "kv" }) or plane_of(list, { "fixed" })
end

--- A curve as coefficients for cop.simulate. A draft of k tokens takes k passes of one token.
function curve.planes(cost)
   local out = { target = plane(cost.score), lookup = 0, overhead = 0 }
   if type(cost.draft) == "table" and cost.draft[1] then
      local sum = 0.0
      for _, point in ipairs(cost.draft) do
         sum = sum + point.seconds / #cost.draft
      end
      out.draft = { kv = 0.0, token = sum, fixed = -sum } -- the token of the root is not drafted
   end
   return out
end

-- ---- As a grid -----------------------------------------------------------------------------------

local function ascending(set)
   local list = {}
   for value in pairs(set) do
      list[#list + 1] = value
   end
   table.sort(list)
   return list
end

--- { nodes =, contexts =, seconds = } for trace:predict.
function curve.grid(cost)
   local nodes, contexts, at = {}, {}, {}
   for _, point in ipairs(cost.score) do
      nodes[point.nodes], contexts[point.context] = true, true
      at[point.context] = at[point.context] or {}
      at[point.context][point.nodes] = point.seconds
   end
   local grid = { nodes = ascending(nodes), contexts = ascending(contexts), seconds = {} }
   for _, context in ipairs(grid.contexts) do
      for _, n in ipairs(grid.nodes) do
         if not at[context][n] then
            return nil
         end
         table.insert(grid.seconds, at[context][n])
      end
   end
   return grid
end

--- V(1) at the shortest context.
function curve.plain_seconds(cost)
   local best
   for _, point in ipairs(cost.score) do
      if not best or point.nodes < best.nodes or (point.nodes == best.nodes and point.context < best.context) then
         best = point
      end
   end
   return best.seconds
end

return curve
