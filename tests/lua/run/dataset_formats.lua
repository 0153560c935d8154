--- Datasets of every format: small files of our own words, and the well-known files where they are.

local check, test, core = ...
local cop = require("coppice")
local formats = core.use("dataset_formats")
local folder = test.folder()

local function write(name, text)
   local path = folder .. "/" .. name
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
   return path
end

local function open(name, text, options)
   options = options or {}
   options.path = write(name, text)
   return cop.dataset(options)
end

-- ---- Question files: MT-bench, Spec-Bench, EAGLE -------------------------------------------------
local questions = '{"question_id": 81, "category": "writing", "turns": ["Describe a pond.", "Shorter."],'
   .. ' "reference": ["A pond.", "Pond."]}\n{"question_id": 0, "category": "", "turns": ["Why?"], "reference": null}\n'
   .. '{"question_id": "x", "turns": ["Which page?"], "reference": [["one", "two"]]}\n'
local d = assert(open("q.jsonl", questions))
check.equal(d.format, "mt_bench")
check.equal(#d, 3)
check.equal(d[1].id, 81)
check.equal(d[1].turns[2], "Shorter.")
check.equal(d[1].reference[2], "Pond.")
check.equal(d[2].category, nil, "an empty category is none")
check.equal(d[2].reference, nil)
check.equal(d[3].reference[1][2], "two")
check.equal(d[3].id, "x")
for _, name in ipairs { "spec_bench", "mt_bench", "eagle" } do
   check.equal(assert(open("q.jsonl", questions, { format = name })).format, name)
end
check.equal(#assert(open("q.jsonl", questions, { turns = 1 }))[1].turns, 1)
check.equal(#assert(open("q.jsonl", questions, { turns = 5 }))[1].turns, 2)
check.raises_with("option \"turns\" must be \"all\", \"first\" or how many, got 0", open, "q.jsonl", questions,
   { turns = 0 })

-- ---- GSM8K ---------------------------------------------------------------------------------------
d = assert(open("g.jsonl", '{"question": "Two and two?", "answer": "2+2=<<2+2=4>>4\\n#### 4"}\n'
   .. '{"question": "Below?", "answer": "It is\\n#### -$1,234.50."}\n'))
check.equal(d.format, "gsm8k")
check.equal(d[1].turns[1], "Two and two?")
check.equal(d[1].answer, "4")
check.equal(d[1].reference[1], "2+2=<<2+2=4>>4\n#### 4")
check.equal(d[2].answer, "-1234.50")
check.equal(d[1].id, nil)
check.fails("format", "line 1: field \"answer\" has no \"####\"",
   open("g.jsonl", '{"question": "a", "answer": "4"}', { format = "gsm8k" }))
check.equal(assert(open("g.jsonl", '{"question": "a", "answer": "4"}')).format, "jsonl")
for text, number in pairs {
   ["#### 72"] = "72", ["#### -3"] = "-3", ["x\n####5\n"] = "5", ["#### $1,234.50."] = "1234.50",
   ["#### 1,000,000"] = "1000000", ["#### 18\nQuestion: next\n#### 7"] = "18", ["#### +4 "] = "+4",
   ["#### 0.25"] = "0.25", ["#### 3/4"] = "3/4", ["####\t9\r\n"] = "9",
} do
   check.equal(formats.final_number(text), number, text)
end
check.equal(formats.final_number("### 5"), nil)

-- ---- HumanEval -----------------------------------------------------------------------------------
local task = '{"task_id": "HumanEval/7", "prompt": "def one():\\n    \\"\\"\\"Returns 1.\\"\\"\\"\\n",'
   .. ' "entry_point": "one", "canonical_solution": "    return 1\\n",'
   .. ' "test": "def check(f):\\n    assert f() == 1\\n"}'
d = assert(open("h.jsonl", task))
check.equal(d.format, "humaneval")
check.equal(d[1].id, "HumanEval/7")
check.equal(d[1].turns[1], "def one():\n    \"\"\"Returns 1.\"\"\"\n", "the prompt as it stands")
check.equal(d[1].chat, false, "and without a chat template")
check.equal(d[1].entry_point, "one")
check.equal(d[1].test, "def check(f):\n    assert f() == 1\n")
check.equal(d[1].reference[1], "    return 1\n")
d = assert(open("h.jsonl", task, { chat = true }))
check.equal(d[1].chat, true)
check.equal(d[1].turns[1], "Complete this Python function. Answer with the whole function in one code block.\n\n"
   .. "```python\ndef one():\n    \"\"\"Returns 1.\"\"\"\n```")
check.equal(assert(open("q.jsonl", questions, { chat = false }))[1].chat, false)
check.equal(assert(open("q.jsonl", questions))[1].chat, nil)

-- ---- ShareGPT: one JSON list, or lines -----------------------------------------------------------
local talk = [=[[
  {"id": "a_0", "conversations": [
     {"from": "system", "value": "Be short."}, {"from": "human", "value": "Hi, [you] \"}\" there"},
     {"from": "gpt", "value": "Hello."}, {"from": "human", "value": "Part one"}, {"from": "user", "value": "part two"},
     {"from": "gpt", "value": "Yes"}, {"from": "gpt", "value": "indeed."}]},
  {"id": "b_0", "conversations": []},
  {"id": "c_0", "conversations": [{"from": "gpt", "value": "an answer to nothing"},
     {"from": "human", "value": "And?"}]}
]
]=]
d = assert(open("share.json", talk))
check.equal(d.format, "sharegpt")
check.equal(#d, 2)
check.equal(d.skipped, 1)
check.is(tostring(d):find("2 items; 1 records without a question left out", 1, true), tostring(d))
check.equal(d[1].system, "Be short.")
check.list(d[1].turns, { "Hi, [you] \"}\" there", "Part one\n\npart two" })
check.list(d[1].reference, { "Hello.", "Yes\n\nindeed." })
check.equal(d[2].line, 7)
check.list(d[2].turns, { "And?" })
check.equal(#d[2].reference, 0)
d = assert(open("m.jsonl", '{"messages": [{"role": "user", "content": "q"},'
   .. ' {"role": "assistant", "content": "a"}]}\n'))
check.equal(d.format, "sharegpt")
check.equal(d[1].reference[1], "a")
local function refused(text, line, options)
   check.fails("format", "refused.jsonl, " .. text, open("refused.jsonl", line, options))
end
refused("line 1: \"conversations[1].from\": who is \"moon\"?", '{"conversations": [{"from": "moon", "value": "x"}]}')
refused("line 1: \"conversations[2].value\" must be text, got a number",
   '{"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": 3}]}')
refused("line 1: \"conversations[1]\" must be an object, got text", '{"conversations": ["x"]}')
refused("line 1: \"conversations\" must be a list of messages, got text", '{"conversations": "x"}')

-- Lists that are broken.
refused("line 2: the file ends inside of a list's entry that begins here", '[{"prompt": "a"},\n{"prompt": "b"}')
refused("line 2: the file ends inside of a list's entry", '[{"prompt": "a"},\n{"prompt": "b\\"}]')
refused("line 3: something follows the list", '[{"prompt": "a"},\n{"prompt": "b"}\n]{}')
refused("line 2: ", '[{"prompt": "a"},\n]')
refused("line 3: a record must be an object, got a number", '[\n{"prompt": "a"},\n7]')
check.fails("format", "holds no records", open("e.json", " [\n]\n"))

-- ---- Alpaca --------------------------------------------------------------------------------------
d = assert(open("alpaca.json", '[{"instruction": "Sort these.", "input": "b, a", "output": "a, b"},\n'
   .. '{"instruction": "Say hi.", "input": "", "output": "hi"}]'))
check.equal(d.format, "alpaca")
check.equal(d[1].turns[1], "Sort these.\n\nb, a")
check.equal(d[1].reference[1], "a, b")
check.equal(d[2].turns[1], "Say hi.")
check.equal(d[2].line, 2)
d = assert(open("dolly.jsonl", '{"instruction": "Who?", "context": "Ann came.", "response": "Ann", "category": "qa"}'))
check.equal(d[1].turns[1], "Who?\n\nAnn came.")
check.equal(d[1].category, "qa")
refused("line 1: fields \"instruction\" and \"input\" are empty", '{"instruction": "", "input": "", "output": "x"}')

-- ---- JSON lines with fields by name, plain text --------------------------------------------------
d = assert(open("n.jsonl", '{"q": ["one", "two"], "key": 5, "kind": "k", "gold": "g", "sys": "s"}', {
   fields = { prompt = "q", id = "key", category = "kind", reference = "gold", system = "sys" },
}))
check.equal(d.format, "jsonl")
check.list(d[1].turns, { "one", "two" })
check.equal(d[1].id, 5)
check.equal(d[1].category, "k")
check.equal(d[1].reference[1], "g")
check.equal(d[1].system, "s")
d = assert(open("n.jsonl", '{"problem": "1+1", "id": {"odd": 1}}'))
check.equal(d[1].turns[1], "1+1")
check.equal(d[1].id, nil, "a field that nobody named is taken when it fits")
refused("line 1: field \"k\" must be text or a number, got an object", '{"q": "x", "k": {}}',
   { fields = { prompt = "q", id = "k" } })
check.raises_with("cop.dataset: fields: unknown option \"promt\"; did you mean \"prompt\"?", open, "n.jsonl", "{}",
   { fields = { promt = "q" } })
check.raises_with("give field or fields, not both", open, "n.jsonl", "{}", { field = "q", fields = {} })
check.raises_with("field names are for format \"jsonl\"", open, "n.jsonl", "{}", { field = "q", format = "gsm8k" })
d = assert(open("plain.txt", "one\r\n\n[two] {\n three"))
check.equal(d.format, "text")
check.list({ d[1].turns[1], d[2].turns[1], d[3].turns[1] }, { "one", "[two] {", " three" })
check.equal(d[2].line, 3)
check.equal(assert(open("prompts", "just words\n")).format, "text")
check.fails("format", "line 1: ", open("words.jsonl", "just words\n"))

-- ---- What goes to the model ----------------------------------------------------------------------
local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local tokenizer = target.tokenizer
local function ids_of(item, texts, use_chat)
   return table.concat(core.use("prompt").ids(tokenizer, item, texts, use_chat ~= false), " ")
end
local _, ids = tokenizer:chat({ { role = "system", content = "s" }, { role = "user", content = "u" },
   { role = "assistant", content = "a" }, { role = "user", content = "v" } }, { generation = true })
check.equal(ids_of({ system = "s" }, { "u", "a", "v" }), table.concat(ids, " "))
local own = { bos = tokenizer.adds_bos } -- as cop.generate { prompt = } reads a text
check.equal(own.bos, false)
check.equal(ids_of({ chat = false }, { "def f" }), table.concat(tokenizer:encode("def f", own), " "))
local plain = table.concat(tokenizer:encode("s\nu", own), " ")
check.equal(ids_of({ chat = false, system = "s" }, { "u" }), plain)
check.equal(ids_of({ chat = true, system = "s" }, { "u" }, false), plain)

-- ---- The well-known files ------------------------------------------------------------------------
local shared = os.getenv("COPPICE_SHARED") or "../shared"
if not core.system.kind(shared .. "/data") then
   print("skipped: " .. shared .. "/data is not there, so the well-known files are not read")
   return
end

local function data(name, format, count)
   d = assert(cop.dataset { path = shared .. "/data/" .. name })
   check.equal(d.format, format, name)
   check.equal(#d, count, name)
   for _, item in ipairs(d) do
      for _, turn in ipairs(item.turns) do
         check.is(utf8.len(turn) and turn ~= "")
      end
   end
   return d
end

data("spec_bench.jsonl", "mt_bench", 480)
local groups, references = {}, 0
for _, item in ipairs(d) do
   groups[item.category] = (groups[item.category] or 0) + 1
   references = references + (item.reference and 1 or 0)
   check.equal(#item.turns, item.id <= 160 and 2 or 1)
   check.equal(item.id, item.index + 80)
end
check.equal(groups.translation, 80)
check.equal(groups.writing, 10)
check.equal(references, 359)
data("gsm8k_test.jsonl", "gsm8k", 1319)
check.equal(d[1].answer, "18")
for _, item in ipairs(d) do
   check.is(tonumber(item.answer), item.answer)
end
data("humaneval.jsonl", "humaneval", 164)
check.equal(d[164].id, "HumanEval/163")
check.equal(d[1].turns[1]:sub(1, 24), "from typing import List\n")
for _, name in ipairs { "alpaca", "gsm8k", "humaneval", "qa", "sum" } do
   data("mt_bench_eagle/" .. name .. ".jsonl", "mt_bench", 80)
end
check.fails("format", "line 1: \"prompt_token_ids\" are ids of another tokenizer; a prompt is text",
   cop.dataset { path = shared .. "/data/specdecode_traces/gsm8k.jsonl" })
