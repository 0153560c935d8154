--- Annotations for editors: all that scripts can call is there, with the options' own types and ranges.

local check, test, core = ...
local cop = require("coppice")

local text = core.use("stubs").text()
check.equal(load(text)().version, cop.version)

local function has(line)
   check.is(text:find(line, 1, true), "the stubs lack: " .. line)
end

for group, functions in pairs(cop) do
   for name, f in pairs(type(functions) == "table" and functions or { [group] = functions }) do
      local whole = type(functions) == "table" and group .. "." .. name or name
      if type(f) == "function" then
         has(("\nfunction cop.%s("):format(whole))
         for _, option in ipairs(core.describe(f) or {}) do
            local head = "%-%-%-@class coppice%." .. whole:gsub("%p", "%%%0") .. "%.options\n"
            local class = text:match(head .. "(.-)\n\n") or ""
            check.is(class:find("@field " .. option.name .. "%?? "), whole)
         end
      end
   end
end

has("---@class coppice.tree.chain.options\n---@field depth? integer 5 (1 to 4095): ")
has("---@field variant? \"original\"|\"hf\"|\"vllm\" \"hf\" (\"original\", \"hf\", \"vllm\")")
has("---@class coppice.tree.widths.options\n---@field widths? integer[] required (1 to 4096): ")
has("---@field [integer] integer the same as widths")
has("---@field second? coppice.propose required: the second drafter\n---@field [2] coppice.propose? the same as second")
has("---@param options coppice.experiment.options\n---@return coppice.experiment|coppice.study\nfunction cop.exp")
has("---@field budget? table ")
has("function cop.stats.wilson(successes, n, level) end")
has("--- source: Sun et al. 2023 (SpecTr), arXiv:2310.15141")

-- The objects have what their classes say.
local model = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 128 })
local experiment = cop.experiment { name = "x", target = model, prompts = { "the" }, max_tokens = 2,
   arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } } }
local folder = test.folder()
assert(test.quietly(function() return experiment:run { out = folder .. "/run" } end))
local objects = { tokenizer = model.tokenizer, model = model, experiment = experiment,
   study = cop.study { name = "s", experiments = { experiment } }, run = assert(cop.open_run(folder .. "/run")) }
for _, class in ipairs(core.use("stubs").classes) do
   for i = 3, #class do
      local name, kind = class[i][1], class[i][2]
      local value = objects[class[1]][name]
      check.is(value ~= nil or kind:find("?", 1, true), ("%s.%s"):format(class[1], name))
      check.is(value == nil or (type(value) == "function") == (kind:find("^fun") ~= nil), class[1] .. "." .. name)
   end
end
objects.run:close()

-- A file, and what luacheck says of it.
local path = folder .. "/coppice.lua"
local status, told = test.program { "stubs", "--out", path }
check.equal(status, 0, told)
check.equal(io.open(path):read("a"), text)
status, told = test.program { "help", "--stubs" }
check.equal(status, 0)
check.equal(told, text:sub(1, #told))
if os.execute("command -v luacheck >/dev/null 2>&1") then
   check.is(os.execute(("luacheck --quiet --std lua54 '%s' >/dev/null"):format(path)), "luacheck")
end
check.equal((test.program { "stubs", "x" }), 2)
