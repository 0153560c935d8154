--- Tests, intervals and what samples can show: values that are known from tables and other programs.

local cop = require("coppice")
local stats, quality = cop.stats, cop.quality

local values = {}
local function add(name, published, of, source)
   values[#values + 1] = { name, published, of, source = source }
end

--- Several published values of one result: { field, published, … }.
local function add_fields(name, of, fields, source)
   for i = 1, #fields, 2 do
      add(("%s: %s"):format(name, fields[i]), fields[i + 1], function() return of()[fields[i]] end, source)
   end
end

local mcnemar_source = "McNemar 1947; mid-p: Fagerland et al. 2013"
for _, row in ipairs {
   { 8, 2, ".10938", ".06543", "2.5" }, { 10, 3, ".09229", ".05737", "2.769" },
   { 25, 12, ".04703", ".03355", "3.892" },
   { 40, 20, ".01349", ".00985", "6.017" }, { 5, 1, ".21875", ".125", "1.5" },
} do
   add_fields(("McNemar of (%d, %d)"):format(row[1], row[2]), function() return stats.mcnemar(row[1], row[2]) end,
      { "exact", "0" .. row[3], "mid_p", "0" .. row[4], "chi_square", row[5] }, mcnemar_source)
end

local function paired()
   return stats.paired_proportions(25, 12, 1319)
end
add_fields("25 and 12 of 1,319", paired, { "difference", "0.00986", "standard_error", "0.00460", "low", "0.00083",
   "high", "0.01888" }, "normal law of paired proportions")
local function tost()
   local d = paired()
   return stats.tost { difference = d.difference, standard_error = d.standard_error, margin = 0.02 }
end
add("25 and 12 of 1,319: equivalent within 2 points", "0.0138", function() return tost().p end, "Schuirmann 1987")

local counts = { { 520, 290, 140, 50 }, { 480, 310, 155, 55 } }
add_fields("two lists of counts", function() return stats.chi_square(counts[1], counts[2]) end,
   { "statistic", "3.2675", "g", "3.2684", "dof", "3" }, "Pearson 1900")
add_fields("two lists of counts, MMD", function() return stats.mmd(counts[1], counts[2]) end,
   { "unbiased", "0.000979", "biased", "0.00225" }, "Gretton et al. 2012")

for i, published in ipairs { "0.016", "0.06", "0.06", "0.2" } do
   add("Holm, p " .. i, published, function() return stats.holm({ .004, .02, .03, .2 })[i] end, "Holm 1979")
end
for i, published in ipairs { "0.016", "0.04", "0.04", "0.2" } do
   add("Benjamini-Hochberg, p " .. i, published, function()
      return stats.benjamini_hochberg({ .004, .02, .03, .2 })[i]
   end, "Benjamini and Hochberg 1995")
end

for _, row in ipairs {
   { 1055, 1319, "0.7774", "0.8206" }, { 123, 164, "0.679", "0.810" }, { 23, 30, "0.591", "0.882" },
   { 396, 500, "0.754", "0.825" },
} do
   add(("Wilson of %d/%d: low"):format(row[1], row[2]), row[3], function() return (stats.wilson(row[1], row[2])) end,
      "Wilson 1927")
   add(("Wilson of %d/%d: high"):format(row[1], row[2]), row[4], function()
      return (select(2, stats.wilson(row[1], row[2])))
   end, "Wilson 1927")
end

-- pass@k, perplexity, BLEU.
for _, row in ipairs {
   { 10, 3, 1, "0.3" }, { 10, 3, 5, "0.916667" }, { 200, 20, 1, "0.1" }, { 200, 20, 10, "0.660226" },
   { 200, 20, 100, "0.99999967" }, { 5, 1, 5, "1" }, { 5, 0, 1, "0" },
} do
   add(("pass@%d of %d/%d"):format(row[3], row[2], row[1]), row[4], function()
      return quality.pass_at_k(row[1], row[2], row[3])
   end, "arXiv:2107.03374")
end
add("perplexity of 1/2, 1/4, 1/8", "4", function()
   return quality.perplexity { math.log(.5), math.log(.25), math.log(.125) }
end, "its definition")
local mat = "the cat sat on the mat"
for _, row in ipairs {
   { "today", { mat }, { mat .. " today" }, { 6 / 7, 5 / 6, 4 / 5, 3 / 4 }, "1", "80.9107", "80.9107" },
   { "there is", { "there is a cat on the mat" }, { "the cat is on the mat" }, { 5 / 6, 2 / 5, 1 / 4, 0 }, "0.84648",
      "29.0593", "0" },
   { "two sentences", { mat, "a dog ran home fast" }, { "the cat sat on the", "a dog ran home" }, { 1, 1, 1, 1 },
      "0.80074", "80.0737", "80.0737" },
} do
   for n, precision in ipairs(row[4]) do
      add(("BLEU, %s: precision %d"):format(row[1], n), ("%.6f"):format(precision), function()
         return select(2, quality.bleu(row[2], row[3])).precisions[n]
      end, "Papineni et al. 2002")
   end
   add(("BLEU, %s: brevity"):format(row[1]), row[5], function()
      return select(2, quality.bleu(row[2], row[3])).brevity_penalty
   end, "Papineni et al. 2002")
   add(("BLEU, %s: smoothed"):format(row[1]), row[6], function() return (quality.bleu(row[2], row[3])) end,
      "arXiv:1804.08771")
   add(("BLEU, %s: unsmoothed"):format(row[1]), row[7], function()
      return (quality.bleu(row[2], row[3], { smoothing = "none" }))
   end, "arXiv:1804.08771")
end
add("BLEU, seven times \"the\": clipped precision", "2/7", function()
   return select(2, quality.bleu({ "the cat is on the mat" }, { "the the the the the the the" })).precisions[1]
end, "Papineni et al. 2002")
for _, row in ipairs {
   { "police kill the gunman", "0.75", "0.3333", "0.75" }, { "the gunman kill police", "0.75", "0.3333", "0.5" },
   { "police killed", "0.6667", "0.5", "0.6667" },
   { "the police killed the armed gunman today", "0.7273", "0.4444", "0.7273" },
} do
   add_fields(("ROUGE, %s"):format(row[1]), function() return quality.rouge("police killed the gunman", row[1]) end,
      { "r1", row[2], "r2", row[3], "rl", row[4] }, "Lin 2004")
end

-- What samples can show.
local cohen = "sample size of non-inferiority, 90 % power"
for _, row in ipairs {
   { "0.02", "1713", "429", "191", "1.14", "3.2" }, { "0.05", "4282", "1071", "476", "1.80", "5.1" },
   { "0.10", "8564", "2141", "952", "2.55", "7.2" }, { "0.20", "17128", "4282", "1904", "3.60", "10.2" },
} do
   local discordant = tonumber(row[1])
   for points = 1, 3 do
      add(("items for %d points, %s discordant"):format(points, row[1]), row[points + 1], function()
         return stats.sample_size { margin = points / 100, discordant = discordant }.n
      end, cohen)
   end
   for i, n in ipairs { 1319, 164 } do
      add(("points of %d items, %s discordant"):format(n, row[1]), row[4 + i], function()
         return 100 * stats.sample_size { margin = 1, discordant = discordant, n = n }.margin
      end, cohen)
   end
end
for _, row in ipairs {
   { 1, "3.841", "6.635", "10.828", "14.88", "31.55" }, { 3, "7.815", "11.345", "16.266", "19.25", "37.93" },
   { 9, "16.919", "21.666", "27.877", "26.12", "48.22" }, { 31, "44.985", "52.191", "61.098", "39.54", "68.50" },
   { 99, "123.225", "134.642", "148.230", "62.12", "102.63" },
   { 199, "232.912", "248.329", "266.386", "83.43", "134.78" },
} do
   for i, level in ipairs { 0.95, 0.99, 0.999 } do
      add(("chi-square, %d dof: %g"):format(row[1], level), row[i + 1], function()
         return stats.chi_square_power { dof = row[1], level = level }.critical
      end, "tables of chi-square")
   end
   for i, aim in ipairs { { 0.99, 0.9 }, { 0.999, 0.99 } } do
      add(("non-centrality, %d dof: power %g at %g"):format(row[1], aim[2], aim[1]), row[i + 4], function()
         return stats.chi_square_power { dof = row[1], level = aim[1], power = aim[2] }.centre
      end, "tables of non-central chi-square")
   end
end
local target, draft = { .50, .30, .15, .05 }, { .25, .25, .40, .10 }

--- The law of a rule's token, to the four digits that the published numbers of draws were made from.
local function rounded_law(rule)
   local row = cop.relaxed_law { rule = rule, draw = "independent", widths = { 1 }, target = target,
      draft = draft }.position[1]
   for i, p in ipairs(row) do
      row[i] = tonumber(("%.4f"):format(p))
   end
   return row
end

for _, row in ipairs {
   { "typical", cop.accept.typical { correction = "target" }, "33", "91" },
   { "lenience 1/2", cop.accept.lenience { factor = .5 }, "75", "189" },
   { "ears 0.1", cop.accept.ears { beta = .1 }, "4706", "9823" },
   { "ensemble 0.95", cop.accept.ensemble { weight = .95 }, "12832", "26379" },
} do
   for samples = 1, 2 do
      add(("draws that expose %s, %d sample%s"):format(row[1], samples, samples > 1 and "s" or ""), row[samples + 2],
         function()
            return stats.draws_needed { target = target, output = rounded_law(row[2]), samples = samples }
         end, "non-central chi-square")
   end
end
local function uniform(n)
   local row = {}
   for i = 1, n do
      row[i] = 1 / n
   end
   return row
end
for _, row in ipairs {
   { "the toy", target, ".0193", ".0061", ".0019" }, { "10 tokens", uniform(10), ".0378", ".0120", ".0038" },
   { "1,000 tokens", uniform(1000), ".399", ".126", ".040" },
} do
   for i, draws in ipairs { 1000, 10000, 100000 } do
      add(("total variation of %d exact draws, %s"):format(draws, row[1]), "0" .. row[i + 2], function()
         return stats.total_variation_floor(row[2], draws)
      end, "mean absolute deviation of the normal law")
   end
end

return {
   name = "statistics",
   about = "tests, intervals, power",
   source = "tables and other programs",
   values = values,
}
