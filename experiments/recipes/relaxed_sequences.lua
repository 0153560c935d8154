--- Laws of three tokens under relaxed rules, two drafted in a cycle: the distance from the target's law, and
--- how many cycles it takes.

local cop = require("coppice")
local A = cop.accept

local after_target = { [""] = { .6, .4 }, [0] = { .7, .3 }, [1] = { .2, .8 } }
local after_draft = { [""] = { .5, .5 }, [0] = { .4, .6 }, [1] = { .5, .5 } }
local length = 3

--- Rows behind a prefix and what is drafted below it.
local function rows(after, prefix)
   return function(below)
      return after[below[#below] or prefix[#prefix] or ""]
   end
end

--- → { ["0,1,0"] = probability, … }, expected number of cycles begun
local function law_of(rule)
   local final, cycles = {}, 0
   local function go_on(prefix, probability)
      if #prefix == length then
         local key = table.concat(prefix, ",")
         final[key] = (final[key] or 0) + probability
         return
      end
      cycles = cycles + probability
      local law = cop.relaxed_law { rule = rule, draw = "independent", widths = { 1, 1 },
         target = rows(after_target, prefix), draft = rows(after_draft, prefix) }
      for _, outcome in ipairs(law.outcomes) do
         local longer = table.move(prefix, 1, #prefix, 1, {})
         table.move(outcome.tokens, 1, math.min(#outcome.tokens, length - #prefix), #longer + 1, longer)
         go_on(longer, probability * outcome.probability)
      end
   end
   go_on({}, 1)
   return final, cycles
end

local function distance(rule)
   return function()
      local sum, final, strict = 0, law_of(rule), law_of(A.token {})
      for a = 0, 1 do
         for b = 0, 1 do
            for c = 0, 1 do
               local key = ("%d,%d,%d"):format(a, b, c)
               sum = sum + math.abs((final[key] or 0) - (strict[key] or 0)) / 2
            end
         end
      end
      return sum
   end
end

local function probability(rule, key)
   return function() return law_of(rule)[key] or 0 end
end

local function cycles(rule)
   return function() return (select(2, law_of(rule))) end
end

local lenient, set, greedy = A.lenience { factor = .5 }, A.typical { epsilon = .25, delta = 1 }, A.top_k { k = 1 }

return {
   name = "relaxed-sequences",
   about = "three tokens of a Markov chain of two",
   source = "enumeration of the rules of arXiv:2211.17192 and arXiv:2401.10774",
   values = {
      { "token: probability of 0, 0, 0", "147/500", probability(A.token {}, "0,0,0") },
      { "token: probability of 1, 1, 1", "32/125", probability(A.token {}, "1,1,1") },
      { "token: cycles", "1.40", cycles(A.token {}), tolerance = 1e-9 },
      { "lenience 0.5: probability of 0, 0, 0", "7/50", probability(lenient, "0,0,0") },
      { "lenience 0.5: total variation", "123/500", distance(lenient) },
      { "lenience 0.5: cycles", "1.05", cycles(lenient), tolerance = 1e-9 },
      { "tokens above 1/4: total variation", "157/500", distance(set) },
      { "tokens above 1/4: cycles", "1.25", cycles(set), tolerance = 1e-9 },
      { "greedy: probability of 0, 0, 0", "47/50", probability(greedy, "0,0,0") },
      { "greedy: total variation", "323/500", distance(greedy) },
      { "greedy: cycles", "2.10", cycles(greedy), tolerance = 1e-9 },
   },
}
