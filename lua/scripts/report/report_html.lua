--- report.html: one file without outside resources, for a wide screen and a phone, light and dark.

local cop, core = ...

local html = {}

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["\""] = "&quot;" }

local function escape(text)
   text = utf8.len(text) and text or text:gsub("[\128-\255]", "?")
   return (text:gsub("[&<>\"]", entities):gsub("[%z\1-\8\11\12\14-\31]", "?"))
end

html.escape = escape

--- Text colours have a contrast of at least 4.5 to their background, series of at least 3.
local style = [[
:root { --page: #ffffff; --ink: #1b1f24; --quiet: #57606a; --line: #d0d7de; --shade: #f4f6f8; --alarm: #b3261e;
  --series-1: #0969a8; --series-2: #b35900; --series-3: #1a7f5a; --series-4: #9a3d8a; --series-5: #6b6f00;
  --series-6: #c0392b; --series-7: #5b5fc7; --series-8: #7a5c3e; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --ink: #e6e9ec; --quiet: #a3acb5; --line: #3a424a; --shade: #1d2226; --alarm: #ff8a80;
    --series-1: #58a6e0; --series-2: #f0a04b; --series-3: #4fc798; --series-4: #d98bcb; --series-5: #c5c95a;
    --series-6: #f0776a; --series-7: #a5a8ff; --series-8: #c9a887; } }
html { color-scheme: light dark; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 2.5rem; } h3 { font-size: 1.05rem; margin-bottom: .3rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--shade); font-weight: 600; } .left { text-align: left; }
.legend { margin: .2rem 0; font-size: .9rem; } .legend span { margin-right: 1.2rem; white-space: nowrap; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: .15em; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; max-width: 45rem; }
.quiet { color: var(--quiet); } .alarm { color: var(--alarm); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; } pre { overflow-x: auto; background: var(--shade); padding: .8rem; }
]]

--- The tint of a cell that is `heat` times as good as the ordinary: none at 1, full at twice and at half.
local function tint(heat)
   local strength = heat and heat > 0 and math.max(-1, math.min(1, math.log(heat, 2))) or 0
   local percent = math.floor(40 * math.abs(strength) + 0.5)
   return percent > 0 and (" style=\"background: color-mix(in srgb, var(--series-%d) %d%%, transparent)\""):format(
      strength > 0 and 3 or 2, percent) or ""
end

