--- Recipes: those of the program all meet their published values, and a wrong value turns red.

local check, test, core = ...
local cop = require("coppice")

-- ---- Those of the program ------------------------------------------------------------------------
local list, n_values, sources = cop.recipe.list(), 0, {}
for _, recipe in ipairs(list) do
   local told = test.quietly(function() return cop.recipe.run(recipe.name) end)
   check.equal(told.same + told.skipped, recipe.values, tostring(told))
   check.equal(told.different + told.failed, 0, tostring(told))
   n_values = n_values + #told.rows
   for _, row in ipairs(told.rows) do
      sources[row.source:match("arXiv:[%d.]+") or row.source] = true
   end
end
check.is(n_values >= 250, n_values)
local n_sources = 0
for _ in pairs(sources) do
   n_sources = n_sources + 1
end
check.is(n_sources >= 15, n_sources)
local toy = test.quietly(function() return cop.recipe.run "block-verification-toy" end)
check.equal(toy.rows[6].name, "block, drafts of 2")
check.equal(toy.rows[6].published, "11/9")
check.near(toy.rows[6].ours, 11 / 9)

-- ---- Verdicts ------------------------------------------------------------------------------------
local function verdict(published, ours, tolerance)
   local told = test.quietly(function()
      return cop.recipe.run { name = "mine", source = "a paper", about = "numbers",
         values = { { "x", published, function() return ours end, tolerance = tolerance } } }
   end)
   return told.rows[1].verdict
end
check.equal(verdict("10/9", 10 / 9), "same")
check.equal(verdict("10/9", 1.1111), "different")
check.equal(verdict("1.11", 10 / 9), "same")
check.equal(verdict("1.11", 1.1151), "different", "half a unit of the last digit")
check.equal(verdict("1.12", 10 / 9), "different")
check.equal(verdict("1.12", 10 / 9, 0.01), "same")
check.equal(verdict("-3", -3), "same")
check.equal(verdict("-3", -3.2), "different")
check.equal(verdict("3 9 1", "3 9 1"), "same")
check.equal(verdict("3 9 1", "3 9"), "different")
check.equal(verdict("1", nil), "different")
check.equal(verdict("0.5", 0 / 0), "different")
local told = test.quietly(function()
   return cop.recipe.run { name = "mine", source = "a paper", about = "numbers",
      values = { { "x", "1", function() error("no way") end } } }
end)
check.equal(told.failed, 1)
check.is(told.rows[1].ours:find("no way"))

-- ---- A rule that is planted wrong ----------------------------------------------------------------
local block = cop.accept.block
cop.accept.block = cop.accept.token -- keeps less
local wrong = core.use("script").load("test", "experiments/recipes/block_verification_toy.lua")()
cop.accept.block = block
told = test.quietly(function() return cop.recipe.run(wrong) end)
check.equal(told.different, 3, "drafts of 2, 3 and 4")

-- ---- From the command line -----------------------------------------------------------------------
local status, printed = test.program { "run", "experiments/recipes" }
check.equal(status, 0, printed)
local same, skipped = printed:match(("\nall%%s+%d%%s+(%%d+)%%s+0%%s+0%%s+(%%d+)\n"):format(n_values))
check.equal(math.tointeger(same) + math.tointeger(skipped), n_values, printed)
local n_models = 0 -- values that wait for weights
for _, recipe in ipairs(list) do
   n_models = n_models + (recipe.name:find("^models%-") and recipe.values or 0)
end
check.is(core.system.kind("../shared/data") == nil or tonumber(skipped) == n_models, printed)
status, printed = test.program { "run", "experiments/recipes/couplings.lua" }
check.equal(status, 0)
check.is(printed:find("couplings: 3 same, 0 different, 0 failed", 1, true))
local folder = test.folder()
assert(core.system.write(folder .. "/one.lua", [[
return { name = "one", source = "a paper", about = "a number", values = { { "x", "2", function() return 3 end } } }]]))
status, printed = test.program { "run", folder .. "/" }
check.equal(status, 1)
check.is(printed:find("!!! one: x: published 2, ours 3 (a paper)", 1, true), printed)
status, printed = test.program { "run", test.folder() }
check.equal(status, 1)
check.is(printed:find("no recipe in the folder", 1, true), printed)

-- The data folder, or the set in it.
local outer = test.folder()
assert(core.system.folder(outer .. "/numbers"))
for _, data in ipairs { outer, outer .. "/numbers", outer .. "/numbers/" } do
   told = test.quietly(function()
      return cop.recipe.run({ name = "mine", source = "a paper", about = "numbers", data = "numbers",
         values = { { "x", outer .. "/numbers", function(place) return place end } } }, { data = data })
   end)
   check.equal(told.same, 1, tostring(told.rows[1].ours))
end
told = test.quietly(function()
   return cop.recipe.run({ name = "mine", source = "a paper", about = "numbers", data = "letters",
      values = { { "x", "1", function() return 1 end } } }, { data = outer })
end)
check.equal(told.skipped, 1)

-- ---- What is refused -----------------------------------------------------------------------------
check.raises_with("unknown recipe \"block-verification-toi\"", function()
   return cop.recipe.run "block-verification-toi"
end)
check.raises_with("recipe x: values[1] must be", function()
   return cop.recipe.run { name = "x", source = "s", about = "a", values = { { "x", 2, function() end } } }
end)
check.raises_with("recipe x: values[1]: unknown key \"tolerence\"", function()
   return cop.recipe.run { name = "x", source = "s", about = "a", values = { { "x", "2", print, tolerence = 1 } } }
end)
check.raises_with("recipe x: option \"source\" is required", function()
   return cop.recipe.run { name = "x", about = "", values = {} }
end)
