--- Datasets: lines, records, choosing, and what is refused.

local check, test = ...
local cop = require("coppice")
local folder = test.folder()

local function write(name, text)
   local path = folder .. "/" .. name
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
   return path
end

-- ---- Lines: a record ends at \n only ---------------------------------------------------------
local odd = write("odd.jsonl", table.concat({
   '\xEF\xBB\xBF{"prompt": "first, after a byte order mark"}\r\n',
   '{"prompt": "line \u{2028} separator"}\n', '{"prompt": "paragraph \u{2029} separator"}\n',
   '{"prompt": "next \u{85} line"}\n', '{"prompt": "tab \v and form \f feed"}\r\n', "\n", "   \t\r\n",
   '{"prompt": "escaped \\u2028 and \\u0000"}\n', '{"prompt": "pair \\ud83e\\udd99"}\n',
   '{"prompt": "half \\ud83d"}\n', '{"prompt": "spaces"}  \n', '{"prompt": "no line end"}',
}))
local d = assert(cop.dataset { path = odd })
check.equal(#d, 10)
check.equal(d[1].turns[1], "first, after a byte order mark")
check.equal(d[2].turns[1], "line \u{2028} separator")
check.equal(d[4].turns[1], "next \u{85} line")
check.equal(d[5].turns[1], "tab \v and form \f feed")
check.equal(d[6].turns[1], "escaped \u{2028} and \0")
check.equal(d[6].line, 8)
check.equal(d[6].index, 6)
check.equal(d[7].turns[1], "pair \u{1F999}")
check.equal(d[8].turns[1], "half \u{FFFD}")
check.equal(d[10].turns[1], "no line end")
check.is(tostring(d):find("odd.jsonl: 10 items", 1, true), tostring(d))

-- ---- Errors carry file and line ---------------------------------------------------------------
local bad = write("bad.jsonl", '{"prompt": "a"}\n\n{"prompt": "b"}\n{"prompt": "c\n{"prompt": "d"}\n')
check.fails("format", "bad.jsonl, line 4: ", cop.dataset { path = bad })
check.fails("io", "none.jsonl", cop.dataset { path = folder .. "/none.jsonl" })
check.fails("io", "is a folder", cop.dataset { path = folder })
check.fails("format", "holds no records", cop.dataset { path = write("empty.jsonl", "\n \n") })
check.fails("format", "line 1: a record must be an object", cop.dataset { path = write("l.jsonl", "[1]\n") })
check.fails("format", "line 1: which field holds the prompt? give field= (fields: a, b)",
   cop.dataset { path = write("f.jsonl", '{"a": "x", "b": "y"}') })
check.fails("format", "line 1: no text in field \"c\" (fields: a, b)",
   cop.dataset { path = write("f.jsonl", '{"a": "x", "b": "y"}'), field = "c" })
check.fails("format", "line 2: \"turns\" must be a list of strings",
   cop.dataset { path = write("t.jsonl", '{"turns": ["x"]}\n{"turns": []}\n') })
check.raises_with("cop.dataset: unknown option \"feild\"; did you mean \"field\"?",
   function() return cop.dataset { path = odd, feild = "a" } end)
check.raises_with("cop.dataset: option \"limit\" must be an integer", function()
   return cop.dataset { path = odd, limit = 0 }
end)

-- ---- Fields and formats -------------------------------------------------------------------------
d = assert(cop.dataset { path = write("q.jsonl", '{"q": "how?", "id": "x7", "category": "c"}\n'), field = "q" })
check.equal(d[1].turns[1], "how?")
check.equal(d[1].id, "x7")
check.equal(d[1].category, "c")
d = assert(cop.dataset { path = write("plain.txt", "one\ntwo\n\nthree"), format = "text" })
check.equal(#d, 3)
check.equal(d[3].turns[1], "three")

local bench = write("bench.jsonl", table.concat {
   '{"question_id": 81, "category": "writing", "turns": ["a", "b"], "reference": ["r"]}\n',
   '{"question_id": 161, "category": "translation", "turns": ["c"]}\n',
   '{"question_id": 401, "category": "math_reasoning", "turns": ["d"]}\n',
})
d = assert(cop.dataset { path = bench })
check.equal(#d[1].turns, 2)
check.equal(d[1].id, 81)
check.equal(d[1].reference[1], "r")
check.is(tostring(d):find("3 items, 3 categories", 1, true), tostring(d))
d = assert(cop.dataset { path = bench, turns = "first" })
check.equal(#d[1].turns, 1)

-- ---- Choosing: filter, sample, limit ------------------------------------------------------------
local many = {}
for i = 1, 100 do
   many[i] = ('{"prompt": "p%d"}\n'):format(i)
end
many = write("many.jsonl", table.concat(many))
d = assert(cop.dataset { path = many, limit = 7 })
check.equal(#d, 7)
check.equal(d[7].turns[1], "p7")
d = assert(cop.dataset { path = many, filter = function(item) return item.index % 10 == 0 end })
check.equal(#d, 10)
check.equal(d[2].index, 20, "an item keeps its number")
check.fails("argument", "nothing", cop.dataset { path = many, filter = function() return false end })

local function indices(options)
   options.path = many
   local list = {}
   for i, item in ipairs(assert(cop.dataset(options))) do
      list[i] = item.index
   end
   return list
end
local a, b, c = indices { sample = 20, seed = 1 }, indices { sample = 20, seed = 1 }, indices { sample = 20, seed = 2 }
check.equal(#a, 20)
check.equal(table.concat(a, " "), table.concat(b, " "), "one seed, one sample")
check.is(table.concat(a, " ") ~= table.concat(c, " "), "another seed, another sample")
for i = 2, #a do
   check.is(a[i] > a[i - 1], "in the file's order, nothing twice")
end
check.equal(table.concat(indices { sample = 20, seed = 1, limit = 5 }, " "), table.concat(a, " ", 1, 5))
check.equal(#indices { sample = 500 }, 100, "a sample of everything")

-- Every item is as likely as any other: 200 samples of 20 of 100, an item's count is binomial
-- with mean 40 and deviation 5.7; five deviations either way.
local counts = {}
for seed = 1, 200 do
   for _, index in ipairs(indices { sample = 20, seed = seed }) do
      counts[index] = (counts[index] or 0) + 1
   end
end
for index = 1, 100 do
   check.is(counts[index] >= 12 and counts[index] <= 68, ("item %d came %d times"):format(index, counts[index]))
end

local target = assert(cop.model { path = test.tiny { seed = 7, layers = 1 }, threads = 1, context = 256 })
-- Prompts of two files put together are numbered anew, or else two of one number would be one.
local first, second = assert(cop.dataset { path = many, limit = 3 }), assert(cop.dataset { path = many, limit = 3 })
for _, item in ipairs(second) do
   first[#first + 1] = item
end
first[#first + 1] = { turns = { "by hand" }, category = "own" }
local joined = cop.experiment { name = "joined", target = target, prompts = first, temperature = 0, max_tokens = 2,
   arms = { cop.arm { "lookup", proposer = cop.propose.lookup {} } } }.prompts
check.equal(#joined, 7)
for i, item in ipairs(joined) do
   check.equal(item.index, i)
end
check.equal(joined[5].turns[1], "p2")
check.equal(joined[7].category, "own")
check.equal(joined.path, nil, "no file holds them")
check.is(joined.sha256 ~= second.sha256)
