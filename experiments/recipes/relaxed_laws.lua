--- Relaxed rules at one position: how often they keep a draft, and how far their output is from the target.

local cop = require("coppice")
local A = cop.accept

local target, draft = { .50, .30, .15, .05 }, { .25, .25, .40, .10 }

--- Name, rule, acceptance, total variation, KL(target, output), source.
local published = {
   { "token", A.token {}, "0.7000", "0.0000", "0.0000", "arXiv:2211.17192" },
   { "lenience 0.5", A.lenience { factor = .5 }, "0.9000", "0.2000", "0.0994", "arXiv:2211.17192, appendix A.5" },
   { "lenience 0.5, scaled correction", A.lenience { factor = .5, correction = "scaled" }, "0.9000", "0.2000",
      "0.1061", "arXiv:2211.17192, appendix A.5" },
   { "lenience 0.5, correction by the target", A.lenience { factor = .5, correction = "target" }, "0.9000", "0.2200",
      "0.1277", "arXiv:2211.17192, appendix A.5" },
   { "lenience 0.3", A.lenience { factor = .3 }, "1.0000", "0.3000", "0.2195", "arXiv:2211.17192, appendix A.5" },
   { "additive 0.1", A.additive { epsilon = .1 }, "0.7500", "0.0500", "0.0074", "arXiv:2610.08678" },
   { "ears 0.1", A.ears { beta = .1 }, "0.7250", "0.0250", "0.0019", "arXiv:2512.13194" },
   { "ears 0.3", A.ears { beta = .3 }, "0.7750", "0.0750", "0.0159", "arXiv:2512.13194" },
   { "mixed 0.3", A.mixed { eta = .3 }, "0.7900", "0.0900", "0.0227", "arXiv:2610.08678" },
   { "mentored 0.02", A.mentored { budget = .02 }, "0.7873", "0.0873", "0.0200", "mentored decoding, Tran-Thien 2023" },
   { "mentored 0.05", A.mentored { budget = .05 }, "0.8434", "0.1434", "0.0500", "mentored decoding, Tran-Thien 2023" },
   { "mentored 0.1", A.mentored { budget = .1 }, "0.9059", "0.2059", "0.1000", "mentored decoding, Tran-Thien 2023" },
   { "ensemble 0.9", A.ensemble { weight = .9 }, "0.7300", "0.0300", "0.0028", "arXiv:2604.07622" },
   { "ensemble 0.5", A.ensemble { weight = .5 }, "0.8500", "0.1500", "0.0588", "arXiv:2604.07622" },
   { "contrastive 0.5", A.contrastive { beta = .5 }, "0.6094", "0.1080", "0.0412", "arXiv:2311.08981" },
   { "cactus 0.1", A.cactus { delta = .1 }, "0.9097", "0.2097", "0.1037", "arXiv:2604.04987" },
   { "cactus 0.25", A.cactus { delta = .25 }, "1.0000", "0.3000", "0.2195", "arXiv:2604.04987" },
   { "cascade token_v1 0.12", A.cascade { gate = "token_v1", alpha = .12 }, "0.8600", "0.3400", "0.2566",
      "arXiv:2405.19261, equation 13" },
   { "cascade token_v2 0.12", A.cascade { gate = "token_v2", alpha = .12 }, "0.6250", "0.1250", "0.0323",
      "arXiv:2405.19261, equation 14" },
   { "cascade token_v3 0.55", A.cascade { gate = "token_v3", alpha = .55 }, "0.6000", "0.1000", "0.0523",
      "arXiv:2405.19261, equation 15" },
   { "typical", A.typical {}, "0.9000", "0.2500", nil, "Medusa, arXiv:2401.10774" },
   { "typical, correction by the target", A.typical { correction = "target" }, "0.9000", "0.2650", "0.2386",
      "Medusa, arXiv:2401.10774" },
   { "truncated as typical", A.truncated { epsilon = .09, delta = .3 }, "0.6579", "0.0500", nil, "arXiv:2607.26627" },
   { "top_k 2", A.top_k { k = 2 }, "0.5000", "0.2500", nil, "AutoJudge's baseline, arXiv:2504.20039" },
   { "top_k 2, correction by the target", A.top_k { k = 2, correction = "target" }, "0.5000", "0.1000", "0.0523",
      "AutoJudge's baseline, arXiv:2504.20039" },
   { "fallback_rollback 2", A.fallback_rollback { rollback = 2 }, "0.9000", "0.2500", nil, "BiLD, arXiv:2302.07863" },
   { "fuzzy 0.0562", A.fuzzy { threshold = .0562 }, "1.0000", "0.3000", "0.2195", "arXiv:2502.20704" },
}

local values = {}
for _, row in ipairs(published) do
   local law
   local function value(of)
      return function()
         law = law or cop.relaxed_law { rule = row[2], draw = "independent", widths = { 1 }, target = target,
            draft = draft }
         return of(law)
      end
   end
   values[#values + 1] = { row[1] .. ": acceptance", row[3], value(function(l) return l.acceptance end),
      source = row[6] }
   values[#values + 1] = { row[1] .. ": total variation", row[4],
      value(function(l) return l.total_variation_per_position[1] end), source = row[6] }
   values[#values + 1] = row[5] and { row[1] .. ": KL", row[5], value(function(l) return l.kl[1] end),
      source = row[6] } or nil
end

return {
   name = "relaxed-laws",
   about = "one position; target (.50, .30, .15, .05), draft (.25, .25, .40, .10)",
   source = "the definitions of the papers named at each value",
   values = values,
}
