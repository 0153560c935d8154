--- cop.stats: measures of how sure a comparison is.
--
-- Sources: Wilson 1927; McNemar 1947, mid-p as Fagerland, Lydersen and Laake 2013; two one-sided tests:
-- Schuirmann 1987; Holm 1979; Benjamini and Hochberg 1995.

local cop, core = ...

cop.stats = cop.stats or {}
core.use("power") -- what so many draws can show

local bootstrap_options = {
   { "a", "table", required = true },
   { "b", "table", required = true },
   { "of", "choice", choices = "mean_difference|ratio_of_sums", default = "mean_difference" },
   { "level", "number", min = 0.01, max = 0.9999, default = 0.95 },
   { "resamples", "integer", min = 1, max = 10000000, default = 10000 },
   { "seed", "long", default = 0 },
}

local function check_numbers(owner, list, name)
   for i, value in ipairs(list) do
      if type(value) ~= "number" then
         core.raise(("%s: %s[%d] must be a number, got a %s"):format(owner, name, i, type(value)))
      elseif value - value ~= 0 then
         core.raise(("%s: %s[%d] must be finite, got %s"):format(owner, name, i, value))
      end
   end
end

--- An interval for a mean difference (a - b) or a ratio of sums (a / b) over paired items: items
-- are drawn with replacement, the same ones for both. → { value =, low =, high = }
function cop.stats.paired_bootstrap(given)
   local o = core.options("cop.stats.paired_bootstrap", given, bootstrap_options)
   if #o.a ~= #o.b or #o.a == 0 then
      core.raise(("cop.stats.paired_bootstrap: a and b must have the same length, at least 1; got %d and %d")
         :format(#o.a, #o.b))
   end
   check_numbers("cop.stats.paired_bootstrap", o.a, "a")
   check_numbers("cop.stats.paired_bootstrap", o.b, "b")
   local columns = { a = o.a, b = o.b }
   if o.of == "mean_difference" then
      columns = { a = {} }
      for i = 1, #o.a do
         columns.a[i] = o.a[i] - o.b[i]
      end
   end
   columns.level, columns.resamples, columns.seed = o.level, o.resamples, o.seed
   local value, low, high = core.trace.bootstrap(columns)
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
   if #o.a ~= #o.b or #o.a == 0 then
      core.raise(("%s: a and b must have the same length, at least 1; got %d and %d"):format(owner, #o.a, #o.b))
   end
   check_numbers(owner, o.a, "a")
   check_numbers(owner, o.b, "b")
   local differences = {}
   for i = 1, #o.a do
      differences[i] = o.a[i] - o.b[i] + 0.0
   end
   local out = {}
   out.value, out.p, out.exact, out.low, out.high = core.trace.sign_flip { a = differences,
      patterns = o.permutations, level = o.level, seed = o.seed }
   return out
end

--- Whole numbers of at least 0, by name.
local function check_counts(owner, counts)
   for _, pair in ipairs(counts) do
      local name, value = pair[1], pair[2]
      if math.type(math.tointeger(value) or value) ~= "integer" or value < 0 then
         core.raise(("%s: %s must be a whole number of at least 0, got %s"):format(owner, name, tostring(value)))
      end
   end
end

local function check_level(owner, level)
   if type(level) ~= "number" or not (level > 0 and level < 1) then
      core.raise(("%s: level must be a number between 0 and 1, got %s"):format(owner, tostring(level)))
   end
end

--- Paired yes/no results: b items that only the first got right, c that only the second did.
-- → { exact =, mid_p =, chi_square =, chi_square_p =, uncorrected =, uncorrected_p = }; p-values are
-- two-sided, chi_square has the continuity correction.
function cop.stats.mcnemar(b, c)
   check_counts("cop.stats.mcnemar", { { "b", b }, { "c", c } })
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
   level = level or 0.95
   check_counts(owner, { { "successes", successes }, { "n", n } })
   check_level(owner, level)
   if n < 1 or successes > n then
      core.raise(("%s: needs 1 <= n and successes <= n, got %s of %s"):format(owner, successes, n))
   end
   local z = core.use("distributions").normal_quantile(0.5 + level / 2)
   local share, z2 = successes / n, z * z
   local middle = (share + z2 / (2 * n)) / (1 + z2 / n)
   local half = z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
   return successes == 0 and 0.0 or middle - half, successes == n and 1.0 or middle + half
end

local tost_options = {
   { "difference", "number", required = true },
   { "standard_error", "number", required = true, min = 0 },
   { "margin", "number", required = true, min = 0 },
   { "df", "number", min = 0 },
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
   { "df", "number", min = 0 },
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
   if type(counts_a) ~= "table" or type(counts_b) ~= "table" or #counts_a ~= #counts_b then
      core.raise(owner .. ": needs two lists of counts of the same length")
   end
   local total_a, total_b = 0, 0
   for i = 1, #counts_a do
      check_counts(owner, { { ("counts_a[%d]"):format(i), counts_a[i] }, { ("counts_b[%d]"):format(i), counts_b[i] } })
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
      local both = counts_a[i] + counts_b[i]
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
   if type(ps) ~= "table" then
      core.raise(owner .. ": needs a list of p-values")
   end
   local order = {}
   for i, p in ipairs(ps) do
      if type(p) ~= "number" or not (p >= 0 and p <= 1) then
         core.raise(("%s: ps[%d] must be a number from 0 to 1, got %s"):format(owner, i, tostring(p)))
      end
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
