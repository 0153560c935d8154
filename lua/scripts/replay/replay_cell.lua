--- A cell of cop.replay: one cycle of one arm that begins at one recorded position.
--
--     exact      every branch of drafting and accepting was enumerated, or nothing was drawn (temperature 0)
--     estimated  `samples` drafts and verifications with coins; the interval is that of the coins. Where only the
--                best of a row were recorded, it is widened by the mass that was not, for each row that was used
--                times the levels below it
--     refused    the arm can draft a token below which it needs a row, and that row was not recorded
--
-- A row counts for its own prefix only: none is ever put in place of another. What a row after a leaf would say
-- decides the bonus token, not how many drafts are kept, so leaves need none. At temperature 0 a lossless rule
-- follows the target's best tokens, and rows beside that path are not needed. Towards the end of an answer that has
-- a limit a cycle drafts fewer levels than its tree has: as many as there was room for.

local cop, core = ...

local vocab_limit, work_limit = 16, 5e6 -- of enumeration; the second: branches × vocabulary, before it is tried

-- ---- Rows of a cell ------------------------------------------------------------------------------

local function one_hot(vocab, best)
   local out = {}
   for i = 1, vocab do
      out[i] = i == best + 1 and 1 or 0
   end
   return out
end

--- Rows of one arm at one position. `missing` becomes the first row that was needed and not recorded, `rests` the
-- mass that was not recorded by depth of the rows that were used.
local function view(rows, arm, position, room)
   local self, kept, bests = { rests = {}, room = room }, { target = {}, draft = {} }, {}
   local function miss(side, prefix)
      self.missing = ("%s{ %s }"):format(side, table.concat(prefix, ", "))
      error("not recorded: " .. self.missing, 0)
   end
   local function law(side, i, depth)
      local entry = kept[side][i]
      if not entry then
         local row, rest = rows.file:row(side, i, arm.row_temperature)
         entry = { row = row }
         kept[side][i] = entry
         if row and rest > 0 then
            table.insert(self.rests, { depth = depth, rest = rest })
         end
      end
      return entry.row
   end
   local function best(i)
      bests[i] = bests[i] or rows.file:best("target", i)
      return bests[i]
   end
   --- The entry after a prefix, or nil and whether the target leaves this path for certain.
   local function find(prefix)
      local at, is_beside = position, false
      for _, token in ipairs(prefix) do
         is_beside = is_beside or arm.zero and token ~= best(at)
         at = rows.children[at][token]
         if not at then
            return nil, is_beside and arm.keeps_shape
         end
      end
      return at
   end
   function self.draft(prefix)
      if #prefix >= room then -- will not be drafted
         return law("draft", position, 0) or law("target", position, 0)
      end
      local at, is_idle = find(prefix)
      local row = at and law("draft", at, #prefix)
      if not row and not is_idle then
         miss(at and "a draft after " or "", prefix)
      end
      return row or law("draft", position, 0) or miss("a draft after ", {})
   end
   --- Of a leaf that was not recorded, or of a prefix beside the target's path: any law does.
   function self.target(prefix, is_leaf)
      local at = find(prefix)
      if not (at and law("target", at, #prefix)) then
         if at and not is_leaf or not law("target", position, 0) then
            miss("a target row after ", prefix)
         end
         at = position
      end
      return arm.zero and one_hot(rows.vocab, best(at)) or law("target", at, #prefix)
   end
   --- Whether the token is one whose probability was recorded.
   function self.is_listed(prefix, token)
      local at = find(prefix)
      return not at or rows.file:lists("draft", at, token)
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

-- ---- Trees ---------------------------------------------------------------------------------------

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

local function depths_of(tree)
   local depth, most = { [0] = 0 }, 0
   for i, parent in ipairs(tree.parents) do
      depth[i] = depth[parent] + 1
      most = math.max(most, depth[i])
   end
   return depth, most
end

--- The tree's first `room` levels.
local function cut(tree, room)
   local depth, most = depths_of(tree)
   if most <= room then
      return tree
   end
   local out, place = { tokens = {}, parents = {}, multiplicity = tree.multiplicity and {} }, { [0] = 0 }
   for i, token in ipairs(tree.tokens) do
      if depth[i] <= room then
         local n = #out.tokens + 1
         out.tokens[n], out.parents[n] = token, place[tree.parents[i]]
         place[i] = n
         if out.multiplicity then
            out.multiplicity[n] = tree.multiplicity[i]
         end
      end
   end
   return out
end

local function build(arm, at, given, seed)
   return cut(given or cop.build_tree { tree = arm.tree, rows = at.draft,
      draw = arm.zero and "deterministic" or arm.draw, seed = seed }, at.room)
end

local function levels_of(tree)
   local _, most = depths_of(tree)
   return most
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
      how.target[node + 1] = at.target(prefix, not has_children[node])
      how.draft[node + 1] = has_children[node] and at.draft(prefix) or false
   end
   return cop.verify_rows(how).accepted
end

-- ---- Measuring -----------------------------------------------------------------------------------

--- Temperature 0: nothing is drawn, and every lossless rule is `match`.
local function follow(at, tree)
   for node, prefix in pairs(prefixes_of(tree)) do
      if node > 0 and not at.is_listed(table.move(prefix, 1, #prefix - 1, 1, {}), prefix[#prefix]) then
         at.missing = ("the probability of a drafted token, after { %s }"):format(table.concat(prefix, ", ", 1,
            #prefix - 1))
         error("not recorded: " .. at.missing, 0)
      end
   end
   local kept, accepted = once({ rule = cop.accept.match {}, draw = "deterministic" }, at, tree, 0), {}
   for d = 0, kept do
      accepted[d] = d == kept and 1.0 or 0.0
   end
   return { kind = "exact", expected_accepted = kept + 0.0, accepted = accepted, variance = 0, margin = 0 }
end

--- By how much the mass that was not recorded may change how many drafts are kept.
local function margin_of(at, levels)
   local sum = 0
   for _, used in ipairs(at.rests) do
      sum = sum + used.rest * math.max(0, levels - used.depth)
   end
   return math.min(sum, levels)
end

local function estimate(arm, at, given, o, position)
   local counts, sum, squares, levels, nodes = {}, 0, 0, 0, 0
   for sample = 0, o.samples - 1 do
      local seed = o.seed + (position * o.samples + sample)
      local tree = build(arm, at, given, seed)
      local kept = once(arm, at, tree, seed)
      counts[kept] = (counts[kept] or 0) + 1
      sum, squares = sum + kept, squares + kept * kept
      levels, nodes = math.max(levels, levels_of(tree)), nodes + #tree.tokens
   end
   local n, accepted, most = o.samples, {}, 0
   for kept in pairs(counts) do
      most = math.max(most, kept)
   end
   for d = 0, most do
      accepted[d] = (counts[d] or 0) / n
   end
   return { kind = "estimated", expected_accepted = sum / n, accepted = accepted, levels = levels, nodes = nodes / n,
      variance = (squares - sum * sum / n) / (n - 1) / n, margin = margin_of(at, levels) }
end

--- Whether enumeration is worth a try: drafted tokens, tests and the last token all branch.
local function is_small(arm, tree, given, vocab)
   if arm.zero or vocab > vocab_limit then
      return vocab >= 2 and vocab <= vocab_limit
   end
   local nodes = #tree.tokens
   local drafts = (given or arm.draw == "deterministic") and 0 or nodes
   return (drafts + 2) * math.log(vocab) + nodes * math.log(2) <= math.log(work_limit)
end

--- nil: too many branches after all.
local function enumerate(arm, at, given, levels)
   local ok, law = pcall(arm.law, { rule = arm.rule, draw = arm.draw, tree = given or arm.tree,
      length = arm.length or not given and levels == at.room and cop.length.fixed { depth = at.room } or nil,
      target = at.target, draft = at.draft, temperature = arm.zero and 0 or 1 })
   if ok then
      local margin = arm.zero and 0 or margin_of(at, levels)
      return { kind = margin > 0 and "estimated" or "exact", expected_accepted = law.expected_accepted,
         accepted = law.accepted, variance = 0, margin = margin }
   elseif not tostring(law):find("more than %d+ branches") then
      error(law, 0)
   end
end

local function measure(arm, at, given, o, rows, position)
   local tree = build(arm, at, given, 0)
   local levels = levels_of(tree)
   if levels == 0 then
      return { kind = "exact", expected_accepted = 0.0, accepted = { [0] = 1.0 }, variance = 0, margin = 0, nodes = 0,
         levels = 0 }
   end
   given = given and tree
   local found = is_small(arm, tree, given, rows.vocab) and enumerate(arm, at, given, levels)
   if not found then
      if arm.length then
         core.raise(("cop.replay: arm \"%s\": a length policy needs enumeration, and this tree or vocabulary is too"
            .. " large"):format(arm.name))
      end
      found = arm.zero and follow(at, tree) or estimate(arm, at, given, o, position)
   end
   found.levels, found.nodes = found.levels or levels, found.nodes or #tree.tokens
   return found
end

--- o: samples, seed, depth (of recorded tokens as drafts) → { position =, kind =, expected_accepted =, accepted =
-- { [0] = …, … }, variance =, margin =, nodes =, levels = }, or { position =, kind = "refused", reason = }
return function(arm, o, rows, position)
   local _, room = rows:place(position)
   local at, given = view(rows, arm, position, math.max(0, room)), nil
   if not arm.tree then
      given = recorded_tree(rows, position, o.depth)
      if not given then
         return { position = position, kind = "refused", reason = "no tokens were recorded below it" }
      end
   end
   local ok, found = pcall(measure, arm, at, given, o, rows, position)
   if ok then
      found.position = position
      return found
   elseif at.missing then
      return { position = position, kind = "refused", reason = "no row was recorded after " .. at.missing }
   end
   return error(found, 0)
end
