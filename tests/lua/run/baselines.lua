--- What a comparison needs besides its arms: multiple choice, a judge's preference, and the baselines that a
--- script can ask for: the draft alone, the target with another seed.

local check, test, core = ...
local cop = require("coppice")

-- ---- Letters -------------------------------------------------------------------------------------
local letter = cop.quality.choice_answer
for _, case in ipairs {
   { "The answer is (C).", "C", "C" }, { "the Answer is: B", "B", "B" }, { "Answer: **D**", "D", "D" },
   { "A) because", "A", "A" }, { "B", "B", "B" }, { "B.", "B", "B" }, { "(C) water", "C", "C" },
   { "**B**\nas", "B", "B" },
   { " D: it is", "D", "D" }, { "I think the answer is A. No: the answer is D.", "D", "D" },
   { "Answer: E", nil, nil }, -- no such label
   { "A dog barks.", nil, nil }, { "It is water, so C", nil, "C" }, { "Either (A) or (B), D", nil, "B" },
   { "Nothing fits.", nil, nil }, { "", nil, nil }, { "I don't know", nil, nil }, { "Choice B fits", "B", "B" },
   { "Option (A) is out", "A", "A" }, { "A is right", nil, nil }, { "1", nil, nil },
} do
   check.equal(letter(case[1], 4, "strict"), case[2], case[1])
   check.equal(letter(case[1], 4), case[3], case[1])
end
check.equal(letter("The answer is 2", { "1", "2", "3" }), "2")
check.equal(letter("The answer is B", { "1", "2", "3" }), nil)
check.raises_with("labels must be a list of at least two texts", function() return letter("A", 1) end)
check.raises_with("must be \"strict\" or \"flexible\", got lax", function() return letter("A", 4, "lax") end)

-- ---- Files ---------------------------------------------------------------------------------------
local function dataset(text, more)
   local path = test.folder() .. "/questions.jsonl"
   local file = assert(io.open(path, "w"))
   file:write(text)
   file:close()
   local given = { path = path }
   for key, value in pairs(more or {}) do
      given[key] = value
   end
   return cop.dataset(given)
end
local items = assert(dataset([[
{"question": "Which is wet?", "subject": "matter", "choices": ["fire", "stone", "water", "air"], "answer": 2}
{"question": "Which is hot?", "choices": {"text": ["fire", "ice"], "label": ["1", "2"]}, "answerKey": "1", "id": "Q2"}
{"question_stem": "Which is hard?", "choices": {"text": ["air", "stone"], "label": ["A", "B"]}, "answerKey": "B"}
{"question": "And?", "choices": ["x", "y"], "answer": "B"}
]]))
check.equal(items.format, "multiple_choice")
check.equal(items[1].turns[1], "Which is wet?\n\nA. fire\nB. stone\nC. water\nD. air\n\n"
   .. "Answer with the letter of the right choice.")
check.equal(items[1].answer, "C")
check.equal(items[1].category, "matter")
check.equal(items[2].turns[1]:match("\n\n(.-)\n\n"), "1. fire\n2. ice")
check.list({ items[2].answer, items[2].id, items[3].answer, items[4].answer }, { "1", "Q2", "B", "B" })
for _, case in ipairs {
   { "\"choices\": [\"x\", \"y\"], \"answer\": 2", "\"answer\" must be one of A, B or a number from 0 to 1, got 2" },
   { "\"choices\": [\"x\", \"y\"], \"answer\": \"C\"", "must be one of A, B or a number from 0 to 1, got C" },
   { "\"choices\": {\"text\": [\"x\"], \"label\": [\"1\", \"2\"]}, \"answerKey\": \"1\"",
      "field \"choices\": has 2 entries for 1 texts" },
   { "\"choices\": \"xy\", \"answer\": 0", "field \"choices\" must be a list of texts, or { text, label }, got text" },
   { "\"choices\": [\"x\"], \"answer\": 0", "must have 2 to 26 entries, got 1" },
   { "\"choices\": [\"x\", 3], \"answer\": 0", "\"choices\" must be a list of strings, entry 2 is a number" },
} do
   local got, message, code = dataset("{\"question\": \"?\", " .. case[1] .. "}\n")
   check.fails("format", case[2], got, message, code)
   check.is(message:find("line 1", 1, true), message)
