--- core.engine: what experiments stand on: batches, observers, cancelling, reuse after failures.

-- luacheck: no max line length

local check, test = ...
local cop, core = require("coppice"), test.core

local m = cop.model { path = test.tiny { seed = 7 }, threads = 1, precision = "f32" }
local other = cop.model { path = test.tiny { seed = 7, noise = 0.1, noise_seed = 1 }, threads = 1, precision = "f32" }
local proposer = cop.propose.model { other }
local prompts = { { 1, 2, 3 }, { 4 }, { 5, 6, 7, 8, 9, 10 }, { 11, 12 }, { 13 } }

local function alone(ids, seed, temperature)
   return cop.generate { model = m, tokens = ids, max_tokens = 12, ignore_eos = true, seed = seed, temperature = temperature }
end

-- A dry run.
local facts = core.engine_check { target = m, proposer = proposer, tree = cop.tree.widths { 2, 2 } }
check.equal(facts.rule, "match")
check.equal(facts.tree, "widths")
check.equal(facts.depth, 2)
check.equal(facts.nodes, 6)
check.equal(facts.lossless, true)
check.equal(facts.shape, "tree")
check.raises_with("relaxed = true", function()
   return core.engine_check { target = m, proposer = proposer, tree = cop.tree.widths { 2 }, temperature = 1,
      rule = cop.accept.token {}, draw = "independent" }
end)
check.raises_with("my.function: ", function()
   local engine = core.engine { owner = "my.function", target = m }
   return engine:submit { tokens = { 1, 99 } }
end)

-- A batch of 3 serves 5 requests; each gets what it gets alone; functions see their own request.
for _, temperature in ipairs { 0, 1 } do
   local engine = core.engine { target = m, proposer = proposer, tree = cop.tree.chain { depth = 3 }, batch = 3,
      rule = temperature > 0 and cop.accept.sample_match {} or nil, temperature = temperature }
   local texts, cycles = {}, {}
   for i, ids in ipairs(prompts) do
      check.equal(engine:submit {
         tokens = ids, seed = 3, id = 10 + i, max_tokens = 12, ignore_eos = true, cycles = i == 1,
         on_text = function(_, info) texts[i] = (texts[i] or 0) + #info.tokens end,
         on_cycle = function(cycle)
            check.equal(cycle.request, 10 + i)
            cycles[i] = (cycles[i] or 0) + 1
         end,
      }, 10 + i)
   end
   local finished, n = {}, 0
   repeat
      local active, results = engine:step()
      for _, r in ipairs(results) do
         finished[r.request] = r
         n = n + 1
      end
   until active == 0
   check.equal(n, 5)
   for i, ids in ipairs(prompts) do
      local r = finished[10 + i]
      check.equal(#r.tokens, 12)
      if temperature == 0 then
         check.list(r.tokens, alone(ids).tokens)
      end
      check.equal(texts[i], 12)
      check.equal(cycles[i], r.forward_passes)
      check.equal(r.cycles ~= nil, i == 1)
   end
   check.equal(engine:step(), 0)
   local usage = engine:usage()
   check.equal(usage.used, 0)
   check.is(usage.peak > 0 and usage.peak <= usage.pages)
   engine:close()
   engine:close()
   check.raises("this engine is closed", function() return engine:step() end)
   check.equal(tostring(engine), "engine (closed)")
end

-- One request's function fails; its batch mates do not notice; the error arrives as it was raised.
local engine = core.engine { target = m, batch = 2 }
local boom = {}
engine:submit { tokens = prompts[1], max_tokens = 12, ignore_eos = true, on_cycle = function(cycle)
   if cycle.cycle == 2 then
      error(boom)
   end
end }
engine:submit { tokens = prompts[2], max_tokens = 12, ignore_eos = true }
local raised, answers = 0, {}
repeat
   local ok, active, results = pcall(engine.step, engine)
   if not ok then
      check.equal(active, boom)
      raised = raised + 1
   else
      for _, r in ipairs(results) do
         answers[r.request] = r
      end
   end
until ok and active == 0
check.equal(raised, 1)
check.equal(answers[0].finish, "error")
check.equal(answers[0].code, "callback")
check.equal(#answers[0].tokens <= 4, true)
check.list(answers[1].tokens, alone(prompts[2]).tokens)

-- Cancelling by id, before and while it runs.
engine:submit { tokens = prompts[1], id = 7, max_tokens = 12, ignore_eos = true }
engine:submit { tokens = prompts[1], id = 8, max_tokens = 12, ignore_eos = true }
check.equal(engine:cancel(8), true)
check.equal(engine:cancel(9), false)
engine:step()
check.equal(engine:cancel(7), true)
local last = {}
repeat
   local active, results = engine:step()
   for _, r in ipairs(results) do
      last[r.request] = r.finish
   end
until active == 0
check.equal(last[7], "cancelled")

-- An engine cannot be stepped or closed from inside its own step.
engine:submit { tokens = prompts[1], max_tokens = 2, ignore_eos = true, on_text = function() engine:step() end }
check.raises_with("this engine is in the middle of a cycle", function() repeat local active = engine:step() until active == 0 end)
engine:submit { tokens = prompts[1], max_tokens = 2, ignore_eos = true, on_text = function() engine:close() end }
check.raises_with("this engine is in the middle of a cycle", function() repeat local active = engine:step() until active == 0 end)
check.raises_with("expects one table of options", function() engine:submit() end)
check.raises_with("unknown option \"max_token\"; did you mean \"max_tokens\"?", function() engine:submit { tokens = { 1 }, max_token = 1 } end)
check.raises_with("option \"observer\" must be an observer", function()
   engine:submit { tokens = { 1 }, observer = io.stdout }
end)

-- Time in a script's functions is counted.
local before = core.microseconds()
cop.generate { model = m, tokens = { 1 }, max_tokens = 3, ignore_eos = true, on_token = function()
   local stop = os.clock() + 0.02
   repeat until os.clock() > stop
end }
check.is(core.microseconds() - before >= 50000)
