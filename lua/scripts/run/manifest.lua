--- manifest.json: what a run is. `identity` decides whether a folder can be resumed (its values are
-- what the results depend on); `made_by` describes the machine and may differ.

local cop, core = ...

local manifest = {}
local json = core.system.json

local hashes = {} -- of files, by path: a run names the same file several times

function manifest.hash(path)
   if not hashes[path] then
      hashes[path] = core.system.hash_file(path)
   end
   return hashes[path]
end

local function model_facts(m)
   return { path = m.path, sha256 = manifest.hash(m.path), precision = m.precision, kv = m.kv,
      context = m.context }
end

--- A part as text: addresses of objects say nothing about what it does.
local function part_text(part)
   return (tostring(part):gsub("[%w_.]+: 0x%x+", "…"))
end

local function arm_facts(group, arm)
   local facts, o = { name = arm.name, sampling = group.label, relaxed = arm.engine.relaxed or false }, arm.engine
   for _, key in ipairs { "proposer", "tree", "rule", "length" } do
      facts[key] = o[key] and part_text(o[key]) or nil
   end
   for _, key in ipairs { "draw", "shape", "lossless" } do
      facts[key] = arm.facts[key]
   end
   facts.rule = facts.rule or arm.facts.rule
   facts.seed = arm.options.seed
   facts.target = arm.options.target and model_facts(arm.options.target)
   if o.proposer then
      facts.models = json.list {}
      for i, m in ipairs(core.models(o.proposer)) do
         m.sha256, m.threads = manifest.hash(m.path), nil
         facts.models[i] = m
      end
   end
   return facts
end

