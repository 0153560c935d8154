--- cop.merge_runs: parts of one run (shards, or what several machines did) as one folder. Parts must be of one
-- identity; an answer that two parts have is taken from the first. What is missing can be run afterwards, as
-- the merged folder can be gone on with like any other.

local cop, core = ...

local system = core.system
local merge = {}

local must = core.use("must")

local function columns_of(trace, name)
   local list = {}
   for _, row in ipairs(must(trace:rows(("PRAGMA main.table_info(%s)"):format(name)))) do
      list[#list + 1] = row.name
   end
   return list
end

--- "INSERT INTO main.NAME (columns) SELECT …": columns as they are, but for those that `changed` words anew.
local function copy(trace, name, changed, rest, ...)
   local names, values = columns_of(trace, name), {}
   local kept = {}
   for _, column in ipairs(names) do
      if changed[column] ~= "" then
         kept[#kept + 1], values[#values + 1] = ('"%s"'):format(column), changed[column] or ('t."%s"'):format(column)
      end
   end
   must(trace:rows(("INSERT INTO main.%s (%s) SELECT %s FROM part.%s t %s"):format(name, table.concat(kept, ", "),
      table.concat(values, ", "), name, rest), ...))
end

local function last_id(trace, name)
   return must(trace:rows(("SELECT COALESCE(MAX(id), 0) AS id FROM main.%s"):format(name)))[1].id
end

--- The arm of the merged run that is called as this part's is.
local own_arm = "(SELECT m.id FROM main.arms m JOIN part.arms p ON p.name = m.name AND p.sampling = m.sampling"
   .. " WHERE p.id = t.arm)"

local function add_part(trace)
   local sessions, requests = last_id(trace, "sessions"), last_id(trace, "requests")
   copy(trace, "sessions", { id = ("t.id + %d"):format(sessions) }, "")
   copy(trace, "arms", { id = "" }, "WHERE true ON CONFLICT DO NOTHING")
   copy(trace, "requests", { id = ("t.id + %d"):format(requests), session = ("t.session + %d"):format(sessions),
      arm = own_arm }, "WHERE true ON CONFLICT (arm, prompt, repeat, turn) DO NOTHING")
   copy(trace, "cycles", { request = ("t.request + %d"):format(requests) },
      ("WHERE EXISTS (SELECT 1 FROM main.requests r WHERE r.id = t.request + %d)"):format(requests))
   copy(trace, "quality", { arm = own_arm }, "WHERE true ON CONFLICT DO NOTHING")
end

--- The manifest that all parts share → manifest, notes about machines | nil, message
local function common_manifest(folders)
   local first, notes = nil, {}
   for _, folder in ipairs(folders) do
      local run, problem = cop.open_run(folder) -- another version, or no run at all
      if not run then
         return nil, problem
      end
      run:close()
      local manifest
      manifest, problem = core.use("manifest").read(folder .. "/manifest.json")
      if not manifest then
         return nil, problem
      end
      first = first or manifest
      local differences = core.use("manifest").differences(first.identity, manifest.identity, "in the first",
         "in this one")
      if #differences > 0 then
         return nil, ("%s is no part of the run in %s: %s%s"):format(folder, folders[1], differences[1],
            #differences > 1 and ("; and %d more"):format(#differences - 1) or "")
      end
      for _, key in ipairs { "version", "level", "threads", "processor" } do
         local here, there = (manifest.made_by or {})[key], (first.made_by or {})[key]
         if here ~= there then
            notes[#notes + 1] = ("note: %s ran with %s %s, %s with %s"):format(folder, key, tostring(here), folders[1],
               tostring(there))
         end
      end
   end
   return first, notes
end

local function copy_file(from, to)
   local file = io.open(from, "rb")
   local text = file and file:read("a")
   if file then
      file:close()
   end
   return text and must(system.write(to, text))
end

local function write_all(folders, out, manifest)
   local trace = must(core.trace.open(out .. "/trace.db", "write"))
   local ok, problem = pcall(function()
      for _, folder in ipairs(folders) do
         must(trace:rows("ATTACH ? AS part", folder .. "/trace.db"))
         must(trace:rows("BEGIN IMMEDIATE"))
         add_part(trace)
         must(trace:rows("COMMIT"))
         must(trace:rows("DETACH part"))
      end
      for _, folder in ipairs(folders) do
         if copy_file(folder .. "/cost.json", out .. "/cost.json") then
            break
         end
      end
      must(core.use("manifest").write(out .. "/manifest.json", manifest))
   end)
   trace:close()
   return ok, problem
end

--- → true, notes | nil, message, code
function merge.runs(folders, out)
   if system.kind(out .. "/trace.db") then
      return nil, ("%s holds a run already; merge into a new folder"):format(out), "argument"
   end
   local manifest, notes = common_manifest(folders)
   if not manifest then
      return nil, notes, "argument"
   end
   local ok, problem, code = system.folder(out)
   if not ok then
      return nil, problem, code
   end
   ok, problem = write_all(folders, out, manifest)
   if not ok then
      for _, name in ipairs { "trace.db", "trace.db-wal", "trace.db-shm", "manifest.json", "cost.json" } do
         os.remove(out .. "/" .. name)
      end
      return nil, problem, "io"
   end
   return true, notes
end

--- Answers that the manifest asks for.
function merge.wanted(identity)
   local turns, arms = 0, identity.arms or {}
   for _, chosen in ipairs((identity.prompts or {}).chosen or {}) do
      turns = turns + chosen[2]
   end
   return turns * #arms * (identity.repeats or 1)
end

local options = { { "runs", "table", required = true }, { "out", "string", required = true } }

--- cop.merge_runs { runs = { "runs/part-1", … }, out = "runs/whole" } → the run, opened | nil, message, code
function cop.merge_runs(given)
   local o = core.options("cop.merge_runs", given, options)
   if #o.runs == 0 then
      core.raise("cop.merge_runs: runs must name at least one folder")
   end
   local folders, seen = {}, {}
   for i, folder in ipairs(o.runs) do
      if type(folder) ~= "string" then
         core.raise(("cop.merge_runs: runs[%d] must be the folder of a run, got a %s"):format(i, core.type(folder)))
      end
      folders[i] = folder:gsub("(.)/+$", "%1")
      if seen[folders[i]] then
         core.raise(("cop.merge_runs: %s is named twice"):format(folders[i]))
      end
      seen[folders[i]] = true
   end
   local ok, problem, code = merge.runs(folders, o.out)
   if not ok then
      return nil, "cop.merge_runs: " .. problem, code
   end
   return cop.open_run(o.out)
end

return merge
