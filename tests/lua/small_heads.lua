--- ReDrafter, MTP modules and LSTM speculators through the public interface: random weights, written here.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

-- ---- Writing -------------------------------------------------------------------------------------

local function number(name, i) -- in [-1, 1), a function of both
   local hash = 0
   for c = 1, #name do
      hash = (hash * 31 + name:byte(c)) % 65521
   end
   return math.sin(hash + 12.9898 * i) * 43758.5453 % 2 - 1
end

local function folder_of(config, tensors)
   local path = os.tmpname()
   os.remove(path)
   assert(os.execute("mkdir " .. path))
   local parts, data, at = {}, {}, 0
   for _, tensor in ipairs(tensors) do
      local name, rows, cols = table.unpack(tensor)
      local count, size = (rows or 1) * cols, rows and math.sqrt(3 / cols) or 0.2
      for i = 1, count do
         local value = size * number(name, i)
         data[#data + 1] = string.pack("<f", rows and value or 1 + value)
      end
      parts[#parts + 1] = ('"%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}'):format(name,
         rows and rows .. "," .. cols or cols, at, at + 4 * count)
      at = at + 4 * count
   end
   local header = "{" .. table.concat(parts, ",") .. "}"
   local file = assert(io.open(path .. "/model.safetensors", "wb"))
   file:write(string.pack("<I8", #header), header, table.concat(data))
   file:close()
   file = assert(io.open(path .. "/config.json", "w"))
   file:write(config)
   file:close()
   return path
end

local function layer(prefix)
   local out = {}
   for _, t in ipairs { { "enorm", nil, 32 }, { "hnorm", nil, 32 }, { "eh_proj", 32, 64 }, { "shared_head.norm", nil, 32 },
      { "input_layernorm", nil, 32 }, { "self_attn.q_proj", 32, 32 }, { "self_attn.k_proj", 16, 32 },
      { "self_attn.v_proj", 16, 32 }, { "self_attn.o_proj", 32, 32 }, { "post_attention_layernorm", nil, 32 },
      { "mlp.gate_proj", 48, 32 }, { "mlp.up_proj", 48, 32 }, { "mlp.down_proj", 32, 48 } } do
      out[#out + 1] = { prefix .. t[1] .. ".weight", t[2], t[3] }
   end
   return out
end

local folders = {
   redrafter = folder_of('{"rnn":true,"exit_dim":64,"num_draft_layers":1}', {
      { "rnn_u.weight", 32, 32 }, { "rnn_u.bias", nil, 32 }, { "rnn_w.weight", 32, 32 },
      { "lm_head.0.linear.weight", 64, 64 }, { "lm_head.0.linear.bias", nil, 64 }, { "lm_head.1.weight", 61, 64 } }),
   mtp = folder_of('{"model_type":"llama","hidden_size":32,"intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,'
      .. '"num_key_value_heads":2,"vocab_size":61,"num_nextn_predict_layers":1}', layer("model.layers.2.")),
   mlp = folder_of('{"method":"sum_lstm","n_predict":3,"input_hidden_dim":32,"inner_dim":"12","emb_dim":"12","tie_lstm_embs":true}', {
      { "proj.0.weight", 48, 32 }, { "proj.1.weight", 48, 12 }, { "forget_emb.0.weight", 61, 12 }, { "head.0.weight", 61, 12 },
      { "cell_ln.0.weight", nil, 12 }, { "cell_ln.0.bias", nil, 12 }, { "state_ln.0.weight", nil, 12 }, { "state_ln.0.bias", nil, 12 } }),
}

-- ---- Every one of them -----------------------------------------------------------------------------

local model = cop.model { path = test.tiny { seed = 7 }, threads = 1 }
local prompt = { 3, 1, 4, 1, 5, 9, 2, 6 }
local plain = cop.generate { model = model, tokens = prompt, max_tokens = 40 }
local trees = { false, cop.tree.chain { depth = 3 }, cop.tree.widths { 12, 3, 2 }, cop.tree.best_first { budget = 30, depth = 3 },
   cop.tree.beam_search { width = 12, depth = 3 }, cop.tree.expand_rerank { top_k = 6, depth = 2, budget = 30 },
   cop.tree.sequoia { budget = 20, depth = 3, acceptance = { 0.3, 0.2, 0.1, 0.1 } } }
for name, path in pairs(folders) do
   local head = cop.propose[name] { path }
   check.is(cop.help("propose." .. name):find("source: ", 1, true), name)
   local drafted, accepted = 0, 0
   for _, tree in ipairs(trees) do
      local r = cop.generate { model = model, tokens = prompt, max_tokens = 40, proposer = head, tree = tree or nil }
      check.list(r.tokens, plain.tokens, name)
      drafted, accepted = drafted + r.drafted, accepted + r.accepted
   end
   check.is(drafted > 0 and accepted > 0, ("%s: %d of %d accepted"):format(name, accepted, drafted))
   -- Above temperature 0 rows are recorded as drawn: rules by ratios take them.
   for rule, tree in pairs { token = cop.tree.chain { depth = 3 }, recursive = cop.tree.widths { 3, 2 } } do
      local r = cop.generate { model = model, tokens = prompt, max_tokens = 30, proposer = head, tree = tree, temperature = 0.8,
         rule = cop.accept[rule] {}, seed = 3 }
      check.equal(#r.tokens, 30)
      check.is(r.drafted > 0, name)
   end
   -- Rows are laws, and temperature is the request's.
   local once = cop.propose_once { proposer = head, model = model, context = prompt, tree = cop.tree.widths { 61 } }
   local hot = cop.propose_once { proposer = head, model = model, context = prompt, tree = cop.tree.widths { 61 }, temperature = 2 }
   local sum, ratio, hot_ratio = 0, once.probabilities[1] / once.probabilities[2], hot.probabilities[1] / hot.probabilities[2]
   for _, p in ipairs(once.probabilities) do
      sum = sum + p
   end
   check.near(sum, 1, 1e-9, name)
   check.near(hot_ratio, math.sqrt(ratio), 1e-6, name)
   check.list(cop.propose_once({ proposer = head, model = model, context = { 1 } }).tokens, {}, name)
   local other = cop.model { path = test.tiny { seed = 7, hidden = 64 }, threads = 1 }
   check.raises_with(name == "mtp" and "hidden size 32" or "states of 32 numbers", function()
      return cop.propose_once { proposer = head, model = other, context = prompt }
   end)
   os.execute("rm -r " .. path)
end

-- ReDrafter's own shape: beams.
check.raises_with("cop.propose.redrafter: option \"path\" is required", function() return cop.propose.redrafter {} end)
check.raises_with("cop.propose.mtp: option \"hidden\" must be one of \"normed\", \"raw\"", function()
   return cop.propose.mtp { "anything", hidden = "both" }
end)
check.fails("io", "no-such-folder/config.json", cop.propose.mtp { "no-such-folder" })
check.fails("io", "no-such-folder/config.json", cop.propose.redrafter { "no-such-folder" })
