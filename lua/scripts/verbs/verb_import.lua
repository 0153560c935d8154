--- coppice import: a run of what coppice export has written, of lm-eval's sample logs, or of Spec-Bench's answer
-- files.

local cop, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = {
   { name = "out", type = "string", value = "RUN", help = "the new run's folder" },
   { name = "plain", type = "string", value = "NAME", help = "of several files the one to compare with" },
}

function verb.main(words)
   local o = cli.parse("import", words, verb.specs)
   if #o ~= 1 then
      cli.fail("coppice import: what? (coppice import FILE.jsonl|FOLDER --out runs/NAME)")
   elseif not o.out then
      cli.fail("coppice import: --out RUN is missing")
   end
   local run = cli.must(cop.import_run { path = o[1], out = o.out, plain = o.plain })
   print(("%s: %d requests"):format(run.folder, run:sql("SELECT COUNT(*) AS n FROM requests")[1].n))
   run:close()
   return 0
end

return verb
