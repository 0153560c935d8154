--- Every function with every argument wrong in turn, many times over; objects collected in any
-- order; errors of every kind from every callback. Run under sanitizers this finds leaks.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

local path = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 128 }
local m = cop.model { path = path, threads = 1, precision = "f32" }
local tok = m.tokenizer
local prompt = { 104, 105 }
local plain = cop.generate { model = m, tokens = prompt, max_tokens = 8, ignore_eos = true }

local cyclic = {}
cyclic[1], cyclic.self = cyclic, cyclic
local values = {
   false, true, 0, -1, 1, 1.5, 2 ^ 31, 2 ^ 63, 0 / 0, 1 / 0, math.mininteger, "", "x", "\0", {}, { {} }, { 1, 2.5 }, cyclic,
   print, coroutine.create(print), io.stdout, m, tok, cop.tree.chain {}, cop.accept.match {},
   setmetatable({}, { __index = function() error("index") end, __tostring = function() error("tostring") end }),
   m:score({ context = { 1 } })[0],
}

local function quiet() end

-- Whatever is passed: an error or a result, never a crash.
local function harmless(f, ...)
   local ok, message = pcall(f, ...)
   check.is(ok or type(message) ~= "number", "an error number")
end
local constructors = {
   chain = { cop.tree.chain, { depth = 2 } },
   widths = { cop.tree.widths, { widths = { 2 } } },
   paths = { cop.tree.paths, { paths = { "0" } } },
   lookup = { cop.propose.lookup, { variant = "hf", min_ngram = 1, max_ngram = 2, tokens = 3 } },
   model = { cop.propose.model, { model = m } },
   token = { cop.accept.token, {} },
   rule = { cop.accept.custom, { name = "x", verify = quiet, lossless_for = { "independent" }, state = { a = 1 } } },
   proposer = { cop.propose.custom, { name = "x", rows = "points", depth = 3, start = quiet, expand = quiet, observe = quiet, finish = quiet } },
   tree = { cop.tree.custom, { name = "x", depth = 2, nodes = 2, shape = "tree", grow = quiet } },
   length = { cop.length.custom, { name = "x", decide = quiet } },
   tokenizer = { cop.tokenizer, { path = "none" } },
   score = { function(o) return m:score(o) end, { context = { 1 }, nodes = { 1 }, parents = { 0 }, hidden = { 0 } } },
   law = { cop.exact_law, { rule = cop.accept.token {}, draw = "independent", widths = { 1 }, target = { 0.5, 0.5 }, draft = { 0.5, 0.5 },
      length = cop.length.fixed {}, horizon = 1, temperature = 1 } },
   verify = { cop.verify_rows, { rule = cop.accept.token {}, tree = { tokens = { 0 } }, target = { { 0.5, 0.5 }, { 0.5, 0.5 } },
      draft = { { 0.5, 0.5 } }, coins = { 0.1, 0.2 }, draw = "independent" } },
   build = { cop.build_tree, { tree = cop.tree.widths { 2 }, rows = { 0.5, 0.5 }, draw = "deterministic", seed = 1 } },
   once = { cop.propose_once, { proposer = cop.propose.lookup {}, context = { 1, 2, 1 }, tree = cop.tree.chain {}, temperature = 1, seed = 0 } },
   row = { cop.process_row, { logits = { 1, 2 }, temperature = 1, top_k = 1, top_p = 1, min_p = 0, order = { "top_k" } } },
   generate = { cop.generate, { model = m, tokens = prompt, max_tokens = 2, temperature = 0, top_k = 0, top_p = 1, min_p = 0, seed = 0,
      min_tokens = 0, stop = "x", stop_tokens = { 1 }, ignore_eos = true, logprobs = 1, on_token = quiet, proposer = cop.propose.lookup {},
      tree = cop.tree.chain {}, rule = cop.accept.match {}, length = cop.length.fixed {}, draw = "deterministic", relaxed = false } },
}
local original = print
print = function() end -- luacheck: ignore
for _, pair in pairs(constructors) do
   local f, good = pair[1], pair[2]
   for _, value in ipairs(values) do
      harmless(f, value)
      harmless(f, { value })
      harmless(f, {}, value)
      for key in pairs(good) do
         local options = {}
         for k, v in pairs(good) do
            options[k] = v
         end
         options[key] = value
         harmless(f, options)
      end
   end
