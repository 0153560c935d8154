--- cop.certificate: how far the draft's row must be from the target's, at least, before a draft can be refused.
--
-- With q the draft row and KL(target || q) below the number, the best token of q (or one of its best m, siblings
-- of a tree) is kept for sure. Refusing needs other tokens to rise above those that would be kept; the q nearest
-- to the target that does it pools them: equal there, the target's own elsewhere, and the number is the sum of
-- p ln(p / mean) over the pool. Source: Sharma, arXiv:2606.30265; of kept sets our own derivation, the same.

local cop, core = ...

local options = {
   { "row", "table", required = true, positional = true },
   { "children", "integer", min = 1, max = 4096, default = 1 },
   { "kept", "integer", min = 1, max = 1000000, default = 1 },
}

local function check_row(row)
   local sum = 0
   for i, p in ipairs(row) do
      if type(p) ~= "number" or not (p >= 0 and p <= 1 + 1e-9) then
         core.raise(("cop.certificate: row: probability of token %d is %s"):format(i - 1, tostring(p)))
      end
      sum = sum + p
   end
   if math.abs(sum - 1) > 1e-9 then
      core.raise(("cop.certificate: row: probabilities sum to %s, not to 1"):format(sum))
   end
end

--- Divergence of a pool that starts from `first` and takes in the next of `others` while that is on the wrong side
-- of the mean.
local function pool(first, others, is_wrong)
   local sum, members = first, { first }
   for _, p in ipairs(others) do
      if not is_wrong(p, sum / #members) then
         break
      end
      members[#members + 1], sum = p, sum + p
   end
   local divergence, mean = 0, sum / #members
   for _, p in ipairs(members) do
      divergence = divergence + (p > 0 and p * math.log(p / mean) or 0)
   end
   return divergence
end

--- cop.certificate { row =, children = 1, kept = 1 } → nats. kept: how many of the target's best tokens the rule
-- keeps (1: greedy match; a set rule keeps more); children: how many of the draft's best are offered.
function cop.certificate(given)
   local o = core.options("cop.certificate", given, options)
   check_row(o.row)
   if o.children > 1 and o.kept > 1 then
      core.raise("cop.certificate: children and kept cannot both be above 1: no published bound covers it")
   end
   local p = table.move(o.row, 1, #o.row, 1, {})
   table.sort(p, function(a, b) return a > b end)
   if o.children >= #p or o.kept >= #p then
      return math.huge -- nothing is left that could be refused
   end
   if o.kept > 1 then -- the best token outside must rise above those inside
      return pool(p[o.kept + 1], table.move(p, 1, o.kept, 1, {}), function(x, mean) return x > mean end)
   end
   local rising = {} -- the next best, from the least on: all of them must rise above the best
   for i = o.children + 1, 2, -1 do
      rising[#rising + 1] = p[i]
   end
   return pool(p[1], rising, function(x, mean) return x < mean end)
end
