--- cop.tune: the depth and the shape of highest predicted speed, from a cost curve and measured acceptance.
--
-- speed = expected progress / (V + D + H). V comes from the curve, D and H from a run or as given,
-- acceptance from a run or as given: by depth for chains, by rank for trees.

local cop, core = ...

local options = {
   { "cost", "table" }, { "model", "model" },
   { "acceptance", "any" }, { "ranks", "numbers", min = 0, max = 1 },
   { "run", "string" }, { "arm", "string" }, { "sampling", "string" },
   { "draft", "number", min = 0, max = 1e6 }, { "host", "number", min = 0, max = 1e6 },
   { "context", "integer", min = 0, max = 1 << 24 },
   { "depth", "integer", min = 1, max = 256, default = 16 },
   { "budget", "integer", min = 1, max = 4096, default = 64 },
   { "print", "boolean", default = true },
}

local function refuse(text, ...)
   core.raise(("cop.tune: " .. text):format(...))
end

-- ---- Costs ---------------------------------------------------------------------------------------

local function cost_of(o)
   local curve = core.use("curve")
   if not o.cost and not o.model then
      refuse("needs cost (from cop.cost) or model (whose saved cost curve is used, or measured)")
   end
   local cost = o.cost or curve.saved(o.model, o.run)
   local problem, code
   if not cost then
      cost, problem, code = cop.cost { model = o.model }
   end
   if not cost then
      return nil, problem, code
   elseif type(cost.score) ~= "table" or not cost.score[1] then
      refuse("option \"cost\" must have points in its score, as cop.cost returns them")
   end
   for i, point in ipairs(cost.score) do
      if not curve.is_point(point) then
         refuse("option \"cost\": point %d of its score must have nodes, context and seconds, as cop.cost returns them",
            i)
      end
   end
   local grid = curve.grid(cost)
   if not grid then
      refuse("option \"cost\": every context must have the same sizes")
   end
   return cost, grid
end

--- V(1), V(2), … V(most) at a context; more tokens never take less, whatever noise measured.
local function seconds_by_tokens(grid, context, most)
   local list, last = {}, 1e-9
   for n = 1, most do
      last = math.max(last, core.trace.cost_at(grid, n, context))
      list[n] = last
   end
   return list
end

--- One level of the draft model, where the curve has one: the point of the nearest context.
local function draft_seconds(cost, context)
   local best
   for _, point in ipairs(cost.draft or {}) do
      if not best or math.abs(point.context - context) < math.abs(best.context - context) then
         best = point
      end
   end
   return best and best.seconds
end

-- ---- What a run has measured ---------------------------------------------------------------------

