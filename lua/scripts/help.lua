--- cop.help(): an index, then everything that is registered with its options; cop.help("accept.token"):
-- one entry; cop.help("accept"): a group. The text is printed and returned. Options and ranges are
-- those of the tables that check them (core.describe).

local cop, core = ...

local kinds = { "propose", "tree", "accept", "length" }
local titles = {
   propose = "proposers: where draft rows come from",
   tree = "tree builders: the shape of the guess",
   accept = "acceptance rules: which drafted tokens survive",
   length = "length policies: how much to draft",
}

local custom = {
   propose = "a proposer in Lua: { name =, rows =, depth =, start =, expand =, observe =, finish = }",
   tree = "a tree builder in Lua: { name =, depth =, nodes =, shape =, grow = }",
   accept = "a rule in Lua: { name =, lossless_for =, state =, verify = }",
   length = "a length policy in Lua: { name =, decide = }",
   metric = "a number for an answer's cycles: { name =, of = function(cycles, request) }, for metrics = { … }",
   quality = "a number for an answer: { name =, of = function(item, answer, baseline), better = \"lower\" },"
      .. " for quality = { … }",
}

--- A rule that is a script of ours.
local judge = "keeps a drafted token that is the target's best or that a judge approves of: a function of a script,"
   .. " or a score by name; the longest kept path; after a refusal the target's best token, the bonus token is drawn"
   .. " from the target\n   source: Bachmann et al. 2025, arXiv:2501.19309 (Judge Decoding); AutoJudge,"
   .. " arXiv:2504.20039; with thresholds on rows in place of trained heads\n   a trained head reads hidden states,"
   .. " which rules are not given and for which no file format is published: a script\n   that has one scores with it"
   .. " in its function, from the rows or from cop.model's score { hidden = } of its own\n   promises: L4, none:"
   .. " measured only"

local function first_line(text)
   return (text or ""):match("^[^\n]*")
end

