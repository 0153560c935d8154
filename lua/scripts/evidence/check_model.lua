--- coppice check model: greedy tokens with and without speculation, and how far int8 activations are
-- from f32.

local cop, core = ...

local cli = core.use("cli")

local prompts = {
   "Write a short story about a lighthouse keeper who collects clocks.",
   "Repeat this sentence three times: the quick brown fox jumps over the lazy dog.",
   "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n"
      .. "    return total / len(values)\n\nRename the function to average and return None for an empty list.",
   "Add 17 and 25, then multiply the sum by 3. Show every step.",
}

local function ids_of(model, text)
   local try, tokenizer = core.use("plan").try, model.tokenizer
   if not tokenizer then
      error("check model: this model has no tokenizer", 0)
   end
   local rendered, ids = try(tokenizer.chat, tokenizer, { { role = "user", content = text } }, { generation = true })
   return rendered and ids or tokenizer:encode(text, { bos = tokenizer.adds_bos })
end

-- ---- Greedy identity -----------------------------------------------------------------------------

local function first_difference(a, b)
   for i = 1, math.max(#a, #b) do
      if a[i] ~= b[i] then
         return i
      end
   end
end

--- The gap between the target's two best logits where the answers part: how close the call was.
local function gap(model, prompt, answer, position)
   local context = table.move(answer, 1, position - 1, #prompt + 1, table.move(prompt, 1, #prompt, 1, {}))
   local rows = model:score { context = context }
   local top = rows and rows[0]:top(2)
   return top and top[2] and top[1].logit - top[2].logit
end

local function describe_difference(model, prompt, plain, other, at)
   local function text(id)
      return id and ("%d %q"):format(id, model.tokenizer:piece(id)) or "the end"
   end
   return ("  position %d: %s, plain decoding has %s; its two best logits are %.4g apart"):format(at, text(other[at]),
      text(plain[at]), gap(model, prompt, plain, at) or 0)
end

local function answer(model, ids, proposer, max_tokens)
   return cli.must(cop.generate { model = model, tokens = ids, proposer = proposer, max_tokens = max_tokens })
end

local function compare(model, name, proposer, max_tokens, plain)
   local same, drafted, accepted = 0, 0, 0
   for i, text in ipairs(prompts) do
      local ids = ids_of(model, text)
      plain[i] = plain[i] or answer(model, ids, nil, max_tokens)
      local r = answer(model, ids, proposer, max_tokens)
      drafted, accepted = drafted + r.drafted, accepted + r.accepted
      local at = first_difference(plain[i].tokens, r.tokens)
      if at then
         print(("!!! %s differs from plain decoding on prompt %d"):format(name, i))
         print(describe_difference(model, ids, plain[i].tokens, r.tokens, at))
      else
         same = same + 1
      end
   end
   print(("%s: %d of %d greedy answers are plain decoding's (%d drafted, %d accepted)"):format(name, same, #prompts,
      drafted, accepted))
   return same == #prompts
end

local function check_identity(model, o)
   local arms = { { "lookup", cop.propose.lookup {} } }
   if o.draft then
      arms[2] = { "model", cop.propose.model { cli.open_model("check", { threads = o.threads }, o.draft) } }
   end
   local plain, all = {}, true
   for _, arm in ipairs(arms) do
      all = compare(model, arm[1], arm[2], o.max_tokens or 64, plain) and all
   end
   return all
end

-- ---- Precision -----------------------------------------------------------------------------------

--- Largest and mean-square distance of two rows of logits, and whether their best token is one.
local function row_distance(a, b, vocab, sums)
   for id = 0, vocab - 1 do
      local d = math.abs(a[id] - b[id])
      sums.most = math.max(sums.most, d)
      sums.squares = sums.squares + d * d
   end
   sums.count = sums.count + vocab
   sums.rows = sums.rows + 1
   sums.same = sums.same + (a:top(1)[1].id == b:top(1)[1].id and 1 or 0)
end

local function measure_distance(precise, coarse)
   local sums = { most = 0, squares = 0, count = 0, rows = 0, same = 0 }
   for _, text in ipairs(prompts) do
      local ids = ids_of(precise, text)
      local nodes = table.move(ids, math.max(2, #ids - 15), #ids, 1, {})
      local context = table.move(ids, 1, #ids - #nodes, 1, {})
      local a = cli.must(precise:score { context = context, nodes = nodes })
      local b = cli.must(coarse:score { context = context, nodes = nodes })
      for node = 0, #nodes do
         row_distance(a[node], b[node], precise.vocab_size, sums)
      end
   end
   return sums
end

local function check_precision(model, o)
   local function open(precision)
      return core.use("plan").try(cop.model, { path = model.path, precision = precision, kv = model.kv,
         context = o.context, threads = o.threads })
   end
   local precise, coarse, problem = cli.must(open("f32")), open("int8")
   if not coarse then
      print("int8 against f32 activations: " .. problem)
      return
   end
   local s = measure_distance(precise, coarse)
   print(("int8 against f32 activations: largest logit difference %.4f, rms %.4f, same best token in %d of %d rows")
      :format(s.most, math.sqrt(s.squares / s.count), s.same, s.rows))
end

return function(o)
   local model = cli.open_model("check model", o)
   print(tostring(model))
   local is_identical = check_identity(model, o)
   check_precision(model, o)
   return is_identical and 0 or 1
end
