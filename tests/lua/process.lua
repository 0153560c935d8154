--- Penalties, biases, bans and a script's processor: cop.process_row against transformers, and the
-- same settings in cop.generate, where speculation stays invisible.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

-- ---- One row -------------------------------------------------------------------------------------

local function processed(options)
   options.logits = options.logits or { 2, -1, 0.5, 0.25 }
   return cop.process_row(options)
end
local function soft_max(logits, got)
   local sum, out = 0, {}
   for i, z in ipairs(logits) do
      out[i] = math.exp(z)
      sum = sum + out[i]
   end
   check.equal(#got, #logits)
   for i = 1, #logits do
      check.near(got[i], out[i] / sum, 1e-14)
   end
end
local history = { 0, 1, 1, 1 }
soft_max({ 1, -2, 0.5, 0.25 }, processed { history = history, repetition_penalty = 2 })
soft_max({ 1.5, -1.5, 0.5, 0.25 }, processed { history = history, presence_penalty = 0.5 })
soft_max({ 1.5, -2.5, 0.5, 0.25 }, processed { history = history, frequency_penalty = 0.5 })
soft_max({ 2, -1, 1.5, 0.25 }, processed { logit_bias = { [2] = 1 } })
soft_max({ -math.huge, -1, 0.5, -math.huge }, processed { logit_bias = { [0] = -math.huge }, banned = { 3 } })
-- all together, in the documented order: (2 / 2 - 0.5 - 0.25) + 1, (-1 * 2 - 0.5 - 0.75)
soft_max({ 1.25, -3.25, 0.5, -math.huge }, processed { history = history, repetition_penalty = 2, presence_penalty = 0.5,
   frequency_penalty = 0.25, logit_bias = { [0] = 1 }, banned = { 3 } })
-- another order: the bias first, so that the penalty sees it: (2 + 1) / 2
soft_max({ 1.5, -2, 0.5, 0.25 }, processed { history = history, repetition_penalty = 2, logit_bias = { [0] = 1 },
   order = { "logit_bias", "repetition_penalty" } })
soft_max({ 2, -1, 0.5, 0.25 }, processed { history = history, order = {} })
check.raises_with("cop.process_row: option \"repetition_penalty\" is given, but option \"order\" leaves the step out", processed,
   { history = history, repetition_penalty = 2, order = {} })
check.raises_with("option \"top_k\" is given", processed, { top_k = 1, order = { "temperature" } })
check.list(processed { temperature = 0, banned = { 0 } }, { 0.0, 0.0, 1.0, 0.0 })

for text, options in pairs {
   ["option \"repetition_penalty\" must be above 0 (1: off), got 0.0"] = { repetition_penalty = 0 },
   ["repetition_penalty = -1 is out of range"] = { repetition_penalty = -1 },
   ["presence_penalty"] = { presence_penalty = 1e7 },
   ["banned: id 4 is outside the vocabulary of 4 (ids from 0)"] = { banned = { 4 } },
   ["logit_bias: id 9 is outside the vocabulary of 4 (ids from 0)"] = { logit_bias = { [9] = 1 } },
   ["option \"logit_bias\" must name token ids, got \"x\""] = { logit_bias = { x = 1 } },
   ["option \"logit_bias\" must be a table id -> number; [2] is true"] = { logit_bias = { [2] = true } },
   ["logit_bias of id 2 is inf: must be a number up to 1e+30, or -math.huge for never"] = { logit_bias = { [2] = math.huge } },
   ["option \"banned\" must be a list of token ids"] = { banned = { x = 1 } },
   ["option \"banned\" must name token ids, got"] = { banned = { 0.5 } },
} do
   if text:find("out of range", 1, true) then
      text = "repetition_penalty"
   end
   check.raises_with(text, processed, options)
end
check.fails("numeric", "no token left", processed { banned = { 0, 1, 2, 3 } })

-- ---- transformers --------------------------------------------------------------------------------

--- Within 1e-12 of the expected value; numbers below the smallest normal one have fewer digits.
local function close(got, expected)
   return math.abs(got - expected) <= 1e-12 * expected + 1e-320
end

local function compare(row, case)
   local options = { logits = row.logits, history = row.history, order = {} }
   for i, step in ipairs(case.chain) do
      options[step[1]] = step[2]
      options.order[i] = step[1]
   end
   local what = row.name .. " " .. table.concat(options.order, " ")
   local got, expected, kept, lost = cop.process_row(options), {}, 0, 0
   for id = 0, #row.logits - 1 do
      local p = case.probs[tostring(id)]
      expected[id + 1] = p or 0
      kept = kept + (got[id + 1] > 0 and 1 or 0)
      lost = lost + (p == 0 and 1 or 0) -- kept, but too improbable for a double
   end
   check.equal(kept + lost, case.kept, what)
   if case.tie_at_border then
      table.sort(got)
      table.sort(expected)
   end
   for i = 1, #got do
      check.is(close(got[i], expected[i]), ("%s, token %d: %.17g, not %.17g"):format(what, i - 1, got[i], expected[i]))
   end
end

if test.shared then
   local file = assert(io.open(test.shared .. "/reference/sampling.json"))
   local reference, compared = test.core.system.json.decode(file:read("a")), 0
   file:close()
   for _, row in ipairs(reference.rows) do
      for i, logit in ipairs(row.logits) do
         row.logits[i] = logit == "-inf" and -math.huge or logit
      end
      for _, case in ipairs(row.cases) do
         compare(row, case)
         compared = compared + 1
      end
   end
   check.equal(compared, 432)
end

-- ---- Answers -------------------------------------------------------------------------------------

local m = cop.model { path = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 256 }, threads = 1, precision = "f32" }
local draft = cop.model { path = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 256, noise = 0.1,
   noise_seed = 1 }, threads = 1, precision = "f32" }