local function prompt_facts(prompts)
   local indices, texts = json.list {}, json.list {}
   for i, item in ipairs(prompts) do
      indices[i] = { item.index, #item.turns }
      texts[i] = { turns = json.list(item.turns), system = item.system, chat = item.chat }
   end
   return { path = prompts.path, sha256 = prompts.sha256, records = prompts.records, chosen = indices,
      texts = core.system.hash(json.encode(texts)) }
end

local function command_line(command)
   local pipe = io.popen(command .. " 2>/dev/null")
   local line = pipe and pipe:read("l")
   if pipe then
      pipe:close()
   end
   return line ~= "" and line or nil
end

local function processor()
   local file = io.open("/proc/cpuinfo")
   local text = file and file:read("a") or ""
   if file then
      file:close()
   end
   local _, cores = text:gsub("%f[%w]processor%s*:", "")
   return text:match("model name%s*:%s*([^\n]+)"), cores
end

--- What measured times depend on besides the model, with a fingerprint of it.
function manifest.machine(model)
   local name, cores = processor()
   local machine = { processor = name, cores = cores, level = model.level, device = model.device,
      threads = model.threads }
   machine.fingerprint = core.system.hash(("%s|%d|%s|%s|%d"):format(name or "", cores, model.level or "", model.device,
      model.threads)):sub(1, 16)
   return machine
end

--- What a report made later has to know of measures.
local function measure_facts(measures)
   local list = json.list {}
   for i, measure in ipairs(measures) do
      list[i] = { name = measure.name, better = measure.better, is_ours = measure.is_ours }
   end
   return list
end

--- What the drafts of arms hold in memory, by the arm's name: how weights are packed depends on the machine.
local function draft_bytes(groups)
   local bytes = {}
   for _, group in ipairs(groups) do
      for _, arm in ipairs(group.arms) do
         bytes[arm.name] = arm.facts.draft_bytes
      end
   end
   return bytes
end

--- Of an experiment and its plan; chat: whether prompts go through a chat template.
function manifest.make(e, groups, chat)
   local arms = json.list {}
   for _, group in ipairs(groups) do
      for _, arm in ipairs(group.arms) do
         arms[#arms + 1] = arm_facts(group, arm)
      end
   end
   local stop = type(e.stop) == "string" and { e.stop } or e.stop
   local identity = {
      name = e.name, seed = e.seed, max_tokens = e.max_tokens, min_tokens = e.min_tokens,
      repeats = e.repeats, batch = e.batch, chat = chat, ignore_eos = e.ignore_eos,
      stop = json.list(stop or {}), stop_tokens = json.list(e.stop_tokens or {}),
      quality = json.list(e.quality), margin = e.margin, target = model_facts(e.target),
      prompts = prompt_facts(e.prompts), arms = arms,
      interleave = e.interleave or nil,
      record = e.record and { rows = e.record.rows, top = e.record.top, arms = json.list(e.record.arms) },
      script = e.script and { name = e.script.name, sha256 = core.system.hash(e.script.text) },
   }
   local made_by = {
      version = cop.version, build = cop.build, level = e.target.level, device = e.target.device,
      threads = e.target.threads,
      processor = processor(), git = command_line("git rev-parse --short=12 HEAD"),
      started = os.date("!%Y-%m-%dT%H:%M:%SZ"), draft_bytes = draft_bytes(groups),
   }
   return { format = 1, identity = identity, made_by = made_by, published = json.list(e.published),
      measures = measure_facts(e.measures),
      script_text = e.script and e.script.text }
end

-- ---- Comparing -----------------------------------------------------------------------------------

local function flatten(value, path, out)
   if type(value) == "table" and next(value) ~= nil then
      for key, inner in pairs(value) do
         flatten(inner, path == "" and tostring(key) or ("%s.%s"):format(path, key), out)
      end
   else
      out[path] = json.encode(value)
   end
   return out
end

--- What differs between two identities: "max_tokens: 64 there, 128 here", sorted. The words for the two
-- sides may be others.
function manifest.differences(there, here, first, second)
   local a, b, lines = flatten(there, "", {}), flatten(here, "", {}), {}
   first, second = first or "there", second or "here"
   for path, value in pairs(a) do
      if b[path] ~= value then
         lines[#lines + 1] = ("%s: %s %s, %s %s"):format(path, value, first, b[path] or "absent", second)
      end
   end
   for path, value in pairs(b) do
      if a[path] == nil then
         lines[#lines + 1] = ("%s: absent %s, %s %s"):format(path, first, value, second)
      end
   end
   table.sort(lines)
   return lines
end

-- ---- Reading -------------------------------------------------------------------------------------

local model_form = { path = "text", sha256 = "text", precision = "text", kv = "text", context = "number" }
local form = {
   identity = {
      name = "text", seed = "number", max_tokens = "number", min_tokens = "number", repeats = "number",
      batch = "number", chat = "flag", ignore_eos = "flag", interleave = "flag", stop = "list", stop_tokens = "list",
      quality = "list",
      target = model_form, arms = "list",
      prompts = { path = "text", sha256 = "text", records = "number", chosen = "list", texts = "text" },
      script = { name = "text", sha256 = "text" },
   },
   made_by = { version = "text", build = {}, level = "text", device = "text", threads = "number", processor = "text",
      git = "text", started = "text", draft_bytes = {} },
   published = "list", measures = "list", script_text = "text",
}

--- A manifest from its text. → manifest | nil, message
function manifest.decode(text, path)
   local hint = "; give another folder (--out DIR), or remove the run"
   local value, problem = json.decode(text)
   problem = problem or core.use("shape").problem(value, {}) or value.identity == nil and "it has no identity"
   if problem then
      return nil, ("%s is not a manifest: %s%s"):format(path, problem, hint)
   end
   problem = core.use("shape").problem(value, form)
   if value.format ~= 1 then
      local version = not problem and value.made_by and value.made_by.version
      return nil, ("%s has format %s, this program reads 1; use the program that wrote it (version %s), or another"
         .. " folder (--out DIR)"):format(path, json.encode(value.format or json.null), version or "unknown")
   elseif problem then
      return nil, ("%s is not a manifest: %s%s"):format(path, problem, hint)
   end
   return value
end

function manifest.read(path)
   local file, reason = io.open(path, "rb")
   if not file then
      return nil, reason
   end
   local text, broken = file:read("a")
   file:close()
   if not text then
      return nil, ("%s: %s"):format(path, tostring(broken))
   end
   return manifest.decode(text, path)
end

function manifest.write(path, value)
   return core.system.write(path, json.encode(value, 1) .. "\n")
end

return manifest
