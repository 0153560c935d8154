--- The files of a run's folder, damaged: one message that names the field, or what was there before. Never an error
-- of a reader that counted on something.

local check, test, core = ...
local cop = require("coppice")
local manifest, curve, json = core.use("manifest"), core.use("curve"), core.system.json
local folder = test.folder()

local function save(path, text)
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
end

-- ---- A manifest -----------------------------------------------------------------------------------
local whole = json.encode {
   format = 1, published = json.list {}, script_text = "return 1",
   measures = json.list { { name = "exact_match", better = "higher", is_ours = true } },
   identity = { name = "n", seed = 1, max_tokens = 4, chat = true, stop = json.list {},
      quality = json.list { "exact_match" },
      target = { path = "m.gguf", sha256 = "ab", context = 64 },
      prompts = { records = 1, chosen = json.list { { 1, 1 } }, texts = "cd" },
      arms = json.list { { name = "plain", sampling = "T=0", lossless = true } } },
   made_by = { version = "0", threads = 2, build = { debug = false, backends = json.list { "cpu" } } },
}
check.equal(manifest.decode(whole, "m").identity.seed, 1)
local null = json.null
for _, case in ipairs {
   { "identity", nil, "it has no identity" }, { "identity", null, "\"identity\" must be an object, got null" },
   { "identity.target", null, "\"identity.target\" must be an object, got null" },
   { "identity.target.path", 7, "\"identity.target.path\" must be text, got a number" },
   { "identity.prompts", json.list {}, "\"identity.prompts\" must be an object, got a list" },
   { "identity.quality", "x", "\"identity.quality\" must be a list, got text" },
   { "made_by", true, "\"made_by\" must be an object, got true or false" },
   { "made_by.threads", "2", "\"made_by.threads\" must be a number, got text" },
   { "format", null, "has format null, this program reads 1" }, { "format", 2, "(version 0)" },
} do
   local value = json.decode(whole)
   local at, last = value, case[1]:match("[^.]*$")
   for name in case[1]:gmatch("([^.]+)%.") do
      at = at[name]
   end
   at[last] = case[2]
   local found, problem = manifest.decode(json.encode(value), "m.json")
   check.is(found == nil and problem:find(case[3], 1, true) and problem:find("m.json", 1, true), problem or case[3])
end
check.is(select(2, manifest.decode("{", "m.json")):find("ends too early", 1, true), "broken")
check.is(select(2, manifest.decode("[]", "m.json")):find("must be an object, got a list", 1, true), "a list")

-- ---- A cost curve ---------------------------------------------------------------------------------
local price = json.encode {
   score = json.list { { nodes = 1, context = 32, seconds = 0.25, spread = 0.01, tries = 3 },
      { nodes = 2, context = 32, seconds = 0.5 } },
   draft = json.list { { nodes = 1, context = 32, seconds = 0.125, path = "d" } }, bandwidth = 1e9,
   machine = { fingerprint = "f", cores = 2 },
   roofline = { bytes = 1, bandwidth = 1, work = 1, peak = 1, is_int8 = true },
}
check.equal(curve.plain_seconds(assert(curve.decode(price))), 0.25)
for text, words in pairs {
   ["null"] = "the file must be an object, got null", ["[]"] = "the file must be an object, got a list",
   ["{}"] = "no score", ["{\"score\":[]}"] = "no score",
   ["{\"score\":{\"a\":1}}"] = "\"score\" must be a list, got an object",
   ["{\"score\":[5]}"] = "score[1] must have nodes",
   ["{\"score\":[{\"nodes\":1,\"context\":1,\"seconds\":1e999}]}"] = "score[1] must have nodes",
   ["{\"score\":[{\"nodes\":0,\"context\":1,\"seconds\":1}]}"] = "score[1] must have nodes",
   [price:gsub("0.125", "0")] = "draft[1] must have nodes",
   [price:gsub("\"peak\": ", "\"x\": ")] = "\"roofline.peak\" is missing",
   [price:gsub("\"work\": 1", "\"work\": null")] = "\"roofline.work\" must be a number, got null",
} do
   local value, problem = curve.decode(text)
   check.is(value == nil and problem:find(words, 1, true), problem or text)
   save(folder .. "/cost.json", text)
   check.is(select(2, curve.read(folder .. "/cost.json")):find(folder .. "/cost.json: ", 1, true), text)
end
check.is(select(2, curve.read(folder)):find("irectory", 1, true), "a folder is no file")
check.equal(curve.given({ score = { { nodes = 1, context = 0, seconds = 1 } } }).score[1].seconds, 1)

-- ---- 100,000 of each, damaged ---------------------------------------------------------------------
local state = 7
local function below(n)
   state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
   return (state >> 33) % n
end
local values = { "null", "true", "-1", "0", "1e999", "9007199254740993", "1e-320", "\"\"", "\"x\"", "[]", "{}", "[[]]",
   "[null]", "{\"a\":1}" }

--- Where values begin and end: strings, words and numbers behind a ":" "," or "[".
local function places_of(text)
   local places = {}
   for first, last in text:gmatch("[:,%[]()[^%[%]{}:,]+()") do
      places[#places + 1] = { first, last }
   end
   for first, last in text:gmatch(":()%b{}()") do
      places[#places + 1] = { first, last }
   end
   for first, last in text:gmatch(":()%b[]()") do
      places[#places + 1] = { first, last }
   end
   return places
end

local function damaged(text, places)
   if below(3) == 0 then
      local at = below(#text) + 1
      return text:sub(1, at - 1) .. string.char(below(256)) .. text:sub(at + below(4))
   end
   local place = places[below(#places) + 1]
   return text:sub(1, place[1] - 1) .. values[below(#values) + 1] .. text:sub(place[2])
end

local function try(text, decode, use)
   local taken, places = 0, places_of(text)
   for i = 1, 100000 do
      local bad = damaged(text, places)
      local ok, value, problem = pcall(decode, bad, "m.json")
      if not ok then
         error(("%d raises %s: %s"):format(i, tostring(value), bad))
      elseif value then
         taken = taken + 1
         ok, problem = pcall(use, value)
         check.is(ok, ("%d: %s: %s"):format(i, tostring(problem), bad))
      else
         check.is(type(problem) == "string" and #problem < 500 and not problem:find("%c"), bad)
      end
   end
   check.is(taken > 10000 and taken < 90000, taken)
end

local good = json.decode(whole).identity
try(whole, manifest.decode, function(value)
   manifest.differences(good, value.identity)
   core.use("quality_compare").aims(value)
   core.use("report_tokens").tokenizer_of(value)
end)
try(price, curve.decode, function(cost)
   curve.grid(cost)
   check.is(curve.planes(cost).target.fixed >= 0 and curve.plain_seconds(cost) > 0, "planes")
   curve.floor_seconds(cost.roofline or { bytes = 0, bandwidth = 0, work = 0, peak = 0 }, 3)
end)
check.equal(cop.open_run(folder), nil)
