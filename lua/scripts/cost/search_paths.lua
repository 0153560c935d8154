--- cop.search_paths: the fixed tree that accuracies by level and rank are best served by, as Medusa's lists were found.
--
-- The value of a node is the product of the accuracies on its path: the probability that all of it is right, where
-- heads err apart from each other. From the root on, the next sibling or the first child of largest value is added.

local cop, core = ...

local options = {
   { "accuracies", "any", required = true },
   { "budget", "integer", min = 1, max = 4095, default = 63 },
}

local function refuse(text, ...)
   core.raise(("cop.search_paths: " .. text):format(...))
end

local function check_level(list, level)
   local sum = 0
   if type(list) ~= "table" then
      refuse("option \"accuracies\" must be a list for each head: { { 0.56, 0.11 }, { 0.32, 0.11 } }")
   end
   for rank, value in ipairs(list) do
      if type(value) ~= "number" or not (value >= 0 and value <= 1) then
         refuse("option \"accuracies\"[%d][%d] must be from 0 to 1", level, rank)
      end
      sum = sum + value
   end
   if sum > 1 + 1e-9 then
      refuse("option \"accuracies\"[%d] must sum to at most 1, not %g: one rank is right at most", level, sum)
   end
end

local function check(accuracies)
   if type(accuracies) ~= "table" or #accuracies == 0 then
      refuse("option \"accuracies\" must be a list for each head: { { 0.56, 0.11 }, { 0.32, 0.11 } }")
   end
   for level, list in ipairs(accuracies) do
      check_level(list, level)
   end
end

--- A path one rank further, or one level deeper; nil where no accuracy is known for it.
local function candidate(accuracies, parent, rank)
   local level = #parent.path + 1
   local accuracy = accuracies[level] and accuracies[level][rank]
   if not accuracy then
      return nil
   end
   local path = table.move(parent.path, 1, level - 1, 1, {})
   path[level] = rank
   return { path = path, parent = parent, value = accuracy * parent.value }
end

--- Of equal values the shallower one, then the one that has waited longer.
local function pop_best(waiting)
   local best = 1
   for i = 2, #waiting do
      local a, b = waiting[i], waiting[best]
      if a.value > b.value or a.value == b.value and #a.path < #b.path then
         best = i
      end
   end
   return table.remove(waiting, best)
end

--- cop.search_paths { accuracies = { { of head 1 by rank }, … }, budget = } → { paths = { { 1 }, { 1, 1 }, … } in the
-- order in which they were added, values = the probability of each, expected_tokens = 1 + their sum, tree = }.
function cop.search_paths(given)
   local o = core.options("cop.search_paths", given, options)
   check(o.accuracies)
   local result, waiting = { paths = {}, values = {}, expected_tokens = 1 }, {}
   waiting[1] = candidate(o.accuracies, { path = {}, value = 1 }, 1)
   while #result.paths < o.budget and #waiting > 0 do
      local node = pop_best(waiting)
      local n = #result.paths + 1
      result.paths[n], result.values[n] = node.path, node.value
      result.expected_tokens = result.expected_tokens + node.value
      waiting[#waiting + 1] = candidate(o.accuracies, node.parent, node.path[#node.path] + 1)
      waiting[#waiting + 1] = candidate(o.accuracies, node, 1)
   end
   while result.values[#result.values] == 0 do -- what nothing better waited behind
      table.remove(result.paths)
      table.remove(result.values)
   end
   if #result.paths == 0 then
      refuse("no rank of the first head is ever right: there is no tree")
   end
   result.tree = cop.tree.paths(result.paths)
   return result
end
