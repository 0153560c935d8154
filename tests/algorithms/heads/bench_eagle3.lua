--- What a drafted step of an EAGLE-3 head with 8,192 ids costs beside the time to read its weights, as they are
--- stored and in Q8_0: D of chains of two lengths, whose difference leaves out what a cycle pays once, which is shown
--- beside it, as is a level of four nodes. The bar is 1.3 for what is stored. Run it under `chrt -f 70`, from the
--- project's root, by a stock Lua.

package.cpath = (arg[1] or "build") .. "/?.so"
local cop = require("coppice")

local MODEL, SHORT, LONG, ROUNDS, BAR = "models/SmolLM2-135M-Instruct.Q4_1.gguf", 2, 10, 3, 1.3
local HEAD = "experiments/heads/eagle3-smollm2"
local threads = tonumber(arg[2]) or 2

local target = cop.model { path = MODEL, threads = threads }
if not target then
   print("EAGLE-3: no " .. MODEL .. " (make model): skipped")
   os.exit(0)
end

--- What one more step reads: the layer, and 8,192 rows of the target's LM head, which are Q8_0; fc takes part in the
-- first alone.
local width, ffn, keys, q8_0 = target.hidden_size, 1536, 192, 34 / 32
local layer, rows = width * 2 * width + 2 * keys * 2 * width + width * width + 3 * width * ffn, 8192 * width
local arms = {
   { weights = "file", bytes = 2 * layer + q8_0 * rows },
   { weights = "q8_0", bytes = q8_0 * (layer + rows) },
}
local trees = { short = cop.tree.chain { depth = SHORT }, long = cop.tree.chain { depth = LONG },
   fours = cop.tree.widths { 4, 1, 1 } }
local nodes = { short = SHORT, long = LONG, fours = 12 }

--- Seconds of D in a cycle, the least of all cycles: others of this machine only add to it.
local function least(proposer, name)
   local best = math.huge
   local answer = assert(cop.generate { model = target, prompt = "Trees in a forest grow because", max_tokens = 48,
      ignore_eos = true, proposer = proposer, tree = trees[name] })
   for i, cycle in ipairs(answer.cycles) do
      if i > 2 and cycle.nodes == nodes[name] then
         best = math.min(best, cycle.D)
      end
   end
   return best
end

for _, arm in ipairs(arms) do
   arm.proposer = assert(cop.propose.eagle { HEAD, vocabulary = 8192, weights = arm.weights })
   arm.D = {}
end
for _ = 1, ROUNDS do
   for _, arm in ipairs(arms) do
      for name in pairs(trees) do
         arm.D[name] = math.min(arm.D[name] or math.huge, least(arm.proposer, name))
      end
   end
end
local bandwidth = assert(cop.cost { model = target, sizes = { 1 }, contexts = { 64 } }).bandwidth
for _, arm in ipairs(arms) do
   local step = (arm.D.long - arm.D.short) / (LONG - SHORT)
   print(("EAGLE-3 of 8,192 ids, %s, a step of a chain: %.3f ms; its %.1f MB at %.1f GB/s: %.3f ms; %.2f times%s; "
      .. "what a cycle pays once: %.3f ms; a level of four: %.3f ms"):format(arm.weights, 1e3 * step, arm.bytes / 1e6,
      bandwidth / 1e9, 1e3 * arm.bytes / bandwidth, step * bandwidth / arm.bytes,
      arm.weights == "file" and (" (bar %.1f)"):format(BAR) or "", 1e3 * (arm.D.short - SHORT * step),
      1e3 * (arm.D.fours - arm.D.short + (SHORT - 1) * step) / 2))
end