local function table_text(made)
   local out = { "<div class=\"scroll\"><table><thead><tr>" }
   local function cell(tag, i, text, heat)
      out[#out + 1] = ("<%s%s%s>%s</%s>"):format(tag, made.columns[i].align == "left" and " class=\"left\"" or "",
         tint(heat), escape(text), tag)
   end
   for i, column in ipairs(made.columns) do
      cell("th", i, column.title)
   end
   out[#out + 1] = "</tr></thead><tbody>\n"
   for r, row in ipairs(made.rows) do
      out[#out + 1] = "<tr>"
      for i = 1, #made.columns do
         cell("td", i, row[i] or "", made.heat and made.heat[r][i])
      end
      out[#out + 1] = "</tr>\n"
   end
   out[#out + 1] = "</tbody></table></div>\n"
   return table.concat(out)
end

local function lines_text(lines, class)
   local out = {}
   for i, line in ipairs(lines) do
      out[i] = ("<p class=\"%s\">%s</p>\n"):format(line:find("^!!!") and "alarm" or class, escape(line))
   end
   return table.concat(out)
end

local function facts_text(told)
   local identity, made_by = told.manifest.identity, told.manifest.made_by or {}
   local target = identity.target or {}
   local facts = {
      { "folder", told.folder }, { "target", target.path }, { "sha256", target.sha256 },
      { "precision, cache", target.precision and ("%s, %s"):format(target.precision, target.kv) },
      { "prompts", identity.prompts and identity.prompts.path }, { "seed", identity.seed },
      { "longest answer", identity.max_tokens }, { "batch", identity.batch }, { "started", made_by.started },
      { "version", made_by.version and ("%s %s"):format(made_by.version, made_by.git or "") },
      { "machine", made_by.processor and ("%s, %s, %s threads"):format(made_by.processor, made_by.level,
         made_by.threads) },
   }
   local out = { "<dl>\n" }
   for _, fact in ipairs(facts) do
      if fact[2] ~= nil then
         out[#out + 1] = ("<dt>%s</dt><dd>%s</dd>\n"):format(fact[1], escape(tostring(fact[2])))
      end
   end
   out[#out + 1] = "</dl>\n"
   return table.concat(out)
end

local function figure_text(plot, label)
   local legend = {}
   for i, row in ipairs(plot.legend or {}) do
      local swatch = row[1] and ("<i style=\"background: var(--series-%d)\"></i>"):format(row[1]) or ""
      legend[i] = ("<span>%s%s</span>"):format(swatch, escape(row[2]))
   end
   return ("<figure><figcaption>%s, %s</figcaption>\n<p class=\"legend\">%s</p>\n%s\n</figure>\n"):format(
      escape(plot.title), escape(label), table.concat(legend, "\n"), plot.svg)
end

local function group_text(told, group, drawn, state)
   local report, out = core.use("report"), {}
   out[1] = ("<h3>%s, %s</h3>\n"):format(escape(group.label), core.use("report_tables").size(group))
   for _, made in ipairs(core.use("report_tables").of(told, group)) do
      out[#out + 1] = table_text(made)
   end
   out[#out + 1] = lines_text(report.remarks(told, group), "quiet")
   for _, plot in ipairs(drawn) do
      out[#out + 1] = figure_text(plot, group.label)
   end
   out[#out + 1] = core.use("report_tokens").html(group, state, escape)
   return table.concat(out)
end

local function run_text(told, drawn, state)
   local report, out = core.use("report"), {}
   out[1] = ("<h2>%s</h2>\n%s"):format(escape(told.name), facts_text(told))
   for g, group in ipairs(told.result.groups) do
      out[#out + 1] = group_text(told, group, drawn[g], state)
   end
   for _, plot in ipairs(drawn.run or {}) do
      out[#out + 1] = figure_text(plot, "this machine")
   end
   local published = core.use("report_tables").published(told)
   if published then
      out[#out + 1] = "<h3>Published values beside ours</h3>\n" .. table_text(published)
   end
   out[#out + 1] = lines_text(report.warnings(told), "quiet") .. lines_text(report.legend(told), "quiet")
   local script = told.manifest.script_text
   if type(script) == "string" then
      out[#out + 1] = ("<details><summary>The script</summary><pre>%s</pre></details>\n"):format(escape(script))
   end
   return table.concat(out)
end

--- Draws the plots of all runs at once → by run and group | empty lists, why there are none.
local function draw(list)
   local plots, all, drawn = core.use("report_plots"), {}, {}
   for r, told in ipairs(list) do
      drawn[r] = { run = {} }
      if told.curve then
         local plot = plots.cost(told.curve)
         all[#all + 1], plot.home = plot, drawn[r].run
      end
      for g, group in ipairs(told.result.groups) do
         drawn[r][g] = {}
         for _, plot in ipairs(plots.of(told, group)) do
            all[#all + 1], plot.home = plot, drawn[r][g]
         end
      end
   end
   local svgs, note = plots.draw(all)
   for i, svg in ipairs(svgs or {}) do
      table.insert(all[i].home, { title = all[i].title, legend = all[i].legend, svg = svg })
   end
   return drawn, note
end

local digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

--- The one script that browsers run here, by its hash: whatever a text in the page says, it is no script.
local function script_hash(text)
   local bytes = core.system.hash(text):gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end)
   local out = {}
   for i = 1, #bytes, 3 do
      local a, b, c = bytes:byte(i, i + 2)
      local word = a << 16 | (b or 0) << 8 | (c or 0)
      for place = 0, 3 do
         local at = (word >> (18 - 6 * place) & 63) + 1
         out[#out + 1] = (place == 2 and not b or place == 3 and not c) and "=" or digits:sub(at, at)
      end
   end
   return "sha256-" .. table.concat(out)
end

--- The page of a list of runs (see report_tables.lua) → text, why it has no plots or nil.
function html.text(list)
   local drawn, note = draw(list)
   local tokens, names, out = core.use("report_tokens"), {}, {}
   local state = { trees = {}, bytes = 0 } -- of the token views
   for i, told in ipairs(list) do
      names[i], out[i] = told.name, run_text(told, drawn[i], state)
   end
   local title = escape(table.concat(names, ", "))
   local alarm = note and ("<p class=\"alarm\">%s</p>\n"):format(escape(note)) or ""
   return ([[<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src '%s'">
<title>%s</title><style>
%s</style></head><body>
<h1>%s</h1>
%s%s<p class="quiet">Coppice %s</p>
%s</body></html>
]]):format(script_hash(tokens.script), title, style .. tokens.style, title, alarm, table.concat(out),
      escape(cop.version), tokens.foot(state)), note
end

return html
