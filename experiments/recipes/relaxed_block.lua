--- Relaxed rules on four drafted tokens with given coins: how many each keeps.

local cop = require("coppice")
local A = cop.accept

local target = {
   { .70, .15, .10, .03, .02 }, { .40, .35, .15, .06, .04 }, { .30, .25, .20, .15, .10 }, { .85, .10, .03, .01, .01 },
   { .05, .80, .05, .05, .05 },
}
local draft = {
   { .60, .20, .10, .05, .05 }, { .30, .50, .10, .05, .05 }, { .20, .20, .40, .10, .10 }, { .30, .60, .05, .03, .02 },
}

local function kept(rule)
   return function()
      return cop.verify_rows { rule = rule, target = target, draft = draft, coins = { .5, .8, .45, .5 },
         pick = "argmax", tree = { tokens = { 0, 1, 2, 1 }, parents = { 0, 1, 2, 3 } } }.accepted
   end
end

local cactus, cascades = "arXiv:2604.04987", "arXiv:2405.19261"
local values = {}
for _, row in ipairs {
   { "match", 1, A.match {} }, { "token", 1, A.token {} },
   { "lenience 0.5", 3, A.lenience { factor = .5 } }, { "lenience 0.3", 4, A.lenience { factor = .3 } },
   { "cactus 0.01", 3, A.cactus { delta = .01 }, cactus }, { "cactus 0.1", 3, A.cactus { delta = .1 }, cactus },
   { "cactus 0.25", 4, A.cactus { delta = .25 }, cactus }, { "cactus 0.75", 4, A.cactus { delta = .75 }, cactus },
   { "mentored 0.02", 3, A.mentored { budget = .02 }, "mentored decoding, Tran-Thien 2023" },
   { "mentored 0.1", 3, A.mentored { budget = .1 }, "mentored decoding, Tran-Thien 2023" },
   { "cascade token_v1 0", 3, A.cascade { gate = "token_v1", alpha = 0 }, cascades },
   { "cascade token_v1 0.5", 4, A.cascade { gate = "token_v1", alpha = .5 }, cascades },
   { "cascade token_v3 0", 1, A.cascade { gate = "token_v3", alpha = 0 }, cascades },
   { "cascade token_v3 0.15", 2, A.cascade { gate = "token_v3", alpha = .15 }, cascades },
   { "cascade token_v3 0.5", 3, A.cascade { gate = "token_v3", alpha = .5 }, cascades },
   { "cascade chow 0.3", 1, A.cascade { gate = "chow", alpha = .3 }, cascades },
   { "cascade chow 0.55", 4, A.cascade { gate = "chow", alpha = .55 }, cascades },
   { "cascade diff -0.05", 3, A.cascade { gate = "diff", alpha = -.05 }, cascades },
   { "cascade diff 0.3", 4, A.cascade { gate = "diff", alpha = .3 }, cascades },
   { "fuzzy 0.01", 1, A.fuzzy { threshold = .01 }, "arXiv:2502.20704" },
   { "fuzzy 0.03", 3, A.fuzzy { threshold = .03 }, "arXiv:2502.20704" },
   { "fuzzy 0.3", 4, A.fuzzy { threshold = .3 }, "arXiv:2502.20704" },
   { "top_k 2", 2, A.top_k { k = 2 }, "AutoJudge's baseline, arXiv:2504.20039" },
   { "top_k 3", 4, A.top_k { k = 3 }, "AutoJudge's baseline, arXiv:2504.20039" },
   { "typical", 4, A.typical {}, "Medusa, arXiv:2401.10774" },
   { "trt_relaxed 10, 0.6", 3, A.trt_relaxed { candidates = 10, delta = .6 }, "TensorRT-LLM, tech blog 2" },
   { "trt_relaxed 10, 0.04", 1, A.trt_relaxed { candidates = 10, delta = .04 }, "TensorRT-LLM, tech blog 2" },
   { "fallback_rollback 1", 1, A.fallback_rollback { rollback = 1 }, "BiLD, arXiv:2302.07863" },
   { "fallback_rollback 1.5", 2, A.fallback_rollback { rollback = 1.5 }, "BiLD, arXiv:2302.07863" },
   { "fallback_rollback 2", 3, A.fallback_rollback { rollback = 2 }, "BiLD, arXiv:2302.07863" },
   { "fallback_rollback 5", 4, A.fallback_rollback { rollback = 5 }, "BiLD, arXiv:2302.07863" },
} do
   values[#values + 1] = { row[1], tostring(row[2]), kept(row[3]), source = row[4] }
end

return {
   name = "relaxed-block",
   about = "drafted tokens kept of four",
   source = "arXiv:2211.17192",
   values = values,
}