end
for _, value in ipairs(values) do
   for _, method in ipairs { "encode", "decode", "piece", "id", "chat" } do
      harmless(tok[method], tok, value)
      harmless(tok[method], value)
      harmless(tok[method], tok, "x", value)
      harmless(tok[method], tok, { value })
   end
   harmless(m.score, value)
   harmless(cop.load, value)
   harmless(cop.help, value)
   harmless(cop.philox, value, value)
   harmless(cop.philox, { value, value, value, value }, { value, value })
   harmless(tostring, value == values[26] and 1 or value)
end
print = original -- luacheck: ignore

-- Errors of every kind from a rule, in the middle of an answer; then everything works as before.
local recursion
recursion = function() return 1 + recursion() end
for _, fault in ipairs {
   function() error("x") end, function() error({}) end, function() error(nil) end, function() error() end,
   function() error(setmetatable({}, { __tostring = function() error("again") end })) end, recursion,
   function() return ("x"):rep(1 << 40) end, function() coroutine.yield() end, function() return nil, nil end,
   function() collectgarbage() error("after a collection") end,
} do
   local calls = 0
   harmless(cop.generate, {
      model = m, tokens = prompt, max_tokens = 8, ignore_eos = true, relaxed = true, proposer = cop.propose.model { m },
      rule = cop.accept.custom { name = "faulty", verify = function(_, t)
         calls = calls + 1
         if calls == 2 then
            return fault()
         end
         return {}, t(0):top(1)[1].id
      end },
   })
   check.equal(calls, 2)
   harmless(cop.generate, { model = m, tokens = prompt, max_tokens = 8, on_token = fault })
   harmless(cop.generate, { model = m, tokens = prompt, max_tokens = 8,
      proposer = cop.propose.custom { name = "f", rows = "points", expand = fault } })
   harmless(cop.generate, { model = m, tokens = prompt, max_tokens = 8,
      proposer = cop.propose.custom { name = "f", rows = "points", expand = function() end, finish = fault } })
   harmless(cop.generate, { model = m, tokens = prompt, max_tokens = 8, proposer = cop.propose.model { m },
      length = cop.length.custom { name = "f", decide = fault } })
   harmless(cop.generate, { model = m, tokens = prompt, max_tokens = 8, proposer = cop.propose.model { m },
      tree = cop.tree.custom { name = "f", grow = fault } })
   harmless(cop.exact_law, { rule = cop.accept.token {}, widths = { 1 }, target = fault, draft = { 0.5, 0.5 } })
end
check.list(cop.generate({ model = m, tokens = prompt, max_tokens = 8, ignore_eos = true }).tokens, plain.tokens)

-- Garbage in every order: models of which nothing but a part, an engine or a row is left.
for round = 1, 20 do
   local draft = cop.model { path = path, threads = 1, precision = "f32" }
   local proposer = cop.propose.model { draft }
   local engine = test.core.engine { target = draft, proposer = proposer }
   engine:submit { tokens = prompt, max_tokens = 8, cycles = true }
   if round % 2 == 0 then
      engine:step()
   end
   if round % 3 == 0 then
      draft:close()
   end
   if round % 5 == 0 then
      engine:close()
   end
   local row = draft and round % 3 ~= 0 and draft:score({ context = { 1 } })[0]
   draft, proposer, engine, row = nil, nil, nil, row and nil -- luacheck: ignore
   collectgarbage(round % 4 == 0 and "collect" or "step")
end
collectgarbage()

-- Many models in a row without a close: the collector is told what they weigh.
for _ = 1, 100 do
   cop.model { path = path, threads = 1 }
end

-- An engine left running when the state closes, with functions of the script in it.
LEFT = test.core.engine { -- luacheck: ignore
   target = m,
   proposer = cop.propose.custom { name = "left", rows = "points", expand = function() return { { 1 } } end, finish = function() error("late") end },
}
LEFT:submit { tokens = prompt, max_tokens = 8, on_text = function() end } -- luacheck: ignore
LEFT:step() -- luacheck: ignore
