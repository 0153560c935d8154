--- What the line editor offers, and how values are shown.

local check, test, core = ...
local cop = require("coppice")

local of = core.use("completion").of
local globals = { cop = cop, print = print, model = { threads = 2 }, text = "x" }

local function offers(text, ...)
   local list, length = of(text, globals)
   check.list(list, { ... }, text)
   return length
end

check.equal(offers("cop.accept.typ", "cop.accept.typical"), 14)
offers("x = cop.propose.suffix_", "cop.propose.suffix_automaton", "cop.propose.suffix_tree")
offers("pri", "print")
offers("cop.nothing.x")
offers("model.", "model.threads")
offers("model:")
offers("text:gs", "text:gsub")
-- keys of options, where a key can stand
check.equal(offers("cop.tree.chain { de", "depth = "), 2)
offers("cop.tree.chain { depth = 3, de", "depth = ")
offers("cop.tree.chain { depth = de")
offers("cop.propose.lookup({ m", "max_ngram = ", "min_ngram = ")
offers("cop.experiment { name = \"a { b\", arms = { cop.arm { \"x\", rule = cop.accept.kseq { rh", "rho = ")
offers("cop.experiment { name = \"x\", arms = { cop.arm { \"x\", rule = cop.accept.kseq {} }, }, pub", "published = ")
offers("cop.experiment { -- cop.tree.chain {\n repea", "repeats = ")
offers("f { pri", "print")
check.equal(select("#", core.use("completion").edit("zzz", globals)), 1)

local length, insertion, shown = core.use("completion").edit("cop.tree.o", globals)
check.equal(length, 10)
check.equal(insertion, "cop.tree.opt_tree")
check.equal(shown, nil)
length, insertion, shown = core.use("completion").edit("cop.propose.suffix_", globals)
check.is(length == nil and insertion == nil)
check.equal(shown, "suffix_automaton  suffix_tree")
length, insertion = core.use("completion").edit("cop.propose.su", globals)
check.equal(length, 14)
check.equal(insertion, "cop.propose.suffix_")

local inspect = core.use("inspect")
for _, case in ipairs {
   { 7, "7" }, { "two\nlines", "two\nlines" }, { { "two\nlines", "\"\\\0" }, [[{ "two\nlines", "\"\\\0" }]] },
   { { "\xff" }, "{ \"\xff\" }" }, { { 1, 2, nil, 4, [10] = 5, x = { y = {} } }, nil }, { {}, "{}" },
   { { [true] = 1, ["a b"] = 2 }, "{ [true] = 1, [\"a b\"] = 2 }" },
   { { a = { b = { c = { d = 1 } } } }, "{ a = { b = { c = { … } } } }" },
   { { 1, print }, "{ 1, function }" }, { cop.tree.chain { depth = 2 }, "cop.tree.chain { depth = 2 }" },
} do
   local text = inspect(case[1])
   check.is(case[2] == nil or text == case[2], text)
end
local circle = { 1 }
circle.me = circle
check.equal(inspect(circle), "{ 1, me = { … } }")
local long = {}
for i = 1, 100 do
   long[i] = i
end
check.is(inspect(long):find("39, 40, … 60 more }", 1, true), inspect(long))

local status, printed = test.program { "repl", "script.lua" }
check.equal(status, 2)
check.is(printed:find("coppice run script.lua runs a script", 1, true), printed)
check.is(select(2, test.program { "help" }):find("  repl         Lua with history and completion", 1, true))
