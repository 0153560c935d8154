--- Trainings of every head that are killed at steps, and in the midst of every file they write: the same files, byte
-- for byte, as of one that nobody disturbed. Folders with a damaged file: which one, and what to do.

local check, test, core = ...

local shell, program = check.shell, check.program(core)
if not program then
   print("skipped: no program beside the tests")
   return
end

local folder = test.folder()
local script = folder .. "/script.lua"
assert(core.system.write(script, ([[
local cop = require("coppice")
local args = cop.args { head = "medusa", out = "", killed_at = 0 }
local options = ({
   medusa = { heads = 2 }, hydra = { heads = 2 }, mlp = { heads = 2, width = 12 }, eagle = {},
   eagle3 = { version = 3, vocabulary = 200, unroll = 2 }, model = { width = 8, layers = 2 },
})[args.head]
options.head, options.out = args.head:match("^%%a+"), args.out
options.target = assert(cop.model { path = %q, threads = 1 })
options.data, options.chat, options.max_tokens = { "one two", "abc abc", "x", "seven", "more", "the last" }, false, 16
options.held_out, options.rows, options.steps, options.save_every = 3, 64, 12, 3
local waits = os.getenv("WAITS")
function options.on_progress(info)
   if waits and info.step == 4 then
      io.open(waits, "w"):close()
      os.execute("while [ -e " .. waits .. " ]; do sleep 0.02; done")
   end
   if info.step == args.killed_at then
      os.execute("kill -9 $PPID")
   end
end
return cop.train(options)
]]):format(test.tiny { seed = 7, layers = 4, context = 128 })))

--- The exit status and what was printed. `limit`: no file may grow beyond so many blocks; the process is ended there by
-- a signal, or where that is ignored it is as if the disk were full.
local function train(head, out, killed_at, limit)
   local text = shell("{ (%s exec %s run %s head=%s out=%s killed_at=%d 2>&1); echo status $?; } 2>/dev/null",
      limit and ("ulimit -c 0; ulimit -f %d;"):format(limit) or "", program, script, head, out, killed_at or 0)
   return math.tointeger(text:match("status (%d+)\n$")), text
end

local function files_of(out)
   return shell("cd %s && sha256sum $(ls | grep -v console.log)", out)
end

local KILLED, TOO_LONG = 128 + 9, 128 + 25

--- Killed as soon as there are so many bytes of training data.
local function kill_in_data(head, out, bytes)
   shell("{ %s run %s head=%s out=%s >/dev/null & pid=$!;"
      .. " while kill -0 $pid && [ $(cat %s/data.train | wc -c) -lt %d ]; do :; done;"
      .. " kill -9 $pid; wait $pid; } 2>/dev/null", program, script, head, out, out, bytes)
end

local function undisturbed(head)
   local out = ("%s/%s"):format(folder, head)
   local status, text = train(head, out)
   check.equal(status, 0, text)
   return out, files_of(out)
end

for _, head in ipairs { "medusa", "hydra", "mlp", "eagle", "eagle3", "model" } do
   local whole, expected = undisturbed(head)

   -- among the texts, or soon behind them
   local out = whole .. "-texts"
   for _, bytes in ipairs { 1, 10000, 20000 } do
      kill_in_data(head, out, bytes)
   end
   check.equal(train(head, out), 0, head)
   check.equal(files_of(out), expected, head .. " after kills among texts")

   -- at steps: before a checkpoint, behind one, at one, and before the last
   out = whole .. "-steps"
   for _, step in ipairs { 2, 5, 9, 11 } do
      local status, text = train(head, out, step)
      check.equal(status, KILLED, text)
   end
   check.equal(train(head, out), 0, head)
   check.equal(files_of(out), expected, head .. " after kills at steps")

   -- in the midst of files, always a bit further: the header of the texts, texts, checkpoints, tensors
   local limit, killed, status = 0, 0, nil
   out = whole .. "-files"
   shell("mkdir %s && cp %s/training.json %s", out, whole, out)
   while status ~= 0 do
      local text
      status, text = train(head, out, 0, limit)
      check.is(status == 0 or status == TOO_LONG or text:find("File too large", 1, true), text)
      killed = killed + (status == 0 and 0 or 1)
      limit = limit * 3 // 2 + 10
   end
   check.is(killed >= 4, ("%s: only %d files were cut short"):format(head, killed))
   check.equal(files_of(out), expected, head .. " after kills in files")

   -- between the last checkpoint and its tensors
   assert(os.remove(out .. "/config.json"))
   shell("rm %s/*.safetensors", out)
   check.equal(train(head, out), 0, head)
   check.equal(files_of(out), expected, head .. " after a kill before the tensors")
