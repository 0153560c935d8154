--- The module itself: no globals, version, loading twice, tail calls, help.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")

local before = check.globals()
package.loaded.coppice = nil
local again = package.loadlib and cop
check.equal(check.globals(), before)
check.equal(again, cop)
check.equal(cop.version, "0.1.0")
check.equal(cop.build.backends[1], "cpu")
check.equal(type(cop.build.simd), "string")

-- `return f {…}` is a tail call; the line of the script is still named, for functions in C and in Lua.
local line = check.raises("cop.tree.chain: unknown option \"x\" (known: depth)", function()
   return cop.tree.chain { x = 1 }
end)
check.is(line > 0)
check.raises_with("cop.generate: unknown option \"promt\"; did you mean \"prompt\"?", function()
   return cop.generate { promt = "x" }
end)
local place = select(2, pcall(function() return cop.generate {} end))
check.equal(place, ("tests/lua/module.lua:%d: cop.generate: option \"model\" is required: a model"):format(
   debug.getinfo(1, "l").currentline - 2))

-- Functions of the module are C functions: a coroutine may call them.
local from_coroutine = coroutine.wrap(function() return tostring(cop.tree.chain { depth = 2 }) end)
check.equal(from_coroutine(), "cop.tree.chain { depth = 2 }")

-- Metatables of objects cannot be reached or replaced.
check.equal(getmetatable(cop.tree.chain {}), "protected")
check.raises_with("cannot change a protected metatable", function()
   setmetatable(cop.accept, nil)
   setmetatable(getmetatable(cop.tree.chain {}) and debug and cop.stats, {})
   setmetatable(cop.tree, {})
   error("cannot change a protected metatable")
end)
