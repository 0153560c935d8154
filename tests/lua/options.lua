--- Option tables: strict keys, types, ranges, positions; the messages are verbatim.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")

local line = check.raises("cop.tree.chain: unknown option \"dept\"; did you mean \"depth\"? (known: depth)", function()
   return cop.tree.chain { dept = 5 } -- this very line
end)
check.equal(line, debug.getinfo(1, "l").currentline - 2)

check.raises("cop.tree.chain: unknown option \"width\" (known: depth)", function()
   return cop.tree.chain { width = 5 }
end)
check.raises("cop.accept.match: unknown option \"x\" (known: none)", function()
   return cop.accept.match { x = 1 }
end)
-- the alphabetically first of several, in every run
check.raises("cop.propose.lookup: unknown option \"a\" (known: variant, min_ngram, max_ngram, tokens)", function()
   return cop.propose.lookup { c = 1, b = 1, a = 1, d = 1 }
end)

-- The same verdict for every bad number on an integer option.
local range = "cop.tree.chain: option \"depth\" must be an integer from 1 to 4095, got "
for _, case in ipairs {
   { 4.5, "4.5" }, { 2 ^ 31, "2147483648" }, { 0, "0" }, { -1, "-1" }, { 0 / 0, "nan" }, { 1 / 0, "inf" },
   { -1 / 0, "-inf" }, { "4", "\"4\"" }, { "4.0", "\"4.0\"" }, { true, "true" }, { false, "false" },
   { {}, "a table" }, { print, "a function" }, { math.maxinteger, "9.223372036854776e+18" },
} do
   check.raises(range .. case[2], function() return cop.tree.chain { depth = case[1] } end)
end
for _, good in ipairs { 4, 4.0, 4e0 } do
   check.equal(tostring(cop.tree.chain { depth = good }), "cop.tree.chain { depth = 4 }")
end
check.equal(tostring(cop.tree.chain { depth = nil }), tostring(cop.tree.chain {}))

-- Choices, numbers, strings.
check.raises("cop.propose.lookup: option \"variant\" must be one of \"original\", \"hf\", \"vllm\", got \"HF\"", function()
   return cop.propose.lookup { variant = "HF" }
end)
check.raises("cop.propose.lookup: option \"variant\" must be one of \"original\", \"hf\", \"vllm\", got 1", function()
   return cop.propose.lookup { variant = 1 }
end)
check.raises("cop.model: option \"path\" must not contain a zero byte", function()
   return cop.model { path = "models/x\0.gguf" }
end)
check.raises("cop.model: option \"path\" must be a string, got 5", function() return cop.model { path = 5 } end)
check.raises("cop.model: option \"path\" is required: a string", function() return cop.model {} end)
check.raises("cop.propose.model: option \"model\" is required: a model", function() return cop.propose.model {} end)
check.raises("cop.propose.model: option \"model\" must be a model, got \"x\"", function() return cop.propose.model { "x" } end)
check.raises("cop.propose.model: option \"model\" must be a model, got cop.tree.chain { depth = 5 }", function()
   return cop.propose.model { cop.tree.chain {} }
end)

-- Positions.
check.equal(tostring(cop.tree.widths { 4, 2, 2 }), "cop.tree.widths { 4, 2, 2 }")
check.equal(tostring(cop.tree.widths { widths = { 4.0, 2 } }), "cop.tree.widths { 4, 2 }")
check.equal(tostring(cop.tree.paths { { 1 }, { 1, 1 }, { 2 } }), "cop.tree.paths { {1}, {1, 1}, {2} }")
check.equal(tostring(cop.tree.paths { "0", "00", "1" }), "cop.tree.paths { {1}, {1, 1}, {2} }")
check.raises("cop.tree.widths: option \"widths\" is given twice: by name and by position", function()
   return cop.tree.widths { 4, widths = { 2 } }
end)
check.raises("cop.accept.match: value 1 has no name: 5 is not an option", function() return cop.accept.match { 5 } end)
check.raises("cop.tree.widths: unknown option [5]", function() return cop.tree.widths { 4, 2, [5] = 1 } end)
check.raises("cop.tree.widths: unknown option [1.5]", function() return cop.tree.widths { 4, [1.5] = 1 } end)
check.raises("cop.tree.widths: unknown option [true]", function() return cop.tree.widths { 4, [true] = 1 } end)
check.raises_with("got 2.5 as entry 2", function() return cop.tree.widths { 4, 2.5 } end)
check.raises_with("got \"2\" as entry 2", function() return cop.tree.widths { 4, "2" } end)
check.raises_with("got \"0x\"", function() return cop.tree.paths { "0x" } end)
check.raises_with("got 1", function() return cop.tree.paths { 1 } end)

-- One table, nothing else.
check.raises("cop.tree.chain: expects one table of options, got nothing", function() return cop.tree.chain() end)
check.raises("cop.tree.chain: expects one table of options, got 5", function() return cop.tree.chain(5) end)
check.raises("cop.tree.chain: 1 argument at most, got 2", function() return cop.tree.chain({}, 1) end)

-- Names.
check.raises_with("cop.accept: unknown name \"tokn\"; did you mean \"token\"? (known: ",
   function() return cop.accept.tokn {} end)
check.raises_with("cop.tree: unknown name \"zzzzzz\" (known: ", function() return cop.tree.zzzzzz {} end)

-- A table with a metatable is read raw: no function of the script runs while C holds an option.
local sly = setmetatable({}, { __index = function() error("never") end, __len = function() error("never") end })
check.equal(tostring(cop.tree.chain(sly)), tostring(cop.tree.chain {}))

-- Ranges of rules name the paper that they are from.
check.raises_with("cop.accept.lenience: option \"factor\" must be a number from 0 to 1, got 2 (Leviathan",
   function() return cop.accept.lenience { factor = 2 } end)
check.raises_with("must be one of \"js\", \"kl\", \"tv\", \"kl_target\", got \"x\" (",
   function() return cop.accept.fuzzy { divergence = "x" } end)
