--- cop.rows and cop.replay: other rules and trees on target and draft rows that were recorded elsewhere.
--
--     local rows = assert(cop.rows { path = "rows.safetensors" })   -- its layout: lua/bind_recorded.c
--     print(cop.replay { rows = rows, arms = { cop.arm { "block", rule =, tree =, draw = }, … } })
--
-- A cell is one arm at one recorded position: the law of one cycle that begins there.
--
--     exact      every branch of drafting and accepting was enumerated
--     estimated  `samples` drafts and verifications with coins; the interval is that of the coins
--     refused    the arm can draft a token below which it needs a row, and that prefix was not recorded
--
-- A row counts for its own prefix only: none is ever put in place of another. What a row after a leaf
-- would say decides the bonus token, not how many drafts are kept, so leaves need none. At temperature 0
-- a lossless rule follows the target's best tokens, and rows beside that path are not needed.
--
-- An arm without a tree takes the recorded tokens below a position as its draft. The mean of such cells
-- is the arm's own only if those tokens were drawn from the draft rows by the arm's draw, which no file shows.

local cop, core = ...

local function refuse(text, ...)
   core.raise(("cop.replay: " .. text):format(...))
end

-- ---- Rows ----------------------------------------------------------------------------------------

local Rows = { __name = "coppice.rows" }
Rows.__index = Rows

