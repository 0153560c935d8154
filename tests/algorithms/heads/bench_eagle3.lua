--- What a drafted step of an EAGLE-3 head with 8,192 ids costs beside the time to read its weights: D of chains of
--- two lengths, whose difference leaves out what a cycle pays once. The bar is 1.3. The head is one that one step of
--- training made: only its shape counts. Run it under `chrt -f 70`, from the project's root, by a stock Lua.

package.cpath = (arg[1] or "build") .. "/?.so"
local cop = require("coppice")

local MODEL, SHORT, LONG, ROUNDS, BAR = "models/SmolLM2-135M-Instruct.Q4_1.gguf", 2, 10, 3, 1.3
local threads = tonumber(arg[2]) or 2

local target = cop.model { path = MODEL, threads = threads }
if not target then
   print("EAGLE-3: no " .. MODEL .. " (make model): skipped")
   os.exit(0)
end

local folder = os.tmpname()
os.remove(folder)
assert(cop.train { head = "eagle", version = 3, vocabulary = 8192, target = target, out = folder, steps = 1, rows = 16,
   data = { "What is a tree?" }, max_tokens = 24, measure_rows = 1, quiet = true })
local eagle = assert(cop.propose.eagle { folder })

--- What one more step reads: the layer and the LM head, in f16; fc takes part in the first alone.
local width, ffn, keys = target.hidden_size, 1536, 192
local numbers = width * 2 * width + 2 * keys * 2 * width + width * width + 3 * width * ffn + 8192 * width
local bytes = 2 * numbers

--- Seconds of D in a cycle, the least of all cycles: others of this machine only add to it.
local function least(depth)
   local best = math.huge
   local answer = assert(cop.generate { model = target, prompt = "Trees in a forest grow because", max_tokens = 48,
      ignore_eos = true, proposer = eagle, tree = cop.tree.chain { depth = depth } })
   for i, cycle in ipairs(answer.cycles) do
      if i > 2 and cycle.nodes == depth then
         best = math.min(best, cycle.D)
      end
   end
   return best
end

local short, long = math.huge, math.huge
for _ = 1, ROUNDS do
   short, long = math.min(short, least(SHORT)), math.min(long, least(LONG))
end
local step = (long - short) / (LONG - SHORT)
local bandwidth = assert(cop.cost { model = target, sizes = { 1 }, contexts = { 64 } }).bandwidth
print(("EAGLE-3 of 8,192 ids, a step of a chain: %.3f ms; its %.1f MB at %.1f GB/s: %.3f ms; %.2f times (bar %.1f)")
   :format(1e3 * step, bytes / 1e6, bandwidth / 1e9, 1e3 * bytes / bandwidth, step * bandwidth / bytes, BAR))
os.execute("rm -rf '" .. folder .. "'")
