--- JSON in and out: what other readers lose is kept.

local check, _, core = ...
local json = core.system.json

local text = [=[{"id": 9007199254740993, "big": 9223372036854775807, "x": 0.1, "y": 1e308, "z": -0.0, "n": 3,]=]
   .. [=[ "f": 3.0, "list": [], "obj": {}, "nothing": null, "s": "a\u0000b", "deep": [[1, [2]], {"k": []}]}]=]
local value = assert(json.decode(text))
check.equal(value.id, 9007199254740993)
check.equal(value.big, math.maxinteger)
check.equal(value.f, 3.0)
check.equal(value.n, 3)
check.equal(#value.s, 3)
check.equal(value.nothing, json.null)
check.equal(value.deep[1][2][1], 2)

-- The round trip keeps kinds: integers, floats, empty lists and objects, the sign of zero.
check.equal(json.encode(value), '{"big": 9223372036854775807, "deep": [[1, [2]], {"k": []}], "f": 3.0,'
   .. ' "id": 9007199254740993, "list": [], "n": 3, "nothing": null, "obj": {}, "s": "a\\u0000b", "x": 0.1,'
   .. ' "y": 1e+308, "z": -0.0}')
check.equal(json.encode(json.decode(json.encode(value))), json.encode(value))

-- What has no JSON form becomes null; the file stays valid.
check.equal(json.encode { 0 / 0, math.huge, -math.huge, 1 / 3 }, "[null, null, null, 0.3333333333333333]")
check.equal(json.encode({ a = json.list {}, b = {}, c = { 1, 2 }, d = { { x = 1 } } }, 1),
   '{\n "a": [],\n "b": {},\n "c": [1, 2],\n "d": [\n  {\n   "x": 1\n  }\n ]\n}')
check.equal(json.encode("quote \" back \\ bell \7 bad \xff é"), '"quote \\" back \\\\ bell \\u0007 bad \u{FFFD} é"')
check.equal(json.encode(nil), "null")

-- Refusals.
check.fails("format", "bad JSON at byte 4", json.decode("[1 2]"))
check.fails("format", "ends too early", json.decode('{"a": '))
check.fails("format", "not UTF-8", json.decode('"\xc0\xaf"'))
check.raises_with("cannot write a function", json.encode, { print })
check.raises_with("must be a string", json.encode, { [true] = 1 })
local cycle = {}
cycle.self = cycle
check.raises_with("nested more than", json.encode, cycle)