function Rows:__tostring()
   return ("cop.rows \"%s\" (%d rows of %d tokens, %d positions)"):format(self.path, self.count, self.vocab,
      #self.positions)
end

--- The law after token i, counted from 0 as in the file; temperature defaults to 1.
function Rows:target(i, temperature)
   return self.file:law("target", i, temperature or 1)
end

function Rows:draft(i, temperature)
   return self.file:law("draft", i, temperature or 1)
end

function cop.rows(given)
   local o = core.options("cop.rows", given, { { "path", "string", required = true, positional = true } })
   local rows, message, code = core.recorded(o.path)
   if not rows then
      return nil, message, code
   end
   rows.path, rows.count = o.path, #rows.tokens
   local has_positions, has_parents = rows.positions ~= nil, rows.parents ~= nil
   rows.positions, rows.parents, rows.children, rows.below = rows.positions or {}, rows.parents or {}, {}, {}
   for i = 0, rows.count - 1 do
      rows.parents[i + 1] = has_parents and rows.parents[i + 1] or not has_parents and i - 1 or -1
      rows.positions[i + 1] = not has_positions and i or rows.positions[i + 1]
      rows.children[i], rows.below[i] = {}, {}
      local parent, token = rows.parents[i + 1], rows.tokens[i + 1]
      if parent >= 0 then
         -- of equal siblings, the first leads on
         rows.children[parent][token] = rows.children[parent][token] or i
         table.insert(rows.below[parent], i)
      end
   end
   return setmetatable(rows, Rows)
end

-- ---- Arms ----------------------------------------------------------------------------------------

local toy = { 1, 0 } -- one possible token: one branch, however large the tree

--- Refuses a pair as the engine does; finds out the draw.
local function check_pair(arm)
   local how = { rule = arm.rule, draw = arm.draw, target = toy, draft = toy, temperature = arm.zero and 0 or 1,
      tree = arm.tree or { tokens = { 0 } }, length = arm.length }
   local ok, law = pcall(arm.law, how)
   if not ok then
      local text = tostring(law):gsub("^.-cop%.%l+_law: ", ""):gsub("ask cop%.relaxed_law", "say relaxed = true")
      refuse("arm \"%s\": %s", arm.name, text)
   end
   return law.draw
end

local function read_arm(i, given, temperature)
   if core.type(given) ~= "table" or (getmetatable(given) or {}).__name ~= "coppice.arm" then
      refuse("arms[%d] must be a cop.arm { … }, got a %s", i, core.type(given))
   end
   local known = { name = true, tree = true, draw = true, rule = true, length = true, relaxed = true,
      temperature = true }
   for key in pairs(given) do
      if not known[key] then
         refuse("arm \"%s\": option \"%s\" cannot be replayed: the recorded rows are what they are", given.name, key)
      end
   end
   local arm = { name = given.name, tree = given.tree, rule = given.rule, length = given.length,
      draw = given.draw, relaxed = given.relaxed, temperature = given.temperature or temperature }
   if not arm.rule then
      refuse("arm \"%s\": rule is missing", arm.name)
   elseif not arm.tree and not arm.draw then
      refuse("arm \"%s\": needs a tree, or the draw by which the recorded tokens were drawn", arm.name)
   end
   if arm.relaxed and arm.temperature ~= 1 then
      refuse("arm \"%s\": relaxed rules are replayed at temperature 1, for they may read raw logits", arm.name)
   end
   arm.zero = arm.temperature == 0
   arm.row_temperature = arm.zero and 1 or arm.temperature
   arm.law = arm.relaxed and cop.relaxed_law or cop.exact_law
   arm.draw = check_pair(arm)
   arm.keeps_shape = not arm.tree or pcall(cop.build_tree, { tree = arm.tree })
   return arm
end

-- ---- Rows of a cell ------------------------------------------------------------------------------

local function best_of(row)
   local best = 1
   for i = 2, #row do
      best = row[i] > row[best] and i or best
   end
   return best - 1
end

local function one_hot(row)
   local out, best = {}, best_of(row)
   for i = 1, #row do
      out[i] = i == best + 1 and 1 or 0
   end
   return out
end

--- Rows of one arm at one position. `missing` becomes the first prefix that was needed and not recorded.
local function view(rows, arm, position)
   local self, kept = {}, { target = {}, draft = {} }
   local function law(side, i)
      kept[side][i] = kept[side][i] or rows[side](rows, i, arm.row_temperature)
      return kept[side][i]
   end
   --- The row's number after a prefix, or nil and whether the target leaves this path for certain.
   local function find(prefix)
      local at, is_beside = position, false
      for _, token in ipairs(prefix) do
         is_beside = is_beside or arm.zero and token ~= best_of(law("target", at))
         at = rows.children[at][token]
         if not at then
            return nil, is_beside and arm.keeps_shape
         end
      end
      return at
   end
   function self.draft(prefix)
      local at, is_idle = find(prefix)
      if not at and not is_idle then
         self.missing = "{ " .. table.concat(prefix, ", ") .. " }"
         error("not recorded: " .. self.missing, 0)
      end
      return law("draft", at or position)
   end
   --- Of a leaf that was not recorded: any law does.
   function self.target(prefix)
      local row = law("target", find(prefix) or position)
      return arm.zero and one_hot(row) or row
   end
   return self
end

--- The recorded tokens below a position, `depth` levels at most, as a tree; nil: none.
local function recorded_tree(rows, position, depth)
   local tree, level = { tokens = {}, parents = {} }, { { position, 0 } }
   for _ = 1, depth do
      local next_level = {}
      for _, entry in ipairs(level) do
         for _, row in ipairs(rows.below[entry[1]]) do
            table.insert(tree.tokens, rows.tokens[row + 1])
            table.insert(tree.parents, entry[2])
            table.insert(next_level, { row, #tree.tokens })
         end
      end
      level = next_level
   end
   return #tree.tokens > 0 and tree or nil
end

-- ---- Cells ---------------------------------------------------------------------------------------

local vocab_limit, work_limit = 16, 5e6 -- of enumeration; the second: branches × vocabulary, before it is tried

--- Prefixes of the nodes of a tree, 0 … #tokens.
local function prefixes_of(tree)
   local list = { [0] = {} }
   for i, token in ipairs(tree.tokens) do
      local prefix = table.move(list[tree.parents[i]], 1, #list[tree.parents[i]], 1, {})
      prefix[#prefix + 1] = token
      list[i] = prefix
   end
   return list
end

local function once(arm, at, tree, seed)
   local how = { rule = arm.rule, draw = arm.draw, seed = seed, target = {}, draft = {},
      tree = { tokens = tree.tokens, parents = tree.parents, merged = tree.multiplicity ~= nil,
         multiplicity = tree.multiplicity } }
   local has_children = {}
   for _, parent in ipairs(tree.parents) do
      has_children[parent] = true
   end
   for node, prefix in pairs(prefixes_of(tree)) do
      how.target[node + 1] = at.target(prefix)
      how.draft[node + 1] = has_children[node] and at.draft(prefix) or false
   end
   return cop.verify_rows(how).accepted
end

--- Temperature 0: nothing is drawn, and every lossless rule is `match`.
local function follow(arm, at, given)
   local tree = given or cop.build_tree { tree = arm.tree, rows = at.draft, draw = "deterministic" }
   local kept, accepted = once({ rule = cop.accept.match {}, draw = "deterministic" }, at, tree, 0), {}
   for d = 0, kept do
      accepted[d] = d == kept and 1.0 or 0.0
   end
   return { kind = "exact", expected_accepted = kept + 0.0, accepted = accepted, variance = 0 }
end

local function estimate(arm, at, given, o, position)
   local counts, sum, squares = {}, 0, 0
   for sample = 0, o.samples - 1 do
      local seed = o.seed + (position * o.samples + sample)
      local tree = given or cop.build_tree { tree = arm.tree, rows = at.draft, draw = arm.draw, seed = seed }
      local kept = once(arm, at, tree, seed)
      counts[kept] = (counts[kept] or 0) + 1
      sum, squares = sum + kept, squares + kept * kept
   end
   local n, accepted, most = o.samples, {}, 0
   for kept in pairs(counts) do
      most = math.max(most, kept)
   end
   for d = 0, most do
      accepted[d] = (counts[d] or 0) / n
   end
   return { kind = "estimated", expected_accepted = sum / n, accepted = accepted,
      variance = (squares - sum * sum / n) / (n - 1) / n }
end

--- Whether enumeration is worth a try: drafted tokens, tests and the last token all branch.
local function is_small(arm, at, given, vocab)
   if arm.zero or vocab > vocab_limit then
      return vocab >= 2 and vocab <= vocab_limit
   end
   local nodes = #(given or cop.build_tree { tree = arm.tree, rows = at.draft, draw = arm.draw, seed = 0 }).tokens
   local drafts = (given or arm.draw == "deterministic") and 0 or nodes
   return (drafts + 2) * math.log(vocab) + nodes * math.log(2) <= math.log(work_limit)
end

local function measure(arm, at, given, o, position)
   if is_small(arm, at, given, o.rows.vocab) then
      local ok, law = pcall(arm.law, { rule = arm.rule, draw = arm.draw, tree = given or arm.tree,
         length = arm.length, target = at.target, draft = at.draft, temperature = arm.zero and 0 or 1 })
      if ok then
         return { kind = "exact", expected_accepted = law.expected_accepted, accepted = law.accepted, variance = 0 }
      elseif not tostring(law):find("more than %d+ branches") then
         error(law, 0)
      end
   end
   if arm.length then
      refuse("arm \"%s\": a length policy needs enumeration, and this tree or vocabulary is too large", arm.name)
   elseif arm.zero then
      return follow(arm, at, given)
   end
   return estimate(arm, at, given, o, position)
end

local function cell(arm, o, position)
   local at, given = view(o.rows, arm, position), nil
   if not arm.tree then
      given = recorded_tree(o.rows, position, o.depth)
      if not given then
         return { position = position, kind = "refused", reason = "no tokens were recorded below it" }
      end
   end
   local ok, found = pcall(measure, arm, at, given, o, position)
   if ok then
      found.position = position
      return found
   elseif at.missing then
      return { position = position, kind = "refused", reason = "no row was recorded after " .. at.missing }
   end
   return error(found, 0)
end

-- ---- Sums ----------------------------------------------------------------------------------------

--- Means over answered cells, each position alike.
local function sum_up(arm, cells, is_common)
   local told = { name = arm.name, rule = tostring(arm.rule), tree = arm.tree and tostring(arm.tree) or "recorded",
      draw = arm.draw, relaxed = arm.relaxed, temperature = arm.temperature, cells = cells, exact = 0, estimated = 0,
      refused = 0, at_least = {}, rate = {}, reasons = {} }
   local sum, variance, common, n_common, seen = 0, 0, 0, 0, {}
   for i, c in ipairs(cells) do
      told[c.kind] = told[c.kind] + 1
      if c.kind ~= "refused" then
         sum, variance = sum + c.expected_accepted, variance + c.variance
         local tail = 0
         for d = #c.accepted, 1, -1 do
            tail = tail + c.accepted[d]
            told.at_least[d] = (told.at_least[d] or 0) + tail
         end
         if is_common[i] then
            common, n_common = common + c.expected_accepted, n_common + 1
         end
      elseif not seen[c.reason] then
         seen[c.reason] = true
         table.insert(told.reasons, c.reason)
      end
   end
   local n = told.exact + told.estimated
   told.positions = n
   if n > 0 then
      local value, margin = sum / n, 1.959963984540054 * math.sqrt(variance) / n
      told.expected_accepted, told.block_efficiency = value, value + 1
      told.low, told.high = value - margin, value + margin
      for d = 1, #told.at_least do
         told.at_least[d] = told.at_least[d] / n
         local before = d == 1 and 1 or told.at_least[d - 1]
         told.rate[d] = before > 0 and told.at_least[d] / before or nil
      end
   end
   told.common = n_common > 0 and common / n_common or nil
   return told
end

local Replay = { __name = "coppice.replay" }
Replay.__index = Replay

local columns = {
   { title = "arm", align = "left" }, { title = "tree", align = "left" }, { title = "draw", align = "left" },
   { title = "exact" }, { title = "estimated" }, { title = "refused" }, { title = "accepted" },
   { title = "block efficiency" }, { title = "on common" }, { title = "kept to depth 1, 2, …", align = "left" },
}

local function number(value)
   return value and ("%.4f"):format(value) or ""
end

function Replay:__tostring()
   local list = {}
   for i, arm in ipairs(self.arms) do
      local depths = {}
      for d, value in ipairs(arm.at_least) do
         depths[d] = ("%.3f"):format(value)
      end
      local spread = arm.estimated > 0 and (" ± %.4f"):format(arm.high - arm.expected_accepted) or ""
      list[i] = { arm.name .. (arm.relaxed and " (relaxed)" or ""), arm.tree, arm.draw, tostring(arm.exact),
         tostring(arm.estimated), tostring(arm.refused), number(arm.expected_accepted) .. spread,
         number(arm.block_efficiency), number(arm.common), table.concat(depths, " ") }
   end
   local lines = core.table(columns, list)
   table.move(self.says, 1, #self.says, #lines + 1, lines)
   return table.concat(lines, "\n")
end

--- What the numbers mean, and what they cannot.
local function says(arms, n_common)
   local lines = {
      "accepted: drafted tokens kept by a cycle that begins at a recorded position, positions weighted alike; in a run"
         .. " an arm's own progress decides where cycles begin.",
      ("on common: over the %d positions that every arm could answer; compare arms by this column."):format(n_common),
      "Times, caches and the quality of answers are not in rows.",
   }
   for _, arm in ipairs(arms) do
      if arm.refused > 0 then
         lines[#lines + 1] = ("%s: refused at %d positions: %s%s"):format(arm.name, arm.refused, arm.reasons[1],
            #arm.reasons > 1 and (" (and %d other reasons)"):format(#arm.reasons - 1) or "")
      end
      if arm.estimated > 0 then
         lines[#lines + 1] = arm.name .. ": ± is the 95 % interval of the coins, not of the choice of texts."
      end
      if arm.tree == "recorded" then
         lines[#lines + 1] = ("%s: for the recorded tokens as drafts; the arm's mean only if they were drawn from the"
            .. " draft rows, draw \"%s\"."):format(arm.name, arm.draw)
      end
   end
   return lines
end

-- ---- Replay --------------------------------------------------------------------------------------

local options = {
   { "rows", "any" },
   { "run", "string" },
   { "arms", "table", required = true },
   { "temperature", "number", min = 0, max = 100, default = 1 },
   { "depth", "integer", min = 1, max = 64, default = 8 },
   { "samples", "integer", min = 2, max = 1e6, default = 200 },
   { "seed", "integer", min = 0, max = 1 << 30, default = 0 },
   { "limit", "integer", min = 1, max = 1 << 30 },
}

--- A run's trace has tokens and times.
local function run_without_rows(folder)
   local run, message, code = cop.open_run(folder)
   if not run then
      return nil, message, code
   end
   run:close()
   return nil, ("cop.replay: the run %s holds no rows (a trace keeps tokens, trees and times); record them as cop.rows"
      .. " reads them and give rows ="):format(folder), "unsupported"
end

--- → { arms = { { name =, expected_accepted =, low =, high =, block_efficiency =, at_least = { by depth },
-- rate = { by depth, given the one before }, exact =, estimated =, refused =, reasons =, common =, cells = } },
-- says = { lines } }, which prints as a table
function cop.replay(given)
   local o = core.options("cop.replay", given, options)
   if (o.rows == nil) == (o.run == nil) then
      refuse("needs exactly one of: rows, run")
   elseif o.run then
      return run_without_rows(o.run)
   elseif getmetatable(o.rows) ~= Rows then
      refuse("rows must be what cop.rows { path = } returned, got a %s", core.type(o.rows))
   elseif #o.arms == 0 then
      refuse("arms is empty")
   end
   local arms, cells, is_common, names = {}, {}, {}, {}
   for i, arm in ipairs(o.arms) do
      arms[i] = read_arm(i, arm, o.temperature)
      if names[arm.name] then
         refuse("two arms are called \"%s\"", arm.name)
      end
      names[arm.name], cells[i] = true, {}
   end
   local n_common = 0
   for n = 1, math.min(#o.rows.positions, o.limit or math.huge) do
      is_common[n] = true
      for i, arm in ipairs(arms) do
         cells[i][n] = cell(arm, o, o.rows.positions[n])
         is_common[n] = is_common[n] and cells[i][n].kind ~= "refused"
      end
      n_common = n_common + (is_common[n] and 1 or 0)
   end
   for i, arm in ipairs(arms) do
      arms[i] = sum_up(arm, cells[i], is_common)
   end
   return setmetatable({ arms = arms, common = n_common, says = says(arms, n_common) }, Replay)
end