local prompt = { 104, 101, 108, 108, 111, 104, 101, 108, 108, 111 }

local function answer(options, arm)
   local o = { model = m, tokens = prompt, max_tokens = 40, ignore_eos = true, logprobs = 3 }
   for _, from in ipairs { options, arm } do
      for key, value in pairs(from) do
         o[key] = value
      end
   end
   return cop.generate(o)
end

local usual = answer({}, {})
local favourite, second = usual.tokens[1], usual.logprobs[1].top[2].id

--- Never the same token three times in a row; a little less of what stands two places back.
local function no_triples(prefix, row)
   local n = #prefix
   check.equal(#row, 263)
   check.equal(row[263], nil)
   check.equal(row[-1], nil)
   if n > 1 and prefix[n] == prefix[n - 1] then
      row[prefix[n]] = -math.huge
   end
   row[prefix[n - 1]] = row[prefix[n - 1]] - 0.5
end

local settings = {
   { repetition_penalty = 1.5 },
   { presence_penalty = 1.5 },
   { frequency_penalty = 0.7 },
   { frequency_penalty = -0.3 },
   { logit_bias = { [favourite] = -3, [second] = 2.5 } },
   { banned = { favourite, second } },
   { processor = no_triples },
   { repetition_penalty = 1.2, presence_penalty = 0.3, frequency_penalty = 0.2, logit_bias = { [7] = 1 },
      banned = { favourite }, processor = no_triples, min_tokens = 5 },
}
local arms = {
   { proposer = cop.propose.lookup { min_ngram = 1 } },
   { proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 4 } },
   { proposer = cop.propose.model { draft }, tree = cop.tree.widths { 3, 2, 1 } },
   { proposer = cop.propose.model { m }, tree = cop.tree.chain { depth = 6 } },
}
local drafted, accepted, changed = {}, {}, 0
for i, setting in ipairs(settings) do
   local plain = answer(setting, {})
   changed = changed + (table.concat(plain.tokens, " ") ~= table.concat(usual.tokens, " ") and 1 or 0)
   for k, arm in ipairs(arms) do
      local r, what = answer(setting, arm), ("setting %d, arm %d"):format(i, k)
      check.list(r.tokens, plain.tokens, what)
      drafted[k], accepted[k] = (drafted[k] or 0) + r.drafted, (accepted[k] or 0) + r.accepted
      for place, entry in ipairs(r.logprobs) do
         check.near(entry.logprob, plain.logprobs[place].logprob, 0, what)
         check.equal(entry.top[3].id, plain.logprobs[place].top[3].id, what)
      end
   end
