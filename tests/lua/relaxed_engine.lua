--- Relaxed rules in an engine: rows with temperature, truncation, penalties and bans; what a ban takes away
-- never comes out, seeds decide, and neutral settings are plain decoding.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")
local A = cop.accept

local m = cop.model { path = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 256 }, threads = 1, precision = "f32" }
local draft = cop.model { path = test.tiny { seed = 7, vocab = 263, tokenizer = true, context = 256, noise = 0.1, noise_seed = 1 }, threads = 1, precision = "f32" }
local prompt = { 104, 101, 108, 108, 111 }

local function run(rule, more)
   local o = { model = m, tokens = prompt, max_tokens = 24, ignore_eos = true, relaxed = true, rule = rule,
      proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 4 } }
   for key, value in pairs(more or {}) do
      o[key] = value
   end
   local r = cop.generate(o)
   check.equal(r.finish, "length", tostring(rule) .. tostring(r.error))
   return r
end

local trees = { -- rules of siblings
   A.lenience { factor = 0.3 }, A.additive { epsilon = 0.3 }, A.ears { beta = 0.5 }, A.mixed { eta = 0.5 }, A.mentored {}, A.ensemble { weight = 0.5 },
   A.contrastive {}, A.truncated { top_k = 4 }, A.cascade { gate = "token_v1", alpha = 0.5 }, A.cascade { gate = "token_v3", alpha = 0.5 },
   A.cascade { gate = "chow", alpha = 0.9 }, A.cascade { gate = "opt", alpha = 0.5 }, A.typical {}, A.sglang_threshold { accumulated = 0.3 },
   A.tau_relaxed {}, A.trt_relaxed {}, A.top_k {}, A.margin {}, A.entropy {}, A.mars { theta = 0.5 }, A.judge { "share", threshold = 0.2 },
}
local chains = { A.cactus {}, A.fuzzy {}, A.fallback_rollback {}, A.fallback_rollback { fallback = 0.1 }, A.budgeted {}, A.deferred { window = 1 } }

local settings = {
   { temperature = 0 }, { temperature = 1 }, { temperature = 0.7, top_p = 0.9, top_k = 40 },
   { temperature = 1.5, repetition_penalty = 1.2, logit_bias = { [5] = 3 } },
}
-- The tokens that plain decoding says most are banned.
local counts, banned = {}, {}
for _, temperature in ipairs { 0, 1 } do
   for seed = 1, 3 do
      for _, id in ipairs(cop.generate { model = m, tokens = prompt, max_tokens = 24, ignore_eos = true, temperature = temperature, seed = seed }.tokens) do
         counts[id] = (counts[id] or 0) + 1
      end
   end
end
for id in pairs(counts) do
   banned[#banned + 1] = id
end
table.sort(banned)
check.is(#banned > 5)
local is_banned = {}
for _, id in ipairs(banned) do
   is_banned[id] = true
end

local n_kept = 0
local function try(rule, more)
   for _, setting in ipairs(settings) do
      local o = {}
      for _, from in ipairs { setting, more } do
         for key, value in pairs(from) do
            o[key] = value
         end
      end
      o.seed = 3
      local first, again = run(rule, o), run(rule, o)
      check.list(first.tokens, again.tokens, tostring(rule))
      check.equal(first.lossless, false)
      n_kept = n_kept + first.accepted
      o.banned = banned
      for _, id in ipairs(run(rule, o).tokens) do
         check.is(not is_banned[id], tostring(rule) .. " says a banned token")
      end
   end
end
for _, rule in ipairs(trees) do
   try(rule, {})
   try(rule, { tree = cop.tree.widths { 3, 2 } })
end
for _, rule in ipairs(chains) do
   try(rule, {})
end
try(A.fuzzy { reducible = true }, { draw = "independent" })
try(A.deferred { window = 1, test = "ratio" }, { draw = "independent" })
check.is(n_kept > 1000)

-- At temperature 0 a neutral setting is plain decoding, with penalties too.
local neutral = { A.lenience { factor = 1 }, A.additive { epsilon = 0 }, A.ears { beta = 0 }, A.mixed { eta = 0 }, A.mentored { budget = 0 },
   A.ensemble { weight = 1 }, A.contrastive { beta = 0 }, A.truncated { top_p = 0.5 }, A.typical {}, A.sglang_threshold {}, A.tau_relaxed { beta = 1 },
   A.trt_relaxed { candidates = 1 }, A.top_k { k = 1 }, A.margin { margin = 0 }, A.entropy { entropy = 1000 }, A.mars { theta = 1e6 },
   A.judge { function() return false end }, A.cascade { gate = "diff", alpha = -1 } }
for _, more in ipairs { {}, { repetition_penalty = 1.3, banned = { 1, 2, 3 } } } do
   local plain = cop.generate { model = m, tokens = prompt, max_tokens = 24, ignore_eos = true, repetition_penalty = more.repetition_penalty, banned = more.banned }
   for _, rule in ipairs(neutral) do
      check.list(run(rule, { tree = cop.tree.widths { 2, 2, 1 }, repetition_penalty = more.repetition_penalty, banned = more.banned }).tokens, plain.tokens, tostring(rule))
   end
end

-- What the definition does not cover is refused before anything runs, relaxed or not.
check.raises_with("accept.cactus is defined for independent × chain; it says nothing about", function()
   return run(A.cactus {}, { tree = cop.tree.widths { 2 }, temperature = 1 })
end)
check.raises_with("it says nothing about deterministic × chain", function()
   return run(A.ears {}, { draw = "deterministic", temperature = 1 })
end)
check.raises_with("accept.typical changes the output distribution by design; say relaxed = true", function()
   return run(A.typical {}, { relaxed = false })
end)
-- The draw is the one that the definition prefers.
check.equal(run(A.typical {}, { temperature = 1 }).draw, "deterministic")
check.equal(run(A.mentored {}, { temperature = 1 }).draw, "independent")
check.equal(run(A.mentored {}, { temperature = 1, tree = cop.tree.widths { 2 } }).draw, "without_replacement")
-- Points are chosen by the context: sets take them, and so does a chain of point masses.
check.is(run(A.typical {}, { temperature = 1, proposer = cop.propose.lookup {}, tree = cop.tree.chain { depth = 3 } }))
