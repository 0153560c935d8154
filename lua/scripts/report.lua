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

local function main_columns(group, e)
   local columns = {
      { title = "arm", align = "left" }, { title = "rule", align = "left" }, { title = "block efficiency" },
      { title = "tokens/s" }, { title = "speed-up (95 %)" }, { title = "predicted" }, { title = "D %" },
      { title = "V %" }, { title = "H %" }, { title = "pages" },
   }
   if shows_quality(group, e) then
      table.move({ { title = "exact match" }, { title = "agreement" } }, 1, 2, #columns + 1, columns)
      if group[1].target_nll then
         columns[#columns + 1] = { title = "target NLL" }
      end
   end
   return columns
end

local function rule_text(entry)
   if entry.is_plain then
      return ""
   end
   return (entry.rule or "match") .. (entry.lossless and "" or ", relaxed")
end

local function main_row(entry, columns)
   local row = {
      entry.name, rule_text(entry), number(entry.block_efficiency, "%.3f"), number(entry.tokens_per_second, "%.1f"),
      entry.is_plain and "1" or interval(entry.speed_up), entry.is_plain and "1" or number(entry.predicted_speed_up),
      percent(entry.draft_share), percent(entry.score_share), percent(entry.host_share), tostring(entry.peak_pages),
   }
   if #columns > 10 then
      local a = entry.agreement
      row[11] = a and ("%d/%d"):format(a.same, a.of) or ""
      row[12] = a and number(a.length, "%.1f") or ""
      row[13] = number(entry.target_nll, "%.3f")
   end
   return row
end

local function main_table(group, e)
   local columns, rows = main_columns(group, e), {}
   for i, entry in ipairs(group) do
      rows[i] = main_row(entry, columns)
   end
   return core.table(columns, rows)
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
         lines[#lines + 1] = ("!!! %s: %d requests failed and are left out"):format(entry.name, entry.failed)
      end
      if (entry.lua_share or 0) > 0.05 then
         lines[#lines + 1] = ("%s: %.0f %% of the time is spent in the script's Lua functions (part of H)")
            :format(entry.name, 100 * entry.lua_share)
      end
   end
   return lines
end

-- ---- Words ---------------------------------------------------------------------------------------

local function legend(cost, result)
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

local function csv_line(values)
   local cells = {}
   for i, name in ipairs(csv_names) do
      cells[i] = cell(values[name])
   end
   for d = 1, shown_depths do
      local at = values.by_depth and values.by_depth[d]
      cells[#cells + 1] = cell(at and at.conditional)
      cells[#cells + 1] = cell(at and at.unconditional)
   end
   return table.concat(cells, ",")
end

local function csv_text(result)
   local head = table.move(csv_names, 1, #csv_names, 1, {})
   for d = 1, shown_depths do
      head[#head + 1] = ("accepted_%d_of_tested"):format(d)
      head[#head + 1] = ("accepted_%d_of_cycles"):format(d)
   end
   local lines = { table.concat(head, ",") }
   for _, entry in ipairs(result.arms) do
      local s, a = entry.speed_up or {}, entry.agreement or {}
      lines[#lines + 1] = csv_line(setmetatable({ arm = entry.name, speed_up = s.value, speed_up_low = s.low,
         speed_up_high = s.high, answers_as_plain = a.same, agreement_length = a.length }, { __index = entry }))
      for _, c in ipairs(entry.categories) do
         s = c.speed_up or {}
         lines[#lines + 1] = csv_line(setmetatable({ arm = entry.name, sampling = entry.sampling, rule = entry.rule,
            lossless = entry.lossless, category = c.name, speed_up = s.value, speed_up_low = s.low,
            speed_up_high = s.high }, { __index = c }))
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
      say(console, depth_table(group))
      say(console, category_table(group))
      say(console, identity_lines(group, run.e.target.tokenizer))
   end
   say(console, legend(run.curve, result))
   core.system.write(run.folder .. "/summary.csv", csv_text(result))
   result.out = run.folder
   console:line(("%s: %d tokens, %d passes, block efficiency %s, fingerprint %s"):format(run.folder, result.tokens,
      result.forward_passes, number(result.block_efficiency, "%.4f"), result.fingerprint))
   return result
end

return report
