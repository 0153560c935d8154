--- The tables of a report, as columns and rows: the terminal and the page show the same ones.
--
-- They are made of `told`: { name =, folder =, result = (summary.lua), measures = list of { name =,
-- better = }, wants_quality =, curve =, published =, tokenizer =, made_by = }.

local _, core = ...

local tables = {}

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

--- "12 prompts", or "12 prompts, 24 answers" where some have several turns or repeats.
function tables.size(group)
   local plain = group[1]
   local size = ("%d prompt%s"):format(plain.prompts, plain.prompts == 1 and "" or "s")
   return plain.requests == plain.prompts and size or ("%s, %d answers"):format(size, plain.requests)
end

-- ---- The main table ------------------------------------------------------------------------------

--- A relaxed arm's speed never stands alone.
local function shows_quality(group, told)
   if told.wants_quality then
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
   return (entry.rule or "match") .. ((entry.lossless or not entry.proposer) and "" or ", relaxed")
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
   { title = "pages", of = function(entry) return entry.peak_pages > 0 and tostring(entry.peak_pages) or "–" end },
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

--- Weights that only drafting needs, in memory.
local memory_column = { title = "draft MB", of = function(entry)
   return (entry.draft_bytes or 0) > 0 and number(entry.draft_bytes / 1e6, "%.1f") or "–"
end }

local function shows_memory(group)
   for _, entry in ipairs(group) do
      if (entry.draft_bytes or 0) > 0 then
         return true
      end
   end
   return false
end

local arrows = { higher = " ↑", lower = " ↓" }

local function columns_of(group, told)
   local columns = table.move(main_columns, 1, #main_columns, 1, {})
   columns[#columns + 1] = shows_memory(group) and memory_column or nil
   if shows_quality(group, told) then
      table.move(quality_columns, 1, #quality_columns, #columns + 1, columns)
      columns[#columns + 1] = group[1].target_nll and nll_column or nil
   end
   for _, measure in ipairs(told.measures) do
      columns[#columns + 1] = { title = measure.name .. (arrows[measure.better] or ""), of = function(entry)
         return number(entry.measures[measure.name], "%.3f")
      end }
   end
   return columns
end

local function main_table(group, told)
   local columns, rows = columns_of(group, told), {}
   for i, entry in ipairs(group) do
      rows[i] = {}
      for c, column in ipairs(columns) do
         rows[i][c] = column.of(entry)
      end
   end
   return { columns = columns, rows = rows }
end

--- Measures with intervals, and against plain decoding.
local function quality_table(group, told)
   local directions, compare = {}, core.use("quality_compare")
   for _, measure in ipairs(told.measures) do
      directions[measure.name] = arrows[measure.better]
   end
   local columns, rows = compare.table(group, told.result.measures, directions)
   return { columns = columns, rows = rows }
end

-- ---- Acceptance by depth -------------------------------------------------------------------------

tables.shown_depths = 8
local shown_depths = tables.shown_depths

local function depth_table(group)
   local depth, columns, rows = 0, { { title = "accepted at depth", align = "left" } }, {}
   for _, entry in ipairs(group) do
      depth = math.max(depth, math.min(#entry.by_depth, shown_depths))
   end
   if depth == 0 then
      return nil
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
   return { columns = columns, rows = rows }
end

-- ---- Progress ------------------------------------------------------------------------------------

--- Of n from 1 to shown_depths the share of cycles that committed n tokens, then that of all others.
function tables.progress_shares(entry)
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
      local shares, rest = tables.progress_shares(entry)
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
   return most > 1 and { columns = columns, rows = rows } or nil
end

-- ---- By category ---------------------------------------------------------------------------------

local function category_table(group)
   if #group[1].categories < 2 or #group < 2 then
      return nil
   end
   local columns, rows, heat = { { title = "category", align = "left" } }, {}, {}
   for i, entry in ipairs(group) do
      if not entry.is_plain then
         columns[i] = { title = entry.name }
      end
   end
   for c, category in ipairs(group[1].categories) do
      local row = { ("%s (%d)"):format(category.name, category.requests) }
      heat[c] = {}
      for i, entry in ipairs(group) do
         local own = entry.categories[c]
         if not entry.is_plain and own and own.name == category.name then
            row[i] = ("%s  ×%s"):format(number(own.block_efficiency), number(own.speed_up and own.speed_up.value))
            heat[c][i] = own.speed_up and own.speed_up.value
         end
      end
      rows[c] = row
   end
   return { columns = columns, rows = rows, heat = heat } -- heat: a speed-up for each cell, for the page
end

-- ---- Published values ----------------------------------------------------------------------------

--- What a script says that others have measured, beside what this run did.
local function published_table(told)
   local columns = { { title = "published", align = "left" }, { title = "arm", align = "left" },
      { title = "sampling", align = "left" }, { title = "theirs" }, { title = "ours" }, { title = "", align = "left" },
      { title = "source", align = "left" } }
   local rows = {}
   for i, value in ipairs(told.published or {}) do
      rows[i] = { value.metric, value.arm, value.sampling, number(value.value, "%.4g"), number(value.ours, "%.4g"),
         value.verdict, value.source }
   end
   return { columns = columns, rows = rows }
end

--- All tables of a group that have rows, in their order.
function tables.of(told, group)
   local list = {}
   for _, table_of in ipairs { main_table, quality_table, progress_table, depth_table, category_table } do
      local made = table_of(group, told)
      list[#list + 1] = made and #made.rows > 0 and made or nil
   end
   local fronts = core.use("quality_front").tables(group)
   table.move(fronts, 1, #fronts, #list + 1, list)
   return list
end

function tables.published(told)
   local made = published_table(told)
   return #made.rows > 0 and made or nil
end

return tables
