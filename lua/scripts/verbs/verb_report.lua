--- coppice report: tables, summary.csv and report.html of stored runs.

local _, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = {
   { name = "out", type = "string", value = "DIR",
     help = "where summary.csv and report.html go (default: the run's folder; needed for several runs)" },
}

function verb.main(words)
   local o = cli.parse("report", words, verb.specs)
   if not o[1] then
      cli.fail("coppice report: which run? (coppice report runs/NAME …)")
   elseif o[2] and not o.out then
      cli.fail("coppice report: several runs make one report; --out DIR says where")
   end
   local list = {}
   for i, folder in ipairs(o) do
      list[i] = core.use("report").told_of(folder)
   end
   for _, told in ipairs(list) do
      for _, line in ipairs(core.use("report").lines(told)) do
         print(line)
      end
      print()
   end
   local folder = o.out or list[1].folder
   cli.must(core.system.folder(folder))
   local ok, note = core.use("report").write(folder, list)
   if not ok then
      error(note, 0)
   elseif note then
      print(note)
   end
   print(("%s/report.html, %s/summary.csv"):format(folder, folder))
   return 0
end

return verb
