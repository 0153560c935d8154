--- cop.train: heads learn, load, go on where they were stopped, and refuse what they cannot be.

local check, test = ...
local cop, core = require("coppice"), test.core

--- Token i is followed by 5 i + 3, mostly: a head has a lot to learn and can learn all of it.
local VOCAB = 16
local function chain(step)
   local rows = {}
   for i = 0, VOCAB - 1 do
      rows[i + 1] = {}
      for j = 0, VOCAB - 1 do
         rows[i + 1][j + 1] = j == (5 * i + step) % VOCAB and 0.85 or 0.01
      end
   end
   return cop.model { path = test.bigram(rows), threads = 2 }
end
local target = chain(3)

local made = {}
local function folder()
   local name = os.tmpname()
   os.remove(name)
   made[#made + 1] = name
   return name
end

local function bytes(name)
   local file = assert(io.open(name, "rb"))
   local content = file:read("a")
   file:close()
   return content
end

local function write(name, content)
   local file = assert(io.open(name, "wb"))
   file:write(content)
   file:close()
end

--- Prompts of two tokens; the answers are the target's.
local prompts = {}
for i = 1, 48 do
   prompts[i] = { (7 * i) % VOCAB, (3 * i + 5) % VOCAB }
end

local cache = folder() .. ".train"
local function train(options)
   local o = { target = target, data = prompts, max_tokens = 24, cache = cache, held_out = 4, rows = 256, epochs = 60,
      rate = 1e-2, quiet = true, seed = 3 }
   for key, value in pairs(options) do
      o[key] = value
   end
   return cop.train(o)
end

-- ---- Learning, and what is written ---------------------------------------------------------------

local plain = cop.generate { model = target, tokens = { 5, 9 }, max_tokens = 40 }

local function learns(head, file, options)
   options.head, options.out = head, folder()
   local result = assert(train(options))
   check.is(result.accuracy.accepted > result.before.accepted + 0.2,
      ("%s: accepted %.3f, untrained %.3f"):format(head, result.accuracy.accepted, result.before.accepted))
   check.is(core.system.kind(options.out .. "/" .. file) == "file", file)
   return options.out, result
end

local function drafts(head, out)
   local answer = assert(cop.generate { model = target, tokens = { 5, 9 }, max_tokens = 40,
      proposer = assert(cop.propose[head] { out }) })
   check.list(answer.tokens, plain.tokens, head)
   return answer
end

for _, row in ipairs {
   { "medusa", "medusa_lm_head.safetensors", { heads = 2 } },
   { "medusa", "medusa_lm_head.safetensors", { heads = 3, layers = 2, loss = "ce", copy_lm_head = true } },
   { "hydra", "hydra_lm_head.safetensors", { heads = 2 } },
   { "hydra", "hydra_lm_head.safetensors", { heads = 3, layers = 2, copy_lm_head = true } },
   { "mlp", "model.safetensors", { heads = 2, width = 12 } },
   { "mlp", "model.safetensors", { heads = 2, width = 16, tie_weights = false, scale_input = false } },
   { "eagle", "model.safetensors", {} },
   { "eagle", "model.safetensors", { version = 3, vocabulary = 14, unroll = 2, cache = folder() .. ".train",
      epochs = 30 } },
   { "eagle", "model.safetensors", { version = 3, share_lm_head = true, unroll = 2, cache = folder() .. ".train",
      epochs = 30 } },
} do
   local out, result = learns(table.unpack(row))
   check.is(drafts(row[1], out).block_efficiency > 1.2, row[1])
   check.equal(#result.accuracy.conditional, row[3].heads or 4)
end

--- An epoch is a pass over the data though a batch ends with the text that overfills it: texts of some 25 rows lie two
--- in a batch of 40.
local passes = assert(train { head = "medusa", heads = 1, out = folder(), rows = 40, epochs = 2 })
local one = assert(train { head = "medusa", heads = 1, out = folder(), rows = 16, epochs = 1 }).steps -- one in each
check.equal(passes.steps, 2 * math.ceil(one / 2))

-- A small model is an ordinary one.
local out = learns("model", "model.safetensors", { width = 8, layers = 1 })
local draft = assert(cop.model { path = out, threads = 1 })
local answer = cop.generate { model = target, tokens = { 5, 9 }, max_tokens = 40,
   proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 3 } }
check.list(answer.tokens, plain.tokens, "model")
check.is(answer.block_efficiency > 1.5, "model")

-- Weights of a head that is there already: no step changes nothing but what is rounded to f16.
local first_out, first = learns("eagle", "model.safetensors", {})
local second = assert(train { head = "eagle", out = folder(), from = first_out, steps = 1, rate = 0 })
check.is(math.abs(second.before.accepted - first.accuracy.accepted) < 0.02,
   ("begins where it ended: %.3f, %.3f"):format(second.before.accepted, first.accuracy.accepted))
check.fails("io", "give the folder of a \"hydra\" head in safetensors", train { head = "hydra", out = folder(),
   from = first_out })
check.fails("format", "and these options and the target make it", train { head = "eagle", version = 3, vocabulary = 14,
   out = folder(), from = first_out, cache = folder() .. ".train" })
check.fails("io", "no-such-folder", train { head = "eagle", out = folder(), from = "no-such-folder" })

-- ---- Stopping and going on -----------------------------------------------------------------------

local whole, parts = folder(), folder()
assert(train { head = "medusa", out = whole, steps = 12 })
local steps = 0
local result, problem, code = train { head = "medusa", out = parts, steps = 12, on_progress = function(info)
   steps = info.step
   return info.step < 5
end }
check.equal(result, nil)
check.equal(code, "cancelled")
check.equal(problem, "cop.train: stopped at step 5 of 12; the same call goes on from there")
check.equal(steps, 5)
assert(train { head = "medusa", out = parts, steps = 12 })
for _, name in ipairs { "checkpoint", "medusa_lm_head.safetensors", "config.json" } do
   check.is(bytes(whole .. "/" .. name) == bytes(parts .. "/" .. name), name .. " differs after an interruption")
end

-- Training data that was cut off goes on behind its last whole text.
local all = bytes(cache)
write(cache, all:sub(1, #all - 1000))
assert(train { head = "medusa", out = folder(), steps = 1 })
check.is(bytes(cache) == all, "the training data differ after an interruption")

-- ---- Two at once ---------------------------------------------------------------------------------

local held, tried = folder(), nil
assert(train { head = "medusa", out = held, steps = 12, measure_every = 12, on_progress = function(info)
   if info.step == 5 then
      tried = table.pack(train { head = "medusa", out = held, steps = 12 })
      assert(train { head = "medusa", out = folder(), steps = 1 }) -- the same data: they are whole
   end
end })
check.fails("argument", ("cop.train: another training writes \"%s\" now: give another folder, or wait for its end")
   :format(held), table.unpack(tried))
check.is(bytes(held .. "/checkpoint") == bytes(whole .. "/checkpoint"), "a refused training left something behind")
assert(train { head = "medusa", out = held, steps = 12 })

-- ---- Refusals ------------------------------------------------------------------------------------

check.raises_with("option \"head\" must be one of \"medusa\", \"hydra\",", function()
   train { head = "medusae", out = folder() }
end)
check.raises("cop.train: option \"width\" is not for head \"medusa\"; it is for mlp, model", function()
   train { head = "medusa", out = folder(), width = 8 }
end)
check.raises_with("\"share_lm_head\" is for version 3 of eagle", function()
   train { head = "eagle", out = folder(), share_lm_head = false }
end)
check.raises_with("with \"share_lm_head\" all tokens are drafted", function()
   train { head = "eagle", version = 3, out = folder(), share_lm_head = true, vocabulary = 14 }
end)
check.raises_with("data must be a cop.dataset, a list of texts, or lists of token ids, not empty", function()
   train { head = "medusa", out = folder(), data = {} }
end)
check.fails("io", "no-such-file", train { head = "medusa", out = folder(), data = "no-such-file.jsonl" })
check.raises_with("cop.train: the target has no tokenizer: give data as lists of token ids", function()
   train { head = "medusa", out = folder(), data = { "a text" }, cache = folder() }
end)
check.fails("argument", ("\"%s\" is of head \"medusa\": give another folder for \"hydra\""):format(whole), train {
   head = "hydra", out = whole })
local other = chain(7)
check.fails("argument", "is of another target", train { head = "medusa", out = whole, target = other })
check.fails("argument", "holds training data of another target", train { head = "medusa", out = folder(),
   target = other })
check.fails("argument", "was made of other data or with other options", train { head = "medusa", out = folder(),
   max_tokens = 12 })
check.fails("argument", "belongs to a training with other options, data or target", train { head = "medusa",
   out = whole, steps = 13 })
write(cache, "no data of this program, and longer than a header" .. (" "):rep(200))
check.fails("format", "no training data of this program", train { head = "medusa", out = folder() })
write(cache, all)
local state = bytes(whole .. "/checkpoint")
write(whole .. "/checkpoint", state:sub(1, #state // 2))
check.fails("format", "is damaged", train { head = "medusa", out = whole, steps = 12 })
assert(train { head = "medusa", out = whole, steps = 12, resume = false })
check.is(bytes(whole .. "/checkpoint") == state, "the same seed gives the same training")

-- A loss that is no number ends the training.
check.fails("numeric", "is not a number: lower `rate`", train { head = "medusa", out = folder(), rate = 10, clip = 0,
   steps = 4000, decay = 10, measure_every = 4000 })

-- ---- Texts of a model with a tokenizer -----------------------------------------------------------

local speaker = cop.model { path = test.tiny { seed = 5, tokenizer = true, vocab = 288, context = 256 }, threads = 2 }
local asked = assert(cop.train { head = "medusa", target = speaker, out = folder(), questions = 6, max_tokens = 8,
   steps = 2, held_out = 3, quiet = true })
check.equal(asked.texts, 6)
assert(cop.train { head = "medusa", target = speaker, out = folder(), data = { "one text", "and another", "a third" },
   answers = false, chat = false, steps = 2, held_out = 3, quiet = true })

-- Equal sizes do not make another target fit: what was trained knows the tokenizer's pieces.
for _, row in ipairs {
   { "medusa", { heads = 2 } }, { "hydra", { heads = 2 } }, { "mlp", { heads = 2, width = 8 } }, { "eagle", {} },
   { "eagle", { version = 3, vocabulary = 200 } }, { "model", { width = 8, layers = 1 } },
} do
   local options = { head = row[1], target = speaker, out = folder(), data = { "one text", "and another", "a third" },
      answers = false, chat = false, steps = 1, held_out = 3, quiet = true }
   for key, value in pairs(row[2]) do
      options[key] = value
   end
   assert(cop.train(options))
   local function answered()
      return cop.generate { model = speaker, tokens = { 5, 9 }, max_tokens = 4, proposer = row[1] == "model"
         and cop.propose.model { assert(cop.model { path = options.out, threads = 1 }) }
         or cop.propose[row[1]] { options.out } }
   end
   assert(answered())
   local config = bytes(options.out .. "/config.json")
   local changed, n = config:gsub('("target_tokenizer": ")%x%x%x%x', "%10123")
   check.equal(n, 1, row[1])
   write(options.out .. "/config.json", changed)
   check.raises_with("was trained for a tokenizer with other pieces", answered)
end

for _, name in ipairs(made) do
   os.execute(("rm -rf '%s' '%s.train'"):format(name, name))
end