end

-- ---- Two at once ---------------------------------------------------------------------------------

--- A second process is refused while the first lives; when that is killed its folder is free, and gone on with.
do
   local expected, both, waits = files_of(folder .. "/model"), folder .. "/both", folder .. "/waits"
   local said = shell("{ WAITS=%s %s run %s head=model out=%s >/dev/null 2>&1 & pid=$!;"
      .. " while kill -0 $pid && ! [ -e %s ]; do sleep 0.02; done; %s run %s head=model out=%s 2>&1; echo status $?;"
      .. " kill -9 $pid; wait $pid; rm %s; } 2>/dev/null",
      waits, program, script, both, waits, program, script, both, waits)
   check.is(said:find(("another training writes \"%s\" now: give another folder"):format(both), 1, true), said)
   check.is(said:find("status 1\n$"), said)
   local status, printed = train("model", both)
   check.equal(status, 0, printed)
   check.is(printed:find("goes on from step 3 of 12", 1, true), printed)
   check.equal(files_of(both), expected, "a training beside which another was refused")

   -- the same of training data, which trainings with folders of their own may share
   local out = folder .. "/data"
   shell("cp -r %s/model %s && rm %s/checkpoint", folder, out, out)
   said = shell("flock %s/data.train %s run %s head=model out=%s 2>&1; echo status $?", out, program, script, out)
   check.is(said:find("data/data.train\" now: give another `cache`", 1, true), said)
   check.is(said:find("status 1\n$"), said)
   check.equal(train("model", out), 0)
   check.equal(files_of(out), expected)
end

-- ---- Damaged files -------------------------------------------------------------------------------

local whole, expected = folder .. "/model", files_of(folder .. "/model")
local out = folder .. "/damaged"

local function bytes_of(name)
   local file = assert(io.open(("%s/%s"):format(whole, name), "rb"))
   local bytes = file:read("a")
   file:close()
   return bytes
end

--- A folder in which `name` holds other bytes is refused with all of `texts`, and fine again without the file.
local function refused(name, bytes, ...)
   shell("rm -rf %s && cp -r %s %s", out, whole, out)
   assert(core.system.write(("%s/%s"):format(out, name), bytes))
   local status, said = train("model", out)
   check.equal(status, 1, said)
   for _, text in ipairs { ("damaged/%s\""):format(name), ... } do
      check.is(said:find(text, 1, true), ("%s: expected \"%s\" in\n%s"):format(name, text, said))
   end
   assert(os.remove(("%s/%s"):format(out, name)))
   check.equal(train("model", out), 0, name)
   check.equal(files_of(out), expected, name .. " that was damaged and removed")
end

local state = bytes_of("checkpoint")
for _, length in ipairs { 0, 7, 40, #state // 2, #state - 1 } do
   refused("checkpoint", state:sub(1, length), "is damaged: remove it, or say `resume = false`")
end
refused("checkpoint", state:sub(1, 1000) .. "?" .. state:sub(1002), "is damaged")
refused("checkpoint", state:sub(1, 8) .. "\9" .. state:sub(10), "is a checkpoint of version 9, known is 1")
local claim = bytes_of("training.json")
for _, text in ipairs { "", claim:sub(1, #claim // 2), "null", "[]", '{ "head": "model" }', '{ "target": "" }' } do
   refused("training.json", text, "is damaged (", "remove it and give the options of that training again",
      "or give another folder")
end
