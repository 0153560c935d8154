--- cop.certificate: published numbers, the bound, and a search for a nearer draft that would be refused.

local check = ...
local cop = require("coppice")

check.near(cop.certificate { row = { .6, .3, .1 } }, .05097, 5e-6)
check.near(cop.certificate { row = { .9, .05, .05 } }, .46261, 5e-6)
check.near(cop.certificate { row = { .5, .5 } }, 0)
check.near(cop.certificate { row = { 1, 0 } }, math.log(2))
for m, value in ipairs { .07425, .20908, .35318 } do
   check.near(cop.certificate { row = { .05, .6, .1, .25 }, children = m }, value, 5e-6)
end
check.near(cop.certificate { row = { 0, 0, 1, 0, 0 }, children = 3 }, math.log(4)) -- the most that m = 3 can be
check.equal(cop.certificate { row = { .6, .4 }, children = 2 }, math.huge)
-- A child that is above the pool's mean already need not rise.
local low = .61 / 3
check.near(cop.certificate { row = { .4, .39, .01, .2 }, children = 3 },
   .4 * math.log(.4 / low) + .01 * math.log(.01 / low) + .2 * math.log(.2 / low))

-- kept = 2 of (.5, .3, .15, .05): .15 must rise above both; .325 of it and of .5 is above .3.
local function divergence(p, q)
   local sum = 0
   for i, x in ipairs(p) do
      sum = sum + (x > 0 and x * math.log(x / q[i]) or 0)
   end
   return sum
end
local p = { .5, .3, .15, .05 }
check.near(cop.certificate { row = p, kept = 2 }, divergence(p, { .325, .3, .325, .05 }))
check.equal(cop.certificate { row = p, kept = 4 }, math.huge)

-- No row of a grid that refuses is nearer.
local nearest = { math.huge, math.huge, math.huge }
for a = 1, 60 do
   for b = 1, 60 - a do
      for c = 1, 60 - a - b do
         local d = 60 - a - b - c
         if d > 0 then
            local far = divergence(p, { a / 60, b / 60, c / 60, d / 60 })
            local above = (b >= a and 1 or 0) + (c >= a and 1 or 0) + (d >= a and 1 or 0)
            for m = 1, above do
               nearest[m] = math.min(nearest[m], far)
            end
         end
      end
   end
end
for m = 1, 3 do
   local bound = cop.certificate { row = p, children = m }
   check.is(nearest[m] >= bound - 1e-12 and nearest[m] < bound + .01, m)
end

check.raises_with("cannot both be above 1", function() cop.certificate { row = p, children = 2, kept = 2 } end)
check.raises_with("sum to 0.9", function() cop.certificate { row = { .5, .4 } } end)
check.raises_with("an integer from 1 to 4096", function() cop.certificate { row = p, children = 0 } end)
