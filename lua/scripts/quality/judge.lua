--- cop.accept.judge: keeps a drafted token that the target would have said, or that a judge approves of.
--
-- A judge is a function of the tree, the drafted node and the rows; it returns true or false, or a score that
-- must exceed the threshold. The rule is a cop.accept.custom: the longest path of kept tokens wins, then the
-- one with the larger sum of log target, then the one that was drafted first. The token after it is the
-- target's best (or a draw), the bonus token a draw from the target.

local cop, core = ...

local options = {
   { "judge", "any", required = true, positional = true,
      help = "function(tree, node, target, draft) that returns a score or a boolean, rows as cop.accept.custom"
         .. " gives them; or a score by name: \"probability\" (target), \"share\" (of the target's best), \"ratio\""
         .. " (target / draft)" },
   { "threshold", "number", default = 0.5, help = "a score above it keeps the token" },
   { "strict", "boolean", default = true, help = "the target's best token is kept whatever the judge says" },
   { "correction", "choice", choices = "argmax|target", default = "argmax",
      help = "after a refusal: the target's best token, or a draw from the target" },
}

local scores = {
   probability = function(tree, node, target)
      return target(tree:parent(node))[tree:token(node)]
   end,
   share = function(tree, node, target)
      local row = target(tree:parent(node))
      return row[tree:token(node)] / row[row:top(1)[1].id]
   end,
   ratio = function(tree, node, target, draft)
      local row = draft(tree:parent(node))
      return row and target(tree:parent(node))[tree:token(node)] / row[tree:token(node)] or 0
   end,
}

--- Whether the target can say the token at all: at temperature 0 only its logits tell.
local function is_possible(target, node, token)
   local row, logits = target(node), target:logits(node)
   return row[token] > 0 or (row:top(1)[1].probability == 1 and logits and logits[token] > -math.huge) or false
end

local function keeps(o, judge, tree, node, target, draft)
   local parent, token = tree:parent(node), tree:token(node)
   if o.strict and target(parent):top(1)[1].id == token then
      return true
   end
   if not is_possible(target, parent, token) then
      return false
   end
   local verdict = judge(tree, node, target, draft)
   if type(verdict) == "number" then
      return verdict > o.threshold
   elseif type(verdict) ~= "boolean" then
      error(("the judge must return a score or a boolean, got a %s"):format(core.type(verdict)), 0)
   end
   return verdict
end

--- The node at which the best path of kept tokens ends, and the path.
local function search(o, judge, tree, target, draft)
   local depth, sums, best = { [0] = 0 }, { [0] = 0 }, 0
   for node = 0, tree.size - 1 do
      for _, child in ipairs(depth[node] and tree:children(node) or {}) do
         if keeps(o, judge, tree, child, target, draft) then
            depth[child] = depth[node] + 1
            sums[child] = sums[node] + math.log(target(node)[tree:token(child)])
            if depth[child] > depth[best] or (depth[child] == depth[best] and sums[child] > sums[best]) then
               best = child
            end
         end
      end
   end
   local path, node = {}, best
   for i = depth[best], 1, -1 do
      path[i], node = node, tree:parent(node)
   end
   return best, path
end

function cop.accept.judge(given)
   local o = core.options("cop.accept.judge", given, options)
   local judge = type(o.judge) == "string" and scores[o.judge] or o.judge
   if type(o.judge) == "string" and not scores[o.judge] then
      core.unknown("cop.accept.judge", "score", o.judge, { "probability", "ratio", "share" })
   elseif type(judge) ~= "function" then
      core.raise("cop.accept.judge: option \"judge\" must be a function or the name of a score, got a "
         .. core.type(judge))
   end
   return cop.accept.custom {
      name = "judge",
      verify = function(tree, target, draft, draws)
         local stop, path = search(o, judge, tree, target, draft)
         local row = target(stop)
         if tree:children(stop)[1] == nil then
            return path, draws:pick("bonus", stop, row)
         elseif o.correction == "argmax" then
            return path, row:top(1)[1].id
         end
         return path, draws:pick("recover", stop, row)
      end,
   }
end
