--- summary.csv: a line for each arm and sampling, and for each of their categories.

local _, core = ...

local csv, tables = {}, core.use("report_tables")
local shown_depths = tables.shown_depths

local function cell(value)
   local text = value == nil and "" or type(value) == "number" and math.type(value) == "float"
      and ("%.9g"):format(value) or tostring(value)
   return text:find("[\",\n]") and "\"" .. text:gsub("\"", "\"\"") .. "\"" or text
end

local csv_names = {
   "arm", "sampling", "category", "rule", "lossless", "requests", "failed", "tokens", "forward_passes", "drafted",
   "accepted", "block_efficiency", "tokens_per_second", "speed_up", "speed_up_low", "speed_up_high",
   "predicted_speed_up", "draft_share", "score_share", "host_share", "prefill_seconds", "peak_pages", "draft_bytes",
   "answers_as_plain", "agreement_length", "target_nll", "fingerprint",
}

local function csv_line(values, names)
   local cells = {}
   for i, name in ipairs(csv_names) do
      cells[i] = cell(values[name])
   end
   for d = 1, shown_depths do
      local at = values.by_depth and values.by_depth[d]
      cells[#cells + 1] = cell(at and at.conditional)
      cells[#cells + 1] = cell(at and at.unconditional)
   end
   local shares, rest = tables.progress_shares(values)
   for n = 1, shown_depths do
      cells[#cells + 1] = cell(shares[n])
   end
   cells[#cells + 1] = cell(rest)
   for _, name in ipairs(names) do
      cells[#cells + 1] = cell(values.measures and values.measures[name])
   end
   return table.concat(cells, ",")
end

local function head_of(names)
   local head = table.move(csv_names, 1, #csv_names, 1, {})
   for d = 1, shown_depths do
      head[#head + 1] = ("accepted_%d_of_tested"):format(d)
      head[#head + 1] = ("accepted_%d_of_cycles"):format(d)
   end
   for n = 1, shown_depths do
      head[#head + 1] = ("cycles_of_%d"):format(n)
   end
   head[#head + 1] = "cycles_of_more"
   for _, name in ipairs(names) do
      head[#head + 1] = cell(name)
   end
   return table.concat(head, ",")
end

local function add_run(add, result, names)
   for _, entry in ipairs(result.arms) do
      local s, a = entry.speed_up or {}, entry.agreement or {}
      add(csv_line(setmetatable({ arm = entry.name, speed_up = s.value, speed_up_low = s.low,
         speed_up_high = s.high, answers_as_plain = a.same, agreement_length = a.length }, { __index = entry }),
         names))
      for _, c in ipairs(entry.categories) do
         s = c.speed_up or {}
         add(csv_line(setmetatable({ arm = entry.name, sampling = entry.sampling, rule = entry.rule,
            lossless = entry.lossless, category = c.name, speed_up = s.value, speed_up_low = s.low,
            speed_up_high = s.high }, { __index = c }), names))
      end
   end
end

--- Of one run; of several with their folders in a first column, and the measures of all of them.
function csv.text(list)
   local names, known = {}, {}
   for _, told in ipairs(list) do
      for _, measure in ipairs(told.measures) do
         names[#names + 1] = not known[measure.name] and measure.name or nil
         known[measure.name] = true
      end
   end
   local lines = { (#list > 1 and "run," or "") .. head_of(names) }
   for _, told in ipairs(list) do
      add_run(function(line)
         lines[#lines + 1] = (#list > 1 and cell(told.folder) .. "," or "") .. line
      end, told.result, names)
   end
   return table.concat(lines, "\n") .. "\n"
end

csv.cell = cell

return csv