--- Functions with options, in the order in which a script needs them: { name, what it does }.
local constructors = {
   { "model", "opens a model: a GGUF file or a folder" },
   { "tokenizer", "opens a tokenizer by itself" },
   { "generate", "one answer" },
   { "steps", "an answer step by step: a draft writes a step, a judge keeps it or the target writes it itself"
         .. "\n   (L4: nothing is promised of the output, measure it)"
         .. "\n   → { text =, tokens =, finish =, steps = { { origin = \"draft\"|\"target\", text =, tokens =, score =,"
         .. "\n   refused = { text =, tokens = } }, … }, accepted =, drafted =, acceptance =, draft_tokens =,"
         .. "\n   target_tokens =, forward_passes = the target's, seconds = } | nil, message, code"
         .. "\n   source: SpecReason, arXiv:2504.07891; RSD, arXiv:2501.19324; Sp. Thinking, arXiv:2504.12329" },
   { "dataset", "prompts from a file" },
   { "arm", "a way to decode, to be compared" },
   { "experiment", "a comparison of arms; it has :check() and :run { out =, resume =, shard = }"
         .. "\n   target = { a, b } makes a cop.study, one experiment for each; arms may be a function of the target"
         .. "\n   budget = { seconds =, passes = }: begins no prompt after it; the same command goes on" },
   { "study", "experiments that belong together, such as one design on two datasets: one folder, one report" },
   { "open_run", "a stored run, for reading: cop.open_run \"runs/NAME\" → a run | nil, message, code"
         .. "\n   iterators: run:arms(), run:requests { arm =, sampling =, category =, prompt =, failed = },"
         .. "\n   run:cycles(request)"
         .. "\n   run:metrics() → one entry for each arm, with every metric of cop.help(\"metrics\")"
         .. "\n   run:sql(\"SELECT …\", values…) → rows; run:broken_identities() → rows, none in a sound trace"
         .. "\n   run:export { format = \"jsonl\"|\"csv\"|\"spec_bench\"|\"lm_eval\", out =,"
         .. "\n   prompts = } → true or paths | nil, message, code; prompts: for lm_eval, if the file has changed"
         .. "\n   run:close(), run.folder, run.name, run.manifest" },
   { "merge_runs", "parts of one run, from shards or several machines, as one: cop.merge_runs { runs =, out = }"
         .. " → a run" },
   { "import_run", "makes a run of an exported one, a .jsonl file or a folder of CSV files, or of lm-eval's sample"
         .. "\n   logs, a file or a folder with samples_*.jsonl, and opens it" },
   { "cost", "measures and saves what a forward pass costs" },
   { "tune", "the depth and the shape of highest predicted speed, by cost and acceptance" },
   { "search_paths", "Medusa's search for a fixed tree: paths of largest product of accuracies, by level and rank" },
   { "rows", "target and draft rows that another program recorded, one safetensors file: tensors tokens, parents,"
         .. "\n   positions (integers), target.logits and draft.logits, or .probabilities, [rows, vocabulary]; row i is"
         .. "\n   what comes after token i, parents[i] the row before it (-1: none)" },
   { "replay", "other rules, trees and length policies on recorded rows (rows = cop.rows, or run = a folder whose"
         .. "\n   experiment had record = { rows = \"f16\" }): tokens kept by one cycle from each recorded position,"
         .. "\n   exact, estimated with coins, or refused where a row was not recorded; recorded, sampling choose"
         .. "\n   an arm of the run; cost = what cop.cost saved here or elsewhere predicts speeds" },
   { "traces", "acceptance recorded at every output position by other engines, a file of JSON lines:"
         .. "\n   prompt_token_ids, acc_NAME = { acc_len = { tokens that a cycle commits from here } };"
         .. "\n   traces:statistics(drafter, length)" },
   { "simulate", "the speed-up at a batch size by recorded acceptance and a cost model:"
         .. "\n   drafter is a name, a list or \"combined\"; length a number or \"oracle\"; price who is paid;"
         .. "\n   cost \"llama-3.1-8b-h100\", coefficients, or what cop.cost saved"
         .. "\n   → { batches = { { batch =, speedup =, throughput =, … }, … } }" },
   { "train", "a head or a small model for a target, trained on the target's own answers" },
   { "datastore", "files of text or ids become what cop.propose.retrieval looks n-grams up in" },
   { "ranking", "the most frequent ids of files, for the vocabulary of a drafter" },
   { "exact_law", "the exact distribution of one cycle of a lossless rule" },
   { "relaxed_law", "the same for any rule, with its distance from the target" },
   { "verify_rows", "one verification on rows that are given" },
   { "build_tree", "one tree of a builder on rows that are given" },
   { "propose_once", "one draft of a proposer" },
   { "process_row", "the processors on one row" },
}

--- Functions without options.
local plain = {
   recipe = "cop.recipe.list() → recipes of the program; cop.recipe.run(\"name\", { data = DIR }) prints published"
      .. "\n   numbers beside ours and returns { rows =, same =, different =, failed =, skipped = };"
      .. "\n   also of a file, cop.recipe.run \"my.lua\"",
   args = "cop.args { name = default, … }"
         .. " → the same names, with what the command line says (key=value); a value has"
      .. "\n   the type of its default: string, number or boolean",
   certificate = "cop.certificate { row =, children = 1, kept = 1 } → nats: while KL(target || draft row) is below it,"
      .. "\n   one of the draft's best tokens (children: how many are offered) is surely among the target's best"
      .. "\n   (kept: how many the rule keeps); Sharma, arXiv:2606.30265",
   grid = "cop.grid { depth = {3, 5}, width = {1, 2} } → an iterator over { depth =, width = }; the last key in"
      .. "\n   alphabetical order changes fastest",
}

