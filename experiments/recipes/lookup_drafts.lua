--- What lookups of three programs draft for the same texts, token by token.

local cop = require("coppice")

local function drafted(proposer, context)
   return function()
      return table.concat(cop.propose_once { proposer = proposer, context = context }.tokens, " ")
   end
end

local first, second = { 5, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2 }, { 1, 2, 3, 4, 2, 3 }
local function lookup(variant, most, tokens)
   return cop.propose.lookup { variant = variant, max_ngram = most, min_ngram = 1, tokens = tokens }
end
local original, transformers, vllm = "prompt-lookup-decoding", "transformers, prompt lookup", "vLLM, ngram proposer"
local llama = "llama.cpp, common/ngram-cache.cpp"
local function cache(context, static, tokens)
   return drafted(cop.propose.ngram_cache { tokens = tokens or 8, static = static }, context)
end
local seen = { { 5, 7, 8, 3, 7, 8, 3, 7, 8, 4 } }

return {
   name = "lookup-drafts",
   about = "tokens drafted",
   source = "the programs named at each value",
   values = {
      { "original, 3 tokens, 5 1 2 3 9 …", "3 9 1", drafted(lookup("original", 3, 3), first), source = original },
      { "original, 10 tokens, too near the end", "", drafted(lookup("original", 3, 10), first), source = original },
      { "original, 3 tokens, 1 2 3 4 2 3", "4 2 3", drafted(lookup("original", 3, 3), second), source = original },
      { "hf, 3 tokens", "3 9 1", drafted(lookup("hf", 2, 3), first), source = transformers },
      { "hf, 10 tokens", "3 9 1 2 4 7 1 2", drafted(lookup("hf", 2, 10), first), source = transformers },
      { "vllm, 3 tokens", "3 9 1", drafted(lookup("vllm", 3, 3), first), source = vllm },
      { "vllm, 10 tokens", "3 9 1 2 4 7 1 2", drafted(lookup("vllm", 3, 10), first), source = vllm },
      { "vllm, nothing repeats", "", drafted(lookup("vllm", 3, 3), { 1, 2, 3 }), source = vllm },
      { "ngram_cache, 1 2 3 4 1 2 3", "4 1 2 3 4 1 2 3", cache { 1, 2, 3, 4, 1, 2, 3 }, source = llama },
      { "ngram_cache, 1 2 3 4 5 1 2 3", "4 5 1 2 3 4 5 1", cache { 1, 2, 3, 4, 5, 1, 2, 3 }, source = llama },
      { "ngram_cache, one sample of one token", "", cache { 7, 8, 9, 7 }, source = llama },
      { "ngram_cache, two samples", "8 9 7 8 9 7 8 9", cache { 7, 8, 9, 7, 8, 9, 7 }, source = llama },
      { "ngram_cache, static, 1 7 8", "3 7 8 3", cache({ 1, 7, 8 }, seen, 4), source = llama },
      { "ngram_cache, static, 7 8 9 7 8", "3 7 8 3", cache({ 7, 8, 9, 7, 8 }, seen, 4), source = llama },
   },
}
