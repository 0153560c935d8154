--- pass@1 and pass@k: from an answer to a program, what the sandbox says of it, and how an experiment tells.

local check, test, core = ...
local cop = require("coppice")

if not core.use("sandbox").place("python3") then
   print("skipped: " .. select(2, core.use("sandbox").place("python3")))
   return
end

-- ---- Programs -----------------------------------------------------------------------------------
--- With time enough for a machine that is busy; a test of time has its own.
local function run(given)
   given.seconds = given.seconds or 60
   return cop.quality.run_program(given)
end
local result = assert(run { "import sys\nprint(6 * 7)\nsys.stderr.write('why')" })
check.equal(result.finish, "exit")
check.equal(result.status, 0)
check.equal(result.stdout, "42\n")
check.equal(result.stderr, "why")
check.is(result.seconds > 0)
check.is(result.sandbox == "namespaces" or result.sandbox == "bubblewrap" or result.sandbox == "landlock")
check.equal(assert(run { program = "raise SystemExit(9)" }).status, 9)
check.is(assert(run { "raise ValueError('x')" }).stderr:find("ValueError: x", 1, true))
result = assert(run { "while True: pass", seconds = 0.3 })
check.equal(result.finish, "timeout")
check.equal(result.status, nil)
result = assert(run { "while True: print('x')", output = 500 })
check.equal(result.finish, "output")
check.equal(#result.stdout, 500)
check.equal(assert(run { "x = bytearray(1 << 28)", memory = 1 << 27 }).status, 1)
check.equal(assert(run { "x = bytearray(1 << 28)" }).status, 0)
check.is(assert(run { "import socket; socket.socket()" }).stderr:find("PermissionError", 1, true))
check.equal(assert(run { "import ctypes; ctypes.string_at(0)" }).finish, "signal")

check.fails("unsupported", "cop.quality.run_program: no \"python9\" in /usr/bin, /usr/local/bin or PATH",
   run { "1", interpreter = "python9" })
check.raises_with("cop.quality.run_program: unknown option \"second\"; did you mean \"seconds\"?",
   function() return run { "1", second = 1 } end)
check.raises_with("program", function() return run {} end)
check.raises_with("must be", function() return run { "1", memory = 5 } end)

-- A machine that has no means says which are missing and what to do.
local sandbox = core.use("sandbox")
do
   local real = core.system.sandbox.run
   core.system.sandbox.run = function(means) return nil, "refused " .. means, "unsupported" end
   check.fails("unsupported", "no sandbox on this machine (namespaces: refused namespaces; bubblewrap: refused"
      .. " bubblewrap; landlock: refused landlock); one of them is needed", sandbox.place("/usr/bin/env"))
   -- one that gives nothing back is passed over
   core.system.sandbox.run = function(means)
      if means == "namespaces" then
         return { finish = "exit", status = 1, stderr = "bwrap: no\n" }
      end
      return { finish = "exit", status = 113, stderr = "" }
   end
   check.equal(assert(sandbox.place("/usr/bin/id")).means, "bubblewrap")
   core.system.sandbox.run = real
end

-- ---- Code of answers ----------------------------------------------------------------------------
local block = cop.quality.code_block
check.equal(block("Sure.\n```python\na = 1\n```\nDone"), "a = 1")
check.equal(block("```\nx\n```\n```py\ndef f(a):\n    pass\n```", "f"), "def f(a):\n    pass")
check.equal(block("```\nx\n```\n```py\ndef g(a):\n    pass\n```", "f"), "x")
check.equal(block("~~~\nx\n```\n~~~"), "x\n```")
check.equal(block("```python\r\ndef f():\r\n    return 1\r\n```", "f"), "def f():\n    return 1")
check.equal(block("```python\ndef f():\n    return"), "def f():\n    return", "an answer that was cut")
check.equal(block("    return 1"), "    return 1")
check.raises("cop.quality.code_block: the answer must be a text, got a nil", function() return block() end)

-- ---- Tasks --------------------------------------------------------------------------------------
local prompt = "from typing import List\n\ndef twice(x):\n    return 2 * x\n\ndef add(a: int, b: int) -> List[int]:\n"
   .. "    \"\"\" Adds twice.\n    \"\"\"\n"
local tests = "def check(candidate):\n    assert candidate(1, 2) == [6]\n    assert candidate(0, 0) == [0]\n"
local task = { turns = { prompt }, prompt = prompt, entry_point = "add", test = tests }
local chat = { turns = { "Complete …" }, prompt = prompt, entry_point = "add", test = tests, chat = true }

local function passes(item, answer)
   local told = assert(cop.quality.humaneval(item, answer, { seconds = 60 }))
   return told.passed, told
end

for _, case in ipairs {
   { true, task, "    return [twice(a + b)]\n" },
   { true, task, "    return [twice(a + b)]\n\n\ndef more(:\n" }, -- cut there
   { true, task, "    return [twice(a + b)]\nprint(add(1" },
   { true, task, "    return [twice(a + b)]\nif __name__" },
   { true, task, "    return [twice(a + b)]\n# and now" },
   { true, task, "    return [twice(a + b)]\nclass X" },
   { false, task, "    return [a + b]\n" },
   { false, task, "    return [twice(a + b)" },
   { false, task, "" },
   { false, task, "    exit(0)\n" }, -- leaves before the tests
   { false, task, "    import os; os._exit(0)\n" },
   { false, task, "    raise SystemExit\n" },
   { true, chat, "```python\ndef add(a, b):\n    return [twice(a + b)]\n```" }, -- with the prompt's helper
   { true, chat, "```python\ndef add(a: int, b: int) -> List[int]:\n    return [2 * (a + b)]\n```\n```\nadd(1)\n```" },
   { true, chat, "First:\n```\npip install x\n```\n```py\ndef add(a, b):\n    return [2 * (a + b)]\n```" },
   { true, chat, "def add(a, b):\n    return [2 * (a + b)]\n" },
   { true, chat, "```python\n    return [2 * (a + b)]\n```" },
   { false, chat, "I cannot." },
   { false, chat, "```python\ndef add(a, b):\n    return [a + b]\n```" },
} do
   check.equal((passes(case[2], case[3])), case[1], case[3])
end
local _, told = passes(task, "    return [twice(a + b)]\n")
check.is(told.program:find("check(add)", 1, true))
check.equal(told.finish, "exit")
check.equal((cop.quality.humaneval(task, "    while True: pass", { seconds = 0.3 })).passed, false)
check.raises_with("must be an item with test and entry_point", function() return cop.quality.humaneval({}, "x") end)

-- The benchmark's own solutions pass.
local file = (os.getenv("COPPICE_SHARED") or "../shared") .. "/data/humaneval.jsonl"
if core.system.kind(file) == "file" then
   for _, is_chat in ipairs { false, true } do
      local items = assert(cop.dataset { path = file, sample = 12, seed = 3, chat = is_chat or nil })
      for _, item in ipairs(items) do
         check.equal(item.chat, is_chat)
         local whole = "```python\n" .. item.prompt .. item.canonical_solution .. "```"
         check.equal((passes(item, is_chat and whole or item.canonical_solution)), true, item.id)
         local wrong = is_chat and whole:gsub("return", "return not") or "    return 77\n"
         check.equal((passes(item, wrong)), false, item.id)
      end
   end
else
   print("skipped: HumanEval's own solutions, no " .. file)
end

-- ---- pass@k of planted answers ------------------------------------------------------------------
local trace = assert(core.trace.open(test.folder() .. "/trace.db", "write"))
local arm = trace:arm { name = "plain", sampling = "T=1", is_plain = true, is_lossless = true }
for prompt_number, correct in ipairs { 3, 0, 10 } do
   for number = 1, 10 do
      trace:quality(arm, prompt_number, number, 1, "pass_at_1", number <= correct and 1 or 0)
   end
end
trace:quality(arm, 4, 1, 1, "pass_at_1", 1)
local function values_of(k)
   local values, failed = {}, {}
   core.use("humaneval").at_k(k).of_prompts(trace, { id = arm }, function(at, value)
      values[at] = value
      trace:quality(arm, at, 1, 1, "pass_at_" .. k, value)
   end, function(at, problem) failed[#failed + 1] = at .. " " .. problem end)
   return values, failed
end
local values, failed = values_of(5)
check.near(values[1], 11 / 12) -- 1 - C(7,5) / C(10,5)
check.near(values[2], 0)
check.near(values[3], 1)
check.list(failed, { "4 1 answers were run, 5 are needed" })
check.equal(next((values_of(5))), nil, "what is stored is not made again")
local out = core.use("quality_compare").group(trace, { { id = arm } }, { "pass_at_5" })
check.near(out[1].pass_at_5.mean, (11 / 12 + 0 + 1) / 3)
trace:close()

-- ---- A whole run --------------------------------------------------------------------------------
local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local function experiment(changes)
   local e = {
      name = "passes", target = target, max_tokens = 6, temperature = 1, repeats = 3, prompts = { task },
      arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } }, quality = { "pass_at_3" },
      stop = cop.quality.humaneval_stops,
   }
   for key, change in pairs(changes or {}) do
      e[key] = change
   end
   return cop.experiment(e)
end
local folder = test.folder() .. "/run"
local said
local ran = test.quietly(function()
   said = experiment():check()
   return assert(experiment():run { out = folder })
end)
check.is(said:find("pass_at_1: programs run in a sandbox (" .. result.sandbox .. ", /", 1, true), said)
check.equal(ran.failed, 0)
check.equal(ran.arms[2].quality.pass_at_1.answers, 3)
check.equal(ran.arms[2].quality.pass_at_3.answers, 1)
check.near(ran.arms[1].quality.pass_at_3.mean, 0)
local log = io.open(folder .. "/console.log"):read("a")
check.is(log:find("pass_at_1 ↑", 1, true) and log:find("pass_at_3 ↑", 1, true) and not log:find("!!!", 1, true), log)

-- Without a sandbox :check() refuses; a run goes on, says so, and later measures what is missing.
local place = sandbox.place
sandbox.place = function() return nil, "no sandbox on this machine (all gone)", "unsupported" end
check.raises_with("cop.experiment: quality \"pass_at_1\" runs programs, and that is not possible here: no sandbox on"
   .. " this machine (all gone)", function() return experiment():check() end)
folder = test.folder() .. "/later"
ran = test.quietly(function() return assert(experiment():run { out = folder }) end)
check.equal(ran.failed, 0)
check.equal(ran.arms[2].quality.pass_at_1, nil)
log = io.open(folder .. "/console.log"):read("a")
check.is(log:find("!!! quality \"pass_at_1\": 6 values are missing; the first: arm plain, T=1, prompt 1, turn 1:"
   .. " cop.quality.run_program: no sandbox on this machine", 1, true), log)
sandbox.place = place
ran = test.quietly(function() return assert(experiment():run { out = folder }) end)
check.equal(ran.arms[2].quality.pass_at_1.answers, 3)
check.equal(ran.arms[2].quality.pass_at_3.answers, 1)

-- ---- What is refused ----------------------------------------------------------------------------
check.raises_with("cop.experiment: quality \"pass_at_1\" compares with the task's tests (item.test and", function()
   return experiment { quality = { "pass_at_1" }, prompts = { "one" } }
end)
check.raises_with("cop.experiment: quality \"pass_at_4\" needs repeats = 4 or more, got 3", function()
   return experiment { quality = { "pass_at_4" } }
end)
check.raises_with("unknown quality \"pass_at_0\"", function() return experiment { quality = { "pass_at_0" } } end)
check.raises_with("two measures are called \"pass_at_2\"", function()
   return experiment { quality = { "pass_at_2", "pass_at_2" } }
end)
