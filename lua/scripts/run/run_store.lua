--- The folder of a run, as methods of it: the manifest that decides whether it can be gone on with,
-- and the trace that its answers go into.

local _, core = ...

local system = core.system

local store = {}

local function refuse(folder, there, here)
   local lines = core.use("manifest").differences(there, here)
   local shown = table.concat(lines, "; ", 1, math.min(#lines, 6))
   local more = #lines > 6 and ("; and %d more"):format(#lines - 6) or ""
   return nil, ("%s holds another run (%s%s); give another folder (--out DIR) or remove it")
      :format(folder, shown, more), "argument"
end

--- Reads or writes the manifest. → true | nil, message, code
function store:settle(resume)
   local manifest, path = core.use("manifest"), self.folder .. "/manifest.json"
   if system.kind(path) == nil then
      return manifest.write(path, self.manifest)
   end
   local there, problem = manifest.read(path)
   if not there then
      return nil, problem, "format"
   elseif not resume then
      return nil, ("%s holds a run already; give another folder (--out DIR), remove it, or resume"):format(self.folder),
         "argument"
   end
   -- through JSON and back, so that both sides are of the same making
   local here = system.json.decode(system.json.encode(self.manifest.identity))
   if #manifest.differences(there.identity, here) > 0 then
      return refuse(self.folder, there.identity, here)
   end
   self.made_by_there = there.made_by
   return true
end

--- What may differ between the parts of a run, and should be known.
function store:note_machine()
   local here, there = self.manifest.made_by, self.made_by_there or {}
   for _, key in ipairs { "version", "level", "threads", "processor" } do
      if there[key] ~= nil and there[key] ~= here[key] then
         self.console:line(("note: this run began with %s %s and goes on with %s"):format(key, tostring(there[key]),
            tostring(here[key])))
         if key == "level" then
            self.console:line("note: tokens are only promised to be the same within one instruction-set level")
         end
      end
   end
end

--- Parts of files whose writers were killed.
function store:sweep()
   system.sweep(self.folder)
   system.sweep(core.use("row_files").folder(self.folder))
   return true
end

function store:open_trace()
   local trace, problem, code = core.trace.open(self.folder .. "/trace.db", "write")
   if not trace then
      return nil, problem, code
   end
   self.trace = trace
   self.session, problem, code = trace:start {
      name = self.e.name, version = self.manifest.made_by.version, level = self.manifest.made_by.level,
      shard = self.shard_text,
   }
   if not self.session then
      return nil, problem, code
   end
   return self:enter_arms()
end

function store:enter_arms()
   for _, group in ipairs(self.groups) do
      for _, arm in ipairs(group.arms) do
         local f = arm.facts
         local problem, code
         arm.id, problem, code = self.trace:arm {
            name = arm.name, sampling = group.label, temperature = group.sampling.temperature,
            is_plain = arm.is_plain, is_lossless = f.lossless, proposer = f.proposer, builder = f.tree,
            rule = f.rule, length = f.length, draw = f.draw, shape = f.shape,
            options = system.json.encode(self:arm_facts(group, arm)),
         }
         if not arm.id then
            return nil, problem, code
         end
      end
   end
   return true
end

function store:arm_facts(group, arm)
   for _, facts in ipairs(self.manifest.identity.arms) do
      if facts.name == arm.name and facts.sampling == group.label then
         return facts
      end
   end
end

function store:is_done(arm, item, number, turn)
   local found, problem = self.trace:has(arm.id, item.index, number, turn)
   if found == nil then
      error(problem, 0)
   end
   return found
end

function store:stored_answer(arm, item, number, turn)
   local rows = self.trace:rows("SELECT text FROM requests WHERE arm = ? AND prompt = ? AND repeat = ? AND turn = ?",
      arm.id, item.index, number, turn)
   return rows and rows[1] and rows[1].text or ""
end

-- ---- Answers -----------------------------------------------------------------------------------

--- One line of the log for each answer.
local function answer_line(job, result)
   local what = result.error and "failed: " .. tostring(result.error) or ("%d tokens, %d passes, %s"):format(
      #result.tokens, result.forward_passes or 0, result.finish)
   return ("answer: %s, %s, prompt %d, repeat %d, turn %d: %s, %.3f s"):format(job.arm.name, job.sampling,
      job.item.index, job.number, job.turn, what, result.seconds or 0)
end

--- Tokens that the target's tokenizer makes of an answer's text as it stands: Spec-Bench counts its baseline so.
local function recounted(tokenizer, text)
   local ok, ids = pcall(function() return tokenizer:encode(text, { special = true, bos = tokenizer.adds_bos }) end)
   return ok and ids and #ids or nil
end

--- Before the answer is entered: one that is there has its rows.
function store:save_rows(job)
   local files = core.use("row_files")
   local ok, problem, code = system.folder(files.folder(self.folder))
   if ok then
      local path = files.path(self.folder, job.arm.id, job.item.index, job.number, job.turn)
      ok, problem, code = job.record:save_rows(path)
   end
   return ok, problem, code
end

function store:commit(job, result)
   if job.keeps_rows then
      local is_saved, reason, kind = self:save_rows(job)
      if not is_saved then
         return self:stop(reason, kind)
      end
   end
   local ok, problem, code = self.trace:commit(job.record, {
      session = self.session, arm = job.arm.id, prompt = job.item.index, ["repeat"] = job.number, turn = job.turn,
      question = job.item.id and tostring(job.item.id), category = job.item.category and tostring(job.item.category),
      seed = job.arm.options.seed or self.e.seed, request_id = job.request, place = job.place, n_prompt = #job.ids,
      tokens = result.tokens, text = result.text, finish = result.finish, error = result.error,
      seconds = result.seconds, prefill_seconds = result.prefill_seconds, peak_pages = result.peak_pages,
      text_tokens = not result.error and recounted(self.e.target.tokenizer, result.text) or nil,
   })
   if not ok then
      return self:stop(problem, code)
   end
   self.done, self.counted = self.done + 1, self.counted + 1
   self.passes = self.passes + (result.forward_passes or 0)
   self.console:note(answer_line(job, result))
   return true
end

--- Answers of an arm in a repeat that this shard has to give, and those that are stored.
function store:count_arm(arm, number)
   local total, done = 0, 0
   for _, item in ipairs(self.mine) do
      for turn = 1, #item.turns do
         total = total + 1
         done = done + (self:is_done(arm, item, number, turn) and 1 or 0)
      end
   end
   return total, done
end

--- The same of a group's arms and repeats.
function store:count(group)
   local total, done = 0, 0
   for _, arm in ipairs(group.arms) do
      for number = 1, self.e.repeats do
         local more, stored = self:count_arm(arm, number)
         total, done = total + more, done + stored
      end
   end
   return total, done
end

return store
