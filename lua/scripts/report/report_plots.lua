--- Plots of a report: SVG by gnuplot, called as a program once for all of them.
--
-- gnuplot writes colours as numbers. Two kinds of numbers stand for colours of the page, which has
-- light and dark ones: rgb(1,2,3) is the colour of text, rgb(10,11,n) the n-th series.

local _, core = ...

local plots = {}

local ink = "rgb \"#010203\""
local n_series = 8

local function series(n)
   return ("rgb \"#0a0b%02x\""):format((n - 1) % n_series + 1)
end

--- A text for gnuplot: in its single quotes nothing but the quote is special.
local function quoted(text)
   return "'" .. text:gsub("'", "''"):gsub("%c", " ") .. "'"
end

local longest_word = 22

--- A word of a data block: in double quotes, where nothing can be escaped. Room is scarce on a phone.
local function word(text)
   local length = utf8.len(text)
   if length and length > longest_word then
      text = text:sub(1, utf8.offset(text, longest_word) - 1) .. "…"
   end
   return "\"" .. text:gsub("[\"\\%c]", " ") .. "\""
end

local function frame(height, x_label, y_label)
   return ([[
reset
set terminal svg size 480,%d dynamic noenhanced font "sans-serif,14" linewidth 1.5
set output
set border 3 lc %s
set tics nomirror textcolor %s
set grid lc %s lw 0.2
unset key
set xlabel %s textcolor %s
set ylabel %s textcolor %s
set style fill solid 0.85 noborder
]]):format(height, ink, ink, ink, quoted(x_label or ""), ink, quoted(y_label or ""), ink)
end

local function data(rows)
   return "$data << END_OF_DATA\n" .. table.concat(rows, "\n") .. "\nEND_OF_DATA\n"
end

local function bars_frame(n, x_label)
   return frame(70 + 30 * n, x_label) .. ("set yrange [%g:-0.6]\n"):format(n - 0.4)
end

