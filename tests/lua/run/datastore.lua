--- cop.datastore and cop.propose.retrieval: the published example, files of text and of ids, what is refused.

local check, test = ...
local cop = require("coppice")

local folder = test.folder()
local store = folder .. "/store"
local built = assert(cop.datastore { path = store, tokens = { { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 2, 3, 5, 6 } } })
check.equal(built.tokens, 12)
check.equal(built.vocab, 7)
check.equal(built.bytes, 64 + 24 + 48)
check.is(built.seconds >= 0)

local function draft(choices)
   return cop.propose_once { proposer = cop.propose.retrieval { store, choices = choices }, context = { 2, 3 } }
end
local tree = draft(2)
check.list(tree.tokens, { 4, 5 })
check.list(tree.parents, { 0, 0 })
check.equal(tree.match, 2)
check.near(tree.scores[1], 2 / 3)
check.list(draft(1).tokens, { 4 })

--- Raw ids of two and of four bytes, in front of the lists.
local function write(name, format, ids)
   local file = assert(io.open(folder .. "/" .. name, "wb"))
   for _, id in ipairs(ids) do
      file:write(string.pack(format, id))
   end
   file:close()
   return folder .. "/" .. name
end
local narrow, wide = write("a.u16", "=I2", { 1, 2, 3, 4, 1, 2, 3, 4 }), write("b.u32", "=I4", { 2, 3 })
built = assert(cop.datastore { path = store, files = { narrow, wide }, tokens = { { 5, 6 } }, vocab = 9 })
check.equal(built.tokens, 12)
check.equal(built.vocab, 9)
check.list(draft(2).tokens, { 4, 5 })

-- Text, with the tokenizer of a model; the engine says what it drafted.
local model = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local text = folder .. "/text.txt"
local file = assert(io.open(text, "wb"))
file:write(("the cat and the hat and the cat in the hat "):rep(8))
file:close()
built = assert(cop.datastore { path = store, tokenizer = model.tokenizer, files = { text } })
check.equal(built.vocab, model.tokenizer.size)
local prompt = "the cat and the hat and"
local plain = assert(cop.generate { model = model, prompt = prompt, max_tokens = 24 })
local mine = assert(cop.generate { model = model, prompt = prompt, max_tokens = 24,
   proposer = cop.propose.retrieval { store } })
check.list(mine.tokens, plain.tokens)
check.is(mine.drafted > 0)
local sampled = { model = model, prompt = prompt, max_tokens = 24, temperature = 1, seed = 3,
   proposer = cop.propose.retrieval { store } }
check.is(#assert(cop.generate(sampled)).tokens > 0)

-- Without a model, the vocabulary is as large as context and options need.
check.list(cop.propose_once { proposer = cop.propose.suffix_automaton { history = { { 1, 2, 3, 40, 50 } } },
   context = { 1, 2, 3 } }.tokens, { 40, 50 })

-- Another tokenizer, a cut file, texts without a tokenizer, nothing at all.
local other = assert(cop.model { path = test.tiny { seed = 7, vocab = 300 }, threads = 1, context = 256 })
if other.tokenizer and other.vocab_size ~= model.vocab_size then
   check.raises_with("the datastore was built with another tokenizer", cop.generate, { model = other, prompt = "a",
      proposer = cop.propose.retrieval { store } })
end
check.fails("format", "is not a datastore", cop.propose.retrieval { text })
check.fails("io", "nothing", cop.propose.retrieval { folder .. "/nothing" })
local whole = assert(io.open(store, "rb"))
local bytes = whole:read("a")
whole:close()
file = assert(io.open(folder .. "/cut", "wb"))
file:write(bytes:sub(1, -5))
file:close()
check.fails("format", "it is cut short", cop.propose.retrieval { folder .. "/cut" })
check.raises_with("is text, which needs a tokenizer", cop.datastore, { path = store, files = { text } })
check.raises_with("cop.datastore: needs files or tokens", cop.datastore, { path = store })
check.raises_with("there are no tokens to store", cop.datastore, { path = store, tokens = {} })
check.fails("format", "id 7 is not in the vocabulary of 5",
   cop.datastore { path = store, tokens = { { 1, 7 } }, vocab = 5 })
check.fails("format", "no whole number of ids",
   cop.datastore { path = store, files = { write("c.u16", "=I1", { 1 }) } })
check.fails("io", "cannot write the datastore", cop.datastore { path = folder .. "/no/store", tokens = { { 1 } } })
check.raises_with("sorted by 26 tokens", cop.propose.retrieval, { store, tokens = 20 })

-- A file of the script's own that is called as one half written might be.
file = assert(io.open(store .. ".new", "wb"))
file:write("mine")
file:close()
assert(cop.datastore { path = store, tokens = { { 1 } } })
file = assert(io.open(store .. ".new", "rb"))
check.equal(file:read("a"), "mine")
file:close()

-- What is no file is not replaced by one.
check.shell("mkfifo '%s/pipe'", folder)
check.fails("io", "File exists", cop.datastore { path = folder .. "/pipe", tokens = { { 1 } } })
check.equal(check.shell("test -p '%s/pipe' && echo pipe", folder), "pipe\n")
