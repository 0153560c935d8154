--- cop.stats: measures of how sure a comparison is.
--
-- Sources: Wilson 1927; McNemar 1947, mid-p as Fagerland, Lydersen and Laake 2013; two one-sided tests:
-- Schuirmann 1987; Holm 1979; Benjamini and Hochberg 1995.

local cop, core = ...

cop.stats = cop.stats or {}
core.use("power") -- what so many draws can show

local numbers = core.use("numbers")

local bootstrap_options = {
   { "a", "table", required = true },
   { "b", "table", required = true },
   { "of", "choice", choices = "mean_difference|ratio_of_sums", default = "mean_difference" },
   { "level", "number", min = 0.01, max = 0.9999, default = 0.95 },
   { "resamples", "integer", min = 1, max = 10000000, default = 10000 },
   { "seed", "long", default = 0 },
}

local function check_pairs(owner, a, b)
   numbers.list(owner, "a", a)
   numbers.list(owner, "b", b)
   if #a ~= #b or #a == 0 then
      core.raise(("%s: a and b must have the same length, at least 1; got %d and %d"):format(owner, #a, #b))
   end
end

--- An interval for a mean difference (a - b) or a ratio of sums (a / b) over paired items: items
-- are drawn with replacement, the same ones for both. → { value =, low =, high = }
function cop.stats.paired_bootstrap(given)
   local owner = "cop.stats.paired_bootstrap"
   local o = core.options(owner, given, bootstrap_options)
   check_pairs(owner, o.a, o.b)
   local columns = { a = o.a, b = o.b }
   if o.of == "mean_difference" then
      columns = { a = {} }
      for i = 1, #o.a do
         columns.a[i] = o.a[i] - o.b[i]
      end
   end
   columns.level, columns.resamples, columns.seed = o.level, o.resamples, o.seed
   local value, low, high = core.trace.bootstrap(columns)
   if value - value ~= 0 then
      core.raise(("%s: %s"):format(owner, o.of == "ratio_of_sums" and "the sum of b is 0 or too large for a ratio"
         or "the differences are too large to be added"))
   end
   return { value = value, low = low, high = high }
end

local permutation_options = {
   { "a", "table", required = true },
   { "b", "table", required = true },
   { "level", "number", min = 0.01, max = 0.9999, default = 0.95 },
   { "permutations", "integer", min = 1, max = 10000000, default = 10000 },
   { "seed", "long", default = 0 },
}

--- Paired numbers whose two sides could as well be exchanged: the sign-flip test of the mean difference
-- (a - b) and the interval of centres that it does not refuse → { value =, p = (two-sided), low =, high =,
-- exact = all patterns of signs were taken }. low and high are nil where so few items refuse nothing.
function cop.stats.paired_permutation(given)
   local owner = "cop.stats.paired_permutation"
   local o = core.options(owner, given, permutation_options)
   check_pairs(owner, o.a, o.b)
   local differences = {}
   for i = 1, #o.a do
      differences[i] = o.a[i] - o.b[i] + 0.0
   end
   local out = {}
   out.value, out.p, out.exact, out.low, out.high = core.trace.sign_flip { a = differences,
      patterns = o.permutations, level = o.level, seed = o.seed }
   return out
end

local most_pairs = 1000000000

--- Paired yes/no results: b items that only the first got right, c that only the second did.
-- → { exact =, mid_p =, chi_square =, chi_square_p =, uncorrected =, uncorrected_p = }; p-values are
-- two-sided, chi_square has the continuity correction.
function cop.stats.mcnemar(b, c)
   local owner = "cop.stats.mcnemar"
   numbers.whole(owner, "b", b)
   numbers.whole(owner, "c", c)
   if b > most_pairs or c > most_pairs - b then
      core.raise(("%s: b + c must be at most %d"):format(owner, most_pairs))
   end
   local distribution = core.use("distributions")
   local n = b + c
   if n == 0 then
      return { exact = 1.0, mid_p = 1.0, chi_square = 0.0, chi_square_p = 1.0, uncorrected = 0.0, uncorrected_p = 1.0 }
   end
   local at, below = distribution.fair_coin(math.min(b, c), n)
   local corrected = math.max(math.abs(b - c) - 1, 0) ^ 2 / n
   local uncorrected = (b - c) ^ 2 / n
   return {
      exact = math.min(1.0, 2 * below),
      mid_p = b == c and 1 - at / 2 or 2 * below - at,
      chi_square = corrected,
      chi_square_p = core.chi_square_tail(corrected, 1),
      uncorrected = uncorrected,
      uncorrected_p = core.chi_square_tail(uncorrected, 1),
   }
end

--- Wilson's interval for a proportion → low, high.
function cop.stats.wilson(successes, n, level)
   local owner = "cop.stats.wilson"
   level = level == nil and 0.95 or level
   numbers.whole(owner, "successes", successes)
   numbers.whole(owner, "n", n)
   numbers.level(owner, level)
   if n < 1 or successes > n then
      core.raise(("%s: needs 1 <= n and successes <= n, got %s of %s"):format(owner, successes, n))
   end
   local z = core.use("distributions").normal_quantile(0.5 + level / 2)
   local share, z2 = successes / n, z * z
   local middle = (share + z2 / (2 * n)) / (1 + z2 / n)
   local half = z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4.0 * n * n))
   return successes == 0 and 0.0 or middle - half, successes == n and 1.0 or middle + half