local function arms_of(group)
   local list = {}
   for _, entry in ipairs(group) do
      list[#list + 1] = not entry.is_plain and entry or nil
   end
   return list
end

-- ---- The plots -----------------------------------------------------------------------------------

local function speed_ups(group)
   local rows = {}
   for _, entry in ipairs(arms_of(group)) do
      local s = entry.speed_up
      if s then
         local is_interval = s.prompts > 1
         rows[#rows + 1] = ("%s %.6g %.6g %.6g"):format(word(entry.name), s.value, is_interval and s.low or s.value,
            is_interval and s.high or s.value)
      end
   end
   if #rows == 0 then
      return nil
   end
   return { title = "Speed-up over plain decoding, 95 % intervals", script = data(rows)
      .. bars_frame(#rows, "tokens per second over plain decoding's") .. "set xrange [0:*]\n"
      .. ("set arrow 1 from 1, graph 0 to 1, graph 1 nohead dt 2 lc %s\n"):format(ink)
      .. ("plot $data using ($2/2):0:($2/2):(0.3):yticlabels(1) with boxxyerror lc %s, \\\n"):format(series(1))
      .. ("   $data using 2:0:3:4 with xerrorbars lc %s pt 7 ps 0.6\n"):format(ink) }
end

--- Lines of arms over whole numbers; points(entry) → list of values.
local function lines_over(group, title, x_label, y_label, points)
   local blocks, parts, legend, n = {}, {}, {}, 0
   for _, entry in ipairs(arms_of(group)) do
      local rows = {}
      for x, y in ipairs(points(entry)) do
         rows[#rows + 1] = y and ("%d %.6g"):format(x, y) or nil
      end
      if #rows > 0 then
         n = n + 1
         blocks[n] = ("$arm%d << END_OF_DATA\n%s\nEND_OF_DATA\n"):format(n, table.concat(rows, "\n"))
         parts[n] = ("$arm%d with linespoints lc %s pt 7 ps 0.5"):format(n, series(n))
         legend[n] = { (n - 1) % n_series + 1, entry.name }
      end
   end
   if n == 0 then
      return nil
   end
   return { title = title, legend = legend, script = table.concat(blocks) .. frame(280, x_label, y_label)
      .. "set yrange [0:*]\nset xtics 1\nset xrange [0.5:*]\n" .. "plot " .. table.concat(parts, ", \\\n   ") .. "\n" }
end

local function progress(group)
   return lines_over(group, "Tokens committed by a cycle", "tokens", "share of cycles", function(entry)
      return entry.progress_distribution
   end)
end

local function by_depth(group)
   return lines_over(group, "Acceptance by depth", "depth", "accepted / tested there", function(entry)
      local list = {}
      for d, at in ipairs(entry.by_depth) do
         list[d] = at.conditional or false
      end
      return list
   end)
end

local function times(group)
   local rows = {}
   for _, entry in ipairs(group) do
      local m = entry.metrics
      if entry.tokens > 0 then
         local scale = 1e3 / entry.tokens
         rows[#rows + 1] = ("%s %.6g %.6g %.6g"):format(word(entry.name), scale * m.draft_seconds,
            scale * m.score_seconds, scale * m.host_seconds)
      end
   end
   if #rows == 0 then
      return nil
   end
   local function part(from, width, n)
      return ("$data using (%s+%s/2):0:(%s/2):(0.3):yticlabels(1) with boxxyerror lc %s"):format(from, width, width,
         series(n))
   end
   return { title = "Where the time of a token goes",
      legend = { { 2, "D: draft" }, { 1, "V: score" }, { 3, "H: host" } },
      script = data(rows) .. bars_frame(#rows, "milliseconds per token") .. "set xrange [0:*]\nplot "
         .. table.concat({ part("0", "$2", 2), part("$2", "$3", 1), part("($2+$3)", "$4", 3) }, ", \\\n   ") .. "\n" }
end

--- Points { x =, y = } that no other beats in both; better: of x.
local function front(points, better)
   local sign, sorted, out, best = better == "lower" and -1 or 1, table.move(points, 1, #points, 1, {}), {}, nil
   table.sort(sorted, function(a, b)
      return sign * a.x > sign * b.x or a.x == b.x and a.y > b.y
   end)
   for _, point in ipairs(sorted) do
      if not best or point.y > best then
         best, out[#out + 1] = point.y, point
      end
   end
   return out
end

local function speed_against(group, measure, better, value)
   local points, parts, legend = {}, {}, {}
   local script = frame(320, measure .. (better and (" (%s is better)"):format(better) or ""), "tokens per second")
      .. "set yrange [0:*]\nset offsets graph 0.08, graph 0.08, graph 0.1, 0\n"
   for _, entry in ipairs(group) do
      local x, y, n = value(entry), entry.tokens_per_second, #points + 1
      if x and y then
         points[n] = { x = x, y = y }
         script = script .. ("$arm%d << END_OF_DATA\n%.6g %.6g\nEND_OF_DATA\n"):format(n, x, y)
         parts[n] = ("$arm%d with points pt 7 ps 0.9 lc %s"):format(n, series(n))
         legend[n] = { (n - 1) % n_series + 1, entry.name }
      end
   end
   if #points < 2 then
      return nil
   end
   local line = {}
   for i, point in ipairs(better and front(points, better) or {}) do
      line[i] = ("%.6g %.6g"):format(point.x, point.y)
   end
   if #line > 1 then
      script = script .. ("$front << END_OF_DATA\n%s\nEND_OF_DATA\n"):format(table.concat(line, "\n"))
      table.insert(parts, 1, ("$front with lines lc %s dt 2"):format(ink))
      legend[#legend + 1] = { nil, "dashed: none is better in both" }
   end
   return { title = "Speed against " .. measure, legend = legend,
      script = script .. "plot " .. table.concat(parts, ", \\\n   ") .. "\n" }
end

local shown_measures = 4

local function speed_and_quality(group, told)
   local list = {}
   for i = 1, math.min(#told.measures, shown_measures) do
      local measure = told.measures[i]
      list[#list + 1] = speed_against(group, measure.name, measure.better, function(entry)
         return entry.measures[measure.name]
      end)
   end
   if #list == 0 then -- the share of plain decoding's answers is always known
      list[1] = speed_against(group, "share of answers that are plain decoding's", "higher", function(entry)
         local a = entry.agreement
         return entry.is_plain and 1 or a and a.of > 0 and a.same / a.of or nil
      end)
   end
   return list
end

--- V(n) for each context as it was measured, and what no pass can be faster than. Both axes are logarithmic.
function plots.cost(cost)
   local contexts, by_context, script, parts, legend = {}, {}, "", {}, {}
   for _, point in ipairs(cost.score) do
      if not by_context[point.context] then
         by_context[point.context], contexts[#contexts + 1] = {}, point.context
      end
      table.insert(by_context[point.context], ("%d %.6g"):format(point.nodes, 1e3 * point.seconds))
   end
   for i, context in ipairs(contexts) do
      script = script .. ("$v%d << END_OF_DATA\n%s\nEND_OF_DATA\n"):format(i, table.concat(by_context[context], "\n"))
      parts[i] = ("$v%d with linespoints lc %s pt 7 ps 0.5"):format(i, series(i))
      legend[i] = { (i - 1) % n_series + 1, ("V(n) behind %d positions"):format(context) }
   end
   local roofline = type(cost.roofline) == "table" and cost.roofline
   if roofline then
      local rows = {}
      for _, point in ipairs(cost.score) do
         rows[#rows + 1] = point.context == contexts[1] and ("%d %.6g"):format(point.nodes,
            1e3 * core.use("curve").floor_seconds(roofline, point.nodes)) or nil
      end
      script = script .. "$roof << END_OF_DATA\n" .. table.concat(rows, "\n") .. "\nEND_OF_DATA\n"
      parts[#parts + 1] = ("$roof with lines lc %s dt 2"):format(ink)
      legend[#legend + 1] = { nil, "dashed: roofline, every weight read once and multiplied n times" }
   end
   return { title = "What a forward pass costs", legend = legend, script = script
      .. frame(280, "tokens in a pass", "milliseconds") .. "set logscale xy\nset xtics 2\n"
      .. "plot " .. table.concat(parts, ", \\\n   ") .. "\n" }
end

--- All plots of a group: { { title =, script =, legend = { { series or nil, name }, … } }, … }
function plots.of(told, group)
   local list = {}
   for _, make in ipairs { speed_ups, times, progress, by_depth } do
      list[#list + 1] = make(group)
   end
   local more = speed_and_quality(group, told)
   return table.move(more, 1, #more, #list + 1, list)
end

-- ---- gnuplot -------------------------------------------------------------------------------------

local function colour(r, g, b)
   if r == "1" and g == "2" and b == "3" then
      return "currentColor"
   elseif r == "10" and g == "11" then
      return ("var(--series-%s)"):format(b)
   end
end

--- One of gnuplot's files as part of a page: its colours those of the page, its names its own.
local function embed(svg, number, title)
   svg = svg:match("<svg.*</svg>")
   svg = svg:gsub("rgb%(%s*(%d+),%s*(%d+),%s*(%d+)%s*%)", colour):gsub(" color=\"%a+\"", "")
      :gsub("stroke=\"black\"", "stroke=\"currentColor\""):gsub(" xmlns[%w:]*=\"[^\"]*\"", "")
      :gsub("xlink:href", "href"):gsub("<desc>.-</desc>", ""):gsub("<title>.-</title>", "")
      :gsub(" id=(['\"])", " id=%1p" .. number .. "-"):gsub("='#", "='#p" .. number .. "-")
      :gsub("url%(#", "url(#p" .. number .. "-")
   return ("<svg role=\"img\" aria-label=\"%s\""):format(title:gsub("[&<>\"]", "")) .. svg:sub(5)
end

local function run_gnuplot(script)
   local path = os.tmpname()
   local file = assert(io.open(path, "wb"))
   file:write(script)
   file:close()
   local pipe = io.popen(("gnuplot '%s' 2>/dev/null"):format(path))
   local text = pipe and pipe:read("a") or ""
   local ok = pipe and pipe:close()
   os.remove(path)
   return ok and text or nil
end

--- Whether the program is there.
function plots.are_possible()
   local pipe = io.popen("command -v gnuplot 2>/dev/null")
   local found = pipe and pipe:read("l")
   if pipe then
      pipe:close()
   end
   return found ~= nil
end

--- Draws all of a list → list of SVG texts | nil, why not (one line).
function plots.draw(list)
   if #list == 0 then
      return {}
   elseif not plots.are_possible() then
      return nil, "report.html has no plots: gnuplot is not installed (make deps installs it)"
   end
   local scripts = {}
   for i, plot in ipairs(list) do
      scripts[i] = plot.script
   end
   local text, out = run_gnuplot(table.concat(scripts, "\n")), {}
   for svg in (text or ""):gmatch("<%?xml.-</svg>") do
      out[#out + 1] = embed(svg, #out + 1, list[#out + 1] and list[#out + 1].title or "")
   end
   if #out ~= #list then
      return nil, "report.html has no plots: gnuplot failed"
   end
   return out
end

return plots
