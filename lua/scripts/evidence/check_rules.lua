--- coppice check rules: for every rule and every draw that it claims, the exact law of what it emits over
-- many drawn cases, against the target's. The function that is enumerated is the one that the engine calls.
--
--    coppice check rules [my_rule.lua | my_rule.so] [rule=NAME] [cases=N] [seed=N]
--    coppice check rules --model PATH --draft PATH [rule=NAME] [runs=N] [seed=N] [table=FILE.md]   (check_runs.lua)
--
-- A script returns a rule or a list of rules; of a plug-in all rules are checked.

local cop, core = ...

local cli = core.use("cli")

local limit = 1e-12 -- total variation that rounding may leave (COP_PROOF_LIMIT)
local total = 20000 -- cases over all pairs of the registry
local fewest, most = 400, 2000 -- of a pair

-- ---- Which rules -----------------------------------------------------------------------------------

--- A value for an option that has no default: the middle of its range.
local function middle(option)
   local value = option.high - option.low <= 1000 and (option.low + option.high) / 2 or option.low + 1
   return option.whole and math.floor(value) or value
end

--- A rule with its defaults. A relaxed rule may have no natural strictness: it gets one.
local function construct(part)
   local settings = {}
   for _, option in ipairs(part.options) do
      settings[option.name] = option.required and option.low and middle(option) or nil
   end
   local rule, problem = core.use("plan").try(cop.accept[part.name], settings)
   return { name = part.name, rule = rule, problem = problem }
end

