--- The protocol of a run.
--
-- Groups (one sampling each) run one after another. In a group every chunk of prompts is served by
-- all arms, plain decoding included, in an order that rotates from chunk to chunk, so that drift of
-- the machine touches all arms alike; the first answer of every engine warms up and is thrown away.
-- With `interleave` the arms answer a chunk side by side, a cycle each in turn: what the machine does for some
-- hundredths of a second touches them alike, too.
-- Between chunks the cost curve is followed: how a few sizes of pass take at that moment, apart
-- from any answer, so that predictions are of the machine as it was during the run.
-- The coins of an answer are named by (seed, prompt, repeat, turn): arms share them, and a resumed
-- run draws what an uninterrupted one would have drawn. What arms remember of earlier answers is learnt
-- again: a resumed run gives those of an unfinished repeat once more, and keeps what is stored.

local _, core = ...

local system = core.system
local Run = setmetatable({}, { __index = core.use("run_store") })
Run.__index = Run

-- ---- Prompts -------------------------------------------------------------------------------------

--- The ids of an item's conversation that ends with a question: { turn, answer, turn, … }.
function Run:prompt_ids(item, texts)
   return core.use("prompt").ids(self.e.target.tokenizer, item, texts, self.chat)
end

--- A number for the coins: prompt, repeat and turn side by side, so that no two are alike.
local function request_id(item, number, turn)
   return item.index | (number - 1) << 20 | (turn - 1) << 26
end

