--- Parts of a run as one: what it tells is what an uninterrupted run tells; and the scripts for Slurm.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local folder = test.folder()

local function describe(changes)
   local e = {
      name = "demo", target = target, max_tokens = 8, temperature = { 0, 1 }, repeats = 2,
      prompts = { "the cat and the hat and", "in the end the cat", { turns = { "he is here, he", "and the" } } },
      arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } }, quality = { "distinct_2" },
   }
   for key, value in pairs(changes or {}) do
      e[key] = value
   end
   return cop.experiment(e)
end

local function run(name, options, changes)
   options.out = folder .. "/" .. name
   return assert(test.quietly(function() return describe(changes):run(options) end))
end

local function value(name, sql)
   local stored = assert(cop.open_run(folder .. "/" .. name))
   local rows = assert(stored:sql(sql))
   stored:close()
   return rows[1].value
end

local whole = run("whole", {})
for i = 1, 3 do
   run("part-" .. i, { shard = ("%d/3"):format(i) })
end

local status, printed = test.program { "merge", folder .. "/part-1", folder .. "/part-2", folder .. "/part-3", "--out",
   folder .. "/merged" }
check.equal(status, 0, printed)
check.is(printed:find("/merged: 32 of 32 answers of 3 runs\n", 1, true), printed)
check.is(printed:find("fingerprint " .. whole.fingerprint, 1, true), printed)
check.is(core.system.kind(folder .. "/merged/report.html") == "file")
for _, sql in ipairs {
   "SELECT COUNT(*) || ' ' || SUM(progress) || ' ' || SUM(nodes) AS value FROM cycles",
   "SELECT COUNT(*) || ' ' || ROUND(SUM(value), 9) AS value FROM quality",
   "SELECT GROUP_CONCAT(tokens) AS value FROM (SELECT tokens FROM requests r JOIN arms a ON a.id = r.arm"
      .. " ORDER BY a.name, a.sampling, prompt, repeat, turn)",
   "SELECT COUNT(*) AS value FROM broken_identities",
} do
   check.equal(value("merged", sql), value("whole", sql), sql)
end
check.equal(value("merged", "SELECT GROUP_CONCAT(shard) AS value FROM sessions"), "1/3,2/3,3/3")

-- A part is missing, and one of two has answers of both: no answer twice, and the rest can be made.
local merged = assert(cop.merge_runs { runs = { folder .. "/part-1/", folder .. "/part-2" }, out = folder .. "/two" })
check.equal(merged:sql("SELECT COUNT(*) AS n FROM requests")[1].n, 16)
merged:close()
check.equal(run("two", {}).fingerprint, whole.fingerprint, "the merged run goes on")
assert(cop.merge_runs { runs = { folder .. "/part-1", folder .. "/two" }, out = folder .. "/overlap" }):close()
check.equal(value("overlap", "SELECT COUNT(*) AS value FROM requests"), 32)
check.equal(value("overlap", "SELECT COUNT(*) AS value FROM broken_identities"), 0)
check.equal(value("overlap", "SELECT COUNT(*) AS value FROM cycles"), value("whole",
   "SELECT COUNT(*) AS value FROM cycles"))
status, printed = test.program { "merge", folder .. "/part-3", "--out", folder .. "/one" }
check.equal(status, 0)
check.is(printed:find("/one: 16 of 32 answers of 1 runs; the script's own command with --out ", 1, true), printed)

-- ---- What is refused -----------------------------------------------------------------------------
run("other", {}, { max_tokens = 9 })
local none, problem = cop.merge_runs { runs = { folder .. "/part-1", folder .. "/other" }, out = folder .. "/none" }
check.is(none == nil and problem:find("/other is no part of the run in ", 1, true), problem)
check.is(problem:find("max_tokens: 8 in the first, 9 in this one", 1, true), problem)
check.is(core.system.kind(folder .. "/none") == nil, "nothing is left")
none, problem = cop.merge_runs { runs = { folder .. "/part-1" }, out = folder .. "/merged" }
check.is(none == nil and problem:find("holds a run already; merge into a new folder", 1, true), problem)
none, problem = cop.merge_runs { runs = { folder .. "/nowhere" }, out = folder .. "/none" }
check.is(none == nil and problem:find("has no trace.db", 1, true), problem)
check.raises("cop.merge_runs: runs must name at least one folder", function()
   return cop.merge_runs { runs = {}, out = "x" }
end)
check.raises_with("is named twice", function() return cop.merge_runs { runs = { "a", "a/" }, out = "x" } end)
check.equal((test.program { "merge", folder .. "/part-1" }), 2)

-- ---- Slurm ---------------------------------------------------------------------------------------
local function write(name, text)
   assert(core.system.write(folder .. "/" .. name, text))
   assert(os.execute(("chmod +x '%s/%s'"):format(folder, name)))
end

local function shell(command)
   local pipe = io.popen(("cd '%s' && PATH='%s':\"$PATH\" COPPICE=./coppice SLURM_ARRAY_TASK_ID=3"
      .. " SLURM_ARRAY_TASK_COUNT=8 SLURM_ARRAY_JOB_ID=77 %s 2>&1; echo status $?"):format(folder, folder, command))
   local text = pipe:read("a")
   pipe:close()
   return text
end

local here = io.popen("pwd"):read("l") .. "/experiments/slurm/"
write("coppice", "#!/bin/sh\necho coppice \"$@\"\nexit ${STATUS:-0}\n")
write("scontrol", "#!/bin/sh\necho scontrol \"$@\"\n")
check.equal(shell(here .. "array.sh my.lua limit=9"),
   "coppice run my.lua --shard 3/8 --out runs/my.parts/3 limit=9\nstatus 0\n")
check.is(shell("STATUS=1 " .. here .. "array.sh my.lua"):find("\nstatus 1\n", 1, true))
check.is(shell("STATUS=130 " .. here .. "array.sh my.lua"):find("\nscontrol requeue 77_3\nstatus 0\n", 1, true))
-- asked to stop, it hands that on and waits
write("coppice", "#!/bin/sh\ntrap 'echo stopping; exit 130' TERM\nsleep 1\nkill -TERM $PPID\n"
   .. "for i in 1 2 3 4 5 6 7 8; do sleep 1; done\necho too late\n")
check.equal(shell("bash " .. here .. "array.sh my.lua"), "stopping\nscontrol requeue 77_3\nstatus 0\n")
write("coppice", "#!/bin/sh\necho coppice \"$@\"\n")
assert(core.system.folder(folder .. "/runs/my.parts/1"))
assert(core.system.folder(folder .. "/runs/my.parts/2"))
check.equal(shell(here .. "merge.sh my.lua"),
   "coppice merge runs/my.parts/1/ runs/my.parts/2/ --out runs/my.merged\nstatus 0\n")
