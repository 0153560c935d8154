--- cop.verify_rows: over many seeds, the frequencies of what comes out agree with enumerate = true.

local check = ...
local cop = require("coppice")

local seeds = 4000
local target = { { 0.5, 0.3, 0.2 }, { 0.1, 0.6, 0.3 }, { 0.25, 0.25, 0.5 }, { 0.4, 0.4, 0.2 }, { 0.2, 0.2, 0.6 } }
local draft = { { 0.2, 0.3, 0.5 }, { 0.5, 0.25, 0.25 }, { 0.3, 0.3, 0.4 } }
local chain = { tokens = { 2, 0, 1 }, parents = { 0, 1, 2 } }
local tree = { tokens = { 2, 1, 0, 1 }, parents = { 0, 0, 1, 1 } }

local function key(result)
   return table.concat(result.tokens, " ")
end

--- Pearson's statistic stays below what one law in ten thousand exceeds, by the approximation of
-- Wilson and Hilferty.
local function compare(rule, draw, shape)
   local asked = { rule = rule, draw = draw, tree = shape, target = target, draft = draft }
   asked.enumerate = true
   local law, expected, counts = cop.verify_rows(asked), {}, {}
   for _, outcome in ipairs(law.outcomes) do
      expected[key(outcome)] = outcome.probability
   end
   asked.enumerate = nil
   for seed = 1, seeds do
      asked.seed = seed
      local name = key(cop.verify_rows(asked))
      check.is(expected[name], tostring(rule) .. ": " .. name .. " has probability 0")
      counts[name] = (counts[name] or 0) + 1
   end
   local statistic, dof = 0, -1
   for name, probability in pairs(expected) do
      local mean = seeds * probability
      if mean >= 5 then
         statistic, dof = statistic + ((counts[name] or 0) - mean) ^ 2 / mean, dof + 1
      end
   end
   local h = 2 / (9 * math.max(dof, 1))
   local limit = math.max(dof, 1) * (1 - h + 3.719 * h ^ 0.5) ^ 3
   check.is(dof >= 1 and statistic < limit,
      ("%s: chi-square %.1f, limit %.1f"):format(tostring(rule), statistic, limit))
end

compare(cop.accept.token {}, "independent", chain)
compare(cop.accept.sample_match {}, "independent", tree)
for _, name in ipairs { "block", "greedy_block" } do
   if rawget(cop.accept, name) then
      compare(cop.accept[name] {}, "independent", chain)
   end
end
for _, name in ipairs { "recursive", "kseq", "traversal", "transport", "canonical" } do
   if rawget(cop.accept, name) then
      compare(cop.accept[name] {}, "independent", tree)
   end
end
compare(cop.accept.recursive {}, "without_replacement", tree)