--- Measures and tests that are plain functions, by their group.
local measures = {
   { "quality", "rouge", "cop.quality.rouge(reference, candidate) → { r1 =, r2 =, rl = }, F-measures" },
   { "quality", "bleu", "cop.quality.bleu(references, candidates, { smoothing = \"exp\"|\"none\" })"
         .. " → corpus BLEU, 0 to 100,"
      .. "\n   { precisions =, brevity_penalty =, candidate_length =, reference_length = }" },
   { "quality", "perplexity", "cop.quality.perplexity(logprobs) → exp of the mean of -logprob" },
   { "quality", "chrf", "cop.quality.chrf(reference, candidate) → chrF2, 0 to 100" },
   { "quality", "gsm8k_answer", "cop.quality.gsm8k_answer(text, \"strict\"|\"flexible\")"
         .. " → the number as written, or nil" },
   { "quality", "choice_answer", "cop.quality.choice_answer(text, labels, \"flexible\"|\"strict\") → the label that a"
      .. "\n   multiple-choice answer gives, or nil; labels: a list, or how many letters" },
   { "quality", "pairwise", "cop.quality.pairwise { judge = function(item, first, second) | model,"
      .. "\n   name = \"win_rate\" } → a measure for quality = { … }: whether a judge prefers the answer to"
      .. "\n   plain decoding's" },
   { "quality", "pass_at_k", "cop.quality.pass_at_k(n, correct, k) → a probability" },
   { "quality", "run_program", "cop.quality.run_program { program =, interpreter = \"python3\", seconds = 3,"
      .. "\n   memory = 2^30, output = 2^20 } → { finish = \"exit\"|\"signal\"|\"timeout\"|\"output\", status =,"
      .. "\n   signal =, stdout =, stderr =, seconds =, sandbox = } | nil, message, code"
      .. "\n   a Python program that nobody has read: it reads the interpreter's files alone, writes none, and has no"
      .. "\n   network, no other process and no thread" },
   { "quality", "humaneval", "cop.quality.humaneval(item, answer, { seconds =, memory =, interpreter = })"
      .. "\n   → { passed =, program =, … as run_program } | nil, message, code" },
   { "quality", "code_block", "cop.quality.code_block(text, name) → the code block that defines the function, else the"
      .. "\n   first, else the text" },
   { "stats", "mcnemar", "cop.stats.mcnemar(b, c)"
         .. " → { exact =, mid_p =, chi_square =, chi_square_p =, … }, two-sided" },
   { "stats", "wilson", "cop.stats.wilson(successes, n, level) → low, high" },
   { "stats", "tost", "cop.stats.tost { difference =, standard_error =, margin =, df = }"
         .. " → { p =, lower_p =, upper_p = }" },
   { "stats", "non_inferiority", "cop.stats.non_inferiority { difference = arm - plain, standard_error =, margin =,"
      .. "\n   df =, level = } → { p =, low =, shown = }: whether the loss is under the margin, one-sided" },
   { "stats", "sample_size", "cop.stats.sample_size { margin =, discordant = (yes/no) | sd = (numbers), level =,"
      .. "\n   power =, n = } → { n =, margin = }: paired items that show no loss of the margin; what n items can" },
   { "stats", "paired_permutation", "cop.stats.paired_permutation { a =, b =, level =, permutations =, seed = }"
      .. "\n   → { value =, p =, low =, high =, exact = }: the sign-flip test, and the interval that it gives" },
   { "stats", "detectable_difference", "cop.stats.detectable_difference { n =, discordant = (yes/no) | sd = (numbers),"
      .. "\n   level =, power = } → the smallest mean difference that n paired items show; before a run" },
   { "stats", "paired_proportions", "cop.stats.paired_proportions(b, c, n, level) → { difference =,"
      .. "\n   standard_error =, low =, high = }; b: only the first got right, c: only the second, of n" },
   { "stats", "mmd", "cop.stats.mmd(counts_a, counts_b) → { unbiased =, biased = }, of the squared distance" },
   { "stats", "total_variation_floor", "cop.stats.total_variation_floor(row, draws)"
      .. " → what exact draws have, on average" },
   { "stats", "chi_square_power", "cop.stats.chi_square_power { dof =, level = 0.99, power = 0.9 } → { critical =,"
      .. "\n   centre = the non-centrality that is seen so }" },
   { "stats", "draws_needed", "cop.stats.draws_needed { target =, output =, samples = 1|2, level =, power = }"
      .. "\n   → how many draws show that a sampler's law is another" },
   { "stats", "chi_square", "cop.stats.chi_square(counts_a, counts_b) → { statistic =, g =, dof =, p = }" },
   { "stats", "holm", "cop.stats.holm(ps) → adjusted p-values, in the order given" },
   { "stats", "benjamini_hochberg", "cop.stats.benjamini_hochberg(ps) → adjusted p-values, in the order given" },
   { "stats", "paired_bootstrap", "cop.stats.paired_bootstrap { a =, b =, of = \"mean_difference\"|\"ratio_of_sums\","
      .. "\n   level =, resamples =, seed = } → { value =, low =, high = }" },
}