end
local measure = core.use("text_measures").by_name.multiple_choice.of
check.equal(measure(items[1], { text = "The answer is C" }), true)
check.equal(measure(items[1], { text = "The answer is B" }), false)
check.equal(measure({ turns = {} }, { text = "B" }), nil)

-- ---- A judge -------------------------------------------------------------------------------------
local function answer(text, more)
   local one = setmetatable({ text = text, turn = 1, tokens = {}, finish = "eos" }, { __eq = function(a, b)
      return a.text == b.text
   end })
   for key, value in pairs(more or {}) do
      one[key] = value
   end
   return one
end
local asked = {}
local shorter = cop.quality.pairwise { function(item, first, second)
   asked[#asked + 1] = ("%s %s/%s"):format(item.id, first.text, second.text)
   return #first.text < #second.text and "first" or #first.text > #second.text and "second" or "tie"
end }
check.equal(shorter.name, "win_rate")
local question = { id = "q", turns = { "Say it." } }
check.near(shorter.of(question, answer "aa", answer "bbb"), 1)
check.near(shorter.of(question, answer "bbb", answer "aa"), 0)
check.near(shorter.of(question, answer "bb", answer "aa"), 0.5)
check.list({ asked[1], asked[2] }, { "q aa/bbb", "q bbb/aa" }, "both orders")
local calls = #asked
check.near(shorter.of(question, answer "aa", answer "aa"), 0.5, nil, "nobody has to be asked about equal answers")
check.equal(shorter.of(question, answer("aa", { is_plain = true }), answer "aa"), nil)
check.equal(#asked, calls)
local first_always = cop.quality.pairwise { function() return "first" end, name = "place" }
check.near(first_always.of(question, answer "a", answer "b"), 0.5, nil, "a judge that goes by the place")
check.near(cop.quality.pairwise { function(_, a) return a.text == "a" and 0.75 or 0 end }.of(question, answer "a",
   answer "b"), (0.75 + 1 - 0) / 2)
check.raises_with("must return \"first\", \"second\", \"tie\" or a number from 0 (second) to 1 (first), got \"B\"",
   function() return cop.quality.pairwise { function() return "B" end }.of(question, answer "a", answer "b") end)
check.raises_with("got 1.5", function()
   return cop.quality.pairwise { function() return 1.5 end }.of(question, answer "a", answer "b")
end)
check.raises("cop.quality.pairwise: judge must be a function(item, first, second) or a cop.model, got a string",
   function() return cop.quality.pairwise { "me" } end)

-- A model as judge: what it would reply, by hand.
local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 512 })
local by_model = cop.quality.pairwise { target }
local tokenizer = target.tokenizer
local function share(a, b)
   local text = "Question:\nSay it.\n\nAnswer A:\n" .. a .. "\n\nAnswer B:\n" .. b
      .. "\n\nWhich answer is better? Reply with one letter, A or B."
   local ok, _, ids = pcall(tokenizer.chat, tokenizer, { { role = "user", content = text } }, { generation = true })
   local read = ok and ids or tokenizer:encode(text .. "\n", { bos = tokenizer.adds_bos })
   local row = assert(target:score { context = read })[0]
   local p, q = math.exp(row[tokenizer:encode("A")[1]]), math.exp(row[tokenizer:encode("B")[1]])
   return p / (p + q)
end
check.near(by_model.of(question, answer "yes", answer "no"), (share("yes", "no") + 1 - share("no", "yes")) / 2, 1e-6)

-- ---- Baselines in a run --------------------------------------------------------------------------
local draft = assert(cop.model { path = test.tiny { seed = 7, noise = 0.6, noise_seed = 2 }, threads = 1,
   context = 512 })
