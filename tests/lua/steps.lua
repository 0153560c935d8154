--- cop.steps: what a judge keeps, what the target writes in its place, and where answers end.

local check, test = ...
local cop = require("coppice")

local path = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 256 }
local noisy = test.tiny { seed = 8, vocab = 263, tokenizer = true, context = 256 }
local target = cop.model { path = path, threads = 1, precision = "f32" }
local draft = cop.model { path = noisy, threads = 1, precision = "f32" }
local prompt = { 104, 101, 108, 108, 111 }

local function plain(model, n)
   return cop.generate { model = model, tokens = prompt, max_tokens = n, ignore_eos = true }
end

--- Steps of at most 6 tokens; the tiny models write no blank lines.
local function steps(more)
   local o = { target = target, draft = draft, tokens = prompt, max_tokens = 20, step_tokens = 6, ignore_eos = true }
   for key, value in pairs(more) do
      o[key] = value
   end
   return cop.steps(o)
end

local function origins(r)
   local out = {}
   for i, step in ipairs(r.steps) do
      out[i] = step.origin
   end
   return table.concat(out, " ")
end

-- A judge that refuses everything gives the target's own answer, one that keeps everything the draft's.
local none = steps { judge = function() return false end }
check.list(none.tokens, plain(target, 20).tokens)
check.equal(none.text, plain(target, 20).text)
check.equal(origins(none), "target target target target")
check.equal(none.accepted, 0)
check.equal(none.drafted, 4)
check.equal(none.target_tokens, 20)
check.equal(none.draft_tokens, 20)
check.equal(none.forward_passes, 20)
check.equal(none.finish, "length")
check.equal(none.lossless, false)
check.equal(tostring(none), "answer in 4 steps (length), 0 of 4 drafted ones kept")
check.equal(#none.steps[1].refused.tokens, 6)
local all = steps { judge = function() return true end }
check.list(all.tokens, plain(draft, 20).tokens)
check.equal(origins(all), "draft draft draft draft")
check.equal(all.acceptance, 1.0)
check.equal(all.forward_passes, 0)

-- Token-level speculation below changes nothing but the number of passes.
local inside = steps { judge = function() return false end,
   inside = { proposer = cop.propose.model { target }, tree = cop.tree.chain { depth = 3 } } }
check.list(inside.tokens, none.tokens)
check.is(inside.forward_passes < 20)

-- A score is compared with the threshold, equality keeps; the judge sees the step and what is before it.
local seen = {}
local mixed = steps { threshold = 2, judge = function(step)
   seen[step.index] = #step.prefix
   check.equal(#step.tokens, step.index < 4 and 6 or 2)
   check.equal(step.text, target.tokenizer:decode(step.tokens))
   return step.index
end }
check.list(seen, { 5, 11, 17, 23 })
check.equal(origins(mixed), "target draft draft draft")
check.equal(mixed.steps[2].score, 2)
check.equal(steps { judge = function(step) return step.index == 1 and 0.7 or 0.69 end }.accepted, 1) -- RSD's 0.7

-- log_prob is the mean log-probability under the target, from rows of cop.model:score.
local scored = steps { judge = "log_prob", max_tokens = 6, threshold = -1e9 }
local rows = target:score { context = prompt, nodes = scored.tokens }
local sum = 0
for i, id in ipairs(scored.tokens) do
   sum = sum + rows[i - 1][id] - rows[i - 1]:logsumexp()
end
check.near(scored.steps[1].score, sum / 6, 1e-9)
check.equal(scored.forward_passes, 1)

-- digit: the target's best of the ten digits behind the question.
local rated = steps { judge = "digit", max_tokens = 6, threshold = 0 }
local text = target.tokenizer:decode(prompt) .. rated.steps[1].text
   .. "\n\nFrom 0 (wrong) to 9 (right), how good is the last step? One digit: "
local row, best = target:score({ context = target.tokenizer:encode(text) })[0], 0
for digit = 1, 9 do
   best = row[48 + digit] > row[48 + best] and digit or best
end
check.equal(rated.steps[1].score, best)
check.equal(steps { judge = "digit", max_tokens = 6, threshold = best + 1 }.accepted, 0)
check.equal(steps { judge = "digit", max_tokens = 6, threshold = best }.accepted, 1)

-- cues: words, whatever their case and the marks around them.
local word = all.steps[1].text:lower():match("%w+")
if word then
   check.equal(steps { judge = "cues", cues = { word }, max_tokens = 6 }.accepted, 0)
end
check.equal(steps { judge = "cues", cues = { "never said" }, max_tokens = 6 }.accepted, 1)

-- A step ends with its boundary, which belongs to it; the next one goes on behind it.
local ids, at = plain(draft, 20).tokens, nil
for i = 20, 2, -1 do
   at = draft.tokenizer:piece(ids[i]):find("^[%w%p]+$") and i or at
end
check.is(at, "the draft says nothing that can be read")
local letter = draft.tokenizer:piece(ids[at])
local short = steps { judge = function() return true end, boundary = letter, step_tokens = 512 }
check.list(short.tokens, ids)
local first = {}
for i, id in ipairs(short.steps[1].tokens) do
   first[i] = draft.tokenizer:piece(id)
end
check.equal(table.concat(first):sub(-#letter), letter)
check.is(#first <= at)

-- Ends: steps, a script's wish; the text that on_step sees is what was taken.
check.equal(#steps { judge = function() return true end, max_steps = 2 }.tokens, 12)
local stopped = steps { judge = function() return true end, on_step = function(step) return step.index < 2 end }
check.equal(stopped.finish, "cancelled")
check.equal(#stopped.steps, 2)

-- A draft of another vocabulary reads and writes text.
local stranger = cop.model { path = test.tiny { seed = 9, vocab = 270, tokenizer = true, context = 256 }, threads = 1 }
local told = steps { draft = stranger, judge = function() return true end, max_tokens = 6 }
check.is(#told.tokens <= 6 and told.draft_tokens == #told.tokens)

-- What is wrong says what to write.
check.raises("cop.steps: option \"target\" must be a model, got \"x\"", function() return steps { target = "x" } end)
check.raises_with("cop.steps: unknown judge \"digits\"; did you mean \"digit\"?", function()
   return steps { judge = "digits" }
end)
check.raises_with("cop.steps: option \"judge\" must be a function or the name of a judge, got a number", function()
   return steps { judge = 3 }
end)
check.raises_with("cop.steps: the judge must return a score or a boolean, got a string", function()
   return steps { judge = function() return "yes" end }
end)
check.raises_with("cop.steps: judge: ", function() return steps { judge = function() error("no more") end } end)
check.raises("cop.steps: needs exactly one of: prompt, tokens, messages", function() return steps { prompt = "x" } end)
check.raises("cop.steps: option \"boundary\" must be text that ends a step, like \"\\n\\n\"", function()
   return steps { boundary = "" }
end)
