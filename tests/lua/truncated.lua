--- cop.accept.truncated with top_k, top_p and min_p together against the definition, on drawn rows with ties, zeros and
-- entries of very different size: a draft that is the target commits the truncated target's law.

local check = ...
local cop = require("coppice")

math.randomseed(3)

local function maybe(value, other) return math.random() < 0.5 and value or other end

local function weight() return math.random() < 0.2 and 0 or math.random(1, 8) ^ math.random(0, 12) end

--- The row cut by top_k (ties with the last stay), top_p of what is left, and min_p.
local function cut(row, o)
   local order = {}
   for i = 1, #row do
      order[i] = i
   end
   table.sort(order, function(a, b)
      if row[a] ~= row[b] then
         return row[a] > row[b]
      end
      return a < b
   end)
   local n, total, kept, mass = o.top_k > 0 and math.min(o.top_k, #row) or #row, 0, 0, 0
   while n < #row and row[order[n + 1]] >= row[order[n]] do
      n = n + 1
   end
   for i = 1, n do
      total = total + row[order[i]]
   end
   local function stays(value)
      local has_room = o.top_p >= 1 or mass < o.top_p * total
      return value > 0 and (kept == 0 or (has_room and value >= o.min_p * row[order[1]]))
   end
   while kept < n and stays(row[order[kept + 1]]) do
      kept = kept + 1
      mass = mass + row[order[kept]]
   end
   local out = {}
   for i = 1, kept do
      out[order[i]] = row[order[i]] / mass
   end
   return out
end

for _ = 1, 600 do
   local row = check.row(math.random(2, 12), weight)
   local o = { top_k = maybe(math.random(1, #row + 3), 0), top_p = maybe(math.random(), 1),
      min_p = maybe(math.random() ^ 9, 0) }
   local law = cop.relaxed_law { rule = cop.accept.truncated(o), draw = "independent", widths = { 1 },
      target = row, draft = row }
   local first = {}
   for _, outcome in ipairs(law.outcomes) do
      local token = outcome.tokens[1] + 1
      first[token] = (first[token] or 0) + outcome.probability
   end
   local expected = cut(row, o)
   for i = 1, #row do
      check.near(first[i] or 0, expected[i] or 0, 1e-9,
         ("top_k %d, top_p %g, min_p %g"):format(o.top_k, o.top_p, o.min_p))
   end
end
