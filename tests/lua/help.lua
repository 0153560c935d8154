--- cop.help: names, options, ranges and sources, from the tables.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")

local printed
local original = print
print = function(text) printed = text end -- luacheck: ignore
local all = cop.help()
local chain = cop.help("tree.chain")
local same = cop.help("cop.tree.chain")
local short, both = cop.help("sequoia"), cop.help("cascade")
local token = cop.help("accept.token")
local lookup = cop.help("propose.lookup")
local generate = cop.help("generate")
local sampling = cop.help("sampling")
local draws = cop.help("draws")
local best_first = cop.help("tree.best_first")
local mine = cop.help("accept.custom")
print = original -- luacheck: ignore

check.equal(printed, mine)
for _, name in ipairs { "cop.propose", "cop.tree", "cop.accept", "cop.length", "sample_match", "lookup", "confidence", "custom" } do
   check.is(all:find(name, 1, true), name .. " is missing from cop.help()")
end
check.equal(same, chain)
check.is(short:find("cop.tree.sequoia", 1, true), short)
check.is(both:find("cop.propose.cascade", 1, true) and both:find("cop.accept.cascade", 1, true), both)
check.is(chain:find("depth = 5 (1 to 4095)", 1, true), chain)
check.is(token:find("source: ", 1, true) and token:find("arXiv", 1, true), token)
check.is(token:find("no options", 1, true), token)
check.is(lookup:find("variant = \"hf\" (\"original\", \"hf\", \"vllm\")", 1, true), lookup)
check.is(generate:find("max_tokens = 128, integer", 1, true), generate)
check.is(generate:find("logit_bias, table: { [id] = bias }", 1, true), generate)
local first = draws:find("without_replacement", 1, true) - draws:find("[^\n]*without_replacement")
local line = draws:match("\n(   threshold [^\n]*)")
check.equal(line:sub(first + 1, first + 1), "x", draws)
check.equal(select(2, line:gsub(" x", "")), 2, draws)
check.is(best_first:find("\n   draws: deterministic, selected\n", 1, true), best_first)
local at = 0
for _, step in ipairs { "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "banned", "min_tokens",
   "processor", "temperature", "top_k", "top_p", "min_p" } do -- the documented order
   local place = sampling:find("\n      " .. step .. " ", 1, true)
   check.is(place and place > at, step)
   at = place
end
-- The longest entries are whole.
print = function() end -- luacheck: ignore
local model = cop.help("propose.model")
print = original -- luacheck: ignore
local vocabulary = model:match("\n      vocabulary = ([^\n]*)")
check.is(#vocabulary > 512 and vocabulary:find("only these are drafted (FR-Spec)", 1, true), vocabulary)
check.raises_with("cop.help: unknown name \"accept.tokn\"; did you mean \"accept.token\"?", function()
   return cop.help("accept.tokn")
end)
check.raises("cop.help: expects a name such as \"accept.token\", got a table", function() return cop.help({}) end)
