--- What a run tells at its end: the table on the terminal and summary.csv.

local _, core = ...

local report = {}

local function number(value, format)
   return value and (format or "%.2f"):format(value) or "–"
end

local function percent(value)
   return value and ("%.1f"):format(100 * value) or "–"
end

local function interval(s)
   if not s or s.prompts < 2 then -- one prompt says nothing about others
      return number(s and s.value)
   end
   return ("%.2f (%.2f–%.2f)"):format(s.value, s.low, s.high)
end

-- ---- The main table ------------------------------------------------------------------------------

local function shows_quality(group, e)
   if #e.quality > 0 then
      return true
   end
   for _, entry in ipairs(group) do
      if not entry.lossless then
         return true
      end
   end
   return false
end

local function rule_text(entry)
   if entry.is_plain then
      return ""
   end
   return (entry.rule or "match") .. (entry.lossless and "" or ", relaxed")
end

local main_columns = {
   { title = "arm", align = "left", of = function(entry) return entry.name end },
   { title = "rule", align = "left", of = rule_text },
   { title = "block efficiency", of = function(entry) return number(entry.block_efficiency, "%.3f") end },
   { title = "tokens/s", of = function(entry) return number(entry.tokens_per_second, "%.1f") end },
   { title = "speed-up (95 %)", of = function(entry) return entry.is_plain and "1" or interval(entry.speed_up) end },
   { title = "predicted", of = function(entry) return entry.is_plain and "1" or number(entry.predicted_speed_up) end },
   { title = "D %", of = function(entry) return percent(entry.draft_share) end },
   { title = "V %", of = function(entry) return percent(entry.score_share) end },
   { title = "H %", of = function(entry) return percent(entry.host_share) end },
   { title = "pages", of = function(entry) return tostring(entry.peak_pages) end },
}

local quality_columns = {
   { title = "exact match", of = function(entry)
      return entry.agreement and ("%d/%d"):format(entry.agreement.same, entry.agreement.of) or ""
   end },
   { title = "agreement", of = function(entry)
      return entry.agreement and number(entry.agreement.length, "%.1f") or ""
   end },
}

local nll_column = { title = "target NLL", of = function(entry) return number(entry.target_nll, "%.3f") end }

local arrows = { higher = " ↑", lower = " ↓" }

