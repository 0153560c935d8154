--- coppice diff: what differs between two stored runs: options, files, versions and machine, answers,
-- and which numbers differ by more than the noise between prompts.

local cop, core = ...

local cli = core.use("cli")
local verb = { specs = {} }

local function open(folder)
   local run, problem = cop.open_run(folder)
   return run or error(problem, 0)
end

-- ---- Options -------------------------------------------------------------------------------------

local shown_lines = 40

local function differences(title, there, here, is_told)
   if not is_told then
      print(title .. ": answer files do not tell")
      return
   end
   local lines = core.use("manifest").differences(there or {}, here or {}, "in the first", "in the second")
   print(#lines == 0 and title .. ": the same" or ("%s: %d differ"):format(title, #lines))
   for i = 1, math.min(#lines, shown_lines) do
      print("   " .. lines[i])
   end
   if #lines > shown_lines then
      print(("   and %d more"):format(#lines - shown_lines))
   end
end

-- ---- Numbers -------------------------------------------------------------------------------------

--- Per prompt of an arm: what the ratios below are made of. The key is the prompt's number, or its id.
local sums = "SELECT r.%s AS prompt, COUNT(*) AS answers, TOTAL(a.n_tokens) AS tokens,"
   .. " TOTAL(a.decode_seconds) AS seconds, TOTAL(a.seconds) AS wall, TOTAL(a.progress) AS progress,"
   .. " TOTAL(a.forward_passes) AS passes, TOTAL(a.accepted) AS accepted, TOTAL(a.drafted) AS drafted"
   .. " FROM answers a JOIN requests r ON r.id = a.request WHERE a.arm_id = ? AND r.%s NOT NULL GROUP BY 1 ORDER BY 1"

local metrics = {
   { "tokens_per_second", "tokens", "seconds" },
   { "block_efficiency", "progress", "passes" },
   { "draft_acceptance_rate", "accepted", "drafted" },
   { "tokens_per_answer", "tokens", "answers" },
}
local end_to_end = { "tokens_per_second_end_to_end", "tokens", "wall" } -- answer files have prefill inside

local quality = "SELECT prompt, AVG(value) AS value FROM quality WHERE arm = ? AND measure = ? GROUP BY prompt"
   .. " ORDER BY prompt"

local function must(rows, problem)
   return rows or error(problem, 0)
end

--- Rows of both sides whose prompts both have.
local function paired(first, second)
   local by_prompt, a, b = {}, {}, {}
   for _, row in ipairs(first) do
      by_prompt[row.prompt] = row
   end
   for _, row in ipairs(second) do
      if by_prompt[row.prompt] then
         a[#a + 1], b[#b + 1] = by_prompt[row.prompt], row
      end
   end
   return a, b
end

local function column(rows, name)
   local list, sum = {}, 0.0
   for i, row in ipairs(rows) do
      list[i] = row[name] + 0.0
      sum = sum + list[i]
   end
   return list, sum
end

local function verdict(low, high, neutral)
   return low and (low > neutral or high < neutral) and "differs" or low and "within noise" or ""
end

--- A row for the table, or nil where a side says nothing. is_paired: prompts are the same ones.
local function ratio_row(a, b, metric, is_paired)
   local over_a, sum_a = column(a, metric[2])
   local under_a, below_a = column(a, metric[3])
   local over_b, sum_b = column(b, metric[2])
   local under_b, below_b = column(b, metric[3])
   if below_a == 0 or below_b == 0 or sum_a == 0 then
      return nil
   end
   local first, second = sum_a / below_a, sum_b / below_b
   local text, word = ("×%.3f"):format(second / first), first == second and "same" or ""
   if is_paired and #a > 1 and first ~= second then
      local _, low, high = core.trace.bootstrap { a = over_b, b = under_b, c = over_a, d = under_a, resamples = 2000,
         level = 0.95, seed = 1 }
      text, word = ("×%.3f (%.3f–%.3f)"):format(second / first, low, high), verdict(low, high, 1)
   end
   return { metric[1], ("%.4g"):format(first), ("%.4g"):format(second), text, word }
end

local function quality_row(a, b, name, is_paired)
   local first, sum_a = column(a, "value")
   local second, sum_b = column(b, "value")
   if #first == 0 then
      return nil
   end
   local d = cop.stats.paired_bootstrap { a = second, b = first, resamples = 2000, seed = 1 }
   local text, word = ("%+.4g"):format(d.value), sum_a == sum_b and "same" or ""
   if is_paired and #first > 1 and sum_a ~= sum_b then
      text, word = ("%+.4g (%+.4g to %+.4g)"):format(d.value, d.low, d.high), verdict(d.low, d.high, 0)
   end
   return { name, ("%.4g"):format(sum_a / #first), ("%.4g"):format(sum_b / #first), text, word }
end

local function fingerprint(run, arm)
   return must(run.trace:metrics(arm.id)).fingerprint
end

local function is_of_answers(run)
   return core.use("spec_bench_import").is_source(run.manifest)
end

--- How the prompts of two runs are paired: by their numbers, or by their ids where answer files number them anew.
local function pairing_of(first, second)
   if is_of_answers(first) or is_of_answers(second) then
      return { key = "question", is_paired = true, rate = end_to_end,
         has_tokens = is_of_answers(first) == is_of_answers(second) }
   end
   local mine, theirs = first.manifest.identity.prompts or {}, second.manifest.identity.prompts or {}
   return { key = "prompt", is_paired = mine.texts == theirs.texts, rate = metrics[1], has_tokens = true }
end

local function rows_of(first, second, a, b, pairing)
   local question, is_paired = sums:format(pairing.key, pairing.key), pairing.is_paired
   local left, right = paired(must(first.trace:rows(question, a.id)), must(second.trace:rows(question, b.id)))
   local rows = {}
   if #left > 0 then
      for i, metric in ipairs(metrics) do
         rows[#rows + 1] = ratio_row(left, right, i == 1 and pairing.rate or metric, is_paired)
      end
   end
   for _, name in ipairs(core.use("quality_compare").measures(first.trace)) do
      local x, y = paired(must(first.trace:rows(quality, a.id, name)), must(second.trace:rows(quality, b.id, name)))
      rows[#rows + 1] = quality_row(x, y, name, is_paired)
   end
   if not pairing.has_tokens then -- bytes on one side
      return rows
   end
   local mine, theirs = fingerprint(first, a), fingerprint(second, b)
   rows[#rows + 1] = { "answers' tokens", mine:sub(1, 8), theirs:sub(1, 8), "", mine == theirs and "same" or "differ" }
   return rows
end

local columns = {
   { title = "arm", align = "left" }, { title = "sampling", align = "left" }, { title = "number", align = "left" },
   { title = "first" }, { title = "second" }, { title = "second to first (95 %)" }, { title = "", align = "left" },
}

local function compare(first, second)
   local pairing = pairing_of(first, second)
   local there, rows, lonely = {}, {}, {}
   for arm in second:arms() do
      there[arm.name .. "\0" .. arm.sampling] = arm
   end
   for arm in first:arms() do
      local key = arm.name .. "\0" .. arm.sampling
      local other = there[key]
      there[key] = nil
      if other then
         for i, row in ipairs(rows_of(first, second, arm, other, pairing)) do
            rows[#rows + 1] = { i == 1 and arm.name or "", i == 1 and arm.sampling or "", table.unpack(row) }
         end
      else
         lonely[#lonely + 1] = ("only in the first: %s, %s"):format(arm.name, arm.sampling)
      end
   end
   for arm in second:arms() do
      if there[arm.name .. "\0" .. arm.sampling] then
         lonely[#lonely + 1] = ("only in the second: %s, %s"):format(arm.name, arm.sampling)
      end
   end
   return rows, lonely, pairing.is_paired
end

function verb.main(words)
   local o = cli.parse("diff", words, verb.specs)
   if #o ~= 2 then
      cli.fail("coppice diff: needs two runs (coppice diff runs/ONE runs/OTHER)")
   end
   local first, second = open(o[1]), open(o[2])
   local is_told = not (is_of_answers(first) or is_of_answers(second))
   differences("options and files", first.manifest.identity, second.manifest.identity, is_told)
   differences("versions and machine", first.manifest.made_by, second.manifest.made_by, is_told)
   local rows, lonely, is_paired = compare(first, second)
   print()
   for _, line in ipairs(core.table(columns, rows)) do
      print(line)
   end
   print()
   for _, line in ipairs(lonely) do
      print(line)
   end
   print(is_paired and "intervals: paired bootstraps over the prompts that both runs answered (2,000 resamples)"
      or "the prompts are not the same: no intervals")
   first:close()
   second:close()
   return 0
end

return verb
