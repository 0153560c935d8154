--- Arguments of scripts and grids.

local check, _, core = ...
local cop = require("coppice")

local function with(words)
   core.words = words
   return cop.args { limit = 32, rate = 0.5, draft = "d.gguf", loud = false }
end

local o = with {}
check.equal(o.limit, 32)
check.equal(o.draft, "d.gguf")
o = with { { "limit", "7" }, { "rate", "2" }, { "draft", "" }, { "loud", "yes" } }
check.equal(o.limit, 7)
check.equal(o.rate, 2, "a number takes an integer")
check.equal(o.draft, "")
check.equal(o.loud, true)
check.raises("cop.args: limit must be of type integer, got \"7.5\"", function() return with { { "limit", "7.5" } } end)
check.raises("cop.args: loud must be of type boolean, got \"loud\"", function() return with { { "loud", "loud" } } end)
check.raises("cop.args: unknown argument \"limt\"; did you mean \"limit\"? (known: draft, limit, loud, rate)",
   function() return with { { "limt", "3" } } end)
core.words = {}
check.raises("cop.args: the default of x must be a string, number or boolean, got a table",
   function() return cop.args { x = {} } end)

local seen = {}
for g in cop.grid { width = { 1, 2 }, depth = { 3, 5 } } do
   seen[#seen + 1] = g.depth .. "x" .. g.width
end
check.list(seen, { "3x1", "3x2", "5x1", "5x2" })
seen = 0
for _ in cop.grid { width = { 1, 2 }, depth = {} } do
   seen = seen + 1
end
check.equal(seen, 0)
