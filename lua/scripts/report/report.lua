--- What a run tells at its end, or later from its folder: tables and words on the terminal,
-- summary.csv, report.html.

local cop, core = ...

local report = {}

-- ---- Greedy identity -----------------------------------------------------------------------------

local function token_text(tokenizer, id)
   return id and ("%d %q"):format(id, tokenizer and tokenizer:piece(id) or "") or "the end"
end

--- Loud when a promise is broken.
local function identity_lines(group, tokenizer)
   local lines = {}
   for _, entry in ipairs(group) do
      if entry.is_identical ~= nil then
         local a = entry.agreement
         if entry.is_identical then
            lines[#lines + 1] = ("%s: %d of %d answers have plain decoding's tokens"):format(entry.name, a.same, a.of)
         else
            lines[#lines + 1] = ("!!! %s IS NOT LOSSLESS HERE: %d of %d answers differ from plain decoding")
               :format(entry.name, #a.differences, a.of)
            for i = 1, math.min(5, #a.differences) do
               local d = a.differences[i]
               lines[#lines + 1] = ("!!!   prompt %d, turn %d, position %d: %s, plain decoding has %s"):format(d.prompt,
                  d.turn, d.position, token_text(tokenizer, d.token), token_text(tokenizer, d.plain_token))
            end
         end
      end
      if entry.failed > 0 then
         lines[#lines + 1] = entry.requests == 0
            and ("!!! %s: all %d requests failed; there is nothing to compare"):format(entry.name, entry.failed)
            or ("!!! %s: %d requests failed and are left out"):format(entry.name, entry.failed)
      end
      if (entry.lua_share or 0) > 0.05 then
         lines[#lines + 1] = ("%s: %.0f %% of the cycles' time is spent in the script's Lua functions")
            :format(entry.name, 100 * entry.lua_share)
      end
   end
   return lines
end

-- ---- Failures ------------------------------------------------------------------------------------

local shown_failures = 5

--- One line for each reason, with the first request that met it.
local function failure_lines(result)
   local lines = {}
   for i, f in ipairs(result.failures) do
      if i > shown_failures then
         lines[i] = ("!!! and %d more reasons; trace.db holds them all (requests.error)"):format(
            #result.failures - shown_failures)
         break
      end
      lines[i] = ("!!! prompt %d%s, turn %d, arm \"%s\" at %s failed: %s%s"):format(f.prompt,
         f.id and (" (id %s)"):format(f.id) or "", f.turn, f.arm, f.sampling, f.error,
         f.count > 1 and (" (and %d more requests)"):format(f.count - 1) or "")
   end
   return lines
end

--- What every trace must fulfil (core/trace/views.h): silent unless one is broken.
local function contradiction_lines(result)
   local lines = {}
   for i, row in ipairs(result.contradictions) do
      if i > shown_failures then
         break
      end
      lines[i] = ("!!! THE TRACE CONTRADICTS ITSELF: request %d: %s: %s and %s"):format(row.request, row.identity,
         row.left_side, row.right_side)
   end
   return lines
end

-- ---- Words ---------------------------------------------------------------------------------------

--- What the columns mean.
function report.legend(told)
   local answers = core.use("spec_bench_import")
   if answers.is_source(told.manifest) then
      return answers.legend
   end
   local cost, result, prefill = told.curve, told.result, 0
   for _, entry in ipairs(result.arms) do
      prefill = prefill + entry.prefill_seconds
   end
   local lines = {
      "block efficiency: tokens per target forward pass, the last one included. tokens/s: of decoding alone; prefill"
         .. (" took %.1f s apart."):format(prefill),
      "speed-up: tokens/s over plain decoding's; interval by a paired bootstrap over prompts (2,000 resamples).",
      "D, V, H: draft, score, host (verify, commit, everything else) as shares of the cycles' time.",
      "accepted at depth: share of the drafts tested there (in brackets: of all cycles).",
   }
   local order = told.manifest and told.manifest.identity.interleave and "side by side, a cycle each in turn"
      or "before the next one, in an order that rotates from prompt to prompt"
   lines[#lines + 1] = ("order: all arms answer a prompt %s; a first answer of each arm warms up and is not counted.")
      :format(order)
   if cost then
      table.insert(lines, 3, ("predicted: V from the cost curve (%s) at each cycle's nodes and context, D and H as"
         .. " measured%s."):format(cost.path,
            cost.drifts and (", followed in %d pauses of the run"):format(#cost.drifts) or ""))
   end
   local own = {}
   for _, measure in ipairs(told.measures) do
      own[#own + 1] = not measure.is_ours and measure.name or nil
   end
   if #own > 0 then
      lines[#lines + 1] = table.concat(own, ", ") .. ": of the script's own; means over answers."
   end
   if #result.measures > 0 then
      lines[#lines + 1] = "quality: yes/no measures with Wilson's interval and exact McNemar against plain; else"
         .. " paired bootstraps over prompts and the sign-flip test. Holm: over the arms of the table."
   end
   return lines
end

-- ---- Beside published values ---------------------------------------------------------------------

--- Ours beside what a script says that others have measured: { arm =, sampling = "T=0", metric =, value =,
-- tolerance = 0.05 (relative), source = }.
function report.published(trace, list)
   local out, known = {}, {}
   for _, definition in ipairs(core.trace.definitions()) do
      known[definition.name] = not definition.key
   end
   for i, given in ipairs(list or {}) do
      local rows = known[given.metric] and trace:rows(("SELECT value FROM %s WHERE arm = ? AND sampling = ?"):format(
         given.metric), given.arm, given.sampling)
      local ours = rows and rows[1] and rows[1].value
      local verdict = ours and (math.abs(ours - given.value) <= given.tolerance * math.abs(given.value) and "same"
         or "different") or "no value"
      out[i] = setmetatable({ ours = ours, verdict = verdict }, { __index = given })
   end
   return out
end

-- ---- The whole -----------------------------------------------------------------------------------

local function append(lines, more)
   table.move(more, 1, #more, #lines + 1, lines)
   if #more > 0 then
      lines[#lines + 1] = ""
   end
end

--- Words about a group below its tables.
function report.remarks(told, group)
   local lines, more = identity_lines(group, told.tokenizer), core.use("quality_front").remarks(told, group)
   return table.move(more, 1, #more, #lines + 1, lines)
end

--- Words about a whole run: what went wrong.
function report.warnings(told)
   local lines = failure_lines(told.result)
   table.move(contradiction_lines(told.result), 1, #contradiction_lines(told.result), #lines + 1, lines)
   return lines
end

--- A run as lines for a terminal. told: see report_tables.lua.
function report.lines(told)
   local tables, lines = core.use("report_tables"), {}
   for _, group in ipairs(told.result.groups) do
      lines[#lines + 1] = ("%s, %s, %s"):format(told.name, group.label, tables.size(group))
      for _, made in ipairs(tables.of(told, group)) do
         append(lines, core.table(made.columns, made.rows))
      end
      append(lines, report.remarks(told, group))
   end
   local published = tables.published(told)
   append(lines, published and core.table(published.columns, published.rows) or {})
   append(lines, report.warnings(told))
   append(lines, report.legend(told))
   local result = told.result
   lines[#lines + 1] = ("%s: %d tokens, %d passes, block efficiency %s, fingerprint %s"):format(told.folder,
      result.tokens, result.forward_passes, result.block_efficiency and ("%.4f"):format(result.block_efficiency) or "–",
      result.fingerprint)
   return lines
end

--- What there is to tell of a stored run. Raises.
function report.told_of(folder)
   local run, problem = cop.open_run(folder)
   if not run then
      error(problem, 0)
   end
   local told, reason = core.use("report_told")(run)
   run:close()
   return told or error(reason, 0)
end

--- Writes summary.csv and report.html of one or several runs. → true | nil, message, code; and a line
-- about plots that could not be made, or nil.
function report.write(folder, list)
   local ok, problem, code = core.system.write(folder .. "/summary.csv", core.use("report_csv").text(list))
   if not ok then
      return nil, problem, code
   end
   local page, note = core.use("report_html").text(list)
   ok, problem, code = core.system.write(folder .. "/report.html", page)
   if not ok then
      return nil, problem, code
   end
   return true, note
end

--- At the end of a run: prints everything and writes the files. → the result that :run() returns.
function report.tell(run, state)
   local e, console = run.e, run.console
   local told = { name = e.name, folder = run.folder, measures = e.measures, wants_quality = #e.quality > 0,
      curve = run.curve, tokenizer = e.target.tokenizer, manifest = run.manifest,
      result = core.use("summary").of(run.trace, run.groups, run.curve, core.use("quality_compare").aims(run.manifest)),
      published = report.published(run.trace, run.manifest.published) }
   core.use("quality_front").add(told, run.trace, run.groups)
   core.use("report_tokens").add(told, run.trace, run.groups, told.tokenizer)
   console:line("")
   if state ~= "finished" then
      console:line("NOT COMPLETE: the numbers below are of the answers so far")
   end
   for _, line in ipairs(report.lines(told)) do
      console:line(line)
   end
   local ok, note = report.write(run.folder, { told })
   if ok then
      console:line(("%s/report.html, %s/summary.csv"):format(run.folder, run.folder))
   end
   if note then
      console:line(ok and note or "the report's files: " .. note)
   end
   told.result.out = run.folder
   return told.result
end

return report
