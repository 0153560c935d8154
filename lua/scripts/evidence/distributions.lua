--- Distribution functions that the tests of statistics.lua need, in double precision (relative error
-- about 1e-13): normal, Student's t, binomial. The tail of chi-square is core.chi_square_tail.

local _, core = ...

local distributions = {}

local log, exp, abs, pi = math.log, math.exp, math.abs, math.pi

--- ln Gamma(x) for x > 0: Stirling's series, after shifting x above 10.
local function log_gamma(x)
   local shift = 0
   while x < 10 do
      shift, x = shift + log(x), x + 1
   end
   local z = 1 / (x * x)
   local series = (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * 691 / 360360))))) / x
   return (x - 0.5) * log(x) - x + 0.5 * log(2 * pi) + series - shift
end

distributions.log_gamma = log_gamma

--- Continued fraction of the incomplete beta function (Lentz).
local function beta_fraction(a, b, x)
   local tiny = 1e-300
   local c, d = 1, 1 - (a + b) * x / (a + 1)
   d = 1 / (abs(d) < tiny and tiny or d)
   local h, m = d, 0
   local function step(numerator)
      d = 1 + numerator * d
      c = 1 + numerator / c
      d = 1 / (abs(d) < tiny and tiny or d)
      c = abs(c) < tiny and tiny or c
      h = h * c * d
   end
   repeat
      m = m + 1
      step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)))
      step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)))
   until abs(c * d - 1) < 1e-16 or m > 10000
   return h
end

--- Regularised incomplete beta function I_x(a, b).
local function beta_lower(a, b, x)
   if x <= 0 or x >= 1 then
      return x <= 0 and 0 or 1
   end
   local front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log(1 - x))
   if x < (a + 1) / (a + b + 2) then
      return front * beta_fraction(a, b, x) / a
   end
   return 1 - front * beta_fraction(b, a, 1 - x) / b
end

--- P(Z > z).
function distributions.normal_upper(z)
   local half = core.chi_square_tail(z * z, 1) / 2 -- of a normal variable's square
   return z >= 0 and half or 1 - half
end

--- z with P(Z <= z) = p, by bisection: exact to the last bits that normal_upper gives.
function distributions.normal_quantile(p)
   local low, high = -40.0, 40.0
   for _ = 1, 200 do
      local middle = (low + high) / 2
      -- The smaller tail keeps its digits.
      local is_above = middle < 0 and distributions.normal_upper(-middle) > p
         or middle >= 0 and distributions.normal_upper(middle) < 1 - p
      low, high = is_above and low or middle, is_above and middle or high
   end
   return (low + high) / 2
end

--- P(T > t) with `df` degrees of freedom.
function distributions.student_upper(t, df)
   local tail = beta_lower(df / 2, 0.5, df / (df + t * t)) / 2
   return t >= 0 and tail or 1 - tail
end

--- t with P(T <= t) = p, by bisection.
function distributions.student_quantile(p, df)
   local low, high = -1e8, 1e8
   for _ = 1, 200 do
      local middle = (low + high) / 2
      local is_above = distributions.student_upper(middle, df) < 1 - p
      low, high = is_above and low or middle, is_above and middle or high
   end
   return (low + high) / 2
end

--- P(X = k) and P(X <= k) of a fair coin thrown n times, k <= n / 2: terms fall from k downwards.
function distributions.fair_coin(k, n)
   local at = exp(log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1) - n * log(2))
   local sum, term = at, at
   for i = k, 1, -1 do
      term = term * i / (n - i + 1)
      sum = sum + term
      if term < 1e-18 * sum then
         break
      end
   end
   return at, sum
end

return distributions