--- The rules of the registry; with a list of full names, only those.
local function registered(names)
   local rules, wanted = {}, {}
   for _, name in ipairs(names or {}) do
      wanted[name] = true
   end
   for _, part in ipairs(core.parts()) do
      if part.kind == "accept" and (not names or wanted["accept." .. part.name]) then
         rules[#rules + 1] = construct(part)
      end
   end
   return rules
end

local function from_plugin(path)
   local names, problem = cop.load(path)
   return registered(names or error(problem, 0))
end

local function from_script(path)
   local value = core.use("script").load("coppice check rules", path)()
   local list = core.type(value) == "accept" and { value } or value
   local rules = {}
   for i, rule in ipairs(type(list) == "table" and list or {}) do
      if core.type(rule) ~= "accept" then
         error(("%s: entry %d of the list is a %s, not a rule"):format(path, i, core.type(rule)), 0)
      end
      rules[i] = { name = rule.name, rule = rule }
   end
   if #rules == 0 then
      error(("%s: the script must return a rule (cop.accept.custom { … }) or a list of rules"):format(path), 0)
   end
   return rules
end

local function gather(path)
   if not path then
      return registered()
   end
   local rules = path:match("%.so$") and from_plugin(path) or from_script(path)
   return #rules > 0 and rules or error(("%s: the plug-in has no rule"):format(path), 0)
end

--- Only those called `name`.
local function narrow(rules, name)
   if not name then
      return rules
   end
   local kept, known = {}, {}
   for i, rule in ipairs(rules) do
      known[i] = rule.name
      kept[#kept + 1] = rule.name == name and rule or nil
   end
   if #kept == 0 then
      cli.fail("coppice check rules: there is no rule \"%s\"%s", name, cli.hint(name, known))
   end
   return kept
end

-- ---- Checking --------------------------------------------------------------------------------------

local function check_pair(found, rule, i, cases, seed)
   local pair, problem, code = core.check_pair(rule.rule, i, cases, seed)
   if not pair then
      error({ status = code == "cancelled" and 130 or 1, message = problem }, 0)
   end
   pair.name = rule.name
   found[#found + 1] = pair
end

--- A rule that claims nothing: its distance on the reference case, by the first draw that it takes.
local function measure(rule)
   local problem
   for _, draw in ipairs { "independent", "deterministic", "without_replacement" } do
      for _, shape in ipairs { "chain", "tree" } do
         local result, why = core.check_reference(rule.rule, draw, shape)
         if result then
            return result
         end
         problem = problem or why
      end
   end
   return nil, problem
end

-- ---- Tables ----------------------------------------------------------------------------------------

local function number(value)
   return value and ("%.6f"):format(value) or "–"
end

local lossless_columns = { { title = "rule", align = "left" }, { title = "draw", align = "left" },
   { title = "shape", align = "left" }, { title = "cases" }, { title = "worst TV" }, { title = "accepted" },
   { title = "optimum" }, { title = "branches" }, { title = "seconds" }, { title = "", align = "left" } }

local function verdict(pair)
   if pair.holds then
      return pair.weaker_at_zero > 0 and "ok; less than match at T = 0" or "ok"
   end
   return pair.problem and "FAILED" or pair.cases == 0 and "NO CASE FITS" or "NOT LOSSLESS"
end

local function lossless_row(pair)
   return { pair.name, pair.zero_only and "any, T = 0" or pair.draw, pair.shape, tostring(pair.cases),
      ("%.1e"):format(pair.worst), number(pair.expected_accepted), number(pair.optimum), tostring(pair.branches),
      ("%.2f"):format(pair.seconds), verdict(pair) }
end

local function print_table(columns, rows)
   for _, line in ipairs(core.table(columns, rows)) do
      print(line)
   end
end

local function print_lossless(found)
   local rows, sum, branches = {}, 0, 0
   for i, pair in ipairs(found) do
      rows[i], sum, branches = lossless_row(pair), sum + pair.cases, branches + pair.branches
   end
   print_table(lossless_columns, rows)
   for _, pair in ipairs(found) do
      if not pair.holds then
         print(("%s, %s × %s: %s"):format(pair.name, pair.draw, pair.shape, pair.problem
            or ("total variation %.3g in %s"):format(pair.worst, pair.at)))
      end
   end
   print(("%d laws enumerated, %d branches; a law may be %.0e from the target's (total variation)")
      :format(sum, branches, limit))
   print("accepted, optimum: drafted tokens kept for target {.5 .3 .2}, draft {.2 .3 .5}: chain of two, two paths"
      .. " of two, or two children")
end

local function print_relaxed(relaxed)
   local rows = {}
   for i, entry in ipairs(relaxed) do
      local result = entry.result
      rows[i] = { entry.text, result and result.draw or "–", result and result.shape or "–",
         number(result and result.distance), number(result and result.expected_accepted),
         entry.promise or (result and "" or entry.problem) }
   end
   print("\nrelaxed rules, on the same rows")
   print_table({ { title = "rule", align = "left" }, { title = "draw", align = "left" },
      { title = "shape", align = "left" }, { title = "TV" }, { title = "accepted" },
      { title = "promise", align = "left" } }, rows)
end

-- ---- The verb --------------------------------------------------------------------------------------

local function whole(text, key, low)
   local value = math.tointeger(tonumber(text))
   if not value or value < low then
      cli.fail("coppice check rules: %s must be an integer, at least %d, got \"%s\"", key, low, text)
   end
   return value
end

--- words: what follows "rules" on the command line.
local function read_words(words)
   local o, least = { seed = 17 }, { cases = 1, runs = 1, seed = 0 }
   local known = { "rule", "cases", "runs", "seed", "table" }
   for _, word in ipairs(words) do
      local key, value = word:match("^([%a_]+)=(.*)$")
      if not key and not o.path then
         o.path = word
      elseif not key then
         cli.fail("coppice check rules: what is \"%s\"?", word)
      elseif least[key] then
         o[key] = whole(value, key, least[key])
      elseif key == "rule" or key == "table" then
         o[key] = value
      else
         cli.fail("coppice check rules: unknown argument \"%s\"%s", key, cli.hint(key, known))
      end
   end
   return o
end

local function split(rules)
   local lossless, relaxed, n_pairs = {}, {}, 0
   for _, rule in ipairs(rules) do
      if not rule.rule then
         error(("accept.%s cannot be constructed: %s"):format(rule.name, rule.problem), 0)
      end
      local facts = core.rule(rule.rule)
      rule.pairs, rule.promise, rule.text = facts.pairs, facts.promise, core.part(rule.rule).text
      rule.text = rule.text:gsub("^cop%.accept%.", ""):gsub(" {}$", "")
      n_pairs = n_pairs + #rule.pairs
      local is_relaxed = facts.promise or #rule.pairs == 0
      relaxed[#relaxed + 1] = is_relaxed and rule or nil
      lossless[#lossless + 1] = #rule.pairs > 0 and rule or nil
   end
   return lossless, relaxed, n_pairs
end

local function check_all(rules, o)
   local lossless, relaxed, n_pairs = split(rules)
   local cases = o.cases or math.max(fewest, math.min(most, n_pairs > 0 and -(-total // n_pairs) or 0))
   local found, holds = {}, true
   for _, rule in ipairs(lossless) do
      for i in ipairs(rule.pairs) do
         check_pair(found, rule, i, cases, o.seed)
         holds = holds and found[#found].holds
      end
   end
   if #found > 0 then
      print_lossless(found)
   end
   for _, rule in ipairs(relaxed) do
      rule.result, rule.problem = measure(rule)
   end
   if #relaxed > 0 then
      print_relaxed(relaxed)
   end
   return holds and 0 or 1
end

--- words: what follows "rules"; options: --model and --draft.
return function(words, options)
   local o = read_words(words)
   o.model, o.draft = options.model, options.draft
   local rules = narrow(gather(o.path), o.rule)
   core.system.catch(true)
   local ok, status = pcall(o.model and core.use("check_runs") or check_all, rules, o)
   core.system.catch(false)
   if ok then
      return status
   elseif type(status) == "table" and status.status then
      io.stderr:write("coppice check rules: ", tostring(status.message), "\n")
      return status.status
   end
   error(status, 0)
end
