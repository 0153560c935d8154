--- Speed-ups that a simulator finds from recorded acceptance: Llama-3.1-8B, EAGLE-3 and n-grams, one H100.
--
-- Needs the traces of the paper's authors (data = "specdecode_traces": gsm8k.jsonl, instructcoder.jsonl).

local cop = require("coppice")

local batches = { 1, 8, 16, 32, 64, 128 }
local kept = {} -- data sets and simulations that several values are of

local function traces(folder, name)
   local path = ("%s/%s.jsonl"):format(folder, name)
   if not kept[path] then
      local file = io.open(path)
      if not file then
         cop.recipe.skip(("there is no %s"):format(path))
      end
      file:close()
      kept[path] = assert(cop.traces { path = path })
   end
   return kept[path]
end

local function simulated(folder, name, drafter, length, price)
   local key = table.concat({ folder, name, drafter, length, price or "" }, " ")
   kept[key] = kept[key] or assert(cop.simulate { data = traces(folder, name), drafter = drafter, length = length,
      price = price, batch = batches })
   return kept[key]
end

local values = {}

--- published: values by batch, in the order of `batches`; "-" where none is printed.
local function row(name, drafter, length, published, price, source)
   local i = 0
   for text in published:gmatch("%S+") do
      i = i + 1
      local at = i
      if text ~= "-" then
         values[#values + 1] = { ("%s, %s, %s%s, batch %d"):format(name, drafter, length, price and ", pays " .. price
            or "", batches[i]), text, function(folder)
            return simulated(folder, name, drafter, length, price).batches[at].speedup
         end, source = source }
      end
   end
end

row("gsm8k", "eagle", 1, "1.29 1.28 1.26 1.23 1.19 1.14")
row("gsm8k", "eagle", 3, "1.81 1.73 1.65 1.52 1.36 1.18")
row("gsm8k", "eagle", 5, "2.01 1.86 1.73 1.53 1.29 1.07")
row("gsm8k", "eagle", "oracle", "2.13 2.06 1.98 1.87 1.71 1.54")
row("instructcoder", "eagle", 1, "1.34 1.32 1.30 1.26 1.21 1.16")
row("instructcoder", "eagle", 3, "2.03 1.91 1.80 1.65 1.46 1.28")
row("instructcoder", "eagle", 5, "2.38 2.17 1.98 1.74 1.47 1.23")
row("instructcoder", "eagle", "oracle", "2.73 2.52 2.35 2.12 1.85 1.61")
row("gsm8k", "ngram", 1, "1.10 1.09 1.09 1.07 1.05 1.03")
row("gsm8k", "ngram", 3, "1.15 1.13 1.11 1.08 1.03 0.97")
row("gsm8k", "ngram", 5, "1.16 1.13 1.10 1.05 0.98 0.90")
row("gsm8k", "ngram", "oracle", "1.18 1.17 1.17 1.15 1.13 1.11")
row("instructcoder", "ngram", 1, "1.42 1.38 1.34 1.28 1.21 1.12")
row("instructcoder", "ngram", 3, "1.86 1.73 1.62 1.46 1.27 1.10")
row("instructcoder", "ngram", 5, "2.10 1.89 1.71 1.47 1.23 1.02")
row("instructcoder", "ngram", "oracle", "2.73 2.45 2.25 2.00 1.74 1.52")
row("gsm8k", "combined", "oracle", "2.80 2.64 2.50 2.28 2.00 1.71")
row("instructcoder", "combined", "oracle", "4.89 4.08 3.53 2.90 2.32 1.87")
-- The paper's simulator pays a lookup for every draft; who pays for EAGLE's drafts as well gets less.
local corrected = "arXiv:2601.11580, corrected"
row("gsm8k", "combined", "oracle", "2.37 2.27 - 2.02", "winner", corrected)
row("instructcoder", "combined", "oracle", "4.33 3.69 - 2.72", "winner", corrected)
row("gsm8k", "combined", "oracle", "2.17 2.09 - 1.89", "both", corrected)
row("instructcoder", "combined", "oracle", "3.84 3.35 - 2.55", "both", corrected)

local function add(name, text, of)
   values[#values + 1] = { name, text, of }
end

--- What the traces hold: requests, mean prompt, mean output; tokens a cycle; acceptance by depth.
local function statistics(name, requests, prompt, output)
   for _, entry in ipairs { { "requests", requests }, { "prompt", prompt }, { "output", output } } do
      add(("%s: %s"):format(name, entry[1]), entry[2], function(folder)
         return traces(folder, name):statistics("ngram")[entry[1]]
      end)
   end
end

local function efficiency(name, drafter, lengths, published)
   local i = 0
   for text in published:gmatch("%S+") do
      i = i + 1
      local length = lengths[i]
      add(("%s, %s, %s: tokens a cycle"):format(name, drafter, length), text, function(folder)
         return traces(folder, name):statistics(drafter, length).block_efficiency
      end)
   end
end

local function rates(name, drafter, published)
   local i = 0
   for text in published:gmatch("%S+") do
      i = i + 1
      local depth = i
      add(("%s, %s: accepted at depth %d"):format(name, drafter, depth), text, function(folder)
         return traces(folder, name):statistics(drafter).rate[depth]
      end)
   end
end

statistics("gsm8k", "300", "94.5", "166.2")
statistics("instructcoder", "500", "171.2", "262.0")
local lengths = { 1, 3, 5, "oracle" }
efficiency("gsm8k", "eagle", lengths, "1.699 2.391 2.666 2.799")
efficiency("gsm8k", "ngram", lengths, "1.109 1.164 1.177 1.187")
efficiency("instructcoder", "eagle", lengths, "1.681 2.348 2.625 2.828")
efficiency("instructcoder", "ngram", lengths, "1.509 2.028 2.289 2.762")
rates("gsm8k", "eagle", "0.662 0.644 0.629 0.649 0.619 0.65")
rates("gsm8k", "ngram", "0.072 0.558 0.593 0.628 0.707 0.705")
rates("instructcoder", "eagle", "0.587 0.617 0.679 0.736 0.759 0.796")
rates("instructcoder", "ngram", "0.169 0.831 0.880 0.921 0.914 0.950")

return {
   name = "trace-simulator",
   about = "speed-ups simulated from recorded acceptance",
   source = "arXiv:2601.11580",
   data = "specdecode_traces",
   values = values,
}