end

local tost_options = {
   { "difference", "number", required = true },
   { "standard_error", "number", required = true, min = 0 },
   { "margin", "number", required = true, min = 0 },
   { "df", "number", min = 1e-3, max = 1e15 },
}

--- Equivalence within ± margin by two one-sided tests: of the normal law, or of Student's t when df
-- is given. → { p =, lower_p =, upper_p = }, p the larger of the two; small p: equivalent.
function cop.stats.tost(given)
   local o = core.options("cop.stats.tost", given, tost_options)
   local distribution = core.use("distributions")
   local function tail(distance)
      if o.standard_error == 0 then
         return distance > 0 and 0.0 or distance < 0 and 1.0 or 0.5
      end
      local z = distance / o.standard_error
      return o.df and distribution.student_upper(z, o.df) or distribution.normal_upper(z)
   end
   local lower, upper = tail(o.difference + o.margin), tail(o.margin - o.difference)
   return { p = math.max(lower, upper), lower_p = lower, upper_p = upper }
end

local inferiority_options = {
   { "difference", "number", required = true },
   { "standard_error", "number", required = true, min = 0 },
   { "margin", "number", required = true, min = 0 },
   { "df", "number", min = 1e-3, max = 1e15 },
   { "level", "number", min = 0.5, max = 0.9999, default = 0.95 },
}

--- Whether a difference (arm - plain, more is better) is no loss of `margin` or more, one-sided; the margin is
-- fixed before one looks. → { p =, low = (lower end of the one-sided interval), shown = low > -margin }
function cop.stats.non_inferiority(given)
   local o = core.options("cop.stats.non_inferiority", given, inferiority_options)
   local p = cop.stats.tost { difference = o.difference, standard_error = o.standard_error, margin = o.margin,
      df = o.df }.lower_p
   local distribution = core.use("distributions")
   local reach = o.df and distribution.student_quantile(o.level, o.df) or distribution.normal_quantile(o.level)
   local low = o.difference - reach * o.standard_error
   return { p = p, low = low, shown = low > -o.margin }
end

local size_options = {
   { "margin", "number", required = true, min = 1e-9, max = 1e9 },
   { "discordant", "number", min = 0, max = 1 },
   { "sd", "number", min = 0 },
   { "level", "number", min = 0.5, max = 0.9999, default = 0.95 },
   { "power", "number", min = 0.5, max = 0.9999, default = 0.9 },
   { "n", "integer", min = 1, max = 1 << 40 },
}

--- What non-inferiority (one-sided) needs when there is no difference: paired items for a margin, of yes/no
-- results of which a share `discordant` differs within its pair, or of numbers whose differences have a standard
-- deviation sd. With n also the smallest margin that n items can show. → { n =, margin = }
function cop.stats.sample_size(given)
   local o = core.options("cop.stats.sample_size", given, size_options)
   if (o.discordant == nil) == (o.sd == nil) then
      core.raise("cop.stats.sample_size: give discordant (yes/no results) or sd (numbers)")
   end
   local quantile = core.use("distributions").normal_quantile
   local spread = (quantile(o.level) + quantile(o.power)) * (o.sd or math.sqrt(o.discordant))
   return { n = math.ceil((spread / o.margin) ^ 2 - 1e-9), margin = o.n and spread / math.sqrt(o.n) or nil }
