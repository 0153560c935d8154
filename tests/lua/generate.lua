--- cop.generate: options, results, streaming, stops, failures; speculation is invisible.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

local path = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 256 }
local noisy = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 256, noise = 0.1, noise_seed = 1 }
local m = cop.model { path = path, threads = 1, precision = "f32" }
local draft = cop.model { path = noisy, threads = 1, precision = "f32" }
local prompt = { 104, 101, 108, 108, 111 }

local plain = cop.generate { model = m, tokens = prompt, max_tokens = 40, ignore_eos = true }
check.equal(#plain.tokens, 40)
check.equal(plain.finish, "length")
check.equal(plain.rule, "match")
check.equal(plain.draw, "deterministic")
check.equal(plain.lossless, true)
check.equal(plain.proposer, nil)
check.equal(plain.forward_passes, 40)
check.equal(plain.drafted, 0)
check.near(plain.block_efficiency, 1)
check.equal(plain.text, m.tokenizer:decode(plain.tokens, { special = false }))
check.equal(#plain.cycles, 40)
check.equal(tostring(plain), "answer: 40 tokens (length), block efficiency 1.00")

-- Every proposer and tree gives the same tokens, and the counters add up.
for name, arm in pairs {
   model = { proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 5 } },
   widths = { proposer = cop.propose.model { draft }, tree = cop.tree.widths { 3, 2, 1 } },
   lookup = { proposer = cop.propose.lookup {} },
} do
   local r = cop.generate {
      model = m, tokens = prompt, max_tokens = 40, ignore_eos = true, proposer = arm.proposer, tree = arm.tree,
   }
   check.list(r.tokens, plain.tokens, name)
   check.equal(r.text, plain.text, name)
   check.is(r.drafted > 0, name .. " drafted nothing")
   local progress, drafted, accepted = 0, 0, 0
   for i, cycle in ipairs(r.cycles) do
      check.equal(cycle.cycle, i - 1)
      check.equal(cycle.progress, #cycle.accepted + 1)
      check.equal(#cycle.tokens, cycle.nodes)
      check.equal(#cycle.parents, cycle.nodes)
      check.is(cycle.origin == "bonus" or cycle.origin == "recovered")
      check.is(cycle.D >= 0 and cycle.V > 0 and cycle.H >= 0)
      local above = 0
      for k, node in ipairs(cycle.accepted) do
         check.equal(cycle.parents[node], above)
         check.equal(cycle.tokens[node], plain.tokens[progress + k])
         above = node
      end
      progress, drafted, accepted = progress + cycle.progress, drafted + cycle.nodes, accepted + #cycle.accepted
   end
   check.equal(r.drafted, drafted)
   check.equal(r.accepted, accepted)
   check.equal(r.forward_passes, #r.cycles)
   check.near(r.block_efficiency, progress / #r.cycles)
   check.is(progress >= 40)
   if name ~= "lookup" then
      check.is(accepted > 0, name .. " accepted nothing")
   end
end

-- Temperature: the seed decides, and nothing else.
local function sampled(seed, more)
   local o = { model = m, tokens = prompt, max_tokens = 24, temperature = 1, seed = seed, ignore_eos = true }
   for key, value in pairs(more or {}) do
      o[key] = value
   end
   return cop.generate(o)
end
check.list(sampled(1).tokens, sampled(1).tokens)
check.is(table.concat(sampled(1).tokens, " ") ~= table.concat(sampled(2).tokens, " "))
check.equal(sampled(1).rule, "sample_match")
check.list(sampled(math.maxinteger).tokens, sampled(math.maxinteger).tokens)
local arm = { proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 3 }, rule = cop.accept.token {} }
check.list(sampled(3, arm).tokens, sampled(3, arm).tokens)
check.equal(sampled(3, arm).draw, "independent")
check.list(sampled(5, { top_k = 1 }).tokens, plain.tokens and cop.generate {
   model = m, tokens = prompt, max_tokens = 24, ignore_eos = true }.tokens)

-- Streaming: the pieces are the text, the depths say where tokens came from.
local pieces, tokens, depths = {}, {}, {}
local streamed = cop.generate {
   model = m, tokens = prompt, max_tokens = 30, ignore_eos = true,
   proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 4 },
   on_token = function(text, info)
      check.is(utf8.len(text))
      pieces[#pieces + 1] = text
      for i, id in ipairs(info.tokens) do
         tokens[#tokens + 1] = id
         depths[#depths + 1] = info.depths[i]
      end
   end,
}
check.equal(table.concat(pieces), streamed.text)
check.list(tokens, streamed.tokens)
local deep = 0
for _, depth in ipairs(depths) do
   check.is(depth >= 0 and depth <= 4)
   deep = deep + (depth > 0 and 1 or 0)
end
check.is(deep > 0)

-- false cancels; what was shown is the answer.
local calls = 0
local cancelled = cop.generate {
   model = m, tokens = prompt, max_tokens = 30, ignore_eos = true,
   on_token = function()
      calls = calls + 1
      return calls < 4
   end,
}
check.equal(cancelled.finish, "cancelled")
check.equal(calls, 4)
check.is(#cancelled.tokens >= 4 and #cancelled.tokens < 30)

-- An error in on_token comes back as it was raised, a text with whose it is; the model goes on working.
local marker = setmetatable({}, { __tostring = function() error("never asked") end })
for _, value in ipairs { "a string", marker, 17, false } do
   local ok, got = pcall(cop.generate, {
      model = m, tokens = prompt, max_tokens = 30, on_token = function() error(value, 0) end,
   })
   check.equal(ok, false)
   check.equal(got, type(value) == "string" and "cop.generate: on_token: " .. value or value)
end
local ok, got = pcall(cop.generate, { model = m, tokens = prompt, on_token = function() error() end })
check.equal(ok, false)
check.equal(got, nil)
local recursive
recursive = function() return 1 + recursive() end
check.raises_with("stack overflow", cop.generate, { model = m, tokens = prompt, on_token = recursive })
check.list(cop.generate { model = m, tokens = prompt, max_tokens = 40, ignore_eos = true }.tokens, plain.tokens)
check.raises_with("attempt to yield across a C-call boundary", coroutine.wrap(function()
   return cop.generate { model = m, tokens = prompt, on_token = function() coroutine.yield() end }
end))

-- A callback may use the model and even generate.
local inner
cop.generate {
   model = m, tokens = prompt, max_tokens = 2, ignore_eos = true,
   on_token = function()
      inner = inner or cop.generate { model = m, tokens = prompt, max_tokens = 40, ignore_eos = true }
   end,
}
check.list(inner.tokens, plain.tokens)

-- From a coroutine, with a callback made in another one that is dead and collected.
local hook = coroutine.wrap(function()
   local seen = {}
   return function(text) seen[#seen + 1] = text end, seen
end)
local on_token, seen = hook()
hook = nil -- luacheck: ignore
collectgarbage()
coroutine.wrap(function()
   cop.generate { model = m, tokens = prompt, max_tokens = 40, ignore_eos = true, on_token = on_token }
end)()
check.equal(table.concat(seen), plain.text)

-- Stops: a string or a list; inside a draft too.
local cut = plain.text:match("[\1-\127][\1-\127]", 5)
for _, stop in ipairs { cut, { cut }, { "never there", cut } } do
   local r = cop.generate {
      model = m, tokens = prompt, max_tokens = 40, ignore_eos = true, stop = stop,
      proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 6 },
   }
   check.equal(r.finish, "stop")
   check.equal(r.text, plain.text:sub(1, plain.text:find(cut, 1, true) - 1))
end
local stopped = cop.generate { model = m, tokens = prompt, max_tokens = 40, ignore_eos = true, stop_tokens = { plain.tokens[4] } }
check.equal(stopped.finish, "stop")
check.is(#stopped.tokens < 4)

-- Log-probabilities.
local logged = cop.generate { model = m, tokens = prompt, max_tokens = 5, ignore_eos = true, logprobs = 3 }
check.equal(#logged.logprobs, 5)
local row = m:score({ context = prompt })[0]
check.equal(logged.logprobs[1].id, plain.tokens[1])
check.near(logged.logprobs[1].logprob, row:top(1)[1].logprob, 1e-6)
check.equal(#logged.logprobs[1].top, 3)
check.equal(logged.logprobs[1].top[1].id, plain.tokens[1])
check.equal(plain.logprobs, nil)
check.equal(#cop.generate { model = m, tokens = prompt, max_tokens = 2, logprobs = 0 }.logprobs[1].top, 0)

-- Prompts: text, chat, ids.
local tok = m.tokenizer
check.list(cop.generate({ model = m, prompt = "hello", max_tokens = 9 }).tokens,
   cop.generate({ model = m, tokens = tok:encode("hello", { bos = tok.adds_bos }), max_tokens = 9 }).tokens)
local messages = { { role = "user", content = "Hi" } }
check.list(cop.generate({ model = m, messages = messages, max_tokens = 9 }).tokens,
   cop.generate({ model = m, tokens = select(2, tok:chat(messages, { generation = true })), max_tokens = 9 }).tokens)
check.list(cop.generate({ model = m, prompt = "<|im_end|>", max_tokens = 5 }).tokens,
   cop.generate({ model = m, tokens = tok:encode("<|im_end|>", { bos = tok.adds_bos }), max_tokens = 5 }).tokens)
check.equal(#cop.generate { model = m, tokens = { 104 }, max_tokens = 3, ignore_eos = true }.tokens, 3)

-- What is refused, and where.
local function refuses(text, options)
   check.raises(text, function() return cop.generate(options) end)
end
refuses("cop.generate: needs exactly one of: prompt, tokens, messages", { model = m })
refuses("cop.generate: needs exactly one of: prompt, tokens, messages", { model = m, prompt = "x", tokens = { 1 } })
refuses("cop.generate: unknown option \"max_token\"; did you mean \"max_tokens\"? (known: model, prompt, tokens, messages, "
   .. "proposer, tree, length, draw, rule, relaxed, temperature, top_k, top_p, min_p, seed, max_tokens, min_tokens, stop, "
   .. "stop_tokens, ignore_eos, logprobs, on_token, repetition_penalty, presence_penalty, frequency_penalty, logit_bias, "
   .. "banned, processor)", { model = m, max_token = 1 })
refuses("cop.generate: option \"max_tokens\" must be an integer from 1 to 2147483647, got 0", { model = m, tokens = prompt, max_tokens = 0 })
refuses("cop.generate: option \"temperature\" must be a number of at least 0, got -1", { model = m, tokens = prompt, temperature = -1 })
refuses("cop.generate: option \"top_p\" must be a number from 0 to 1, got 1.5", { model = m, tokens = prompt, top_p = 1.5 })
refuses("cop.generate: option \"seed\" must be an integer of 64 bits, got 1.5",
   { model = m, tokens = prompt, seed = 1.5 })
refuses("cop.generate: option \"model\" must be a model, got \"x\"", { model = "x", tokens = prompt })
refuses("cop.generate: option \"rule\" must be a rule (cop.accept.…), got cop.tree.chain { depth = 5 }", { model = m, tokens = prompt, rule = cop.tree.chain {} })
refuses("cop.generate: the prompt is empty: it has no token to go on from", { model = m, tokens = {} })
do -- a stop string of any bytes; token 0 is the byte 0
   local zero = cop.generate { model = m, tokens = prompt, stop = "\0", max_tokens = 8, logit_bias = { [0] = 1e4 } }
   check.equal(zero.finish, "stop")
   check.equal(zero.text, "")
   zero = cop.generate { model = m, tokens = prompt, stop = { "\0b", "\0\0\0" }, max_tokens = 8, logit_bias = { [0] = 1e4 } }
   check.equal(zero.finish, "stop")
   zero = cop.generate { model = m, tokens = prompt, stop = "\0b", max_tokens = 8, logit_bias = { [0] = 1e4 }, ignore_eos = true }
   check.equal(zero.text, ("\0"):rep(8))
end
refuses("cop.generate: option \"stop\" must be a string or a list of strings, got 5", { model = m, tokens = prompt, stop = 5 })
-- Each of these keeps the best token alone.
local greedy = cop.generate { model = m, tokens = prompt, max_tokens = 12, ignore_eos = true }
for _, sampling in ipairs { { top_p = 0 }, { top_p = 1e-300 }, { top_k = 1 }, { min_p = 1 }, { temperature = 5e-324 }, { temperature = 1e-9 } } do
   sampling.temperature = sampling.temperature or 1
   sampling.model, sampling.tokens, sampling.max_tokens, sampling.ignore_eos = m, prompt, 12, true
   check.list(cop.generate(sampling).tokens, greedy.tokens)
end
-- Truncations that cut nothing.
local free = cop.generate { model = m, tokens = prompt, max_tokens = 12, temperature = 1, seed = 3, ignore_eos = true }
check.list(cop.generate({ model = m, tokens = prompt, max_tokens = 12, temperature = 1, seed = 3, ignore_eos = true,
   top_k = 10 ^ 9, top_p = 1, min_p = 0, repetition_penalty = 1, presence_penalty = 0, banned = {}, logit_bias = {} }).tokens, free.tokens)
check.raises_with("263", function() return cop.generate { model = m, tokens = { 263 } } end)
check.raises("cop.generate: token id 1 of the list must be an integer from 0 to 262, got -1", function() return cop.generate { model = m, tokens = { -1 } } end)
local long = {}
for i = 1, 300 do
   long[i] = 97
end
check.raises_with("256", function() return cop.generate { model = m, tokens = long } end)
check.raises_with("relaxed = true", function()
   return cop.generate {
      model = m, tokens = prompt, temperature = 1, rule = cop.accept.token {},
      proposer = cop.propose.model { draft }, tree = cop.tree.widths { 2, 2 }, draw = "independent",
   }
end)
-- What is about drafts needs a proposer: nil may be what is left of one.
local plain_only = '" is about drafts, but proposer is nil (a constructor that fails returns nil and a message); for '
   .. "plain decoding leave both out"
for option, value in pairs { tree = cop.tree.chain { depth = 3 }, length = cop.length.confidence {}, draw = "independent",
   rule = cop.accept.token {} } do
   refuses("cop.generate: option \"" .. option .. plain_only, { model = m, tokens = prompt, [option] = value })
end
check.equal(#cop.generate { model = m, tokens = prompt, rule = cop.accept.match {}, max_tokens = 4,
   ignore_eos = true }.tokens, 4)
-- Every default may be written out.
check.list(cop.generate { model = m, tokens = prompt, proposer = nil, tree = nil, length = cop.length.fixed {}, draw = nil,
   rule = nil, relaxed = false, temperature = 0, top_k = nil, seed = 0, max_tokens = 40, min_tokens = 0, stop = nil,
   stop_tokens = nil, ignore_eos = true, logprobs = nil, on_token = nil }.tokens, plain.tokens)
local stranger = cop.model { path = test.tiny { seed = 9, vocab = 61 }, threads = 1 }
check.raises_with("vocabulary", function()
   return cop.generate { model = m, tokens = prompt, proposer = cop.propose.model { stranger } }
end)
refuses("cop.generate: this model has no tokenizer, so prompt cannot be used: give tokens", { model = stranger, prompt = "x" })
check.equal(#cop.generate { model = stranger, tokens = { 1 }, max_tokens = 4, ignore_eos = true }.tokens, 4)

-- A zero byte is a byte of the text.
check.list(cop.generate { model = m, prompt = "a\0b", max_tokens = 4, ignore_eos = true }.tokens,
   cop.generate { model = m, tokens = m.tokenizer:encode("a\0b"), max_tokens = 4, ignore_eos = true }.tokens)
refuses("cop.generate: option \"prompt\" must be a string, got 3", { model = m, prompt = 3 })

-- A draft that is closed while a part uses it stays alive.
local proposer = cop.propose.model { draft }
draft:close()
check.list(cop.generate { model = m, tokens = prompt, max_tokens = 40, ignore_eos = true, proposer = proposer }.tokens, plain.tokens)
