--- What a replayed cycle would take on the machine of a cost curve (cop.cost, here or elsewhere).
--
-- A cycle scores its nodes and the root in one pass, after one pass of the draft for each level of the tree; what
-- the host does is in no curve and is counted as nothing. A plain cycle is a pass of one token.

local _, core = ...

local function refuse(text, ...)
   core.raise(("cop.replay: " .. text):format(...))
end

--- The points of one draft; a curve of several needs the one that is meant.
local function draft_points(cost, wanted)
   local by_path, paths = {}, {}
   for _, point in ipairs(type(cost.draft) == "table" and cost.draft or {}) do
      local path = point.path or ""
      if not by_path[path] then
         by_path[path] = {}
         paths[#paths + 1] = path
      end
      table.insert(by_path[path], point)
   end
   if wanted == nil and #paths > 1 then
      refuse("the cost has several drafts, say which: draft = \"%s\"", table.concat(paths, "\" or draft = \""))
   elseif wanted ~= nil and not by_path[wanted] then
      core.unknown("cop.replay", "draft of the cost", wanted, paths)
   end
   return by_path[wanted or paths[1] or ""]
end

--- given: what cop.cost returned or its file; draft: a path among its drafts. → function(nodes, levels, context) →
-- seconds, plain seconds; and whether drafts cost something
return function(given, draft)
   local curve = core.use("curve")
   local cost, problem = curve.given(given)
   if not cost then
      refuse("cost must be what cop.cost returned or the file that it saved: %s", problem)
   end
   local grid = curve.grid(cost)
   local points = draft_points(cost, draft)
   local draft_grid = points and curve.grid { score = points }
   if not grid or points and not draft_grid then
      refuse("the cost must have every number of nodes at every context")
   end
   local at = core.trace.cost_at
   return function(nodes, levels, context)
      local seconds = at(grid, nodes + 1, context)
      if draft_grid then
         seconds = seconds + levels * at(draft_grid, 1, context)
      end
      return seconds, at(grid, 1, context)
   end, draft_grid ~= nil
end
