--- Run by a stock lua5.4: the module loads, works and takes a plug-in.

-- luacheck: no max line length

local before = {}
for name in pairs(_G) do
   before[name] = true
end
local cop = require("coppice")
for name in pairs(_G) do
   assert(before[name], "a new global: " .. tostring(name))
end
assert(tostring(cop.tree.chain { depth = 3 }) == "cop.tree.chain { depth = 3 }")
local ok, message = pcall(function()
   return cop.tree.chain { dept = 3 }
end)
assert(not ok and message:find("stock%.lua:%d+: cop%.tree%.chain: unknown option \"dept\""), message)
local law = cop.exact_law {
   rule = cop.accept.token {}, draw = "independent", widths = { 1 }, target = { 0.25, 0.75 }, draft = { 0.5, 0.5 },
}
assert(law.total_variation < 1e-12 and math.abs(law.expected_accepted - 0.75) < 1e-12)
local plugin = assert(cop.load(arg[1] .. "/plugin_example.so"))
assert(plugin[1] == "accept.never")
assert(tostring(cop.accept.never { seed = 3 }) == "cop.accept.never { seed = 3 }")
print("stock.lua: fine")
