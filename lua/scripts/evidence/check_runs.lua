--- coppice check rules --model PATH --draft PATH: rules on a real model. For every lossless rule many seeded
-- answers of three tokens, counted by position, against the target's exact law: the 20 likeliest tokens and
-- the rest, chi-square. Rows are truncated to the 20 best tokens, so that every continuation can be scored.

local cop, core = ...

local cli = core.use("cli")

local alpha = 1e-4
local top_k = 20
local text = "Once upon" -- short: every answer is prefilled anew

--- A shape that the claim covers; three tokens need no more than two levels.
local function tree_for(pair)
   if pair.shape == "tree" then
      return cop.tree.widths { 2, 2 }, "widths 2 2"
   elseif pair.shape == "paths" and pair.draw == "independent" then
      return cop.tree.independent_paths { count = 2, depth = 2 }, "2 paths of 2"
   end
   return cop.tree.chain { depth = 2 }, "chain of 2"
end

local function run(entry, pair, o, relaxed)
   local tree, shape = tree_for(pair)
   local result, problem, code = core.run_rule {
      rule = entry.rule, proposer = o.proposer, tree = tree, draw = pair.draw, relaxed = relaxed, model = o.target,
      tokens = o.tokens, runs = o.runs, seed = o.seed, top_k = top_k,
   }
   if not result and code == "cancelled" then
      error({ status = 130, message = problem }, 0)
   end
   return { name = entry.name, draw = pair.draw, shape = shape, result = result, problem = problem,
      must_fail = relaxed, holds = result and (result.p >= alpha) ~= (relaxed or false) }
end

--- The first claim above temperature 0.
local function first_pair(entry)
   for _, pair in ipairs(core.rule(entry.rule).pairs) do
      if not pair.zero_only then
         return pair
      end
   end
end

local columns = { { title = "rule", align = "left" }, { title = "draw", align = "left" },
   { title = "shape", align = "left" }, { title = "accepted" }, { title = "passes" }, { title = "χ² 1" },
   { title = "χ² 2" }, { title = "χ² 3" }, { title = "dof" }, { title = "smallest p" }, { title = "", align = "left" } }

local function row_of(line)
   local r = line.result
   if not r then
      return { line.name, line.draw, line.shape, [11] = "FAILED: " .. line.problem }
   end
   local cells = { line.name, line.draw, line.shape, tostring(r.accepted), tostring(r.passes) }
   local dofs = {}
   for i, position in ipairs(r) do
      cells[5 + i], dofs[i] = ("%.1f"):format(position.statistic), tostring(position.dof)
   end
   cells[9], cells[10] = table.concat(dofs, " "), ("%.2g"):format(r.p)
   cells[11] = line.must_fail and (line.holds and "flagged, as it must be" or "NOT FLAGGED")
      or line.holds and "ok" or "NOT THE TARGET'S LAW"
   return cells
end

local function write_markdown(path, rows, o)
   local file = assert(io.open(path, "w"))
   file:write(("# Lossless rules on a model: %d runs of three tokens each\n\n"):format(o.runs))
   file:write(("By `make evidence`: target `%s`, draft `%s`, temperature 1, the %d best tokens, seed %d.\n"
      .. "Chi-square at each position against the exact law (the 20 likeliest tokens and the rest), alpha %g.\n"
      .. "The last line is a pair that is not lossless.\n\n"):format(o.model_name, o.draft_name, top_k, o.seed, alpha))
   for _, line in ipairs(core.markdown(columns, rows)) do
      file:write(line, "\n")
   end
   file:close()
end

local function open(path)
   return cli.open_model("check rules", {}, path)
end

--- rules: list of { name =, rule = }; o: model, draft (paths), runs, seed, table.
return function(rules, o)
   if not o.draft then
      cli.fail("coppice check rules: --model needs --draft PATH as well")
   end
   o.model_name, o.draft_name = o.model:match("[^/]*$"), o.draft:match("[^/]*$")
   o.target, o.runs = open(o.model), o.runs or 2000
   o.proposer = cop.propose.model { open(o.draft) }
   o.tokens = o.target.tokenizer and o.target.tokenizer:encode(text) or { 1, 2, 3 }
   local lines, holds = {}, true
   for _, entry in ipairs(rules) do
      local pair = first_pair(entry)
      if pair and not entry.promise then
         lines[#lines + 1] = run(entry, pair, o)
      end
   end
   -- the best token judged as if it had been drawn
   lines[#lines + 1] = run({ name = "token, unsound", rule = cop.accept.token {} },
      { draw = "deterministic", shape = "chain" }, o, true)
   local rows = {}
   for i, line in ipairs(lines) do
      rows[i], holds = row_of(line), holds and line.holds
   end
   for _, line in ipairs(core.table(columns, rows)) do
      print(line)
   end
   if o.table then
      write_markdown(o.table, rows, o)
   end
   return holds and 0 or 1
end
