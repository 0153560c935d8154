--- cop.replay: other rules, trees and length policies on target and draft rows that were recorded.
--
--     print(cop.replay { rows = cop.rows { path = }, arms = { cop.arm { "block", rule =, tree =, draw = }, … } })
--     print(cop.replay { run = "runs/mine", arms = { … } })     -- of a run with record = { rows = "f16" }
--
-- A cell is one arm at one recorded position: one cycle that begins there (replay_cell.lua says what is exact and
-- what is estimated). cost = a curve of cop.cost, of any machine, adds what each cell would have taken.
--
-- An arm without a tree takes the recorded tokens below a position as its draft. The mean of such cells is the arm's
-- own only if those tokens were drawn from the draft rows by the arm's draw, which no file shows.

local cop, core = ...

local function refuse(text, ...)
   core.raise(("cop.replay: " .. text):format(...))
end

-- ---- What is replayed ----------------------------------------------------------------------------

--- The recorded arms of a run, by name and sampling.
local function recorded_arms(run)
   local list = {}
   for arm in run:arms() do
      local n = run:sql("SELECT count(*) AS n FROM requests WHERE arm = ? AND error IS NULL", arm.id)
      if n[1].n > 0 and core.use("row_files").of_arm(run.folder, arm.id) then
         list[#list + 1] = arm
      end
   end
   return list
end

local function choose(run, o)
   local list, told = {}, {}
   for _, arm in ipairs(recorded_arms(run)) do
      told[#told + 1] = ("recorded = \"%s\", sampling = \"%s\""):format(arm.name, arm.sampling)
      if (not o.recorded or o.recorded == arm.name) and (not o.sampling or o.sampling == arm.sampling) then
         list[#list + 1] = arm
      end
   end
   if #told == 0 then
      return nil, ("cop.replay: the run %s holds no rows (a trace keeps tokens, trees and times); record them:"
         .. " record = { rows = \"f16\" } of cop.experiment, or give rows ="):format(run.folder)
   elseif #list ~= 1 then
      refuse("the run %s has rows of %d such arms; say which: %s", run.folder, #list, table.concat(told, " or "))
   end
   return list[1]
end

--- → a source { files = { { path =, request = } … }, temperature = } of a run | nil, message, code
local function source_of_run(o)
   local run, message, code = cop.open_run(o.run)
   if not run then
      return nil, message, code
   end
   local arm, problem = choose(run, o)
   local source = { files = {}, temperature = arm and arm.temperature, recorded = arm and arm.name }
   for _, r in ipairs(arm and run:sql("SELECT id, prompt, repeat, turn FROM requests WHERE arm = ? AND error IS NULL"
      .. " ORDER BY prompt, repeat, turn", arm.id) or {}) do
      local path = core.use("row_files").path(run.folder, arm.id, r.prompt, r["repeat"], r.turn)
      if core.system.kind(path) ~= nil then -- an answer without a cycle has none
         table.insert(source.files, { path = path, request = r.id })
      end
   end
   run:close()
   if not arm then
      return nil, problem, "unsupported"
   end
   return source
end

local function open(file)
   if file.rows then
      return file.rows
   end
   local rows, message = cop.rows { path = file.path }
   return rows or error(message, 0)
end

-- ---- Cells ---------------------------------------------------------------------------------------

local function price(cell, rows, cost)
   if cost and cell.kind ~= "refused" then
      cell.seconds, cell.plain_seconds = cost(cell.nodes, cell.levels, (rows:place(cell.position)))
      cell.tokens_per_second = (1 + cell.expected_accepted) / cell.seconds
      cell.speedup = cell.tokens_per_second * cell.plain_seconds
   end
   return cell
end

--- Temperature 0 on rows of a greedy answer: which cycles the arm's own run has. → tokens, cycles | nil
local function walk(cells)
   local at, tokens, cycles = 1, 0, 0
   while cells[at] do
      if cells[at].kind ~= "exact" then
         return nil
      end
      local progress = cells[at].expected_accepted // 1 | 0
      progress = progress + 1
      at, tokens, cycles = at + progress, tokens + progress, cycles + 1
   end
   return tokens, cycles
end

--- All arms at all positions of one file; `cells` and `walks` by arm grow.
local function replay_file(file, arms, o, cells, walks, is_common)
   local rows = open(file)
   for _, arm in ipairs(arms) do
      if rows.is_cut and arm.temperature ~= 0 and arm.temperature ~= 1 then
         refuse("arm \"%s\": of these rows only the best were recorded, at temperature 1; replay at temperature 1 or 0",
            arm.name)
      end
   end
   local before, room = #is_common, math.max(0, (o.limit or math.huge) - #is_common)
   for n = 1, math.min(#rows.positions, room) do
      is_common[before + n] = true
      for i, arm in ipairs(arms) do
         local cell = price(core.use("replay_cell")(arm, o, rows, rows.positions[n]), rows, o.price)
         cell.request = file.request
         cells[i][before + n] = cell
         is_common[before + n] = is_common[before + n] and cell.kind ~= "refused"
      end
   end
   for i, arm in ipairs(arms) do
      if file.request and arm.zero and o.is_greedy and #rows.positions <= room then
         local tokens, cycles = walk(table.move(cells[i], before + 1, #cells[i], 1, {}))
         walks[i].tokens = walks[i].tokens + (tokens or 0)
         walks[i].cycles = walks[i].cycles + (cycles or 0)
         walks[i].answers = walks[i].answers + (tokens and 1 or 0)
      end
   end
end

-- ---- cop.replay ----------------------------------------------------------------------------------

local options = {
   { "rows", "any" },
   { "run", "string" },
   { "recorded", "string" },
   { "sampling", "string" },
   { "arms", "table", required = true },
   { "temperature", "number", min = 0, max = 100 },
   { "depth", "integer", min = 1, max = 64, default = 8 },
   { "samples", "integer", min = 2, max = 1e6, default = 200 },
   { "seed", "integer", min = 0, max = 1 << 30, default = 0 },
   { "limit", "integer", min = 1, max = 1 << 30 },
   { "cost", "any" },
   { "draft", "string" },
}

local function check(o)
   if (o.rows == nil) == (o.run == nil) then
      refuse("needs exactly one of: rows, run")
   elseif o.rows ~= nil and not core.is_rows(o.rows) then
      refuse("rows must be what cop.rows { path = } returned, got a %s", core.type(o.rows))
   elseif o.rows ~= nil and (o.recorded or o.sampling) then
      refuse("recorded and sampling choose an arm of a run; rows are of one")
   elseif #o.arms == 0 then
      refuse("arms is empty")
   elseif o.draft and o.cost == nil then
      refuse("draft names a draft of the cost, which is missing")
   end
   if o.cost ~= nil then
      o.price, o.has_draft_cost = core.use("replay_cost")(o.cost, o.draft)
   end
end

--- → { arms = { { name =, expected_accepted =, low =, high =, block_efficiency =, at_least = { by depth },
-- rate = { by depth, given the one before }, exact =, estimated =, refused =, reasons =, common =, cells =,
-- run_block_efficiency =, tokens_per_second =, speedup = } }, says = { lines } }, which prints as a table
-- | nil, message, code
function cop.replay(given)
   local o = core.options("cop.replay", given, options)
   check(o)
   local source = { files = { { rows = o.rows } }, temperature = 1 }
   if o.run then
      local message, code
      source, message, code = source_of_run(o)
      if not source then
         return nil, message, code
      end
   end
   local arms, cells, walks, is_common, names = {}, {}, {}, {}, {}
   for i, arm in ipairs(o.arms) do
      arms[i] = core.use("replay_arm")(i, arm, o.temperature or source.temperature)
      if names[arm.name] then
         refuse("two arms are called \"%s\"", arm.name)
      end
      names[arm.name], cells[i], walks[i] = true, {}, { tokens = 0, cycles = 0, answers = 0 }
   end
   o.is_greedy = o.run and source.temperature == 0
   for _, file in ipairs(source.files) do
      replay_file(file, arms, o, cells, walks, is_common)
   end
   return core.use("replay_sums")(arms, cells, is_common, {
      walks = walks, answers = #source.files, has_price = o.price ~= nil, has_draft_cost = o.has_draft_cost })
end
