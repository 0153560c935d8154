--- What would speculation bring at a batch size? Speed-ups simulated from recorded acceptance, nothing measured.
---
---     build/coppice run experiments/simulate.lua data=gsm8k.jsonl cost=llama-3.1-8b-h100 match=0.2
---
--- cost is that name, or the file that `coppice cost` saved; match is of lookups: the share of positions at which one
--- finds something although nothing is accepted.

local cop = require("coppice")

local args = cop.args { data = "../shared/data/specdecode_traces/gsm8k.jsonl", cost = "llama-3.1-8b-h100", match = 0.0,
   seed = 42 }

local traces = assert(cop.traces { path = args.data })
print(traces)

local batches = { 1, 8, 16, 32, 64, 128 }
local function simulate(drafter, length, price)
   return assert(cop.simulate { data = traces, drafter = drafter, length = length, batch = batches, cost = args.cost,
      match = args.match > 0 and args.match or nil, price = price, seed = args.seed })
end

for _, drafter in ipairs(traces.drafters) do
   for _, length in ipairs { 1, 3, 5, "oracle" } do
      print(("\n%s"):format(simulate(drafter, length)))
   end
end
for _, price in ipairs { "lookup", "winner" } do
   print(("\n%s"):format(simulate(traces.drafters, "oracle", price)))
end
return simulate(traces.drafters, "oracle", "both")