end

local difference_options = {
   { "n", "integer", required = true, min = 4, max = 1 << 40 },
   { "discordant", "number", min = 0, max = 1 },
   { "sd", "number", min = 0 },
   { "level", "number", min = 0.5, max = 0.9999, default = 0.95 },
   { "power", "number", min = 0.5, max = 0.9999, default = 0.8 },
}

--- The smallest mean difference that n paired items show with this power, two-sided: of yes/no results of
-- which a share `discordant` differs within its pair (Connor 1987), or of numbers whose differences have a
-- standard deviation sd. A value above `discordant` says that these items can show no difference at all.
function cop.stats.detectable_difference(given)
   local o = core.options("cop.stats.detectable_difference", given, difference_options)
   if (o.discordant == nil) == (o.sd == nil) then
      core.raise("cop.stats.detectable_difference: give discordant (yes/no results) or sd (numbers)")
   end
   local quantile = core.use("distributions").normal_quantile
   local sure, seen = quantile(0.5 + o.level / 2), quantile(o.power)
   if o.sd then
      return (sure + seen) * o.sd / math.sqrt(o.n)
   end
   -- the root of d sqrt(n) = sure sqrt(discordant) + seen sqrt(discordant - d^2)
   return math.sqrt(o.discordant) * (math.sqrt(o.n) * sure + seen * math.sqrt(math.max(0, o.n - sure ^ 2 + seen ^ 2)))
      / (o.n + seen ^ 2)
end

--- Whether two lists of counts come from one distribution → { statistic =, g =, dof =, p = }: Pearson's
-- chi-square with its p-value, and the likelihood ratio G. Cells that are 0 in both do not count.
function cop.stats.chi_square(counts_a, counts_b)
   local owner = "cop.stats.chi_square"
   numbers.counts(owner, "counts_a", counts_a)
   numbers.counts(owner, "counts_b", counts_b)
   if #counts_a ~= #counts_b then
      core.raise(("%s: needs two lists of counts of the same length"):format(owner))
   end
   local total_a, total_b = 0.0, 0.0
   for i = 1, #counts_a do
      total_a, total_b = total_a + counts_a[i], total_b + counts_b[i]
   end
   if total_a == 0 or total_b == 0 then
      core.raise(owner .. ": a list without any count")
   end
   local statistic, g, cells = 0.0, 0.0, 0
   local function add(count, expected)
      statistic = statistic + (count - expected) ^ 2 / expected
      g = g + (count > 0 and 2 * count * math.log(count / expected) or 0)
   end
   for i = 1, #counts_a do
      local both = 0.0 + counts_a[i] + counts_b[i]
      if both > 0 then
         cells = cells + 1
         add(counts_a[i], both * total_a / (total_a + total_b))
         add(counts_b[i], both * total_b / (total_a + total_b))
      end
   end
   local dof = cells - 1
   return { statistic = statistic, g = g, dof = dof,
      p = dof > 0 and core.chi_square_tail(statistic, dof) or 1.0 }
end

--- Places of the p-values from the smallest to the largest; ties keep their order.
local function rank(owner, ps)
   numbers.list(owner, "ps", ps, 0, 1)
   local order = {}
   for i = 1, #ps do
      order[i] = i
   end
   table.sort(order, function(i, j) return ps[i] < ps[j] or ps[i] == ps[j] and i < j end)
   return order
end

--- p-values adjusted by Holm's step-down method (family-wise error), in the order given.
function cop.stats.holm(ps)
   local order, adjusted, most = rank("cop.stats.holm", ps), {}, 0.0
   for place, i in ipairs(order) do
      most = math.max(most, math.min(1.0, (#ps - place + 1) * ps[i]))
      adjusted[i] = most
   end
   return adjusted
end

--- p-values adjusted by Benjamini and Hochberg's step-up method (false discovery rate).
function cop.stats.benjamini_hochberg(ps)
   local order, adjusted, least = rank("cop.stats.benjamini_hochberg", ps), {}, 1.0
   for place = #order, 1, -1 do
      local i = order[place]
      least = math.min(least, #ps / place * ps[i])
      adjusted[i] = least
   end
   return adjusted
end
