--- A run that is killed again and again, and two processes on one folder: the same tokens and the same trace as one
-- that nobody disturbed. Damaged folders, and folders of other versions: messages that say what to do.

local check, test, core = ...
local cop = require("coppice")

local shell, program = check.shell, check.program(core)
if not program then
   print("skipped: no program beside the tests")
   return
end

local folder = test.folder()
local script = folder .. "/script.lua"
assert(core.system.write(script, ([[
local cop = require("coppice")
local target = assert(cop.model { path = %q, threads = 1 })
local draft = assert(cop.model { path = %q, threads = 1 })
return cop.experiment { name = "killed", target = target, seed = 5, temperature = { 0, 1 }, max_tokens = 40,
   prompts = { "one two three", "abc abc abc", "x", "seven", "more of it", "the last" }, chat = false,
   record = { rows = "f16", top = 4 }, arms = {
      cop.arm { "chain", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 3 } },
      cop.arm { "lookup", proposer = cop.propose.lookup {} },
   } }]]):format(test.tiny { seed = 7, layers = 4, context = 512 },
   test.tiny { seed = 7, layers = 4, noise = 0.3, noise_seed = 3, context = 512 })))

local function run(out)
   return shell("%s run %s --out %s 2>&1; echo status $?", program, script, out)
end

--- Everything but times and the order of writing.
local function dump(out)
   local stored <close> = assert(cop.open_run(out))
   local list = {}
   for _, row in ipairs(stored:sql("SELECT a.name, a.sampling, r.prompt, r.turn, r.place, r.seed, r.request_id,"
      .. " r.tokens, r.text, r.finish, c.* FROM requests r JOIN arms a ON a.id = r.arm"
      .. " JOIN cycles c ON c.request = r.id ORDER BY a.id, r.prompt, c.cycle")) do
      row.request = nil
      for key in pairs(row) do
         if key:find("_us$") then
            row[key] = nil
         end
      end
      list[#list + 1] = core.system.json.encode(row)
   end
   check.equal(#stored:broken_identities(), 0)
   return table.concat(list, "\n"), stored:sql("SELECT count(*) AS n FROM requests")[1].n
end

local function rows_of(out)
   return shell("cd %s/rows && cat $(ls *.safetensors | sort) | sha256sum", out)
end

local whole = folder .. "/whole"
check.is(run(whole):find("status 0\n", 1, true))
local expected, n_requests = dump(whole)
check.equal(n_requests, 2 * 3 * 6)

-- ---- Killed at 20 moments ------------------------------------------------------------------------

local killed, stored_at = folder .. "/killed", {}
for i = 1, 20 do
   -- 30 to 180 ms, from one stream for every run of this test
   local word = cop.philox({ i, 0, 0, 0 }, { 20, 0 })[1]
   shell("%s run %s --out %s >/dev/null 2>&1 & pid=$!; sleep %.3f; kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null",
      program, script, killed, 0.03 + word / 2 ^ 32 * 0.15)
   local count = core.system.kind(killed .. "/trace.db") and cop.open_run(killed)
   if count then -- the tables may not be there yet
      stored_at[#stored_at + 1] = count:sql("SELECT count(*) AS n FROM requests")[1].n
      count:close()
   end
end
for i = 2, #stored_at do
   check.is(stored_at[i] >= stored_at[i - 1], "what was committed stays")
end
-- What a killed writer left goes; a living process's file, and a file that is only called so, stay.
local planted = { { "rows/2-1-1-1.safetensors.new999999999", false }, { "summary.csv.new999999999", false },
   { "rows/2-1-1-1.safetensors.new1", true }, { "notes.new12b", true }, { "notes.new", true } }
assert(core.system.folder(killed .. "/rows")) -- where the machine was too busy to get that far
for _, entry in ipairs(planted) do
   assert(core.system.write(("%s/%s"):format(killed, entry[1]), "half"))
end
check.is(run(killed):find("status 0\n", 1, true))
for _, entry in ipairs(planted) do
   check.equal(core.system.kind(("%s/%s"):format(killed, entry[1])) == "file", entry[2], entry[1])
   os.remove(("%s/%s"):format(killed, entry[1]))
end
check.equal(shell("ls %s %s/rows | grep -c '[.]new[0-9]*$'", killed, killed), "0\n")
local again, n_again = dump(killed)
check.equal(n_again, n_requests)
check.is(again == expected, "a run that was killed has another trace")
check.equal(rows_of(killed), rows_of(whole))

-- ---- Two processes -------------------------------------------------------------------------------

local both = folder .. "/both"
local said = shell("(%s run %s --out %s >/dev/null 2>&1; echo status $?) & (%s run %s --out %s >/dev/null 2>&1;"
   .. " echo status $?) & wait", program, script, both, program, script, both)
check.equal(said, "status 0\nstatus 0\n")
again, n_again = dump(both)
check.equal(n_again, n_requests)
check.is(again == expected, "two processes on one folder made another trace")
check.equal(rows_of(both), rows_of(whole))

-- ---- Damaged, and of other versions --------------------------------------------------------------

--- Both reading and going on say `text`, and end with status 1.
local function refused(out, ...)
   for _, words in ipairs { ("report %s"):format(out), ("run %s --out %s"):format(script, out) } do
      local printed = shell("%s %s 2>&1; echo status $?", program, words)
      for _, text in ipairs { "status 1\n", ... } do
         check.is(printed:find(text, 1, true), ("%s: expected \"%s\" in\n%s"):format(words, text, printed))
      end
   end
end

local function copy(name)
   local out = ("%s/%s"):format(folder, name)
   shell("cp -r %s %s && rm -f %s/trace.db-*", whole, out, out)
   return out
end

local function write_at(path, offset, bytes)
   local file = assert(io.open(path, "r+b"))
   file:seek("set", offset)
   file:write(bytes)
   file:close()
end

local damaged = copy("damaged")
write_at(damaged .. "/trace.db", 100, ("\xff"):rep(4000))
refused(damaged, "damaged/trace.db", "is damaged", "sqlite3", ".recover")
local text = copy("text")
assert(core.system.write(text .. "/trace.db", "a text that is no database, of some length"))
refused(text, "text/trace.db", "is not a trace", "--out DIR")
local newer = copy("newer")
write_at(newer .. "/trace.db", 60, "\0\0\0\9") -- user_version
refused(newer, "newer/trace.db", "version 9", "this program reads 1", "--out DIR")
local format = copy("format")
local manifest = assert(io.open(format .. "/manifest.json"))
local json = manifest:read("a"):gsub('"format":%s*1', '"format": 9')
manifest:close()
assert(core.system.write(format .. "/manifest.json", json))
refused(format, "format/manifest.json", "format 9", "this program reads 1", "--out DIR")
local short = copy("short")
assert(core.system.write(short .. "/manifest.json", json:sub(1, 100)))
refused(short, "short/manifest.json", "is not a manifest", "--out DIR")