local needed = { answer = "the gold answer", choices = "choices", tests = "tests", reference = "a reference" }

--- Names for quality = { … } of an experiment.
local function quality_names()
   local out = { "quality = { \"rouge1\", … } of cop.experiment; cop.quality.names() lists them",
      "   exact_match        answers that have plain decoding's tokens",
      "   agreement          tokens before the first that plain decoding has not, its mean",
      "   target_nll         mean negative log-likelihood under the target at temperature 1, in nats",
      "   kl_to_target       KL(output || target) of the token that the arm's rule commits where one draft of its",
      "                      draft model is drawn, in nats, by its exact law; mean over up to 16 places of an answer;",
      "                      above temperature 0, for arms with one draft model; 0 for lossless ones",
      "   tv_to_target       total variation of the same" }
   for _, entry in ipairs(core.use("text_measures").list) do
      local needs = entry.needs and ("; needs %s of the dataset"):format(needed[entry.needs]) or ""
      out[#out + 1] = ("   %-18s %s%s"):format(entry.name, entry.help, needs)
   end
   return table.concat(out, "\n")
end

local metrics_head = "metrics\n   derived from the trace of a run: fields of run:metrics(), and views of trace.db with"
   .. "\n   the columns arm_id, arm, sampling, value and, in brackets here, a key. \"cycles\" are target passes,"
   .. "\n   \"drafting cycles\" those with a draft; \"progress\" is accepted tokens + the recovered or bonus token;"
   .. "\n   \"kept\" is progress after the cut by a stop or limit. Failed requests are left out. The view"
   .. "\n   metrics holds all those without a key."

local function index()
   local out = {}
   local parts = core.parts()
   for _, kind in ipairs(kinds) do
      out[#out + 1] = ("cop.%s: %s"):format(kind, titles[kind])
      for _, part in ipairs(parts) do
         if part.kind == kind then
            out[#out + 1] = ("   %-16s %s"):format(part.name, first_line(part.help))
         end
      end
      if kind == "accept" then
         out[#out + 1] = ("   %-16s %s"):format("judge", first_line(judge))
      end
      out[#out + 1] = ("   %-16s %s"):format("custom", custom[kind])
      out[#out + 1] = ""
   end
   out[#out + 1] = "measures of a script's own:"
   for _, kind in ipairs { "metric", "quality" } do
      out[#out + 1] = ("   %-16s %s"):format(kind .. ".custom", custom[kind])
   end
   out[#out + 1] = ""
   out[#out + 1] = "functions:"
   for _, row in ipairs(constructors) do
      out[#out + 1] = ("   %-16s %s"):format(row[1], first_line(row[2]))
   end
   out[#out + 1] = ("   %-16s %s"):format("recipe", "published numbers beside ours")
   out[#out + 1] = ("   %-16s %s"):format("metrics",
      "what is derived from a trace, with formulas: cop.help(\"metrics\")")
   out[#out + 1] = ("   %-16s %s"):format("args, grid", "arguments of a script; all points of a grid")
   out[#out + 1] = ("   %-16s %s"):format("quality, stats",
      "measures of text and significance tests: cop.help(\"stats\")")
   out[#out + 1] = ""
   out[#out + 1] = "cop.help(\"accept.match\") shows one of them, cop.help(\"accept\") a group,"
   out[#out + 1] = "cop.help(\"generate\") the options of cop.generate,"
   out[#out + 1] = "cop.help(\"draws\") which tree builder can pick children by which draw,"
   out[#out + 1] = "cop.help(\"sampling\") what happens to logits, in which order."
   return table.concat(out, "\n")
end

--- Which builder can pick children by which draw.
local function draw_table()
   local names, out = core.draws(), { "draws", "   how each tree builder can pick the children of a node:" }
   local head = (" "):rep(20)
   for _, name in ipairs(names) do
      head = head .. "  " .. name
   end
   out[#out + 1] = head
   for _, part in ipairs(core.parts()) do
      if part.draws then
         local line = ("   %-17s"):format(part.name)
         for _, name in ipairs(names) do
            line = line .. "  " .. ("%-" .. #name .. "s"):format(part.draws[name] and "x" or "")
         end
         out[#out + 1] = (line:gsub("%s+$", ""))
      end
   end
   out[#out + 1] = "   At temperature 0 every draw is deterministic. beam is stochastic beam search; selected are"
   out[#out + 1] = "   samples of which some were dropped for their values: sample_match alone is lossless for them."
   out[#out + 1] = "   hub_pair wants two children or none everywhere. A rule's entry says what it is lossless for."
   return table.concat(out, "\n")
end

local function entry(part)
   local out = { ("cop.%s.%s"):format(part.kind, part.name), "   " .. (part.help or "") }
   if part.source then
      out[#out + 1] = "   source: " .. part.source
   end
   if part.synonyms then
      out[#out + 1] = "   also called: " .. part.synonyms
   end
   local draws = {}
   for _, name in ipairs(core.draws()) do
      draws[#draws + 1] = part.draws and part.draws[name] and name or nil
   end
   for _, line in ipairs {
      { "draws", table.concat(draws, ", ") }, { "lossless for", part.lossless },
      { "defined for", part.defined }, { "promises", part.promise },
      { "passes over the vocabulary", part.cost },
   } do
      if line[2] and line[2] ~= "" then
         out[#out + 1] = ("   %s: %s"):format(line[1], line[2])
      end
   end
   out[#out + 1] = #part.options > 0 and "   options:" or "   no options"
   for _, option in ipairs(part.options) do
      local positional = option.positional and " (may be given without its name)" or ""
      out[#out + 1] = "      " .. option.text .. positional
   end
   return table.concat(out, "\n")
end

local function plain_number(value)
   return math.tointeger(value) and tostring(math.tointeger(value)) or ("%g"):format(value)
end

local function range(row)
   if row.min and row.max then
      return (" (%s to %s)"):format(plain_number(row.min), plain_number(row.max))
   elseif row.min then
      return (" (at least %s)"):format(plain_number(row.min))
   end
   return row.choices and (" (%s)"):format(row.choices:gsub("|", ", ")) or ""
end

--- One row of an option table in Lua.
local function row_text(row)
   local default = row.required and ", required" or row.default ~= nil and " = " .. tostring(row.default) or ""
   local kind = row[2] == "long" and "integer of 64 bits" or row[2]
   return ("%s%s, %s%s%s%s"):format(row[1], default, kind, range(row), row.help and ": " .. row.help or "",
      row.positional and " (may be given without its name)" or "")
end

local function add_options(out, f)
   local options, rows = core.describe(f)
   if options then
      out[#out + 1] = #options > 0 and "   options:" or "   no options"
      for i, option in ipairs(options) do
         local positional = option.positional and " (may be given without its name)" or ""
         out[#out + 1] = "      " .. (rows and row_text(rows[i]) or option.text .. positional)
      end
   end
   return table.concat(out, "\n")
end

local function constructor(row)
   return add_options({ "cop." .. row[1], "   " .. row[2] }, cop[row[1]])
end

local function custom_entry(kind)
   return add_options({ ("cop.%s.custom"):format(kind), "   " .. custom[kind] }, cop[kind].custom)
end

--- A metric of run:metrics(), which is a view of trace.db as well.
local function metric(definition)
   local out = { ("metrics.%s%s"):format(definition.name, definition.key and (" [%s]"):format(definition.key) or ""),
      "   " .. definition.formula }
   out[3] = definition.source and "   who: " .. definition.source
   return table.concat(out, "\n")
end

--- The processors in the order in which they happen.
local function sampling()
   local out = {
      "sampling",
      "   what happens to the target's logits, in this order; each step sees the prefix of its own node:",
   }
   for _, step in ipairs(core.steps()) do
      out[#out + 1] = ("      %-18s %s"):format(step.name, step.help)
   end
   out[#out + 1] = "   Log-probabilities and raw logits are read before temperature. Draft rows see temperature and"
   out[#out + 1] = "   truncation at most: whatever they propose, answers stay those of the target so processed."
   return table.concat(out, "\n")
end

--- Every entry under its name, and the names in order; the names of groups give all of theirs.
local function entries()
   local list, known = {}, {}
   local function add(name, text, group)
      list[#list + 1] = { name = name, text = text, group = group }
      known[#known + 1] = name
   end
   local parts = core.parts()
   for _, kind in ipairs { "propose", "tree", "accept", "length", "metric", "quality" } do
      for _, part in ipairs(parts) do
         if part.kind == kind then
            add(kind .. "." .. part.name, function() return entry(part) end, kind)
         end
      end
      if kind == "accept" then
         add("accept.judge", function()
            return add_options({ "cop.accept.judge", "   " .. judge }, cop.accept.judge)
         end, kind)
      end
      if cop[kind] and cop[kind].custom then
         add(kind .. ".custom", function() return custom_entry(kind) end, kind)
      end
   end
   for _, row in ipairs(constructors) do
      if cop[row[1]] then
         add(row[1], function() return constructor(row) end)
      end
   end
   for _, name in ipairs { "args", "grid", "recipe" } do
      add(name, function() return ("cop.%s\n   %s"):format(name, plain[name]) end)
   end
   for _, row in ipairs(measures) do
      add(row[1] .. "." .. row[2], function() return row[3] end, row[1])
   end
   add("quality.names", quality_names, "quality")
   for _, definition in ipairs(core.trace.definitions()) do
      add("metrics." .. definition.name, function() return metric(definition) end, "metrics")
   end
   add("draws", draw_table)
   add("sampling", sampling)
   return list, known
end

--- What is called so; else what has this name in any group.
local function texts(list, name)
   local out, elsewhere = {}, {}
   for _, e in ipairs(list) do
      if name == nil or e.name == name or e.group == name then
         out[#out + 1] = e.text()
      elseif e.group and e.name == e.group .. "." .. name then
         elsewhere[#elsewhere + 1] = e.text()
      end
   end
   return #out > 0 and out or elsewhere
end

local function find(name)
   local list, known = entries()
   local out = texts(list, name)
   if #out == 0 then
      local prefix = name and name:match("^%l+%.")
      if prefix then -- names of that group alone
         local near = {}
         for _, known_name in ipairs(known) do
            near[#near + 1] = known_name:sub(1, #prefix) == prefix and known_name or nil
         end
         known = #near > 0 and near or known
      end
      local groups = { "propose", "tree", "accept", "length", "metric", "metrics", "quality", "stats" }
      table.move(groups, 1, #groups, #known + 1, known)
      return core.unknown("cop.help", "name", name, known)
   end
   if name == "metrics" then
      table.insert(out, 1, metrics_head)
   end
   return table.concat(out, "\n\n")
end

function cop.help(name)
   if name ~= nil and type(name) ~= "string" then
      core.raise(("cop.help: expects a name such as \"accept.token\", got a %s"):format(core.type(name)))
   end
   local text = name and find((name:gsub("^cop%.", ""))) or index() .. "\n\n" .. find()
   print(text)
   return text
end

--- What stubs.lua repeats: text of functions by name ("experiment", "stats.wilson"), and of an option's row.
function core.help_texts()
   local by_name = {}
   for _, row in ipairs(constructors) do
      by_name[row[1]] = row[2]
   end
   for name, text in pairs(plain) do
      by_name[name] = text
   end
   for _, row in ipairs(measures) do
      by_name[row[1] .. "." .. row[2]] = row[3]
   end
   for kind, text in pairs(custom) do
      by_name[kind .. ".custom"] = text
   end
   by_name["accept.judge"] = judge
   for _, part in ipairs(core.parts()) do
      by_name[part.kind .. "." .. part.name] = (part.help or "") .. (part.source and "\nsource: " .. part.source or "")
   end
   return by_name, row_text
end
