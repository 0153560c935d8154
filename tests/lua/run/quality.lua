--- Quality measures by name in an experiment: what they say about texts whose value is known, and how
--- arms are compared.

local check, test, core = ...
local cop = require("coppice")

local text_measures = core.use("text_measures")

-- ---- Values worked out by hand -------------------------------------------------------------------
local function value(name, item, text, turn)
   return text_measures.by_name[name].of(item, { text = text, tokens = {}, turn = turn or 1 })
end
local item = { turns = { "?", "?" }, reference = { "police killed the gunman", { "no", "the police killed them" } },
   answer = "1234" }
check.near(value("rouge1", item, "police kill the gunman"), 0.75)
check.near(value("rouge2", item, "police kill the gunman"), 1 / 3)
check.near(value("rougeL", item, "the gunman kill police"), 0.5)
check.near(value("rouge1", item, "the police killed them", 2), 1, nil, "the best of several references")
check.equal(value("rouge1", item, "x", 3), nil, "a turn without a reference has no value")
check.near(value("bleu", { reference = { "the cat sat on the mat" } }, "the cat sat on the mat today"), 80.9107, 1e-4)
check.near(value("bleu", { reference = { "there is a cat on the mat" } }, "the cat is on the mat"), 29.0593, 1e-4)
check.equal(value("gsm8k_strict", item, "so\n#### 1,234."), true)
check.equal(value("gsm8k_strict", item, "so 1234"), false)
check.equal(value("gsm8k_flexible", item, "so $1,234. or"), true)
check.equal(value("gsm8k_flexible", item, "none"), false)
check.equal(value("gsm8k_flexible", { turns = {} }, "12"), nil)
check.near(value("distinct_2", item, "a b a b a"), 0.5) -- ab ba of ab ba ab ba
check.equal(value("distinct_2", item, "a"), nil)
check.near(value("repetition", item, "a b a b a b a b"), 1 - 2 / 5)
check.near(value("repetition", item, "one two three four"), 0)
local same = setmetatable({}, { __eq = function() return true end })
local divergence = text_measures.by_name.first_divergence.of
check.equal(divergence(item, { tokens = { 5, 6, 7 } }, { tokens = { 5, 6, 8 } }), 3)
check.equal(divergence(item, { tokens = { 5, 6 } }, { tokens = { 5, 6, 8 } }), 3)
check.equal(divergence(item, setmetatable({ tokens = { 5 } }, getmetatable(same)),
   setmetatable({ tokens = { 5 } }, getmetatable(same))), nil)

-- sacreBLEU 2.6.0, sentence_chrf
for _, case in ipairs {
   { "the cat sat on the mat", "the cat sat on the mat today", 93.485164 },
   { "the cat is on the mat", "there is a cat on the mat", 53.750415 },
   { "abc", "abd", 38.888889 },
   { "abcdefgh", "xyz", 0.000000 },
   { "Grüße aus Köln", "Gruesse aus Köln", 58.321192 },
   { "a", "a", 100.000000 },
   { "ab", "abcdefghij", 47.945205 },
   { "", "a", 0.000000 },
} do
   check.near(cop.quality.chrf(case[1], case[2]), case[3], 1e-6, case[2])
end

-- ---- Two arms of which the answers are planted ---------------------------------------------------
local compare = core.use("quality_compare")
local path = test.folder() .. "/trace.db"
local trace = assert(core.trace.open(path, "write"))
local plain = trace:arm { name = "plain", sampling = "T=0", is_plain = true, is_lossless = true }
local arm = trace:arm { name = "relaxed", sampling = "T=0" }
-- of 20 prompts 8 only plain decoding gets right, 2 only the arm, 6 both
for prompt = 1, 20 do
   trace:quality(plain, prompt, 1, 1, "gsm8k_strict", (prompt <= 8 or prompt > 14) and 1 or 0)
   trace:quality(arm, prompt, 1, 1, "gsm8k_strict", (prompt == 9 or prompt == 10 or prompt > 14) and 1 or 0)
   trace:quality(plain, prompt, 1, 1, "rouge1", 0.5)
   trace:quality(arm, prompt, 1, 1, "rouge1", 0.25 + prompt / 100)
