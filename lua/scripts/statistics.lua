--- cop.stats: measures of how sure a comparison is.

local cop, core = ...

cop.stats = cop.stats or {}

local bootstrap_options = {
   { "a", "table", required = true },
   { "b", "table", required = true },
   { "of", "choice", choices = "mean_difference|ratio_of_sums", default = "mean_difference" },
   { "level", "number", min = 0.01, max = 0.9999, default = 0.95 },
   { "resamples", "integer", min = 1, max = 10000000, default = 10000 },
   { "seed", "long", default = 0 },
}

local function check_numbers(list, name)
   for i, value in ipairs(list) do
      if type(value) ~= "number" then
         core.raise(("cop.stats.paired_bootstrap: %s[%d] must be a number, got a %s"):format(name, i, type(value)))
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
   check_numbers(o.a, "a")
   check_numbers(o.b, "b")
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