local function columns_of(group, e)
   local columns = table.move(main_columns, 1, #main_columns, 1, {})
   if shows_quality(group, e) then
      table.move(quality_columns, 1, #quality_columns, #columns + 1, columns)
      columns[#columns + 1] = group[1].target_nll and nll_column or nil
   end
   for _, measure in ipairs(e.measures) do
      columns[#columns + 1] = { title = measure.name .. (arrows[measure.better] or ""), of = function(entry)
         return number(entry.measures[measure.name], "%.3f")
      end }
   end
   return columns
end

local function main_table(group, e)
   local columns, rows = columns_of(group, e), {}
   for i, entry in ipairs(group) do
      rows[i] = {}
      for c, column in ipairs(columns) do
         rows[i][c] = column.of(entry)
      end
   end
   return core.table(columns, rows)
end

--- Measures with intervals, and against plain decoding.
local function quality_table(group, result, e)
   local directions, compare = {}, core.use("quality_compare")
   for _, measure in ipairs(e.measures) do
      directions[measure.name] = arrows[measure.better]
   end
   local rows = compare.rows(group, result.measures, directions)
   return #rows > 0 and core.table(compare.columns, rows) or {}
end

-- ---- Acceptance by depth -------------------------------------------------------------------------

local shown_depths = 8

local function depth_table(group)
   local depth, columns, rows = 0, { { title = "accepted at depth", align = "left" } }, {}
   for _, entry in ipairs(group) do
      depth = math.max(depth, math.min(#entry.by_depth, shown_depths))
   end
   if depth == 0 then
      return {}
   end
   for d = 1, depth do
      columns[d + 1] = { title = tostring(d) }
   end
   for _, entry in ipairs(group) do
      if not entry.is_plain then
         local row = { entry.name }
         for d, at in ipairs(entry.by_depth) do
            row[d + 1] = d <= depth and ("%s (%s)"):format(number(at.conditional), number(at.unconditional)) or nil
         end
         rows[#rows + 1] = row
      end
   end
   return core.table(columns, rows)
end

-- ---- Progress ------------------------------------------------------------------------------------

--- Of n from 1 to shown_depths the share of cycles that committed n tokens, then that of all others.
local function progress_shares(entry)
   local shares, rest = {}, nil
   for n, share in ipairs(entry.progress_distribution or {}) do
      if n <= shown_depths then
         shares[n] = share
      else
         rest = (rest or 0) + share
      end
   end
   return shares, rest
end

local function progress_table(group)
   local columns, rows, most, has_rest = { { title = "% of cycles by tokens committed", align = "left" } }, {}, 1, false
   for _, entry in ipairs(group) do
      local shares, rest = progress_shares(entry)
      if not entry.is_plain and #shares > 0 then
         local row = { entry.name }
         for n, share in ipairs(shares) do
            row[n + 1] = percent(share)
         end
         row[shown_depths + 2] = rest and percent(rest)
         most, has_rest, rows[#rows + 1] = math.max(most, #shares), has_rest or rest ~= nil, row
      end
   end
   for n = 1, most do
      columns[n + 1] = { title = tostring(n) }
   end
   columns[most + 2] = has_rest and { title = ("> %d"):format(shown_depths) } or nil
   return #rows > 0 and most > 1 and core.table(columns, rows) or {}
end

-- ---- By category ---------------------------------------------------------------------------------

local function category_table(group)
   if #group[1].categories < 2 or #group < 2 then
      return {}
   end
   local columns, rows = { { title = "category", align = "left" } }, {}
   for i, entry in ipairs(group) do
      if not entry.is_plain then
         columns[i] = { title = entry.name }
      end
   end
   for c, category in ipairs(group[1].categories) do
      local row = { ("%s (%d)"):format(category.name, category.requests) }
      for i, entry in ipairs(group) do
         local own = entry.categories[c]
         if not entry.is_plain and own and own.name == category.name then
            row[i] = ("%s  ×%s"):format(number(own.block_efficiency), number(own.speed_up and own.speed_up.value))
         end
      end
      rows[c] = row
   end
   return core.table(columns, rows)
end

-- ---- Greedy identity -----------------------------------------------------------------------------

local function token_text(tokenizer, id)
   return id and ("%d %q"):format(id, tokenizer:piece(id) or "") or "the end"
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
local function contradiction_lines(trace)
   local lines = {}
   for i, row in ipairs(trace:rows("SELECT * FROM broken_identities") or {}) do
      if i > shown_failures then
         break
      end
      lines[i] = ("!!! THE TRACE CONTRADICTS ITSELF: request %d: %s: %s and %s"):format(row.request, row.identity,
         row.left_side, row.right_side)
   end
   return lines
end

-- ---- Words ---------------------------------------------------------------------------------------

local function legend(cost, result, measures)
   local prefill, tokens = 0, 0
   for _, entry in ipairs(result.arms) do
      prefill, tokens = prefill + entry.prefill_seconds, tokens + entry.tokens
   end
   local lines = {
      "block efficiency: tokens per target forward pass, the last one included. tokens/s: of decoding alone; prefill"
         .. (" took %.1f s apart."):format(prefill),
      "speed-up: tokens/s over plain decoding's; interval by a paired bootstrap over prompts (2,000 resamples).",
      "D, V, H: draft, score, host (verify, commit, everything else) as shares of the cycles' time.",
      "accepted at depth: share of the drafts tested there (in brackets: of all cycles).",
   }
   if cost then
      table.insert(lines, 3, ("predicted: V from the cost curve (%s) at each cycle's nodes and context, D and H as"
         .. " measured."):format(cost.path))
   end
   local own = {}
   for _, measure in ipairs(measures) do
      own[#own + 1] = not measure.is_ours and measure.name or nil
   end
   if #own > 0 then
      lines[#lines + 1] = table.concat(own, ", ") .. ": of the script's own; means over answers."
   end
   if #result.measures > 0 then
      lines[#lines + 1] = "quality: yes/no measures with Wilson's interval and exact McNemar against plain; else"
         .. " paired bootstraps over prompts."
   end
   return lines
end

local function say(console, lines)
   for _, line in ipairs(lines) do
      console:line(line)
   end
   if #lines > 0 then
      console:line("")
   end
end

-- ---- CSV -----------------------------------------------------------------------------------------

local function cell(value)
   local text = value == nil and "" or type(value) == "number" and math.type(value) == "float"
      and ("%.9g"):format(value) or tostring(value)
   return text:find("[\",\n]") and "\"" .. text:gsub("\"", "\"\"") .. "\"" or text
end

local csv_names = {
   "arm", "sampling", "category", "rule", "lossless", "requests", "failed", "tokens", "forward_passes", "drafted",
   "accepted", "block_efficiency", "tokens_per_second", "speed_up", "speed_up_low", "speed_up_high",
   "predicted_speed_up", "draft_share", "score_share", "host_share", "prefill_seconds", "peak_pages",
   "answers_as_plain", "agreement_length", "target_nll", "fingerprint",
}

local function csv_line(values, measures)
   local cells = {}
   for i, name in ipairs(csv_names) do
      cells[i] = cell(values[name])
   end
   for d = 1, shown_depths do
      local at = values.by_depth and values.by_depth[d]
      cells[#cells + 1] = cell(at and at.conditional)
      cells[#cells + 1] = cell(at and at.unconditional)
   end
   local shares, rest = progress_shares(values)
   for n = 1, shown_depths do
      cells[#cells + 1] = cell(shares[n])
   end
   cells[#cells + 1] = cell(rest)
   for _, measure in ipairs(measures) do
      cells[#cells + 1] = cell(values.measures and values.measures[measure.name])
   end
   return table.concat(cells, ",")
end

local function csv_text(result, measures)
   local head = table.move(csv_names, 1, #csv_names, 1, {})
   for d = 1, shown_depths do
      head[#head + 1] = ("accepted_%d_of_tested"):format(d)
      head[#head + 1] = ("accepted_%d_of_cycles"):format(d)
   end
   for n = 1, shown_depths do
      head[#head + 1] = ("cycles_of_%d"):format(n)
   end
   head[#head + 1] = "cycles_of_more"
   for _, measure in ipairs(measures) do
      head[#head + 1] = cell(measure.name)
   end
   local lines = { table.concat(head, ",") }
   for _, entry in ipairs(result.arms) do
      local s, a = entry.speed_up or {}, entry.agreement or {}
      lines[#lines + 1] = csv_line(setmetatable({ arm = entry.name, speed_up = s.value, speed_up_low = s.low,
         speed_up_high = s.high, answers_as_plain = a.same, agreement_length = a.length }, { __index = entry }),
         measures)
      for _, c in ipairs(entry.categories) do
         s = c.speed_up or {}
         lines[#lines + 1] = csv_line(setmetatable({ arm = entry.name, sampling = entry.sampling, rule = entry.rule,
            lossless = entry.lossless, category = c.name, speed_up = s.value, speed_up_low = s.low,
            speed_up_high = s.high }, { __index = c }), measures)
      end
   end
   return table.concat(lines, "\n") .. "\n"
end

--- Prints everything and writes summary.csv. → the result that :run() returns.
function report.tell(run, state)
   local result = core.use("summary").of(run.trace, run.groups, run.curve)
   local console = run.console
   console:line("")
   if state ~= "finished" then
      console:line("NOT COMPLETE: the numbers below are of the answers so far")
   end
   for _, group in ipairs(result.groups) do
      console:line(("%s, %s, %d prompts"):format(run.e.name, group.label, group[1].requests))
      say(console, main_table(group, run.e))
      say(console, quality_table(group, result, run.e))
      say(console, progress_table(group))
      say(console, depth_table(group))
      say(console, category_table(group))
      say(console, identity_lines(group, run.e.target.tokenizer))
   end
   say(console, failure_lines(result))
   say(console, contradiction_lines(run.trace))
   say(console, legend(run.curve, result, run.e.measures))
   core.system.write(run.folder .. "/summary.csv", csv_text(result, run.e.measures))
   result.out = run.folder
   console:line(("%s: %d tokens, %d passes, block efficiency %s, fingerprint %s"):format(run.folder, result.tokens,
      result.forward_passes, number(result.block_efficiency, "%.4f"), result.fingerprint))
   return result
end

return report
