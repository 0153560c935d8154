--- coppice report and coppice diff: from the folder alone come the tables that the run printed, a page
--- without outside resources, and what differs between two runs.

local check, test, core = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local draft = assert(cop.model {
   path = test.tiny { seed = 7, noise = 0.2, noise_seed = 1 }, threads = 1, context = 256,
})
local relaxed = cop.accept.custom {
   name = "shrug", lossless_for = {},
   verify = function(tree, rows_at, _, coins)
      local node = math.min(tree.size, 1)
      return node == 1 and { 1 } or {}, coins:pick("bonus", node, rows_at(node))
   end,
}

local function run(folder, changes)
   local e = {
      name = "told", target = target, seed = 5, temperature = { 0, 1 }, max_tokens = 16,
      prompts = {
         { turns = { "the cat and the hat and the cat" }, category = "one <b>", reference = { "the cat" } },
         { turns = { "in the end" }, category = "two" }, { turns = { "he is here, he is" }, category = "two" },
      },
      quality = { "rouge1", "target_nll", cop.quality.custom { name = "length", better = "lower",
         of = function(_, answer) return #answer.tokens end } },
      metrics = { cop.metric.custom { name = "a number", of = function(cycles) return #cycles end } },
      arms = {
         cop.arm { "look'up <i>", proposer = cop.propose.lookup {} },
         cop.arm { "draft", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 3 } },
         cop.arm { "shrug", proposer = cop.propose.lookup {}, rule = relaxed, relaxed = true },
      },
      published = { { arm = "draft", metric = "block_efficiency", value = 1000, source = "a paper, table 1" } },
   }
   for key, change in pairs(changes or {}) do
      e[key] = change
   end
   return test.quietly(function() return assert(cop.experiment(e):run { out = folder }) end)
end

local function read(path)
   local file = assert(io.open(path))
   local text = file:read("a")
   file:close()
   return text
end

local folder = test.folder() .. "/first"
run(folder)

-- ---- The report says what the run said -----------------------------------------------------------
local log, csv = read(folder .. "/console.log"), read(folder .. "/summary.csv")
os.remove(folder .. "/summary.csv")
local status, printed = test.program { "report", folder }
check.equal(status, 0, printed)
-- word for word what the run printed
local tables = log:sub(log:find("told, T=0, 3 prompts", 1, true), -1)
for line in tables:gmatch("[^\n]+") do
   if not line:find("predicted: V", 1, true) then
      check.is(printed:find(line, 1, true), line .. "\nis not in\n" .. printed)
   end
end
check.equal(read(folder .. "/summary.csv"), csv)
check.is(printed:find("block_efficiency  draft  T=0         1000  ", 1, true), printed)
check.is(printed:find("different  a paper, table 1", 1, true), printed)
-- what a draft holds, of those that hold something
check.is(printed:find("pages  draft MB", 1, true), printed)
check.is(printed:find(("\ndraft%%s[^\n]* %%d+ +%.1f "):format(draft.bytes / 1e6)), printed)
check.is(printed:find("\nlook'up <i>[^\n]* %d+ +– "), printed)
check.is(csv:find(",peak_pages,draft_bytes,", 1, true) and csv:find((",%d,"):format(draft.bytes), 1, true), csv)

-- ---- The page ------------------------------------------------------------------------------------
local page = read(folder .. "/report.html")
check.is(page:find("^<!DOCTYPE html>"))
check.is(not page:find("https?://") and not page:find("src=") and not page:find("@import"), "no outside resources")
check.is(page:find("prefers-color-scheme: dark", 1, true) and page:find("width=device-width", 1, true))
check.is(page:find("look'up &lt;i&gt;", 1, true) and not page:find("up <i>", 1, true), "texts are escaped")
check.is(page:find("one &lt;b&gt;", 1, true))
for _, title in ipairs { "Speed-up over plain decoding", "Tokens committed by a cycle", "Acceptance by depth",
   "Where the time of a token goes", "Speed against rouge1", "Published values beside ours" } do
   check.is(page:find(title, 1, true), title)
end
if core.use("report_plots").are_possible() then
   local _, n_svg = page:gsub("<svg ", "")
   check.equal(n_svg, 15, "seven plots of each sampling, and the cost curve")
   check.is(page:find("V(n) behind 32 positions", 1, true))
   check.is(not page:find("rgb(", 1, true), "colours are the page's")
   local seen = {}
   for id in page:gmatch(" id=['\"]([^'\"]+)") do
      check.is(not seen[id], "two elements are called " .. id)
      seen[id] = true
   end
else
   check.is(page:find("gnuplot is not installed", 1, true))
end
-- of categories, better than plain decoding's speed in green, worse in orange; half as strong at 1 / sqrt(2)
check.is(page:find("<td style=\"background: color%-mix%(in srgb, var%(%-%-series%-[23]%) %d+%%, transparent%)\">"))

-- ---- The token view ------------------------------------------------------------------------------
local trees = core.system.json.decode(page:match("<script type=\"application/json\" id=\"trees\">(.-)</script>"))
local n_cycles = select(2, page:gsub("<span class=\"cycle\"", ""))
check.equal(#trees, n_cycles, "a tree for every cycle")
local stored = assert(cop.open_run(folder))
local seen_text, at = {}, 0
for arm in stored:arms() do -- each answer is told whole, cycle by cycle
   for request in stored:requests { arm = arm.name, sampling = arm.sampling, prompt = 1 } do
      if not arm.is_plain and request.turn == 1 then
         local ids, text = {}, {}
         for cycle in stored:cycles(request) do
            for _, node in ipairs(cycle.accepted) do
               ids[#ids + 1] = cycle.tokens[node]
            end
            ids[#ids + 1] = cycle.last
         end
         for i = 1, request.n_tokens do
            text[i] = target.tokenizer:piece(ids[i])
         end
         seen_text[#seen_text + 1], at = table.concat(text), at + 1
      end
   end
end
stored:close()
check.equal(at, 6, "three arms at two temperatures")
local n_answers = 0
for inner in page:gmatch("<div class=\"answer\">(.-)</div>") do
   local text = inner:gsub("<[^>]+>", ""):gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&quot;", "\""):gsub("&amp;", "&")
   n_answers = n_answers + 1
   if utf8.len(text) and not text:find("‹", 1, true) then
      local is_there = false
      for _, one in ipairs(seen_text) do
         is_there = is_there or one == text
      end
      check.is(is_there or n_answers > 3, text)
   end
end
check.equal(n_answers, 12, "two prompts, three arms, two temperatures")

-- Hostile text: it is told, and is no markup. A character in two tokens is one; bytes that are none show as numbers.
local view = core.use("report_tokens")
local function html(pieces, last)
   local state, parents, accepted = { trees = {}, bytes = 0 }, {}, {}
   for i = 1, #pieces do
      parents[i], accepted[i] = i - 1, true
   end
   local path = {}
   for i = 1, #pieces do
      path[i] = i
   end
   local group = { answers = { { prompt = 1, { arm = "<arm>", shown = 3, cycles = { { number = 0, root = "</script>",
      parents = parents, pieces = pieces, path = path, accepted = accepted, last = last, origin = "bonus",
      nodes = #pieces, kept = #pieces + 1, logprobs = {}, context = 7, draft = 1, score = 2000, host = 3 } },
      request = { n_tokens = 5, forward_passes = 1, finish = "eos", category = "<i>" } } } } }
   return view.html(group, state, core.use("report_html").escape), view.foot(state)
end
local body, foot = html({ "</script><script>alert(1)</script>", "\xc3" }, "\xbc<b>")
check.is(not body:find("<script>", 1, true) and not body:find("<b>", 1, true) and not body:find("<arm>", 1, true), body)
check.is(body:find("<i class=\"d1\">&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</i>", 1, true), body)
check.is(body:find("<i class=\"bonus\">ü&lt;b&gt;</i>", 1, true), body)
check.is(body:find("… and 2 more tokens", 1, true), body)
check.equal(select(2, foot:gsub("</script>", "")), 2, "the data's end and the script's")
local tree = core.system.json.decode(foot:match("<script type=\"application/json\" id=\"trees\">(.-)</script>"))[1]
check.equal(tree.t[1], "</script><script>alert(1)</script>")
check.equal(tree.t[2], "‹C3›")
check.equal(tree.r, "</script>")
check.equal(tree.h, "cycle 0, at position 8: 2 drafted, 2 kept; D 1 µs, V 2.00 ms, H 3 µs")
body = html({ "\xff\xfe" }, "x")
check.is(body:find("<i class=\"bonus\">‹FF›‹FE›x</i>", 1, true), body)

-- ---- Contrast, by numbers (WCAG 2) ---------------------------------------------------------------
local function luminance(colour)
   local sum = 0
   for i, weight in ipairs { 0.2126, 0.7152, 0.0722 } do
      local c = tonumber(colour:sub(2 * i, 2 * i + 1), 16) / 255
      sum = sum + weight * (c <= 0.04045 and c / 12.92 or ((c + 0.055) / 1.055) ^ 2.4)
   end
   return sum
end

local function contrast(a, b)
   local first, second = luminance(a), luminance(b)
   return (math.max(first, second) + 0.05) / (math.min(first, second) + 0.05)
end

local function mix(a, b, share)
   local out = "#"
   for i = 1, 3 do
      local x, y = tonumber(a:sub(2 * i, 2 * i + 1), 16), tonumber(b:sub(2 * i, 2 * i + 1), 16)
      out = out .. ("%02x"):format(math.floor(share * x + (1 - share) * y + 0.5))
   end
   return out
end

check.near(contrast("#000000", "#ffffff"), 21, 1e-9)
local style, light, dark = page:match("<style>(.-)</style>"), {}, {}
for block in style:gmatch(":root (%b{})") do -- each light block has its dark one after it
   local into = next(light) == nil and light or block:find("--page: #14", 1, true) and dark
      or block:find("--drafted-1: #1", 1, true) and dark or light
   for name, colour in block:gmatch("%-%-([%w-]+): (#%x%x%x%x%x%x)") do
      into[name] = colour
   end
end
for name, colours in pairs { light = light, dark = dark } do
   check.equal(contrast(colours.page, dark.page) > 10, name == "light")
   for _, ground in ipairs { "page", "shade", "drafted-1", "drafted-2", "drafted-3", "drafted-4", "recovered",
      "bonus" } do
      check.is(contrast(colours.ink, colours[ground]) >= 4.5, ("%s: ink on %s: %.2f"):format(name, ground,
         contrast(colours.ink, colours[ground])))
   end
   for _, text in ipairs { "quiet", "alarm" } do
      check.is(contrast(colours[text], colours.page) >= 4.5, name .. ": " .. text)
   end
   for n = 1, 8 do
      check.is(contrast(colours["series-" .. n], colours.page) >= 3, ("%s: series %d"):format(name, n))
   end
   for _, n in ipairs { 2, 3 } do -- the strongest tint of a cell
      check.is(contrast(colours.ink, mix(colours["series-" .. n], colours.page, 0.4)) >= 4.5, name .. ": tint " .. n)
   end
end

-- a relaxed arm's speed stands beside a quality
check.is(page:find("shrug, relaxed", 1, true) and page:find("<th>exact match</th>", 1, true))

-- ---- Several runs, and a program without gnuplot -------------------------------------------------
local second = test.folder() .. "/second"
run(second, { max_tokens = 12, temperature = 0 })
local both = test.folder() .. "/both"
status, printed = test.program { "report", folder, second, "--out", both }
check.equal(status, 0, printed)
csv = read(both .. "/summary.csv")
check.is(csv:find("^run,arm,sampling,"))
check.is(csv:find("\n" .. second .. ",plain,T=0,", 1, true), csv)
local plots = core.use("report_plots")
local possible = plots.are_possible
plots.are_possible = function() return false end
status, printed = test.program { "report", second }
plots.are_possible = possible
check.equal(status, 0)
check.is(printed:find("report.html has no plots: gnuplot is not installed (make deps installs it)\n", 1, true), printed)
check.is(not read(second .. "/report.html"):find("<svg", 1, true))

-- A damaged cost curve, and a manifest with odd values: no predictions, the rest stands.
assert(core.system.write(second .. "/cost.json", "{\"score\": [7]}"))
local manifest = core.system.json.decode(read(second .. "/manifest.json"))
manifest.published, manifest.measures = { 7, { arm = "draft" } }, { 7, { name = "rouge1" } }
assert(core.system.write(second .. "/manifest.json", core.system.json.encode(manifest)))
status, printed = test.program { "report", second }
check.equal(status, 0, printed)
check.is(printed:find("rouge1", 1, true) and not printed:find("predicted: V", 1, true), printed)

-- ---- diff ----------------------------------------------------------------------------------------
status, printed = test.program { "diff", folder, folder }
check.equal(status, 0, printed)
check.is(printed:find("options and files: the same\nversions and machine: the same\n", 1, true), printed)
check.is(not printed:find("differ", 1, true), printed)
status, printed = test.program { "diff", folder, second }
check.equal(status, 0)
check.is(printed:find("max_tokens: 16 in the first, 12 in the second", 1, true), printed)
check.is(printed:find("plain%s+T=0%s+tokens_per_second"), printed)
check.is(printed:find("only in the first: draft, T=1", 1, true), printed)
check.is(printed:find("tokens_per_answer%s+16%s+12%s+×0.750 %(0.750–0.750%)%s+differs"), printed)
check.is(printed:find("block_efficiency%s+1%s+1%s+×1.000%s+same"), printed)
check.is(printed:find("intervals: paired", 1, true))

-- ---- What is refused -----------------------------------------------------------------------------
check.raises_with("cop.experiment: published[1]: ", function()
   return run(folder, { published = { { arm = "draft", metric = "block_efficiency", value = 1 } } })
end)
check.raises_with("unknown metric \"block_eficiency\"", function()
   return run(folder, { published = { { arm = "draft", metric = "block_eficiency", value = 1, source = "x" } } })
end)
