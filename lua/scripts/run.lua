--- The protocol of a run.
--
-- Groups (one sampling each) run one after another. In a group every chunk of prompts is served by
-- all arms, plain decoding included, in an order that rotates from chunk to chunk, so that drift of
-- the machine touches all arms alike; the first answer of every engine warms up and is thrown away.
-- The coins of an answer are named by (seed, prompt, repeat, turn): arms share them, and a resumed
-- run draws what an uninterrupted one would have drawn.

local _, core = ...

local system = core.system
local Run = {}
Run.__index = Run

-- ---- The folder ----------------------------------------------------------------------------------

local function parse_shard(text)
   local number, count = (text or "1/1"):match("^(%d+)/(%d+)$")
   number, count = math.tointeger(number), math.tointeger(count)
   if not number or number < 1 or number > count then
      core.raise(("experiment:run: shard must be \"i/n\" with 1 <= i <= n, got \"%s\""):format(text))
   end
   return number, count
end

local function refuse(folder, there, here)
   local lines = core.use("manifest").differences(there, here)
   local shown = table.concat(lines, "; ", 1, math.min(#lines, 6))
   local more = #lines > 6 and ("; and %d more"):format(#lines - 6) or ""
   return nil, ("%s holds another run (%s%s); give another folder (--out DIR) or remove it")
      :format(folder, shown, more), "argument"
end

--- Reads or writes the manifest. → true | nil, message, code
function Run:settle(resume)
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
   self.level_there = there.made_by and there.made_by.level
   return true
end

function Run:note_level()
   local here = self.manifest.made_by.level
   if self.level_there and self.level_there ~= here then
      self.console:line(("note: this run began at instruction-set level %s and goes on at %s; tokens are only "
         .. "promised to be the same within one level"):format(self.level_there, here))
   end
end

function Run:open_trace()
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

function Run:enter_arms()
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

function Run:arm_facts(group, arm)
   for _, facts in ipairs(self.manifest.identity.arms) do
      if facts.name == arm.name and facts.sampling == group.label then
         return facts
      end
   end
end

-- ---- Prompts -------------------------------------------------------------------------------------

--- The ids of a conversation that ends with a question: { turn, answer, turn, … }.
function Run:prompt_ids(texts)
   local tokenizer, messages = self.e.target.tokenizer, {}
   for i, text in ipairs(texts) do
      messages[i] = { role = i % 2 == 1 and "user" or "assistant", content = text }
   end
   if self.chat then
      local _, ids = tokenizer:chat(messages, { generation = true })
      return ids
   end
   return tokenizer:encode(table.concat(texts, "\n"), { bos = true })
end

--- Whether prompts go through the target's chat template; without one they go in as they are.
local function uses_chat(e)
   if not e.chat then
      return false
   end
   local text, problem = core.use("plan").try(e.target.tokenizer.chat, e.target.tokenizer,
      { { role = "user", content = "?" } }, { generation = true })
   return text ~= nil, problem
end

--- A number for the coins: prompt, repeat and turn side by side, so that no two are alike.
local function request_id(item, number, turn)
   return item.index | (number - 1) << 20 | (turn - 1) << 26
end

local function check_sizes(e)
   for _, item in ipairs(e.prompts) do
      if item.index >= 1 << 20 or #item.turns > 32 then
         core.raise("experiment:run: at most 1,048,575 prompts of at most 32 turns")
      end
   end
end

function Run:is_done(arm, item, number, turn)
   local found, problem = self.trace:has(arm.id, item.index, number, turn)
   if found == nil then
      error(problem, 0)
   end
   return found
end

function Run:stored_answer(arm, item, number, turn)
   local rows = self.trace:rows("SELECT text FROM requests WHERE arm = ? AND prompt = ? AND repeat = ? AND turn = ?",
      arm.id, item.index, number, turn)
   return rows and rows[1] and rows[1].text or ""
end

-- ---- Serving -------------------------------------------------------------------------------------

--- What ends a run, not one answer: everything that the next answer would meet as well.
local fatal = { io = true, memory = true, callback = true, format = true, unsupported = true, unsound = true }

function Run:stop(message, code)
   self.failure = self.failure or message
   self.failure_code = self.failure_code or code
   return false
end

function Run:commit(job, result)
   local ok, problem, code = self.trace:commit(job.record, {
      session = self.session, arm = job.arm.id, prompt = job.item.index, ["repeat"] = job.number, turn = job.turn,
      question = job.item.id and tostring(job.item.id), category = job.item.category and tostring(job.item.category),
      seed = self.e.seed, request_id = job.request, place = job.place, n_prompt = #job.ids,
      tokens = result.tokens, text = result.text, finish = result.finish, error = result.error,
      seconds = result.seconds, prefill_seconds = result.prefill_seconds, peak_pages = result.peak_pages,
   })
   if not ok then
      return self:stop(problem, code)
   end
   self.done, self.counted = self.done + 1, self.counted + 1
   return true
end

--- The script's own observer, told whose cycle it is.
function Run:observer(job)
   local observe = self.e.observe
   return observe and function(cycle)
      cycle.arm, cycle.prompt = job.arm.name, job.item.index
      observe(cycle)
   end
end

function Run:take(job, result)
   if result.finish == "cancelled" then
      return true -- in flight when the run was stopped: not kept
   elseif result.finish == "error" and fatal[result.code or ""] then
      return self:stop(("%s, prompt %d: %s"):format(job.arm.name, job.item.index, tostring(result.error)), result.code)
   end
   return self:commit(job, result)
end

function Run:submit(engine, job)
   local e = self.e
   job.record = core.trace.record()
   local ok, problem, code = core.use("plan").try(engine.submit, engine, {
      tokens = job.ids, seed = e.seed, id = job.request, max_tokens = e.max_tokens, min_tokens = e.min_tokens,
      stop = e.stop, stop_tokens = e.stop_tokens, ignore_eos = e.ignore_eos, observer = job.record,
      on_cycle = self:observer(job),
   })
   if ok then
      return true
   elseif fatal[code or ""] then
      return self:stop(problem, code)
   end
   -- this prompt cannot be served (too long, …): stored as a failed answer, the others go on
   return self:commit(job, { tokens = {}, text = "", finish = "error", error = problem, seconds = 0 })
end

--- Steps until the engine is empty. → false when the run has to end.
function Run:drain(engine, jobs)
   while true do
      local active, results, code = engine:step()
      if active == nil then
         return code ~= "cancelled" and self:stop(results, code)
      end
      for _, result in ipairs(results or {}) do
         if jobs[result.request] and not self:take(jobs[result.request], result) then
            return false
         end
      end
      if active == 0 then
         return true
      elseif system.interrupted() then
         return false
      end
   end
end

function Run:show(arm, group)
   self.console:progress(self.done, self.total, self.counted, ("%s %s"):format(arm.name, group.label))
end

--- One turn of a chunk of prompts by one arm.
function Run:serve_turn(group, arm, chunk, number, turn, place)
   local jobs, any = {}, false
   for _, item in ipairs(chunk) do
      if item.turns[turn] and not self:is_done(arm, item, number, turn) then
         local texts = { item.turns[1] }
         for t = 2, turn do
            texts[#texts + 1] = self:stored_answer(arm, item, number, t - 1)
            texts[#texts + 1] = item.turns[t]
         end
         local job = { arm = arm, item = item, number = number, turn = turn, place = place,
            ids = self:prompt_ids(texts), request = request_id(item, number, turn) }
         jobs[job.request], any = job, true
         if not self:submit(arm.handle, job) then
            return false
         end
      end
   end
   if any then
      self:show(arm, group)
      return self:drain(arm.handle, jobs)
   end
   return true
end

function Run:serve_chunk(group, chunk, number, shift)
   local most = 0
   for _, item in ipairs(chunk) do
      most = math.max(most, #item.turns)
   end
   for place = 1, #group.arms do
      local arm = group.arms[(place + shift - 1) % #group.arms + 1]
      for turn = 1, most do
         if system.interrupted() or not self:serve_turn(group, arm, chunk, number, turn, place) then
            return false
         end
      end
   end
   return true
end

-- ---- Groups --------------------------------------------------------------------------------------

function Run:open_engines(group)
   for _, arm in ipairs(group.arms) do
      local handle, problem, code = core.engine(arm.engine)
      if not handle then
         return self:stop(("arm \"%s\" at %s: %s"):format(arm.name, group.label, problem), code)
      end
      arm.handle = handle
   end
   return true
end

local function close_engines(group)
   for _, arm in ipairs(group.arms) do
      if arm.handle and arm.handle.close then
         arm.handle:close()
      end
      arm.handle = nil
   end
end

--- One short answer by every engine: pages are touched, caches filled, clocks raised.
function Run:warm_up(group)
   local ids = self:prompt_ids { self.mine[1].turns[1] }
   for _, arm in ipairs(group.arms) do
      local ok = core.use("plan").try(arm.handle.submit, arm.handle,
         { tokens = ids, seed = self.e.seed, id = 0, max_tokens = 8, ignore_eos = true })
      if ok and not self:drain(arm.handle, {}) then
         return false
      end
   end
   return true
end

function Run:is_group_done(group)
   for _, arm in ipairs(group.arms) do
      local rows, problem = self.trace:rows("SELECT COUNT(*) AS n FROM requests WHERE arm = ?", arm.id)
      if not rows then
         error(problem, 0)
      end
      arm.stored = rows[1].n
   end
   for _, arm in ipairs(group.arms) do
      for _, item in ipairs(self.mine) do
         for number = 1, self.e.repeats do
            for turn = 1, #item.turns do
               if arm.stored == 0 or not self:is_done(arm, item, number, turn) then
                  return false
               end
            end
         end
      end
   end
   return true
end

function Run:serve_group(group)
   if self:is_group_done(group) then
      return true
   end
   local going = self:open_engines(group) and self:warm_up(group)
   for number = 1, going and self.e.repeats or 0 do
      for first = 1, #self.mine, self.e.batch do
         local chunk = table.move(self.mine, first, math.min(first + self.e.batch - 1, #self.mine), 1, {})
         going = going and self:serve_chunk(group, chunk, number, first // self.e.batch + number)
      end
   end
   close_engines(group)
   return going
end

--- The prompts of this shard, and how many answers they make.
function Run:choose()
   local number, count = parse_shard(self.shard_text)
   self.mine, self.total = {}, 0
   for i, item in ipairs(self.e.prompts) do
      if (i - 1) % count == number - 1 then
         self.mine[#self.mine + 1] = item
         for _, group in ipairs(self.groups) do
            self.total = self.total + #group.arms * #item.turns * self.e.repeats
         end
      end
   end
end

function Run:count_done()
   local done = 0
   for _, group in ipairs(self.groups) do
      for _, arm in ipairs(group.arms) do
         for _, item in ipairs(self.mine) do
            for number = 1, self.e.repeats do
               for turn = 1, #item.turns do
                  done = done + (self:is_done(arm, item, number, turn) and 1 or 0)
               end
            end
         end
      end
   end
   return done
end

function Run:serve()
   self.done, self.counted = self:count_done(), 0
   if self.done > 0 then
      self.console:line(("%s: %d of %d answers are stored already"):format(self.folder, self.done, self.total))
   end
   self:note_level()
   if self.e.chat and not self.chat then
      self.console:line("note: prompts go in without a chat template: " .. tostring(self.chat_problem))
   end
   if self.done < self.total then
      self.curve = core.use("curve").ensure(self.e.target, self.folder, self.console)
   else
      self.curve = core.use("curve").saved(self.e.target, self.folder)
   end
   for _, group in ipairs(self.groups) do
      if not self:serve_group(group) then
         break
      end
   end
   if not self.failure and not system.interrupted() then
      core.use("quality").measure(self)
   end
end

-- ---- The whole -----------------------------------------------------------------------------------

local function text_of_error(message)
   return type(message) == "string" and message or tostring(message)
end

function Run:finish(ok, message)
   local interrupted = system.interrupted()
   if not ok then
      self:stop(text_of_error(message), "callback")
   end
   local state = self.failure and "failed" or interrupted and "interrupted" or "finished"
   local told, result = pcall(core.use("report").tell, self, state)
   if not told then
      self:stop("the report failed: " .. text_of_error(result))
      result = nil
   end
   self.trace:stop(self.session, state)
   if state ~= "finished" or self.failure then
      self.console:note(self.failure or "stopped")
      self.console:line(("%s after %d of %d answers, all stored; the same command goes on from there"):format(state,
         self.done or 0, self.total))
   end
   self.console:close()
   self.trace:close()
   if self.failure then
      return nil, self.failure, self.failure_code
   end
   result.state = state
   return result
end

return function(e, o)
   local self = setmetatable({ e = e, shard_text = o.shard, folder = o.out or ("runs/" .. e.name) }, Run)
   check_sizes(e)
   self.chat, self.chat_problem = uses_chat(e)
   self.groups = core.use("plan").make(e)
   self:choose()
   if #self.mine == 0 then
      return nil, ("shard %s has no prompts"):format(o.shard), "argument"
   end
   local steps = {
      function() return system.folder(self.folder) end,
      function() self.manifest = core.use("manifest").make(e, self.groups, self.chat) return true end,
      function() return self:settle(o.resume) end,
      function() return self:open_trace() end,
   }
   for _, step in ipairs(steps) do
      local ok, problem, code = step()
      if not ok then
         return nil, problem, code
      end
   end
   self.console = core.use("console").new(self.folder .. "/console.log")
   system.catch(true)
   local ok, message = pcall(self.serve, self)
   local results = table.pack(self:finish(ok, message))
   system.catch(false)
   return table.unpack(results, 1, results.n)
end