local function check_sizes(e)
   for _, item in ipairs(e.prompts) do
      if item.index >= 1 << 20 or #item.turns > 32 then
         core.raise(("experiment:run: prompt %d has %d turns; at most 1,048,575 prompts of at most 32 turns each"
            .. " (turns = 32 of cop.dataset takes the first 32)"):format(item.index, #item.turns))
      end
   end
end

-- ---- Serving -------------------------------------------------------------------------------------

--- What ends a run, not one answer: everything that the next answer would meet as well.
local fatal = { io = true, memory = true, callback = true, format = true, unsupported = true, unsound = true }

function Run:stop(message, code)
   self.failure = self.failure or message
   self.failure_code = self.failure_code or code
   return false
end

--- The script's own observer, told whose cycle it is.
function Run:observer(job)
   local observe = self.e.observe
   return observe and function(cycle)
      cycle.arm, cycle.prompt = job.arm.name, job.item.index
      observe(cycle)
   end
end

--- A rule in Lua may go wrong on one tree and be right on the next: its name begins the message.
local function is_fatal(result)
   local of_a_rule = result.code == "callback" and tostring(result.error):find("^cop%.accept%.custom \"")
   return fatal[result.code or ""] and not of_a_rule
end

function Run:take(job, result)
   if result.finish == "cancelled" or job.is_stored then
      return true -- in flight when the run was stopped, or given again: not kept
   elseif result.finish == "error" and is_fatal(result) then
      return self:stop(("%s, prompt %d: %s"):format(job.arm.name, job.item.index, tostring(result.error)), result.code)
   end
   return self:commit(job, result)
end

function Run:submit(engine, job)
   local e = self.e
   local rows, top = core.use("row_files").of_answer(e.record, job.arm.name)
   job.record, job.keeps_rows = core.trace.record(rows, top), rows ~= nil
   local ok, problem, code = core.use("plan").try(engine.submit, engine, {
      tokens = job.ids, seed = job.arm.options.seed or e.seed, id = job.request,
      max_tokens = e.max_tokens, min_tokens = e.min_tokens,
      stop = e.stop, stop_tokens = e.stop_tokens, ignore_eos = e.ignore_eos, observer = job.record,
      on_cycle = not job.is_stored and self:observer(job) or nil,
   })
   if ok or job.is_stored then
      return true
   elseif fatal[code or ""] then
      return self:stop(problem, code)
   end
   -- this prompt cannot be served (too long, …): stored as a failed answer, the others go on
   problem = core.use("plan").without_arm(job.arm, problem)
   return self:commit(job, { tokens = {}, text = "", finish = "error", error = problem, seconds = 0 })
end

-- ---- Budgets -------------------------------------------------------------------------------------
-- What is left of a budget is dealt out evenly to the groups that are left, and each serves
-- at least one chunk; a budget ends between chunks, when every arm has answered the same prompts.

function Run:begin_budget(n_groups)
   local budget = self.e.budget or {}
   local now = system.clock()
   self.ends = self.ends or { time = budget.seconds and now + budget.seconds, passes = budget.passes }
   self.due = {
      time = self.ends.time and now + (self.ends.time - now) / n_groups,
      passes = self.ends.passes and self.passes + (self.ends.passes - self.passes) / n_groups,
   }
end

function Run:is_spent()
   local due = self.due
   return due.time and system.clock() >= due.time or due.passes and self.passes >= due.passes or false
end

--- One step of an engine. → requests left | nil when the run has to end.
function Run:step(lane)
   local active, results, code = lane.engine:step()
   if active == nil then
      local _ = code ~= "cancelled" and self:stop(results, code)
      return nil
   end
   for _, result in ipairs(results or {}) do
      if lane.jobs[result.request] and not self:take(lane.jobs[result.request], result) then
         return nil
      end
   end
   return active
end

--- Steps until the engines of all lanes, { engine =, jobs = }, are empty, each in its turn. → false when the run has
--- to end.
function Run:drain(lanes)
   while #lanes > 0 do
      local busy = {}
      for _, lane in ipairs(lanes) do
         local active = self:step(lane)
         if not active or active > 0 and system.interrupted() then
            return false
         end
         busy[#busy + 1] = active > 0 and lane or nil
      end
      lanes = busy
   end
   return true
end

function Run:show(arm, group)
   self.console:progress(self.done, self.total, self.counted, ("%s %s"):format(arm.name, group.label))
end

--- Submits one turn of a chunk of prompts to one arm. → a lane to drain, with no jobs where all are stored | nil
function Run:submit_turn(group, arm, chunk, number, turn, place)
   local jobs = {}
   for _, item in ipairs(chunk) do
      local is_stored = item.turns[turn] and self:is_done(arm, item, number, turn)
      if item.turns[turn] and (not is_stored or arm.learns_again) then
         local texts = { item.turns[1] }
         for t = 2, turn do
            texts[#texts + 1] = self:stored_answer(arm, item, number, t - 1)
            texts[#texts + 1] = item.turns[t]
         end
         local job = { arm = arm, sampling = group.label, item = item, number = number, turn = turn, place = place,
            ids = self:prompt_ids(item, texts), request = request_id(item, number, turn), is_stored = is_stored }
         jobs[job.request] = job
         if not self:submit(arm.handle, job) then
            return nil
         end
      end
   end
   return { engine = arm.handle, jobs = jobs }
end

--- One turn of a chunk by some arms, side by side. place: of the first of them.
function Run:serve_turn(group, arms, chunk, number, turn, place)
   local lanes = {}
   for i, arm in ipairs(arms) do
      local lane = self:submit_turn(group, arm, chunk, number, turn, place + i - 1)
      if not lane then
         return false
      elseif next(lane.jobs) then
         self:show(arm, group)
         lanes[#lanes + 1] = lane
      end
   end
   return self:drain(lanes)
end

--- All arms in their order of this chunk: { { arm, … }, … }, those of one list side by side.
function Run:order(group, shift)
   local list = {}
   for place = 1, #group.arms do
      list[place] = group.arms[(place + shift - 1) % #group.arms + 1]
   end
   if self.e.interleave then
      return { list }
   end
   for place, arm in ipairs(list) do
      list[place] = { arm }
   end
   return list
end

function Run:serve_chunk(group, chunk, number, shift)
   local most = 0
   for _, item in ipairs(chunk) do
      most = math.max(most, #item.turns)
   end
   for place, arms in ipairs(self:order(group, shift)) do
      for turn = 1, most do
         if system.interrupted() or not self:serve_turn(group, arms, chunk, number, turn, place) then
            return false
         end
      end
   end
   return true
end

-- ---- The cost curve -------------------------------------------------------------------------------

local least_pause, pause_share = 15, 0.02 -- seconds between two looks; what they take of the run

--- The saved curve, what it was followed by when the run was interrupted, and when to look next.
function Run:open_curve()
   local curve = core.use("curve")
   if self.done < self.total then
      self.base_curve = curve.ensure(self.e.target, self.folder, self.console)
   else
      self.base_curve = curve.saved(self.e.target, self.folder)
   end
   local before = curve.given(self.folder .. "/cost.json")
   local is_same = before and self.base_curve and before.measured == self.base_curve.measured
   self.drifts = is_same and before.drifts or {}
   self.next_look = system.clock()
   self:keep_curve()
end

--- A report made later predicts from the same one.
function Run:keep_curve()
   if self.base_curve then
      self.curve = core.use("curve").drifted(self.base_curve, self.drifts)
      system.write(self.folder .. "/cost.json", system.json.encode(self.curve, 1) .. "\n")
   end
end

function Run:look_at_curve()
   local began = system.clock()
   self.drifts[#self.drifts + 1] = core.use("curve").drift(self.e.target, self.base_curve)
   local took = system.clock() - began
   self.next_look = began + took + math.max(least_pause, took / pause_share)
end

--- When it is time, and so at the beginning: the saved curve is of another hour.
function Run:follow_curve()
   if self.base_curve and system.clock() >= self.next_look then
      self:look_at_curve()
   end
end

-- ---- Groups --------------------------------------------------------------------------------------

function Run:open_engines(group)
   for _, arm in ipairs(group.arms) do
      local handle, problem, code = core.engine(arm.engine)
      if not handle then
         return self:stop(core.use("plan").of_arm(arm.name, group, problem), code)
      end
      arm.handle = handle
   end
   return self:share_prompts(group)
end

--- What one arm has read of a prompt, the others of its target copy.
function Run:share_prompts(group)
   local first = {}
   for _, arm in ipairs(group.arms) do
      local target = arm.engine.target
      local ok, problem, code = arm.handle:share(first[target] or arm.handle)
      if not ok then
         return self:stop(problem, code)
      end
      first[target] = first[target] or arm.handle
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
   local ids = self:prompt_ids(self.mine[1], { self.mine[1].turns[1] })
   for _, arm in ipairs(group.arms) do
      local ok = core.use("plan").try(arm.handle.submit, arm.handle,
         { tokens = ids, seed = self.e.seed, id = 0, max_tokens = 8, ignore_eos = true })
      if ok and not self:drain { { engine = arm.handle, jobs = {} } } then
         return false
      end
   end
   return true
end

--- Proposers that remember answers lose what the warm-up and earlier repeats taught them: an answer would be drafted
-- from itself. What a part of this repeat had taught them is learnt again from there.
function Run:forget(group, number)
   for _, arm in ipairs(group.arms) do
      local forgot, problem, code = arm.handle:forget()
      if not forgot then
         return self:stop(core.use("plan").of_arm(arm.name, group, problem), code)
      end
      local total, done = 0, 0
      if arm.facts.remembers then
         total, done = self:count_arm(arm, number)
      end
      arm.learns_again = done > 0 and done < total
      if arm.learns_again then
         self.console:note(("%s, %s, repeat %d: %d stored answers are given again, for what the proposer remembers")
            :format(arm.name, group.label, number, done))
      end
   end
   return true
end

function Run:serve_group(group)
   local before = self.counted
   local going = self:open_engines(group) and self:warm_up(group)
   for number = 1, going and self.e.repeats or 0 do
      going = going and self:forget(group, number)
      for first = 1, #self.mine, self.e.batch do
         local chunk = table.move(self.mine, first, math.min(first + self.e.batch - 1, #self.mine), 1, {})
         local is_cut = going and self.counted > before and self:is_spent()
         self.is_cut = self.is_cut or is_cut
         if going and not is_cut then
            self:follow_curve()
         end
         going = going and (is_cut or self:serve_chunk(group, chunk, number, first // self.e.batch + number))
      end
   end
   close_engines(group)
   return going
end

local function parse_shard(text)
   local number, count = (text or "1/1"):match("^(%d+)/(%d+)$")
   number, count = math.tointeger(number), math.tointeger(count)
   if not number or number < 1 or number > count then
      core.raise(("experiment:run: shard must be \"i/n\" with 1 <= i <= n, got \"%s\""):format(text))
   end
   return number, count
end

--- The prompts of this shard.
function Run:choose()
   local number, count = parse_shard(self.shard_text)
   self.mine = {}
   for i, item in ipairs(self.e.prompts) do
      if (i - 1) % count == number - 1 then
         self.mine[#self.mine + 1] = item
      end
   end
end

function Run:count_all()
   self.total, self.done, self.counted, self.passes, self.open = 0, 0, 0, 0, {}
   for _, group in ipairs(self.groups) do
      local total, done = self:count(group)
      self.total, self.done = self.total + total, self.done + done
      self.open[#self.open + 1] = done < total and group or nil
   end
end

function Run:serve()
   self:count_all()
   if self.done > 0 then
      self.console:line(("%s: %d of %d answers are stored already"):format(self.folder, self.done, self.total))
   end
   self:note_machine()
   if self.e.chat and not self.chat then
      self.console:line("note: prompts go in without a chat template: " .. tostring(self.chat_problem))
   end
   self:open_curve()
   for i, group in ipairs(self.open) do
      self:begin_budget(#self.open - i + 1)
      if not self:serve_group(group) then
         break
      end
   end
   if self.base_curve and self.counted > 0 and not self.failure and not system.interrupted() then
      self:look_at_curve()
   end
   self:keep_curve()
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
   local state = self.failure and "failed" or interrupted and "interrupted" or self.is_cut and "out of budget"
      or "finished"
   local told, result = pcall(core.use("report").tell, self, state)
   if not told then
      self:stop("the report failed: " .. text_of_error(result))
      result = nil
   end
   self.trace:stop(self.session, state)
   if state ~= "finished" or self.failure then
      self.console:note(self.failure or "stopped")
      self.console:line(("%s after %d of %d answers, all stored; the same command goes on from there"):format(state,
         self.done or 0, self.total or 0))
   end
   self.console:close()
   self.trace:close()
   if self.failure then
      return nil, self.failure, self.failure_code
   end
   result.state = state
   return core.result(result)
end

return function(e, o)
   local self = setmetatable({ e = e, shard_text = o.shard, folder = o.out or ("runs/" .. e.name) }, Run)
   check_sizes(e)
   self.chat, self.chat_problem = core.use("prompt").uses_chat(e)
   self.groups = core.use("plan").make(e)
   self:choose()
   if #self.mine == 0 then
      return nil, ("shard %s has no prompts"):format(o.shard), "argument"
   end
   local steps = {
      function() return system.folder(self.folder) end,
      function() self.manifest = core.use("manifest").make(e, self.groups, self.chat) return true end,
      function() return self:settle(o.resume) end,
      function() return self:sweep() end,
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
