--- coppice check rules: for every rule and every draw and shape that it claims, the exact law of what
-- it emits, against the target's. The function that is enumerated is the one that the engine calls.

local cop, core = ...

local limit = 1e-12 -- total variation that rounding may leave

-- ---- Rows: a case is a pair of functions of the prefix -------------------------------------------

local function constant(row)
   return function() return row end
end

--- A row that depends on the prefix: small integers from a hash, some of them zero, normalised.
local function varied(vocab, salt)
   return function(prefix)
      local h, weights, sum = salt, {}, 0
      for _, id in ipairs(prefix) do
         h = (h * 31 + id + 7) % 10007
      end
      for i = 1, vocab do
         h = (h * 69 + 17) % 10007
         weights[i] = h % 5
         sum = sum + weights[i]
      end
      if sum == 0 then
         weights[1], sum = 1, 1
      end
      for i = 1, vocab do
         weights[i] = weights[i] / sum
      end
      return weights
   end
end

local cases = {
   { "two tokens", 2, constant { 1 / 3, 2 / 3 }, constant { 2 / 3, 1 / 3 } },
   { "equal", 3, constant { 0.2, 0.3, 0.5 }, constant { 0.2, 0.3, 0.5 } },
   { "ties", 4, constant { 0.25, 0.25, 0.25, 0.25 }, constant { 0.4, 0.4, 0.1, 0.1 } },
   { "zeros", 3, constant { 0, 0.5, 0.5 }, constant { 0.5, 0.5, 0 } },
   { "disjoint", 4, constant { 0.5, 0.5, 0, 0 }, constant { 0, 0, 0.25, 0.75 } },
   { "one-hot target", 3, constant { 0, 1, 0 }, constant { 0.6, 0.3, 0.1 } },
   { "one-hot draft", 3, constant { 0.6, 0.3, 0.1 }, constant { 0, 0, 1 } },
   { "varied 2", 2, varied(2, 3), varied(2, 11) },
   { "varied 3", 3, varied(3, 5), varied(3, 8) },
   { "varied 4", 4, varied(4, 1), varied(4, 9) },
   { "varied 5", 5, varied(5, 2), varied(5, 6) },
}

-- ---- Shapes --------------------------------------------------------------------------------------

local chains = { { widths = { 1 } }, { widths = { 1, 1 } }, { widths = { 1, 1, 1 } } }
local trees = {
   { widths = { 2 } }, { widths = { 3 } }, { widths = { 2, 1 } }, { widths = { 2, 2 } },
   { paths = { { 1 }, { 2 }, { 1, 1 } } }, { paths = { { 1 }, { 1, 1 }, { 1, 2 }, { 1, 1, 1 } } },
}
local shapes = { chain = { { "chain", chains } }, paths = { { "chain", chains } },
   tree = { { "chain", chains }, { "tree", trees } } }

local draws = { "independent", "without_replacement", "deterministic" }

--- A law that has more branches than the limit is left out: the same rule has smaller cases.
local function is_too_large(message)
   return message:find("branches", 1, true) ~= nil
end

local function law_of(rule, claim, draw, shape, case)
   local asked = { rule = rule, draw = draw, target = case[3], draft = case[4],
      temperature = claim.zero_only and 0 or nil }
   for key, value in pairs(shape) do
      asked[key] = value
   end
   return core.use("plan").try(cop.exact_law, asked)
end

local function check_pair(rule, claim, draw, name, list)
   local out = { cases = 0, worst = 0, draw = draw, shape = name, zero_only = claim.zero_only }
   for _, shape in ipairs(list) do
      for i, case in ipairs(cases) do
         local law, message = law_of(rule, claim, draw, shape, case)
         if law then
            out.cases = out.cases + 1
            out.expected = out.expected or (i == 1 and law.expected_accepted)
            local is_number = law.total_variation == law.total_variation
            if not is_number or law.total_variation > out.worst then
               out.worst, out.at = law.total_variation, case[1]
            end
         elseif not is_too_large(message) then
            out.problem, out.at = message, case[1]
         end
      end
   end
   return out
end

local function check_rule(rule)
   local found, seen = {}, {}
   for _, claim in ipairs(core.claims(rule)) do
      for _, draw in ipairs(claim.draw == "any" and draws or { claim.draw }) do
         for _, pair in ipairs(shapes[claim.shape]) do
            local key = draw .. pair[1] .. tostring(claim.zero_only)
            if not seen[key] then
               seen[key] = true
               found[#found + 1] = check_pair(rule, claim, draw, pair[1], pair[2])
            end
         end
      end
   end
   return found
end

-- ---- A rule that is broken on purpose: the check must see it -------------------------------------

local function control()
   local greedy = cop.accept.custom {
      name = "accepts_everything", lossless_for = { "independent" },
      verify = function(tree, target, _, coins)
         local path = {}
         for node = 1, tree.size do
            path[node] = node
         end
         return path, coins:pick("bonus", tree.size, target(tree.size))
      end,
   }
   local law, message = core.use("plan").try(cop.exact_law, { rule = greedy, draw = "independent", widths = { 1 },
      target = { 1 / 3, 2 / 3 }, draft = { 2 / 3, 1 / 3 } })
   if not law then
      return ("control: the broken rule could not be checked: %s"):format(message), false
   end
   return ("control: a rule that accepts everything is flagged, total variation %.3f"):format(law.total_variation),
      law.total_variation > 0.3
end

-- ---- The table -----------------------------------------------------------------------------------

local columns = { { title = "rule", align = "left" }, { title = "draw", align = "left" },
   { title = "shape", align = "left" }, { title = "temperature", align = "left" }, { title = "cases" },
   { title = "worst total variation" }, { title = "expected accepted" }, { title = "", align = "left" } }

local function row_of(name, pair)
   local verdict = pair.problem and ("FAILED: " .. pair.problem) or pair.cases == 0 and "NO CASE FITS"
      or pair.worst > limit and ("NOT LOSSLESS: " .. pair.at) or "ok"
   return { name, pair.draw, pair.shape, pair.zero_only and "0" or "any", tostring(pair.cases),
      ("%.1e"):format(pair.worst), pair.expected and ("%.6f"):format(pair.expected) or "–", verdict }, verdict == "ok"
end

return function()
   local rows, broken, total = {}, 0, 0
   for _, part in ipairs(core.parts()) do
      local rule = part.kind == "accept" and core.use("plan").try(cop.accept[part.name], {})
      for _, pair in ipairs(rule and check_rule(rule) or {}) do
         local row, is_fine = row_of(part.name, pair)
         rows[#rows + 1], total = row, total + pair.cases
         broken = broken + (is_fine and 0 or 1)
      end
   end
   for _, line in ipairs(core.table(columns, rows)) do
      print(line)
   end
   local text, is_seen = control()
   print(("%d laws enumerated; expected accepted: drafts kept a cycle for target {1/3, 2/3}, draft {2/3, 1/3}")
      :format(total))
   print(text)
   return (broken == 0 and is_seen and total > 0) and 0 or 1
end
