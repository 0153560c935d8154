--- coppice export: a stored run as JSON lines, as CSV, as Spec-Bench's answer files or lm-eval's sample logs.

local cop, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = {
   { name = "format", type = "string", value = "jsonl|csv|spec_bench|lm_eval",
      help = "jsonl: one file; the others: a folder" },
   { name = "out", type = "string", value = "PATH", help = "where it goes" },
}

local formats = { jsonl = true, csv = true, spec_bench = true, lm_eval = true }

function verb.main(words)
   local o = cli.parse("export", words, verb.specs)
   if #o ~= 1 then
      cli.fail("coppice export: which run? (coppice export runs/NAME --format jsonl --out FILE)")
   elseif not formats[o.format or ""] then
      cli.fail("coppice export: --format must be one of jsonl, csv, spec_bench, lm_eval")
   elseif not o.out then
      cli.fail("coppice export: --out PATH is missing")
   end
   local run = cli.must(cop.open_run(o[1]))
   local written, problem = run:export { format = o.format, out = o.out }
   run:close()
   if not written then
      error(problem, 0)
   end
   print(type(written) == "table" and table.concat(written, "\n") or o.out)
   return 0
end

return verb
