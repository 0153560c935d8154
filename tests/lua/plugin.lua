--- cop.load: plug-ins in C.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

check.fails("io", "no-such.so", cop.load("no-such.so"))
check.fails("io", "", cop.load("tests/lua/helper.lua"))
check.fails("unsupported", "of the contracts, this program has version ",
   cop.load(test.plugin .. "/plugin_wrong_1.so"))
check.fails("argument", "accept.bad lacks the required slot verify", cop.load(test.plugin .. "/plugin_wrong_2.so"))
check.fails("format", "coppice_plugin", cop.load(test.plugin .. "/plugin_wrong_3.so"))
check.raises("cop.load: expects the path of a shared object, got nothing", function() return cop.load() end)
check.raises("cop.load: expects the path of a shared object, got \"x\"", function() return cop.load("x\0y") end)
check.raises_with("cop.accept: unknown name \"good\" (known: ", function()
   return cop.accept.good {} -- the table before the bad one was taken back
end)

local loaded = cop.load(test.plugin .. "/plugin_example.so")
check.equal(loaded.name, "example")
check.list(loaded, { "accept.never" })
check.equal(tostring(cop.accept.never { seed = 3 }), "cop.accept.never { seed = 3 }")
check.raises("cop.accept.never: unknown option \"sed\"; did you mean \"seed\"? (known: seed)", function()
   return cop.accept.never { sed = 1 }
end)
check.fails("argument", "never", cop.load(test.plugin .. "/plugin_example.so"))

-- The engine and the proof take it like any other rule.
local law = cop.exact_law {
   rule = cop.accept.never {}, draw = "independent", widths = { 2, 2 }, target = { 0.25, 0.75 }, draft = { 0.5, 0.5 },
}
check.near(law.total_variation, 0)
check.near(law.expected_accepted, 0)
local m = cop.model { path = test.tiny { seed = 7 }, threads = 1, precision = "f32" }
local plain = cop.generate { model = m, tokens = { 1, 2 }, max_tokens = 8 }
local never = cop.generate {
   model = m, tokens = { 1, 2 }, max_tokens = 8, rule = cop.accept.never {}, proposer = cop.propose.model { m },
}
check.list(never.tokens, plain.tokens)
check.equal(never.accepted, 0)
check.equal(never.rule, "never")
