--- coppice check: the evidence, one function for each kind. Status 1 when something does not hold.

local _, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = cli.with_model {
   { name = "draft", type = "string", value = "PATH", help = "check model: also speculation with this draft;"
      .. " check rules: rules on these models" },
   { name = "max-tokens", type = "integer", value = "N", help = "check model: tokens an answer, default 64" },
   { name = "level", type = "string", value = "NAME", help = "check kernels: instruction-set level, default the best" },
}

-- ---- Kernels -------------------------------------------------------------------------------------

--- One row for each operation: its worst case.
local function worst_by_operation(cases)
   local order, worst = {}, {}
   for _, case in ipairs(cases) do
      local w = worst[case.op]
      if not w then
         w = { op = case.op, count = 0, ratio = -1 }
         order[#order + 1], worst[case.op] = w, w
      end
      w.count = w.count + 1
      local ratio = case.tolerance > 0 and case.worst / case.tolerance or (case.worst == 0 and 0 or math.huge)
      if ratio ~= ratio or ratio > w.ratio then
         w.ratio, w.case = ratio, case
      end
   end
   return order
end

local function check_kernels(o)
   local failures, cases = core.system.parity(o.level)
   if not failures then
      error(cases, 0)
   end
   local rows = {}
   for i, w in ipairs(worst_by_operation(cases)) do
      rows[i] = { w.op, tostring(w.count), ("%.3g"):format(w.case.worst), ("%.3g"):format(w.case.tolerance),
         w.case.shape }
   end
   local columns = { { title = "operation", align = "left" }, { title = "cases" }, { title = "worst error" },
      { title = "tolerance" }, { title = "at", align = "left" } }
   for _, line in ipairs(core.table(columns, rows)) do
      print(line)
   end
   print(("%d cases, %d failures"):format(#cases, failures))
   return failures == 0 and 0 or 1
end

-- ---- Dispatch ------------------------------------------------------------------------------------

local kinds = {
   rules = function(o) return core.use("check_rules")(table.move(o, 2, #o, 1, {}), o) end,
   model = function(o) return core.use("check_model")(o) end,
   kernels = check_kernels,
}

function verb.main(words)
   local o = cli.parse("check", words, verb.specs)
   local what = o[1] or cli.fail("coppice check: what? rules, model or kernels")
   if not kinds[what] then
      cli.fail("coppice check: unknown kind \"%s\"%s; rules, model or kernels", what,
         cli.hint(what, { "rules", "model", "kernels" }))
   elseif o[2] and what ~= "rules" then
      cli.fail("coppice check %s: what is \"%s\"?", what, o[2])
   end
   return kinds[what](o)
end

return verb