local function experiment(changes)
   local e = {
      name = "baselines", target = target, max_tokens = 10, temperature = { 0, 1 }, seed = 4,
      prompts = { { turns = { "the cat and the hat" }, id = "q1" }, { turns = { "in the end" }, id = "q2" },
         { turns = { "and so on" }, id = "q3" } },
      arms = {
         cop.arm { "draft alone", target = draft },
         cop.arm { "other seed", seed = 5 },
         cop.arm { "again" },
         cop.arm { "chain", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 2 } },
      },
      quality = { "target_nll", cop.quality.pairwise { function(item, first, second)
         return item.id == "q2" and error("no opinion") or #first.text < #second.text and 1 or 0
      end, name = "brief" } },
   }
   for key, change in pairs(changes or {}) do
      e[key] = change
   end
   return cop.experiment(e)
end
local said
local folder = test.folder() .. "/run"
local result = test.quietly(function()
   said = experiment():check()
   return assert(experiment():run { out = folder })
end)
check.is(said:find("T=0%s+draft alone%s+plain decoding, other model"), said)
check.is(said:find("T=1%s+other seed%s+plain decoding, other seed"), said)
check.equal(result.broken, 0, "the draft's own answers break no promise")
check.equal(result.failed, 0)
local arms = {}
for _, arm in ipairs(result.arms) do
   arms[arm.sampling .. " " .. arm.name] = arm
end
check.equal(arms["T=0 other seed"].agreement.same, 3)
check.equal(arms["T=0 again"].agreement.same, 3)
check.equal(arms["T=1 again"].agreement.same, 3, "the same coins")
check.is(arms["T=1 other seed"].agreement.same < 3)
check.is(arms["T=0 draft alone"].agreement.same < 3)
check.equal(arms["T=0 draft alone"].lossless, false)
check.equal(arms["T=0 draft alone"].rule, "other model")
check.is(arms["T=0 draft alone"].target_nll > arms["T=0 plain"].target_nll)
check.near(arms["T=0 chain"].quality.target_nll.retention, 1, 1e-9, "the same answers as plain decoding's")
check.equal(arms["T=0 draft alone"].quality.target_nll.retention, nil)
-- the draft's own plain answers, made apart
local run = assert(cop.open_run(folder))
local stored = run:sql("SELECT r.tokens FROM requests r JOIN arms a ON a.id = r.arm WHERE a.name = 'draft alone'"
   .. " AND a.sampling = 'T=0' AND r.prompt = 1")[1].tokens
local ids = core.use("prompt").ids(tokenizer, experiment().prompts[1], { "the cat and the hat" },
   (core.use("prompt").uses_chat(experiment())))
local alone = assert(cop.generate { model = draft, tokens = ids, max_tokens = 10 })
check.equal(stored, "[" .. table.concat(alone.tokens, ",") .. "]")
check.equal(run:sql("SELECT COUNT(*) AS n FROM requests r JOIN arms a ON a.id = r.arm WHERE a.name = 'other seed'"
   .. " AND r.seed <> 5")[1].n, 0)
run:close()
-- the judge that raises costs its own value, by name
local log = io.open(folder .. "/console.log"):read("a")
check.is(log:find("!!! quality \"brief\": %d+ values are missing; the first: arm [^\n]-, T=%d, prompt 2, turn 1: [^\n]*"
   .. "no opinion"), log)
check.equal(arms["T=1 other seed"].quality.brief.answers, 2)
check.equal(arms["T=0 plain"].quality.brief, nil)
check.is(log:find("draft alone  other model", 1, true), log)
check.is(log:find("kept of plain less draft", 1, true), log)

check.raises_with("cop.experiment: the target of arm \"x\" must be a cop.model { … }, got a string", function()
   return experiment { arms = { cop.arm { "x", target = "draft" } } }
end)
check.raises_with("cop.experiment: arm \"x\" has a target of its own, so it decodes plainly", function()
   return experiment { arms = { cop.arm { "x", target = draft, proposer = cop.propose.lookup {} } } }
end)