end
check.is(changed >= 6, changed .. " settings changed the answer")
for k = 1, #arms do
   check.is(drafted[k] > 0 and accepted[k] > 0, "arm " .. k .. " accepted nothing")
end

-- Bans hold everywhere, log-probabilities included.
local banned = answer({ banned = { favourite, second }, temperature = 1, seed = 3 }, arms[3])
for i, id in ipairs(banned.tokens) do
   check.is(id ~= favourite and id ~= second)
   for _, best in ipairs(banned.logprobs[i].top) do
      check.is(best.id ~= favourite and best.id ~= second)
   end
end

-- Above temperature 0 the seed decides and nothing else; one kept token leaves no choice, so that
-- speculation is invisible again.
for _, setting in ipairs(settings) do
   local function sampled(top_k, arm)
      local more = { temperature = 0.8, top_k = top_k, seed = 5 }
      for key, value in pairs(setting) do
         more[key] = value
      end
      return answer(more, arm)
   end
   check.list(sampled(50, arms[2]).tokens, sampled(50, arms[2]).tokens)
   check.list(sampled(1, arms[2]).tokens, answer(setting, {}).tokens)
end

-- What the target row of each place was, once more by cop.process_row: the penalties count the
-- answer so far, every kept token once, whatever was drafted in between.
local penalties = { presence_penalty = 0.6, frequency_penalty = 0.4 }
local speculated = answer(penalties, arms[3])
check.is(speculated.accepted > 0 and speculated.accepted < speculated.drafted)
for _, place in ipairs { 1, 2, 11, 25, 40 } do
   local context = table.move(prompt, 1, #prompt, 1, {})
   table.move(speculated.tokens, 1, place - 1, #context + 1, context)
   local row = cop.process_row { logits = m:score { context = context }[0],
      history = table.move(speculated.tokens, 1, place - 1, 1, {}), presence_penalty = 0.6, frequency_penalty = 0.4 }
   local entry = speculated.logprobs[place]
   check.near(math.exp(entry.logprob), row[entry.id + 1], 1e-6, "place " .. place)
end

-- ---- A processor that goes wrong -----------------------------------------------------------------

for _, arm in ipairs { {}, arms[2] } do
   check.raises_with("lua/process.lua", answer, { processor = function() error("no more") end }, arm)
   check.raises_with("cop.generate: processor: ", answer, { processor = function() error("no more") end }, arm)
   check.raises_with("no more", answer, { processor = function() error("no more") end }, arm)
end
check.raises_with("row[3] must be set to a number below infinity, or to -math.huge for never; got", answer,
   { processor = function(_, row) row[3] = 0 / 0 end }, {})
check.raises_with("row[id] = logit: the token id must be an integer from 0 to 262, got 263", answer,
   { processor = function(_, row) row[263] = 0 end }, {})
local kept
answer({ max_tokens = 2, processor = function(_, row) kept = row end }, {})
check.raises_with("this row was valid only until the processor returned", function() return kept[1] end)
check.raises_with("this row was valid only until the processor returned", function() kept[1] = 1 end)

-- The engine ends that request, serves the next, and counts the time as a script's.
local engine = test.core.engine { target = m, proposer = arms[2].proposer, batch = 2, processor = function(prefix, row)
   if prefix[1] == 1 and #prefix > 6 then
      error("not this one")
   end
   row[5] = row[5] + 1
end }
local before, ended = test.core.microseconds(), {}
for id, first in ipairs { 1, 2 } do
   engine:submit { tokens = { first, 8, 9 }, id = id, max_tokens = 12, ignore_eos = true }
end
repeat
   local active, results = engine:step()
   for _, r in ipairs(results) do
      ended[r.request] = r
   end
until active == 0
engine:close()
check.equal(ended[1].finish, "error")
check.equal(ended[1].code, "callback")
check.is(ended[1].error:find("^processor: .*not this one$"), ended[1].error)
check.equal(#ended[2].tokens, 12)
check.is(test.core.microseconds() > before)

-- A rule in Lua that asks for rows calls the processor from within its own call.
local calls = 0
local rule = cop.accept.custom { name = "greedy", lossless_for = { { draw = "deterministic", temperature = "zero" } },
   verify = function(tree, target)
      local node, path = 0, {}
      while true do
         local best = target(node):top(1)[1].id
         local found
         for _, child in ipairs(tree:children(node)) do
            found = found or (tree:token(child) == best and child)
         end
         if not found then
            return path, best
         end
         path[#path + 1], node = found, found
      end
   end }
local setting = { processor = function(prefix, row)
   calls = calls + 1
   no_triples(prefix, row)
end }
local own = answer(setting, { proposer = arms[3].proposer, tree = arms[3].tree, rule = rule })
check.list(own.tokens, answer({ processor = no_triples }, {}).tokens)
check.is(calls >= 40 and own.accepted > 0)

-- ---- Settings that cannot be -----------------------------------------------------------------------

check.raises("cop.generate: option \"repetition_penalty\" must be above 0 (1: off), got 0.0", function()
   return answer({ repetition_penalty = 0 }, {})
end)
check.raises("cop.generate: banned: id 263 is outside the vocabulary of 263 (ids from 0)", function()
   return answer({ banned = { 263 } }, {})
end)
local everything = {}
for id = 0, 262 do
   everything[id + 1] = id
end
for _, arm in ipairs { {}, arms[3] } do
   local none = answer({ banned = everything }, arm)
   check.equal(none.finish, "error")
   check.equal(none.code, "numeric")
   check.is(none.error:find("no token left", 1, true), none.error)
   check.equal(#none.tokens, 0)
end

-- ---- Arms and experiments --------------------------------------------------------------------------

local experiment = cop.experiment { name = "penalties", target = m, prompts = { "hello" }, presence_penalty = 0.5, arms = {
   cop.arm { "a", proposer = arms[1].proposer },
   cop.arm { "b", proposer = arms[1].proposer, presence_penalty = 0.25, processor = no_triples },
   cop.arm { "c", proposer = arms[1].proposer, presence_penalty = 0.25, processor = function() end },
} }
local shown
local original = print
print = function(text) shown = text end -- luacheck: ignore
experiment:check()
print = original -- luacheck: ignore
for _, label in ipairs { "T=0 presence_penalty=0.5 ", "T=0 presence_penalty=0.25 processor ", "T=0 presence_penalty=0.25 processor 2 " } do
   check.is(shown:find(label, 1, true), shown)
end

-- ---- Minimum length and a script's processor in cop.process_row ----------------------------------

local function row_of(o)
   o.logits = { 1, 2, 3, 0 }
   return cop.process_row(o)
end
local whole, without = row_of {}, row_of { banned = { 2 } }
local ends = { min_tokens = 2, end_tokens = { 2 }, history = { 0, 1, 1 }, prompt_length = 2 }
check.near(row_of(ends)[2], without[2], 1e-15, "one token of the answer, two are wanted")
check.is(row_of(ends)[3] == 0)
ends.min_tokens = 1
check.near(row_of(ends)[3], whole[3], 1e-15)
local seen
local shaped = row_of { history = { 3, 1 }, order = { "processor", "top_k" }, top_k = 2, processor = function(prefix, row)
   seen = table.concat(prefix, " ") .. " of " .. #row
   row[2], row[0] = -math.huge, row[0] + 1
end }
check.equal(seen, "3 1 of 4")
check.near(shaped[1], 0.5, 1e-15)
check.near(shaped[2], 0.5, 1e-15)
check.is(shaped[4] == 0, "top_k sees what the processor left")
check.raises("cop.process_row: option \"prompt_length\" is 3, the history has 2 ids", function()
   return cop.process_row { logits = { 1, 2 }, history = { 0, 1 }, prompt_length = 3 }
end)
check.equal(select(2, cop.process_row { logits = { 1, 2 }, processor = function() error("no", 0) end }),
   "cop.process_row: processor: no")
