--- What is refused or shown instead of being passed over in silence: costs of impossible sizes,
--- unsound arms, log-probabilities, fields of datasets, files that may not grow.

local check, test, core = ...
local cop = require("coppice")

local path = test.tiny { seed = 7 }
local model = assert(cop.model { path = path, threads = 1, context = 128 })
local folder = test.folder()

local function write(name, text)
   local file = assert(io.open(folder .. "/" .. name, "w"))
   file:write(text)
   file:close()
   return folder .. "/" .. name
end

-- ---- cop.cost -------------------------------------------------------------------------------------
local function cost(o)
   o.model, o.save, o.tries = model, false, 1
   return cop.cost(o)
end
check.raises("cop.cost: option \"sizes\" must name at least one number", cost, { sizes = {} })
check.raises("cop.cost: option \"contexts\" must name at least one number", cost, { contexts = {} })
check.raises("cop.cost: option \"sizes\": a pass of 128 tokens does not fit the model's context of 128", cost,
   { sizes = { 1, 128 } })
check.raises_with("contexts\": 127 positions and a pass of 2 tokens do not fit the model's context of 128", cost,
   { sizes = { 1, 2 }, contexts = { 16, 127 } })
local all = assert(core.use("curve").measure(model, { sizes = { 1, 100 }, contexts = { 16, 28 }, tries = 1 }))
check.equal(#all.score, 4, "nothing that fits is left out")
check.equal(all.score[4].nodes, 100)
local some = assert(cost { contexts = { 120 } })
check.equal(some.score[#some.score].nodes, 8, "of the usual sizes those that fit")

-- ---- Arms, log-probabilities ------------------------------------------------------------------------
local arm = cop.arm { "m", proposer = cop.propose.lookup {}, rule = cop.accept.match {} }
local e = cop.experiment { name = "x", target = model, prompts = { "a" }, temperature = 1, arms = { arm } }
check.raises_with("arm \"m\" at T=1: accept.match is lossless at temperature 0 only", e.check, e)
check.raises("cop.generate: option \"logprobs\" must be from 0 to 264, the vocabulary, got 265", function()
   return cop.generate { model = model, prompt = "a", logprobs = 265 }
end)

-- ---- Datasets -------------------------------------------------------------------------------------
local data = write("fields.jsonl", '{"prompt": "one", "level": 3, "chat": "no", "tags": ["x"]}\n'
   .. '{"prompt": "two", "level": 4, "index": 77, "none": null}\n')
local items = assert(cop.dataset { path = data, filter = function(item) return item.level == 4 end })
check.equal(#items, 1)
check.equal(items[1].turns[1], "two")
check.equal(items[1].index, 2, "names that mean something are not a file's to set")
check.equal(items[1].none, nil)
items = assert(cop.dataset { path = data })
check.equal(items[1].chat, nil)
check.equal(items[1].tags[1], "x")
check.fails("format", "(format = \"text\" takes every line as a prompt)",
   cop.dataset { path = write("plain.jsonl", "write a poem\nand another\n") })
items = assert(cop.dataset { path = write("plain.txt", "write a poem\nand another\n") })
check.equal(items.format, "text")

-- ---- Help ---------------------------------------------------------------------------------------
local function help(name)
   local status, out = test.program { "help", name }
   check.equal(status, 0, out)
   return out
end
for name, texts in pairs {
   experiment = { "cop.experiment", "batch = 1, integer (1 to 256)", "name, required, string" },
   ["cop.generate"] = { "max_tokens = 128, integer (1 to 2147483647)" },
   arm = { "name, required, string (may be given without its name)", "top_p, number (0 to 1)" },
   dataset = { "format = auto", "spec_bench" }, ["cop.cost"] = { "sizes, integers (1 to 4097)" },
   model = { "path, required", "threads" }, tokenizer = { "path, required" },
   exact_law = { "horizon = 1 (1 to 64)", "rule, required" }, relaxed_law = { "horizon = 1" }, verify_rows = { "rule" },
   build_tree = { "options:" }, propose_once = { "proposer" }, process_row = { "order", "top_p = 1 (0 to 1)" },
   args = { "key=value" }, grid = { "alphabetical" }, ["accept.custom"] = { "lossless_for", "verify" },
   accept = { "cop.accept.token", "cop.accept.custom", "source: " }, ["quality.custom"] = { "better" },
} do
   local out = help(name)
   for _, text in ipairs(texts) do
      check.is(out:find(text, 1, true), ("%s: no %s in\n%s"):format(name, text, out))
   end
end
check.is(cop.model { path = path, threads = 1 }, "describing leaves nothing behind")

-- ---- A file that may not grow ---------------------------------------------------------------------
local program = check.program(core)
if program then
   local script = write("full.lua", ([[local cop = require("coppice")
return cop.experiment { name = "full", target = cop.model { path = %q, threads = 1 }, prompts = { "a" },
   arms = { cop.arm { "x", proposer = cop.propose.lookup {} } } }]])
      :format(path))
   local out = check.shell("ulimit -f 8; %s run %s --out %s 2>&1; echo status $?", program, script, folder .. "/full")
   check.is(out:find("status 1\n", 1, true), out)
end
