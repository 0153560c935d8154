--- Broken rules that the check must flag: the plug-in of controls, and some written in Lua. A control that
-- passes fails this test.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")
local core = test.core

local cases = 250

--- Whether every claimed pair holds.
local function holds(rule, n)
   local facts, all = core.rule(rule), true
   check.is(#facts.pairs > 0)
   for i in ipairs(facts.pairs) do
      all = assert(core.check_pair(rule, i, n or cases, 17)).holds and all
   end
   return all
end

-- ---- In C --------------------------------------------------------------------------------------------

local names = assert(cop.load(test.plugin .. "/plugin_controls.so"))
local n_sound, n_broken = 0, 0
for _, full in ipairs(names) do
   local name = full:match("^accept%.(.*)$")
   local is_sound = name:find("^sound_") ~= nil
   check.equal(holds(cop.accept[name] {}), is_sound, name)
   n_sound, n_broken = n_sound + (is_sound and 1 or 0), n_broken + (is_sound and 0 or 1)
end
check.is(n_sound == 6 and n_broken >= 15)

-- ---- In Lua ------------------------------------------------------------------------------------------

--- The token rule; `fault` changes it.
local function token_rule(name, fault, claims)
   return cop.accept.custom {
      name = name, lossless_for = claims or { { draw = "independent", shape = "chain" } },
      verify = function(tree, target, draft, draws)
         local accepted, node = {}, 0
         while tree:children(node)[1] do
            local child = tree:children(node)[1]
            local id, p, q = tree:token(child), target(node), draft(node)
            local keep = q[id] > 0 and math.min(1, p[id] / q[id]) or 0
            if fault.keep then
               keep = fault.keep(p[id], q[id])
            end
            if not draws:flip("accept", fault.key and 0 or child, keep) then
               local rest = p:minus(q)
               if fault.rest then
                  rest = fault.rest(p, q)
               end
               return accepted, draws:pick("recover", node, rest:sum() > 0 and rest or p)
            end
            accepted[#accepted + 1], node = child, child
         end
         return accepted, draws:pick("bonus", node, target(fault.bonus and tree:parent(node) or node))
      end,
   }
end

check.is(holds(token_rule("sound", {})))
local broken = {
   token_rule("squared", { keep = function(p, q) return q > 0 and math.min(1, (p / q) ^ 2) or 0 end }),
   token_rule("lenient", { keep = function(p, q) return q > 0 and math.min(1, 1.01 * p / q) or 0 end }),
   token_rule("reversed", { rest = function(p, q) return q:minus(p) end }),
   token_rule("forgetful", { rest = function(p) return p end }),
   token_rule("one_coin", { key = true }),
   token_rule("bonus_above", { bonus = true }),
   token_rule("best_as_sample", {}, { { draw = "deterministic", shape = "chain" } }),
   token_rule("first_of_best", {}, { "greedy_draw" }),
   cop.accept.custom {
      name = "keeps_all", lossless_for = { "independent" },
      verify = function(tree, target, _, draws)
         local path, node = {}, 0
         while tree:children(node)[1] do
            node = tree:children(node)[1]
            path[#path + 1] = node
         end
         return path, draws:pick("bonus", node, target(node))
      end,
   },
   cop.accept.custom { -- every child against the whole target
      name = "siblings_alike", lossless_for = { "independent" },
      verify = function(tree, target, draft, draws)
         for j, child in ipairs(tree:children(0)) do
            local id = tree:token(child)
            if draws:flip("accept", child, math.min(1, target(0)[id] / draft(0, j)[id])) then
               return { child }, draws:pick("bonus", child, target(child))
            end
         end
         return {}, draws:pick("recover", 0, target(0))
      end,
   },
}
for _, rule in ipairs(broken) do
   check.is(not holds(rule, 150), rule.name .. " passes")
end
check.is(#broken >= 6)

-- ---- The verb ----------------------------------------------------------------------------------------

local verb = core.use("check_rules")
local said = {}
local print_before = print
local function run(...)
   said = {}
   print = function(text) said[#said + 1] = text end -- luacheck: ignore 121
   local ok, status = pcall(verb, { ... }, {})
   print = print_before -- luacheck: ignore 121
   return ok and status or error(tostring(status), 0), table.concat(said, "\n")
end

local path = os.tmpname()
local function script(text)
   local file = assert(io.open(path, "w"))
   file:write(text)
   file:close()
   return path
end

--- The listing of the page, as it stands there.
local function listing()
   local file = assert(io.open("algorithms/README.md"))
   local text = file:read("a")
   file:close()
   return assert(text:match("\n```lua\n(.-)\n```"))
end

local status, out = run(script(listing()), "cases=120")
check.equal(status, 0)
check.is(out:find("first_child  independent          tree     120", 1, true), out)
check.is(out:find("0.760000", 1, true), out)
local _, lines = listing():gsub("\n", "\n")
check.is(lines < 40, "a rule in Lua takes fewer than 40 lines")

status, out = run(test.plugin .. "/plugin_page.so", "cases=120")
check.equal(status, 0)
check.is(out:find("first_child  without_replacement  tree     120", 1, true), out)

status, out = run(script [[
local cop = require("coppice")
local function verify(_, target, _, draws) return {}, draws:pick("x", 0, target(0)) end
return {
   cop.accept.custom { name = "never", lossless_for = { "any" }, verify = verify },
   cop.accept.custom { name = "twice", lossless_for = { "independent" }, verify = function(tree, target, _, draws)
      draws:flip("a", 0, 0.5) draws:flip("a", 0, 0.5)
      return verify(tree, target, nil, draws)
   end },
}]], "cases=10")
check.equal(status, 1)
check.is(out:find("asked twice for the coin", 1, true), out)
check.is(out:find("never +deterministic"), out)
status, out = run(path, "cases=10", "rule=never")
check.equal(status, 0)
check.is(out:find("ok; less than match at T = 0", 1, true), out)
check.is(not out:find("twice", 1, true))
check.raises_with('there is no rule "nevr" (did you mean "never"?)', run, path, "rule=nevr")
check.raises_with('unknown argument "case" (did you mean "cases"?)', run, path, "case=3")
check.raises_with("cases must be an integer, at least 1", run, path, "cases=0")
check.raises_with("the script must return a rule", run, script "return 3")
check.raises_with("entry 2 of the list is a number, not a rule", run,
   script 'local cop = require("coppice") return { cop.accept.token {}, 3 }')
os.remove(path)