end
check.list(compare.measures(trace), { "gsm8k_strict", "rouge1" })
local out = compare.group(trace, { { id = plain }, { id = arm } }, compare.measures(trace))
local q = out[2].gsm8k_strict
check.equal(q.is_yes_no, true)
check.near(q.mean, 0.4)
local low, high = cop.stats.wilson(8, 20)
check.near(q.low, low)
check.near(q.high, high)
check.near(q.difference.value, -0.3)
check.is(q.difference.low < -0.3 and q.difference.high > -0.3 and q.difference.high < 0.1)
check.equal(q.only_arm, 2)
check.equal(q.only_plain, 8)
check.near(q.p, 0.109375, 1e-12, "McNemar of (8, 2)")
check.near(q.p_holm, 0.109375, 1e-12)
check.equal(out[1].gsm8k_strict.difference, nil)
check.equal(out[2].rouge1.is_yes_no, false)
check.near(out[2].rouge1.mean, 0.355)
check.near(out[2].rouge1.difference.value, -0.145)
check.near(out[2].rouge1.p, 1 / 2001, 1e-15, "all 20 differences are below 0: none of 2,000 patterns is as far")
-- two answers to a prompt are no two items
for prompt = 1, 20 do
   trace:quality(plain, prompt, 2, 1, "gsm8k_strict", 1)
   trace:quality(arm, prompt, 2, 1, "gsm8k_strict", 1)
end
q = compare.group(trace, { { id = plain }, { id = arm } }, { "gsm8k_strict" })[2].gsm8k_strict
check.equal(q.p, nil)
check.equal(q.answers, 40)
check.near(q.difference.value, -0.15)
-- nothing is repeated anywhere: a number all the same, and no question that 20 answers say no to
for prompt = 1, 20 do
   trace:quality(plain, prompt, 1, 1, "repetition", 0)
   trace:quality(arm, prompt, 1, 1, "repetition", 0)
   trace:quality(arm, prompt, 1, 1, "a script's own", prompt % 2)
end
q = compare.group(trace, { { id = plain }, { id = arm } }, { "repetition", "a script's own" })[2]
check.equal(q.repetition.is_yes_no, false)
check.list({ q.repetition.low, q.repetition.high }, { 0.0, 0.0 })
check.equal(q.repetition.only_arm, nil)
check.equal(q["a script's own"].is_yes_no, true)
trace:close()

-- ---- A whole run ---------------------------------------------------------------------------------
local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local function experiment(changes)
   local e = {
      name = "quality", target = target, max_tokens = 12,
      prompts = {
         { turns = { "the cat and the hat" }, reference = { "the hat" }, answer = "7" },
         { turns = { "in the end" }, reference = { "the end" } },
      },
      arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } },
      quality = { "rouge1", "gsm8k_strict", "gsm8k_flexible", "distinct_2", "repetition", "first_divergence", "chrf",
         "exact_match" },
   }
   for key, change in pairs(changes or {}) do
      e[key] = change
   end
   return cop.experiment(e)
end
local folder = test.folder() .. "/run"
local result = test.quietly(function() return assert(experiment():run { out = folder }) end)
check.equal(result.failed, 0)
local lookup = result.arms[2]
check.equal(lookup.quality.rouge1.answers, 2)
check.equal(lookup.quality.gsm8k_strict.answers, 1, "an item without a gold answer has no value")
check.equal(lookup.quality.first_divergence, nil, "greedy answers are the same")
check.near(lookup.quality.rouge1.difference.value, 0)
check.near(lookup.measures.rouge1, result.arms[1].measures.rouge1)
local log = io.open(folder .. "/console.log"):read("a")
check.is(log:find("quality%s+arm%s+answers%s+mean %(95 %%%)"), log)
check.is(log:find("rouge1 ↑", 1, true))
check.is(not log:find("of the script's own", 1, true), log)

-- ---- What is refused -----------------------------------------------------------------------------
check.raises_with("cop.experiment: quality \"rouge2\" compares with a reference text (fields =", function()
   return experiment { quality = { "rouge2" }, prompts = { "one" } }
end)
check.raises_with("cop.experiment: quality \"gsm8k_strict\" compares with a gold answer", function()
   return experiment { quality = { "gsm8k_strict" }, prompts = { "one" } }
end)
check.raises_with("unknown quality \"rouge3\"", function() return experiment { quality = { "rouge3" } } end)
check.raises_with("two measures are called \"rouge1\"", function()
   return experiment { quality = { "rouge1", "rouge1" } }
end)
check.raises_with("two measures are called \"rouge1\"", function()
   return experiment { quality = { cop.quality.custom { name = "rouge1", of = function() return 1 end } } }
end)