local function find_arm(o, trace)
   local names, found = {}, {}
   for _, arm in ipairs(assert(trace:rows("SELECT * FROM arms WHERE is_plain = 0 ORDER BY id"))) do
      names[#names + 1] = ("%s (%s)"):format(arm.name, arm.sampling)
      if (not o.arm or arm.name == o.arm) and (not o.sampling or arm.sampling == o.sampling) then
         found[#found + 1] = arm
      end
   end
   if #found ~= 1 then
      refuse("%s arm of the run %s is meant: name one with arm = and sampling =; there are %s",
         #found == 0 and "no" or "more than one", o.run, table.concat(names, ", "))
   end
   return found[1]
end

local totals = "SELECT COUNT(*) AS cycles, TOTAL(draft_us * 1e-6 / batch_size) AS draft,"
   .. " TOTAL((verify_us + commit_us + other_us) * 1e-6 / batch_size) AS host, TOTAL(c.depth) AS levels,"
   .. " AVG(context_length) AS context, MAX(batch_size) AS batch"
   .. " FROM requests r JOIN cycles c ON c.request = r.id WHERE r.arm = ? AND r.error IS NULL"

--- Counts how often children of each rank were kept, of the nodes that had one and were reached; by level.
local function count_ranks(row, tested, kept)
   local parents, on_path, at, level = core.system.json.decode(row.parents), {}, 0, 0
   for _, node in ipairs(core.system.json.decode(row.accepted)) do
      on_path[node] = true
   end
   repeat
      local rank, next_node = 0, nil
      level = level + 1
      tested[level], kept[level] = tested[level] or {}, kept[level] or {}
      for node, parent in ipairs(parents) do
         if parent == at then
            rank = rank + 1
            tested[level][rank] = (tested[level][rank] or 0) + 1
            kept[level][rank] = (kept[level][rank] or 0) + (on_path[node] and 1 or 0)
            next_node = on_path[node] and node or next_node
         end
      end
      at = next_node
   until not at
end

local function measured_ranks(trace, arm)
   local tested, kept = {}, {}
   local rows = assert(trace:rows("SELECT c.parents, c.accepted FROM requests r JOIN cycles c ON c.request = r.id"
      .. " WHERE r.arm = ? AND r.error IS NULL AND c.nodes > 0 LIMIT 20000", arm))
   for _, row in ipairs(rows) do
      count_ranks(row, tested, kept)
   end
   local ranks, accuracies, all = {}, {}, {}
   for level, counts in ipairs(tested) do
      accuracies[level] = #counts > 0 and {} or nil
      for rank, n in ipairs(counts) do
         accuracies[level][rank] = kept[level][rank] / n
         all[rank] = (all[rank] or 0) + n
         ranks[rank] = (ranks[rank] or 0) + kept[level][rank]
      end
   end
   for rank, n in ipairs(all) do
      ranks[rank] = ranks[rank] / n
   end
   return ranks, accuracies
end

local function read_run(o)
   local trace, problem, code = core.trace.open(o.run .. "/trace.db", "read")
   if not trace then
      return nil, problem, code
   end
   local arm = find_arm(o, trace)
   local m, t = assert(trace:metrics(arm.id)), assert(trace:rows(totals, arm.id))[1]
   if m.depth == 0 then
      refuse("the arm %s of %s never drafted: there is no acceptance to go by", arm.name, o.run)
   end
   local ranks, accuracies = measured_ranks(trace, arm.id)
   local seen = { arm = arm.name, acceptance = {}, ranks = ranks, accuracies = accuracies, context = t.context,
      draft = t.levels > 0 and t.draft / t.levels or 0, host = t.host / t.cycles, batch = t.batch,
      block_efficiency = m.progress / m.forward_passes, tokens_per_second = m.tokens / m.decode_seconds,
      id = arm.id, tokens = m.tokens }
   for d = 1, m.depth do
      seen.acceptance[d] = m.tested[d] > 0 and m.reached[d] / m.tested[d] or 0
   end
   return seen, trace
end

-- ---- Shapes --------------------------------------------------------------------------------------

local function chain_row(depth, tokens, seconds)
   return { depth = depth, nodes = depth, tokens = tokens, seconds = seconds, tokens_per_second = tokens / seconds }
end

--- Every depth of a chain, and the best.
local function chains(o, inputs)
   local best, tokens, seconds = core.trace.pace({ acceptance = inputs.acceptance, score = inputs.costs,
      draft = inputs.draft, host = inputs.host }, o.depth)
   local list = { [0] = chain_row(0, tokens[0], seconds[0]) }
   for depth = 1, o.depth do
      list[depth] = chain_row(depth, tokens[depth], seconds[depth])
   end
   return list, list[best]
end

local function judge(inputs, shape)
   shape.seconds = inputs.costs[1 + shape.nodes] + shape.depth * inputs.draft + inputs.host
   shape.tokens_per_second = shape.tokens / shape.seconds
   return shape
end

local function better(a, b)
   return not b or a.tokens_per_second > b.tokens_per_second * (1 + 1e-12)
end

--- Sequoia's trees at every depth, of sizes a quarter apart, as long as a tree that were accepted wherever it
-- can be would still be faster.
local function sequoia(o, inputs)
   local best, kept, most, level = nil, 0, 1, 1
   for _, value in ipairs(inputs.ranks) do
      kept = kept + value
   end
   for depth = 1, o.depth do
      local nodes = depth
      level = level * kept
      most = most + level
      while nodes <= o.budget and (not best or better(judge(inputs, { depth = depth, nodes = nodes, tokens = most }),
            best)) do
         local tree = cop.tree.sequoia { budget = nodes, depth = depth, acceptance = inputs.ranks }
         local built = cop.build_tree { tree = tree }
         local shape = judge(inputs, { depth = depth, nodes = nodes, tokens = 1 + built.expected_accepted,
            tree = tree })
         best = better(shape, best) and shape or best
         nodes = nodes < o.budget and math.min(nodes + 1 + nodes // 4, o.budget) or o.budget + 1
      end
   end
   return best
end

local function widths_shape(inputs, widths)
   local shape = { depth = #widths, nodes = 0, tokens = 1, widths = widths }
   local survival, level = 1, 1
   for _, width in ipairs(widths) do
      local kept = 0
      for rank = 1, width do
         kept = kept + inputs.ranks[rank]
      end
      survival, level = survival * kept, level * width
      shape.tokens, shape.nodes = shape.tokens + survival, shape.nodes + level
   end
   return shape.nodes < #inputs.costs and judge(inputs, shape) or nil
end

--- One child or one level more at a time, as long as that is faster.
local function widths(o, inputs)
   local best
   for depth = 1, o.depth do
      local list = {}
      for level = 1, depth do
         list[level] = 1
      end
      local shape = widths_shape(inputs, list)
      while shape do
         best = better(shape, best) and shape or best
         local step
         for level = 1, depth do
            local wider = table.move(list, 1, depth, 1, {})
            wider[level] = wider[level] + 1
            local candidate = wider[level] <= #inputs.ranks and widths_shape(inputs, wider)
            step = candidate and better(candidate, step) and candidate or step
         end
         if not step or not better(step, shape) then
            break
         end
         shape, list = step, step.widths
      end
   end
   if best then
      best.tree = cop.tree.widths(table.move(best.widths, 1, best.depth, 1, {}))
   end
   return best
end

-- ---- The answer ----------------------------------------------------------------------------------

local function tell(result, list)
   local columns = { { title = "depth" }, { title = "nodes" }, { title = "tokens" }, { title = "ms" },
      { title = "tokens/s" }, { title = "speed-up" } }
   local plain, rows = list[0], {}
   local function add(shape)
      rows[#rows + 1] = { tostring(shape.depth), tostring(shape.nodes), ("%.3f"):format(shape.tokens),
         ("%.3f"):format(1e3 * shape.seconds), ("%.2f"):format(shape.tokens_per_second),
         ("%.3f"):format(shape.tokens_per_second / plain.tokens_per_second) }
   end
   for depth = 0, #list do
      add(list[depth])
   end
   if result.best.nodes ~= result.depth then
      rows[#rows + 1] = { rule = true }
      add(result.best)
   end
   for _, line in ipairs(core.table(columns, rows)) do
      print(line)
   end
   print(result.tree and ("best: %s, predicted speed-up %.3f"):format(tostring(result.tree), result.speed_up)
      or "best: plain decoding; no draft pays")
   local m = result.measured
   if m then
      print(("measured, arm %s as it ran: %.2f tokens/s, predicted %.2f (%+.1f %%)"):format(m.arm, m.tokens_per_second,
         m.predicted_tokens_per_second, 100 * (m.predicted_tokens_per_second / m.tokens_per_second - 1)))
   end
end

--- The list of acceptances by depth that was given, or measured, or implied by ranks.
local function acceptance_of(o, seen)
   local given = o.acceptance
   if given == nil then
      given = seen and seen.acceptance or o.ranks and { o.ranks[1] }
   end
   if type(given) == "number" then
      given = { given }
   end
   if type(given) ~= "table" or #given == 0 then
      refuse("needs acceptance (a number, or a list by depth), ranks (a list by rank) or run (a folder)")
   end
   for d, value in ipairs(given) do
      if type(value) ~= "number" or not (value >= 0 and value <= 1) then
         refuse("option \"acceptance\"[%d] must be from 0 to 1", d)
      end
   end
   return given
end

local function check_ranks(ranks)
   local sum = 0
   for _, value in ipairs(ranks) do
      sum = sum + value
   end
   if sum > 1 + 1e-9 then
      refuse("option \"ranks\" must sum to at most 1, not %g: one child of a node is kept at most", sum)
   end
end

local function inputs_of(o, seen, cost, grid)
   local context = o.context or seen and seen.context or grid.contexts[#grid.contexts]
   local ranks = o.ranks or seen and o.acceptance == nil and seen.ranks or {}
   check_ranks(ranks)
   local draft = o.draft or seen and seen.draft or draft_seconds(cost, context) or 0
   return { acceptance = acceptance_of(o, seen), ranks = ranks, draft = draft, context = context,
      host = o.host or seen and seen.host or 0,
      costs = seconds_by_tokens(grid, context, 1 + math.max(o.budget, o.depth)) }
end

--- cop.tune { cost = | model =, acceptance = | ranks = | run =, arm =, draft =, host =, context =, depth =,
-- budget =, print = } → { depth =, budget = nodes, widths =, tree =, length =, speed_up =,
-- tokens_per_second =, plain_tokens_per_second =, block_efficiency =, depths = { [0] = { depth =, tokens =,
-- seconds =, tokens_per_second = }, … }, costs = { V(1), … }, draft =, host =, measured =, ranks =, accuracies = }.
-- `accuracies` of a run: by level and rank, what cop.search_paths reads.
function cop.tune(given)
   local o = core.options("cop.tune", given, options)
   local cost, grid, code = cost_of(o)
   if not cost then
      return nil, grid, code
   end
   local seen, trace
   if o.run then
      seen, trace, code = read_run(o)
      if not seen then
         return nil, trace, code
      end
   end
   local inputs = inputs_of(o, seen, cost, grid)
   local list, best = chains(o, inputs)
   if #inputs.ranks > 1 then
      local shape = (rawget(cop.tree, "sequoia") and sequoia or widths)(o, inputs)
      best = shape and better(shape, best) and shape or best
   end
   local result = {
      depth = best.depth, budget = best.nodes, widths = best.widths, best = best, depths = list,
      tree = best.tree or best.depth > 0 and cop.tree.chain { depth = best.depth } or nil,
      tokens_per_second = best.tokens_per_second, plain_tokens_per_second = list[0].tokens_per_second,
      speed_up = best.tokens_per_second / list[0].tokens_per_second, block_efficiency = best.tokens,
      costs = inputs.costs, draft = inputs.draft, host = inputs.host, acceptance = inputs.acceptance,
      ranks = inputs.ranks, accuracies = seen and seen.accuracies, context = inputs.context,
      length = cop.length.adaptive {
         costs = table.move(inputs.costs, 1, math.min(#inputs.costs, 1024), 1, {}), draft = inputs.draft,
         host = inputs.host,
      },
   }
   if seen then
      local seconds = assert(trace:predict(seen.id, grid))
      trace:close()
      result.measured = { arm = seen.arm, tokens_per_second = seen.tokens_per_second,
         block_efficiency = seen.block_efficiency, predicted_tokens_per_second = seen.tokens / seconds }
   end
   if o.print then
      tell(result, list)
   end
   return result
end
