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
   check.equal(n_svg, 14, "seven plots of each sampling")
   check.is(not page:find("rgb(", 1, true), "colours are the page's")
   local seen = {}
   for id in page:gmatch(" id=['\"]([^'\"]+)") do
      check.is(not seen[id], "two elements are called " .. id)
      seen[id] = true
   end
else
   check.is(page:find("gnuplot is not installed", 1, true))
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
