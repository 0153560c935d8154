--- The arms of cop.replay: what of a cop.arm can be replayed, and whether its parts fit each other.

local cop, core = ...

local function refuse(text, ...)
   core.raise(("cop.replay: " .. text):format(...))
end

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

local known = { name = true, tree = true, draw = true, rule = true, length = true, relaxed = true, temperature = true }

--- arms[i] of cop.replay, with what a replay needs to know of it.
return function(i, given, temperature)
   if core.type(given) ~= "table" or (getmetatable(given) or {}).__name ~= "coppice.arm" then
      refuse("arms[%d] must be a cop.arm { … }, got a %s", i, core.type(given))
   end
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
