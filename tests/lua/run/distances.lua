--- kl_to_target and tv_to_target: the law of one position against the enumeration's, and in a run.

local check, test, core = ...
local cop = require("coppice")
local A = cop.accept

-- ---- The same law as the full enumeration has ----------------------------------------------------
local target, draft = { .50, .30, .15, .05 }, { .25, .25, .40, .10 }
local function logs(row)
   local out = {}
   for i, p in ipairs(row) do
      out[i] = math.log(p)
   end
   return out
end
for name, rule in pairs {
   token = A.token {}, lenience = A.lenience { factor = .5 },
   scaled = A.lenience { factor = .5, correction = "scaled" },
   by_target = A.lenience { factor = .5, correction = "target" }, additive = A.additive { epsilon = .1 },
   ears = A.ears { beta = .3 }, mixed = A.mixed { eta = .3 }, mentored = A.mentored { budget = .05 },
   ensemble = A.ensemble { weight = .5 }, contrastive = A.contrastive { beta = .5 }, cactus = A.cactus { delta = .1 },
   cascade = A.cascade { gate = "token_v1", alpha = .12 }, typical = A.typical {},
   typical_target = A.typical { correction = "target" }, top_k = A.top_k { k = 2 },
   rollback = A.fallback_rollback { rollback = 2 }, fuzzy = A.fuzzy { threshold = .05 },
} do
   local law = cop.relaxed_law { rule = rule, draw = "independent", widths = { 1 }, target = target, draft = draft }
   local got = core.position_law(rule, logs(target), logs(draft), { temperature = 1 }, "independent", 0.0)
   check.near(got.acceptance, law.acceptance, 1e-6, name)
   check.near(got.total_variation, law.total_variation_per_position[1], 1e-6, name)
   local kl = 0
   for i, p in ipairs(law.position[1]) do
      kl = kl + (p > 0 and p * math.log(p / target[i]) or 0)
   end
   check.near(got.kl, kl, 1e-6, name)
   check.near(got.strict, 0.7, 1e-6)
end
-- published: KL(output || target) of lenience 1/2 is .1107, of Cactus .1 .1173
local function kl_of(rule)
   return core.position_law(rule, logs(target), logs(draft), { temperature = 1 }, "independent", 0.0).kl
end
check.near(kl_of(A.lenience { factor = .5 }), .1107, 5e-5)
check.near(kl_of(A.cactus { delta = .1 }), .1173, 5e-5)
-- temperature and truncation shape both rows first
local sharp = core.position_law(A.lenience { factor = .5 }, logs { .4, .4, .2 }, logs { .4, .2, .4 },
   { temperature = 1, top_k = 2 }, "independent", 0.0)
check.near(sharp.strict, .5, 1e-6) -- (1/2, 1/2, 0) and, ties kept, (1/2, 0, 1/2)
check.raises_with("rule \"coupled\" has no law of one position", function()
   core.position_law(A.coupled {}, logs(target), logs(draft), { temperature = 1 }, "independent", 0.0)
end)

-- ---- In a run ------------------------------------------------------------------------------------
local big = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local small = assert(cop.model { path = test.tiny { seed = 7, noise = 0.5, noise_seed = 2 }, threads = 1,
   context = 256 })
local function arm(name, rule, changes)
   local given = { name, proposer = cop.propose.model { small }, tree = cop.tree.chain { depth = 2 }, rule = rule,
      relaxed = true }
   for key, value in pairs(changes or {}) do
      given[key] = value
   end
   return cop.arm(given)
end
local e = cop.experiment {
   name = "distances", target = big, temperature = { 0, 1 }, max_tokens = 20, seed = 2,
   prompts = { { turns = { "the cat and the hat", "and then" } }, { turns = { "in the end" } } },
   arms = {
      arm("strict", A.token {}), arm("half", A.lenience { factor = .5 }), arm("tenth", A.lenience { factor = .1 }),
      arm("lookup", A.lenience { factor = .5 }, { proposer = cop.propose.lookup {} }),
      arm("neutral", A.lenience { factor = 1 }),
   },
   quality = { "kl_to_target", "tv_to_target" },
}
local folder = test.folder() .. "/run"
local result = test.quietly(function() return assert(e:run { out = folder }) end)
local by_name = {}
for _, entry in ipairs(result.arms) do
   by_name[entry.sampling .. " " .. entry.name] = entry.quality
end
check.equal(by_name["T=0 half"].kl_to_target, nil)
check.near(by_name["T=1 plain"].kl_to_target.mean, 0, 0)
check.equal(by_name["T=1 plain"].kl_to_target.is_yes_no, false)
check.near(by_name["T=1 strict"].tv_to_target.mean, 0, 0)
check.near(by_name["T=1 neutral"].tv_to_target.mean, 0, 1e-6, "computed: lenience 1 is the strict rule")
check.near(by_name["T=1 neutral"].kl_to_target.mean, 0, 1e-9)
check.is(by_name["T=1 half"].kl_to_target.mean > 1e-4)
check.is(by_name["T=1 tenth"].kl_to_target.mean > by_name["T=1 half"].kl_to_target.mean)
check.is(by_name["T=1 tenth"].tv_to_target.mean > by_name["T=1 half"].tv_to_target.mean)
check.equal(by_name["T=1 half"].kl_to_target.answers, 3)
check.equal(by_name["T=1 lookup"].kl_to_target, nil)
local log = io.open(folder .. "/console.log"):read("a")
check.is(log:find("!!! kl_to_target, tv_to_target of arm lookup, T=1: needs a rule and a proposer with one draft model",
   1, true), log)
-- a mean over places, by hand: the whole of the first answer of an arm
local run = assert(cop.open_run(folder))
local row = run:sql("SELECT r.tokens, q.value FROM requests r JOIN arms a ON a.id = r.arm"
   .. " JOIN quality q ON q.arm = r.arm AND q.prompt = r.prompt AND q.turn = r.turn"
   .. " WHERE a.name = 'half' AND a.sampling = 'T=1' AND r.prompt = 2 AND q.measure = 'tv_to_target'")[1]
local tokens = core.system.json.decode(row.tokens)
local prompt = core.use("prompt")
local context = prompt.ids(big.tokenizer, e.prompts[2], { "in the end" }, (prompt.uses_chat(e)))
local nodes = table.move(tokens, 1, #tokens - 1, 1, {})
local theirs, mine = big:score { context = context, nodes = nodes }, small:score { context = context, nodes = nodes }
local sum, n = 0, math.min(#tokens, 16)
for i = 1, n do
   local place = (i - 1) * #tokens // n
   sum = sum + core.position_law(A.lenience { factor = .5 }, theirs[place], mine[place], { temperature = 1 },
      "independent", 0.01).total_variation
end
check.near(row.value, sum / n, 1e-12)
run:close()
