--- Laws of different rules that must be the same, or in an order, over drawn rows that depend on the context: one
-- drafted token, chains, one level of siblings, temperature 0, a draft that is the target.

local check = ...
local cop = require("coppice")
local accept = cop.accept

math.randomseed(7)

local function weight() return math.random() < 0.25 and 0 or math.random() ^ 2 end

--- A row for each context, always the same one.
local function rows(vocabulary)
   local known = {}
   return function(prefix)
      local key = table.concat(prefix, " ")
      known[key] = known[key] or check.row(vocabulary, weight)
      return known[key]
   end
end

local target, draft

--- Expected accepted tokens of accept.NAME {}, which must be lossless here.
local function expected(name, options)
   options.rule, options.target, options.draft = accept[name] {}, target, options.draft or draft
   local law = cop.exact_law(options)
   check.near(law.total_variation, 0)
   return law.expected_accepted
end

local function chain(name, depth, temperature, other)
   local widths = {}
   for level = 1, depth do
      widths[level] = 1
   end
   local draw = temperature == 0 and "deterministic" or "independent"
   return expected(name, { draw = draw, widths = widths, temperature = temperature, draft = other })
end

local function pair(name, draw)
   return expected(name, { draw = draw, widths = { 2 } })
end

local function in_order(values)
   for i = 2, #values do
      check.is(values[i - 1] <= values[i] + 1e-12, ("%.17g above %.17g, at %d"):format(values[i - 1], values[i], i))
   end
end

for _ = 1, 100 do
   local vocabulary, depth = math.random(2, 4), math.random(2, 3)
   target, draft = rows(vocabulary), rows(vocabulary)

   local token = chain("token", 1)
   for _, name in ipairs { "block", "hierarchical", "traversal", "recursive", "kseq", "transport", "spechub",
      "greedy_draw", "canonical" } do
      check.near(chain(name, 1), token)
   end

   local block = chain("block", depth)
   check.near(chain("traversal", depth), block)
   check.near(chain("hierarchical", depth), block)
   check.near(expected("multipath_block", { draw = "independent", independent_paths = 1, depth = depth }), block)
   in_order { chain("token", depth), block }

   local recursive = pair("recursive", "without_replacement")
   check.near(pair("traversal", "without_replacement"), recursive)
   check.near(pair("greedy_draw", "greedy_draw"), pair("spechub", "hub_pair"))
   in_order { pair("sample_match", "independent"), pair("recursive", "independent"), pair("kseq", "independent"),
      pair("transport", "independent") }
   in_order { pair("recursive", "independent"), recursive, pair("transport", "without_replacement") }

   local match = chain("match", depth, 0)
   for _, name in ipairs { "token", "block", "hierarchical", "traversal", "sample_match" } do
      check.near(chain(name, depth, 0), match)
   end
   for _, name in ipairs { "token", "block", "hierarchical", "traversal" } do
      check.near(chain(name, depth, 1, target), depth)
   end
end
