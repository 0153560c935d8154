--- cop.stats: what so many draws or items can show, and distances between samples.
--
-- Tests of counts have power by the non-central chi-square law, of which the centre is N times phi^2 =
-- sum (output - target)^2 / target.

local cop, core = ...

cop.stats = cop.stats or {}

local numbers = core.use("numbers")

--- A literal row or a row object as a list. Raises.
local function law_of(owner, name, row)
   local list, sum = {}, 0.0
   for i = 1, type(row) == "table" and #row or 0 do
      list[i] = row[i]
      if type(list[i]) ~= "number" or list[i] ~= list[i] or list[i] < 0 then
         core.raise(("%s: %s[%d] must be a probability, got %s"):format(owner, name, i, tostring(list[i])))
      end
      sum = sum + list[i]
   end
   if #list == 0 or math.abs(sum - 1) > 1e-6 then
      core.raise(("%s: %s must be a list of probabilities that sum to 1, got %s"):format(owner, name,
         #list > 0 and ("a sum of %.9g"):format(sum) or "a " .. core.type(row)))
   end
   return list
end

-- ---- Paired yes/no results -----------------------------------------------------------------------

--- b items that only the first got right, c that only the second did, of n → { difference =, standard_error =,
-- low =, high = }, by the normal law.
function cop.stats.paired_proportions(b, c, n, level)
   local owner = "cop.stats.paired_proportions"
   level = level == nil and 0.95 or level
   numbers.whole(owner, "b", b)
   numbers.whole(owner, "c", c)
   numbers.whole(owner, "n", n)
   numbers.level(owner, level)
   if n < 1 or b > n or c > n - b then
      core.raise(("%s: needs 1 <= n and b + c <= n, got b = %d, c = %d, n = %d"):format(owner, b, c, n))
   end
   local difference, standard_error = (b - c) / n, math.sqrt(b + c - (b - c) ^ 2 / n) / n
   local reach = core.use("distributions").normal_quantile(0.5 + level / 2) * standard_error
   return { difference = difference, standard_error = standard_error, low = difference - reach,
      high = difference + reach }
end

-- ---- Two samples of tokens -----------------------------------------------------------------------

--- Squared maximum mean discrepancy of two lists of counts, the kernel being 1 for the same token: estimates
-- sum (a - b)^2 of the two laws. → { unbiased =, biased = }
function cop.stats.mmd(counts_a, counts_b)
   local owner = "cop.stats.mmd"
   numbers.counts(owner, "counts_a", counts_a)
   numbers.counts(owner, "counts_b", counts_b)
   if #counts_a ~= #counts_b then
      core.raise(("%s: needs two lists of counts of the same length"):format(owner))
   end
   local m, n, aa, bb, ab = 0.0, 0.0, 0.0, 0.0, 0.0
   for i = 1, #counts_a do
      local a, b = counts_a[i] + 0.0, counts_b[i] + 0.0
      m, n = m + a, n + b
      aa, bb, ab = aa + a * a, bb + b * b, ab + a * b
   end
   if m < 2 or n < 2 then
      core.raise(owner .. ": needs at least two counts on each side")
   end
   local biased = 0.0
   for i = 1, #counts_a do
      biased = biased + (counts_a[i] / m - counts_b[i] / n) ^ 2
   end
   return { unbiased = (aa - m) / (m * (m - 1)) + (bb - n) / (n * (n - 1)) - 2 * ab / (m * n), biased = biased }
end

--- What the total variation of N exact draws from a row is on average (about): a threshold under it is none.
function cop.stats.total_variation_floor(row, draws)
   local owner, sum = "cop.stats.total_variation_floor", 0.0
   numbers.whole(owner, "draws", draws, 1)
   for _, p in ipairs(law_of(owner, "the row", row)) do
      sum = sum + math.sqrt(2 * p * (1 - p) / (math.pi * draws))
   end
   return sum / 2
end

-- ---- Power of chi-square tests -------------------------------------------------------------------

--- P(X > x) of the non-central law: Poisson weights of central ones, from the heaviest outwards.
local function noncentral_tail(x, dof, centre)
   local log_gamma = core.use("distributions").log_gamma
   local half, middle, sum = centre / 2, centre // 2, 0.0
   local function term(j)
      local weight = math.exp(-half + (j > 0 and j * math.log(half) or 0) - log_gamma(j + 1))
      return weight * core.chi_square_tail(x, dof + 2 * j)
   end
   for j = middle, 0, -1 do
      local t = term(j)
      sum = sum + t
      if t < 1e-16 then
         break
      end
   end
   for j = middle + 1, middle + 100000 do
      local t = term(j)
      sum = sum + t
      if t < 1e-16 then
         break
      end
   end
   return sum
end

--- Where an increasing function of a positive number is 0.
local function root(f, high)
   while f(high) < 0 do
      high = 2 * high
   end
   local low = 0.0
   for _ = 1, 100 do
      local middle = (low + high) / 2
      if f(middle) < 0 then
         low = middle
      else
         high = middle
      end
   end
   return (low + high) / 2
end

local power_options = {
   { "dof", "integer", required = true, min = 1, max = 1000000 },
   { "level", "number", min = 0.5, max = 0.999999, default = 0.99 },
   { "power", "number", min = 0.01, max = 0.999999, default = 0.9 },
}

--- The critical value of a chi-square test, and the non-centrality at which it sees a difference with this
-- power → { critical =, centre = }
function cop.stats.chi_square_power(given)
   local o = core.options("cop.stats.chi_square_power", given, power_options)
   local critical = root(function(x) return 1 - o.level - core.chi_square_tail(x, o.dof) end, o.dof + 10.0)
   return { critical = critical, centre = root(function(centre)
      return noncentral_tail(critical, o.dof, centre) - o.power
   end, o.dof + 10.0) }
end

local draws_options = {
   { "target", "any", required = true },
   { "output", "any", required = true },
   { "samples", "integer", min = 1, max = 2, default = 1 },
   { "level", "number", min = 0.5, max = 0.999999, default = 0.99 },
   { "power", "number", min = 0.01, max = 0.999999, default = 0.9 },
}

--- How many draws show that a sampler has the law `output` and not `target`: samples = 1 against the known target,
-- 2: of each of two samplers. math.huge when they are the same.
function cop.stats.draws_needed(given)
   local owner = "cop.stats.draws_needed"
   local o = core.options(owner, given, draws_options)
   local target, output = law_of(owner, "target", o.target), law_of(owner, "output", o.output)
   if #target ~= #output then
      core.raise(("%s: target and output must have the same length, got %d and %d"):format(owner, #target, #output))
   end
   local spread, cells = 0.0, 0
   for i, p in ipairs(target) do
      local d, both = output[i] - p, output[i] + p
      if o.samples == 1 and p == 0 and d > 0 then
         return 1 -- what the target never says is seen at once
      elseif both > 0 then
         spread, cells = spread + (o.samples == 1 and d ^ 2 / p or d ^ 2 / both), cells + 1
      end
   end
   if spread == 0 then
      return math.huge
   end
   return math.ceil(cop.stats.chi_square_power { dof = cells - 1, level = o.level, power = o.power }.centre / spread)
end
