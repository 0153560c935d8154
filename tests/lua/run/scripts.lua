--- The scripts of experiments/scripts, and the one that `coppice new` writes: each passes its dry run and
--- runs to the end, here on tiny models. What they compare is in their own first lines.

local check, test, core = ...

local model = test.tiny { seed = 7, context = 512 }
local draft = test.tiny { seed = 7, noise = 0.2, noise_seed = 1, context = 512 }
local folder = test.folder()

local function write(name, text)
   local path = folder .. "/" .. name
   assert(core.system.write(path, text))
   return path
end

local prompts = write("prompts.jsonl", [[
{"id": "a", "category": "one", "prompt": "the cat and the hat and the cat"}
{"id": "b", "category": "two", "prompt": "in the end the cat is in the end"}
{"id": "c", "category": "one", "prompt": "he is here, he is here, he is"}
]])
local humaneval = write("humaneval.jsonl", [[{"task_id": "HumanEval/0", "prompt": "def f(x):\n",]]
   .. [["entry_point": "f", "canonical_solution": "    return x\n",]]
   .. [["test": "def check(candidate):\n    assert candidate(1) == 1\n"}]])
local spec_bench = write("spec_bench.jsonl", [[
{"question_id": 81, "category": "writing", "turns": ["the cat and the hat", "and then the cat"]}
]])

-- Where programs cannot be run safely, the study goes without the benchmark that needs it.
local can_judge, missing = core.use("sandbox").place("python3")
if not can_judge then
   print("skipped: HumanEval of the whole study: " .. missing)
end

local function program(...)
   core.words_are_used, core.run_options = nil, nil
   local status, printed = test.program { ... }
   check.equal(status, 0, printed)
   return printed
end

local function read(path)
   local file = assert(io.open(path))
   local text = file:read("a")
   file:close()
   return text
end

--- What the words of a script may say: the keys of its cop.args { … }.
local function words_for(path)
   local known, words = read(path):match("cop%.args (%b{})"), {}
   local only = not can_judge and "spec_bench" or nil
   local values = { model = model, draft = draft, prompts = prompts, prompt = "the cat and the", limit = 2,
      max_tokens = 4, pilot = 1, humaneval = humaneval, spec_bench = spec_bench, only = only,
      pilot_run = folder .. "/predict-pilot" }
   for key, value in pairs(values) do
      if known:find("%f[%w_]" .. key .. "%s*=") then
         words[#words + 1] = ("%s=%s"):format(key, value)
      end
   end
   return words
end

local function try(path, name)
   local words, out = words_for(path), ("%s/%s"):format(folder, name)
   local told = program("run", path, "--check", table.unpack(words))
   check.is(told:find(" answers of up to 4 tokens", 1, true), path .. "\n" .. told)
   check.is(core.system.kind(out) == nil, "a dry run leaves nothing")
   told = program("run", path, "--out", out, table.unpack(words))
   check.is(core.system.kind(out .. "/report.html") == "file", path .. "\n" .. told)
   return told
end

local names = {}
for _, name in ipairs(assert(core.system.list("experiments/scripts"))) do
   names[#names + 1] = name:find("%.lua$") and name or nil
end
table.sort(names)
check.is(#names >= 8, "there are eight scripts at least")
for _, name in ipairs(names) do
   local path = "experiments/scripts/" .. name
   check.is(read(path):find("^%-%-%- .-%?"), name .. " begins with its question")
   local told = try(path, name:find("^08") and "predict-pilot" or name)
   if name:find("^08") then -- the second time
      told = try(path, "predicted")
      check.is(told:find("best: ", 1, true), told)
   elseif name:find("whole_study") then
      check.is(told:find("report.html, ", 1, true), told)
      check.is(told:find(can_judge and "all 2 runs" or "all 1 runs", 1, true), told)
      check.is(told:find("on the front", 1, true) and told:find("cannot tell: one prompt", 1, true), told)
      check.is(not can_judge or core.system.kind(folder .. "/" .. name .. "/humaneval/trace.db") == "file")
   end
end

-- ---- coppice new ---------------------------------------------------------------------------------
local path = folder .. "/my idea.lua"
local told = program("new", folder .. "/my idea")
check.is(told:find(path .. ": coppice run", 1, true), told)
check.is(read(path):find("^%-%-%- my%-idea: what is the question?"))
check.is(read(path):find('name = "my-idea", -- the run\'s folder is runs/my-idea', 1, true))
try(path, "new")
local before = read(path)
local status
status, told = test.program { "new", path }
check.equal(status, 1)
check.is(told:find("is there already, and is left as it is", 1, true), told)
check.equal(read(path), before)
for words, problem in pairs { [""] = "which name?", ["/"] = "has no name in it" } do
   status, told = test.program { "new", words ~= "" and words or nil }
   check.equal(status, 2)
   check.is(told:find(problem, 1, true), told)
end
