--- coppice merge: the parts of a run, from shards or several machines, as one run with its report.

local _, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = { { name = "out", type = "string", value = "DIR", help = "the merged run's folder, a new one" } }

function verb.main(words)
   local o = cli.parse("merge", words, verb.specs)
   if not o[1] or not o.out then
      cli.fail("coppice merge: which runs, and where to? (coppice merge runs/NAME-* --out runs/NAME)")
   end
   local ok, notes = core.use("merge").runs(table.move(o, 1, #o, 1, {}), o.out)
   if not ok then
      error("coppice merge: " .. notes, 0)
   end
   for _, note in ipairs(notes) do
      print(note)
   end
   local told = core.use("report").told_of(o.out)
   for _, line in ipairs(core.use("report").lines(told)) do
      print(line)
   end
   local written, problem = core.use("report").write(o.out, { told })
   if not written then
      error(problem, 0)
   end
   local there, wanted = 0, core.use("merge").wanted(told.manifest.identity)
   for _, entry in ipairs(told.result.arms) do
      there = there + entry.requests + entry.failed
   end
   print(("%s: %d of %d answers of %d runs%s"):format(o.out, there, wanted, #o,
      there < wanted and "; the script's own command with --out " .. o.out .. " makes the rest" or ""))
   return 0
end

return verb
