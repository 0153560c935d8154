--- coppice cost: the price of a forward pass on this machine, printed and saved.

local cop, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = cli.with_model {
   { name = "draft", type = "string", value = "PATH", help = "also measures one level of this draft model" },
   { name = "sizes", type = "integers", value = "1,2,4,…", help = "tokens in a pass, root included" },
   { name = "contexts", type = "integers", value = "32,512,…", help = "committed positions before it" },
   { name = "tries", type = "integer", value = "N", help = "passes timed for each point" },
   { name = "out", type = "string", value = "FILE", help = "default: runs/cost/…, where runs look" },
}

local function rows_of(cost)
   local first, rows = {}, {}
   for i, p in ipairs(cost.score) do
      first[p.context] = first[p.context] or p.seconds
      rows[i] = {
         tostring(p.context), tostring(p.nodes), ("%.3f"):format(1e3 * p.seconds), ("%.3f"):format(1e3 * p.spread),
         ("%.2f"):format(p.seconds / first[p.context]),
         ("%.3f"):format(1e3 * core.use("curve").floor_seconds(cost.roofline, p.nodes)),
      }
   end
   return rows
end

local columns = {
   { title = "context" }, { title = "nodes" }, { title = "V ms" }, { title = "spread ms" }, { title = "V(n)/V(1)" },
   { title = "roofline ms" },
}

local function tries(points, extreme)
   local list = {}
   for i, point in ipairs(points) do
      list[i] = point.tries
   end
   return extreme(table.unpack(list))
end

local function tell(model, cost)
   print(tostring(model))
   for _, line in ipairs(core.table(columns, rows_of(cost))) do
      print(line)
   end
   for _, p in ipairs(cost.draft) do
      print(("draft %s, context %d: %.3f ms a level (one after another: what fits stays in the processor's cache)")
         :format(p.path:match("[^/]*$"), p.context, 1e3 * p.seconds))
   end
   local share = cost.bandwidth > 0 and model.bytes / cost.score[1].seconds / cost.bandwidth or 0
   print(("read bandwidth %.1f GB/s, of which V(1) uses %.0f %%; int8 peak %.0f G products/s"):format(
      cost.bandwidth / 1e9, 100 * share, cost.roofline.peak / 1e9))
   local machine = cost.machine
   print(("%d to %d passes a point; machine %s: %s, %d cores, %d threads"):format(tries(cost.score, math.min),
      tries(cost.score, math.max), machine.fingerprint, machine.processor or "?", machine.cores, machine.threads))
   print("saved: " .. cost.path)
end

function verb.main(words)
   local o = cli.parse("cost", words, verb.specs)
   if o[1] then
      cli.fail("coppice cost: what is \"%s\"? the model is --model PATH", o[1])
   end
   local model = cli.open_model("cost", o)
   local draft = o.draft and cli.open_model("cost", { threads = o.threads }, o.draft)
   core.system.catch(true)
   local cost, problem, code = cop.cost { model = model, draft = draft, sizes = o.sizes, contexts = o.contexts,
      tries = o.tries, out = o.out }
   core.system.catch(false)
   if not cost then
      if code == "cancelled" then
         return 130
      end
      error(problem, 0)
   end
   tell(model, cost)
   return 0
end

return verb
