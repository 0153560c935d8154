--- core.table: rows of cells as aligned text, for a terminal of any kind.

local _, core = ...

--- Columns that a text takes: characters, not bytes.
local function width(text)
   return utf8.len(text) or #text
end

local function pad(text, columns, align)
   local space = (" "):rep(columns - width(text))
   return align == "left" and text .. space or space .. text
end

--- columns: { { title =, align = "left" | "right" }, … }; rows: lists of strings, nil or "" for an
-- empty cell. A row { rule = true } is a line. Returns lines.
function core.table(columns, rows)
   local widths = {}
   for i, column in ipairs(columns) do
      widths[i] = width(column.title)
   end
   for _, row in ipairs(rows) do
      for i = 1, #columns do
         widths[i] = math.max(widths[i], width(row[i] or ""))
      end
   end
   local function line(cell, filler)
      local cells = {}
      for i, column in ipairs(columns) do
         cells[i] = filler and filler:rep(widths[i]) or pad(cell(i, column), widths[i], column.align)
      end
      return (table.concat(cells, "  "):gsub("%s+$", ""))
   end
   local lines = { line(function(_, column) return column.title end), line(nil, "─") }
   for _, row in ipairs(rows) do
      if row.rule then
         lines[#lines + 1] = line(nil, "─")
      else
         lines[#lines + 1] = line(function(i) return row[i] or "" end)
      end
   end
   return lines
end

--- The same as a table in Markdown.
function core.markdown(columns, rows)
   local lines, titles, marks = {}, {}, {}
   for i, column in ipairs(columns) do
      titles[i] = column.title
      marks[i] = column.align == "left" and "---" or "---:"
   end
   lines[1] = "| " .. table.concat(titles, " | ") .. " |"
   lines[2] = "| " .. table.concat(marks, " | ") .. " |"
   for _, row in ipairs(rows) do
      local cells = {}
      for i = 1, #columns do
         cells[i] = (row[i] or ""):gsub("|", "\\|")
      end
      lines[#lines + 1] = "| " .. table.concat(cells, " | ") .. " |"
   end
   return lines
end
