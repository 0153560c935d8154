--- What cop.replay says of each arm: means over its answered cells, each position alike, and a table.

local _, core = ...

--- Shares of cycles that kept at least d drafts, and of these given the depth before.
local function add_depths(told, accepted)
   local tail = 0
   for d = #accepted, 1, -1 do
      tail = tail + accepted[d]
      told.at_least[d] = (told.at_least[d] or 0) + tail
   end
end

local function finish_depths(told, n)
   for d = 1, #told.at_least do
      told.at_least[d] = told.at_least[d] / n
      local before = d == 1 and 1 or told.at_least[d - 1]
      told.rate[d] = before > 0 and told.at_least[d] / before or nil
   end
end

--- Tokens over seconds of the answered cells, and against plain cycles at the same places.
local function add_price(told, cells)
   local seconds, plain, tokens, n = 0, 0, 0, 0
   for _, c in ipairs(cells) do
      if c.seconds then
         seconds, plain, tokens, n = seconds + c.seconds, plain + c.plain_seconds, tokens + 1 + c.expected_accepted,
            n + 1
      end
   end
   if n > 0 then
      told.tokens_per_second, told.plain_tokens_per_second = tokens / seconds, n / plain
      told.speedup = told.tokens_per_second / told.plain_tokens_per_second
   end
end

--- Means over answered cells, each position alike.
local function sum_up(arm, cells, is_common, walk, answers)
   local told = { name = arm.name, rule = tostring(arm.rule), tree = arm.tree and tostring(arm.tree) or "recorded",
      draw = arm.draw, relaxed = arm.relaxed, temperature = arm.temperature, cells = cells, exact = 0, estimated = 0,
      refused = 0, at_least = {}, rate = {}, reasons = {} }
   local sum, variance, margin, common, n_common, seen = 0, 0, 0, 0, 0, {}
   for i, c in ipairs(cells) do
      told[c.kind] = told[c.kind] + 1
      if c.kind ~= "refused" then
         sum, variance, margin = sum + c.expected_accepted, variance + c.variance, margin + c.margin
         add_depths(told, c.accepted)
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
      local value, half = sum / n, (1.959963984540054 * math.sqrt(variance) + margin) / n
      told.expected_accepted, told.block_efficiency = value, value + 1
      told.low, told.high = value - half, value + half
      finish_depths(told, n)
   end
   told.common = n_common > 0 and common / n_common or nil
   if walk.answers == answers and walk.cycles > 0 then
      told.run_block_efficiency = walk.tokens / walk.cycles
   end
   add_price(told, cells)
   return told
end

-- ---- Printing ------------------------------------------------------------------------------------

local Replay = { __name = "coppice.replay" }
Replay.__index = Replay

local columns = {
   { title = "arm", align = "left" }, { title = "tree", align = "left" }, { title = "draw", align = "left" },
   { title = "exact" }, { title = "estimated" }, { title = "refused" }, { title = "accepted" },
   { title = "block efficiency" }, { title = "on common" }, { title = "kept to depth 1, 2, …", align = "left" },
}
local priced = { { title = "tokens/s" }, { title = "speed-up" } }

local function number(value, format)
   return value and (format or "%.4f"):format(value) or ""
end

function Replay:__tostring()
   local list, shown = {}, table.move(columns, 1, #columns, 1, {})
   if self.has_price then
      table.move(priced, 1, #priced, #shown + 1, shown)
   end
   for i, arm in ipairs(self.arms) do
      local depths = {}
      for d, value in ipairs(arm.at_least) do
         depths[d] = ("%.3f"):format(value)
      end
      local spread = arm.estimated > 0 and (" ± %.4f"):format(arm.high - arm.expected_accepted) or ""
      list[i] = { arm.name .. (arm.relaxed and " (relaxed)" or ""), arm.tree, arm.draw, tostring(arm.exact),
         tostring(arm.estimated), tostring(arm.refused), number(arm.expected_accepted) .. spread,
         number(arm.block_efficiency), number(arm.common), table.concat(depths, " "),
         number(arm.tokens_per_second, "%.1f"), number(arm.speedup, "%.2f") }
   end
   local lines = core.table(shown, list)
   table.move(self.says, 1, #self.says, #lines + 1, lines)
   return table.concat(lines, "\n")
end

local function says_of_arm(lines, arm)
   if arm.refused > 0 then
      lines[#lines + 1] = ("%s: refused at %d positions: %s%s"):format(arm.name, arm.refused, arm.reasons[1],
         #arm.reasons > 1 and (" (and %d other reasons)"):format(#arm.reasons - 1) or "")
   end
   if arm.estimated > 0 then
      lines[#lines + 1] = arm.name .. ": ± is the 95 % interval of the coins, not of the choice of texts, and what was"
         .. " left out of rows of which only the best were recorded."
   end
   if arm.tree == "recorded" then
      lines[#lines + 1] = ("%s: for the recorded tokens as drafts; the arm's mean only if they were drawn from the"
         .. " draft rows, draw \"%s\"."):format(arm.name, arm.draw)
   end
   if arm.run_block_efficiency then
      lines[#lines + 1] = ("%s: in a run, cycle after cycle over the recorded answers: block efficiency %.4f, exact.")
         :format(arm.name, arm.run_block_efficiency)
   end
end

--- What the numbers mean, and what they cannot.
local function says(arms, n_common, how)
   local lines = {
      "accepted: drafted tokens kept by a cycle that begins at a recorded position, positions weighted alike; in a run"
         .. " an arm's own progress decides where cycles begin.",
      ("on common: over the %d positions that every arm could answer; compare arms by this column."):format(n_common),
   }
   lines[#lines + 1] = how.has_price and "tokens/s, speed-up: by the cost that was given, nothing was measured; what"
      .. " the host does counts as nothing" .. (how.has_draft_cost and "." or ", and so do drafts: the cost has none.")
      or "Times, caches and the quality of answers are not in rows."
   for _, arm in ipairs(arms) do
      says_of_arm(lines, arm)
   end
   return lines
end

--- how: walks (by arm: tokens, cycles, answers), answers, has_price, has_draft_cost
return function(arms, cells, is_common, how)
   local list, n_common = {}, 0
   for _, is in ipairs(is_common) do
      n_common = n_common + (is and 1 or 0)
   end
   for i, arm in ipairs(arms) do
      list[i] = sum_up(arm, cells[i], is_common, how.walks[i], how.answers)
   end
   local told = { arms = list, common = n_common, has_price = how.has_price, says = says(list, n_common, how) }
   return setmetatable(told, Replay)
end
