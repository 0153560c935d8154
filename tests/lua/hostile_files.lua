--- Files that lie, as a user meets them: cop.model gives nil, one message with file, field and
--- value, and a code; nothing is left half-loaded, and the next file opens.

-- luacheck: no max line length

local check = ...
local cop = require("coppice")

local pack = string.pack
local none = "" -- an edit that says so leaves the thing out

local function save(path, bytes)
   local file = assert(io.open(path, "wb"))
   file:write(bytes)
   file:close()
end

local gguf_path = os.tmpname()
local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder))

local function floats(value, count)
   return pack("<f", value):rep(count)
end

--- `what` is refused with all of the words; the message begins with the file's name.
local function refused(path, code, words)
   local m, message, got = cop.model { path = path, threads = 1 }
   check.equal(m, nil, words[1])
   check.equal(got, code, message)
   check.is(message:find("cop.model: ", 1, true) == 1 and message:find(path, 1, true), message)
   for _, word in ipairs(words) do
      check.is(message:find(word, 1, true), ("%q lacks %q"):format(message, word))
   end
end

-- ---- GGUF ------------------------------------------------------------------------------------------

local width = 32
local shapes = {
   { "token_embd", { width, 16 } }, { "output_norm", { width } }, { "blk.0.attn_norm", { width } },
   { "blk.0.attn_q", { width, width } }, { "blk.0.attn_k", { width, width } }, { "blk.0.attn_v", { width, width } },
   { "blk.0.attn_output", { width, width } }, { "blk.0.ffn_norm", { width } }, { "blk.0.ffn_gate", { width, width } },
   { "blk.0.ffn_up", { width, width } }, { "blk.0.ffn_down", { width, width } },
}

local function text(s)
   return pack("<s8", s)
end
local function key(name, kind, bytes)
   return text(name) .. pack("<I4", kind) .. bytes
end
local function u32(name, value)
   return key(name, 4, pack("<I4", value))
end
local function texts(name, list)
   local out = {}
   for i, s in ipairs(list) do
      out[i] = text(s)
   end
   return key(name, 9, pack("<I4i8", 8, #list) .. table.concat(out))
end

--- edit.keys: further keys; edit.tensor = { name, at =, type =, dims =, name = , data = } changes one tensor;
--- edit.n_tensors, edit.n_keys, edit.version: what the header claims; edit.cut: bytes off the end.
local function gguf(edit)
   local keys = {
      key("general.architecture", 8, text("llama")), u32("llama.block_count", 1), u32("llama.context_length", 64),
      u32("llama.embedding_length", width), u32("llama.feed_forward_length", width), u32("llama.attention.head_count", 4),
      key("llama.attention.layer_norm_rms_epsilon", 6, pack("<f", 1e-5)),
   }
   table.move(edit.keys or {}, 1, #(edit.keys or {}), #keys + 1, keys)
   local tensors, data, offset = {}, {}, 0
   for i, shape in ipairs(shapes) do
      local changed = edit.tensor and edit.tensor[1] == shape[1] and edit.tensor or {}
      local dims, count = changed.dims or shape[2], shape[2][1] * (shape[2][2] or 1)
      tensors[i] = text((changed.name or shape[1]) .. ".weight") .. pack("<I4", #dims)
      for _, side in ipairs(dims) do
         tensors[i] = tensors[i] .. pack("<i8", side)
      end
      tensors[i] = tensors[i] .. pack("<I4i8", changed.type or 0, changed.at or offset)
      data[i] = changed.data or floats(0.01, count)
      offset = offset + 4 * count
   end
   local head = "GGUF" .. pack("<I4i8i8", edit.version or 3, edit.n_tensors or #tensors, edit.n_keys or #keys)
      .. table.concat(keys) .. table.concat(tensors)
   local file = head .. ("\0"):rep(-#head % 32) .. table.concat(data)
   save(gguf_path, file:sub(1, #file - (edit.cut or 0)))
end

local function vocabulary(...)
   local list = {}
   for i = 1, 16 do
      list[i] = "t" .. i
   end
   return { key("tokenizer.ggml.model", 8, text("gpt2")), key("tokenizer.ggml.pre", 8, text("gpt-2")),
      texts("tokenizer.ggml.tokens", list), ... }
end
local q = "blk.0.attn_q"
for _, case in ipairs {
   { { cut = 100 }, "format", "\"blk.0.ffn_down.weight\"", "32064", "31964" },
   { { cut = 31900 }, "format", "11 tensors", "164 bytes" },
   { { n_tensors = 1 << 60 }, "format", "1152921504606846976 tensors" },
   { { n_keys = 1 << 60 }, "format", "1152921504606846976 keys" },
   { { version = 1 }, "unsupported", "version 1" },
   { { keys = { pack("<i8", math.mininteger) .. "abc" } }, "format", "the name of a key" },
   { { keys = { text("k") .. pack("<I4i8", 8, 1 << 60) } }, "format", "the value of key \"k\"" },
   { { keys = { key("tokenizer.ggml.tokens", 9, pack("<I4i8", 8, 1 << 60)) } }, "format", "\"tokenizer.ggml.tokens\"" },
   { { keys = { key("k", 9, pack("<I4i8I4i8", 9, 1, 4, 0)) } }, "unsupported", "\"k\"", "array of arrays" },
   { { keys = { key("k", 77, none) } }, "format", "\"k\"", "77" },
   { { keys = { u32("llama.block_count", 1) } }, "format", "\"llama.block_count\" occurs twice" },
   { { keys = { u32("general.alignment", 3) } }, "format", "\"general.alignment\"", "3" },
   { { tensor = { q, at = 1 << 40 } }, "format", "\"blk.0.attn_q.weight\"", "1099511632832" },
   { { tensor = { q, at = -32 } }, "format", "\"blk.0.attn_q.weight\"", "18446744073709551584" },
   { { tensor = { q, at = 7 } }, "format", "\"blk.0.attn_q.weight\"", "7" },
   { { tensor = { q, at = 0 } }, "format", "\"token_embd.weight\" and \"blk.0.attn_q.weight\" overlap" },
   { { tensor = { q, name = "blk.0.attn_k" } }, "format", "\"blk.0.attn_k.weight\" occurs twice" },
   { { tensor = { q, name = "blk.0.attn_x" } }, "unsupported", "\"blk.0.attn_x.weight\"" },
   { { tensor = { q, dims = { 1 << 33, 1 << 33 } } }, "format", "\"blk.0.attn_q.weight\"", "8589934592" },
   { { tensor = { q, dims = { 0, 32 } } }, "format", "\"blk.0.attn_q.weight\"", "dimension 0" },
   { { tensor = { q, dims = { 1, 1, 1, 1, 1, 1, 1, 1, 1 } } }, "format", "\"blk.0.attn_q.weight\"", "9" },
   { { tensor = { q, dims = { 16, 64 } } }, "format", "\"blk.0.attn_q.weight\" has shape [64, 16], expected [32, 32]" },
   { { tensor = { q, type = 99 } }, "unsupported", "\"blk.0.attn_q.weight\"", "99", "Q6_K" },
   { { tensor = { q, type = 1 } }, "format", "\"blk.0.attn_q.weight\"", "a hole of 2048 bytes" },
   { { tensor = { q, data = floats(0.01, 33) .. floats(0 / 0, 991) } }, "format",
      "\"blk.0.attn_q.weight\" has value nan at row 1, column 1" },
   { { tensor = { "blk.0.ffn_norm", data = floats(1 / 0, 32) } }, "format", "\"blk.0.ffn_norm.weight\" has value inf at 0" },
   { { keys = vocabulary() }, "format", "\"tokenizer.ggml.merges\"" },
   { { keys = vocabulary(texts("tokenizer.ggml.merges", { "t1 t99" })) }, "format", "tokenizer.ggml.merges", "\"t1 t99\"" },
   { { keys = vocabulary(texts("tokenizer.ggml.merges", {}), u32("tokenizer.ggml.eos_token_id", 99)) }, "format",
      "\"tokenizer.ggml.eos_token_id\" is 99" },
} do
   gguf(case[1])
   refused(gguf_path, case[2], table.move(case, 3, #case, 1, {}))
end
gguf {}
check.equal(cop.model({ path = gguf_path, threads = 1 }).vocab_size, 16)
os.remove(gguf_path)

-- ---- Folders ---------------------------------------------------------------------------------------

local q_proj = "model.layers.0.self_attn.q_proj.weight"
local weights = {
   { "model.embed_tokens.weight", 16 }, { "model.norm.weight" }, { "lm_head.weight", 16 },
   { "model.layers.0.input_layernorm.weight" }, { q_proj, 32 }, { "model.layers.0.self_attn.k_proj.weight", 32 },
   { "model.layers.0.self_attn.v_proj.weight", 32 }, { "model.layers.0.self_attn.o_proj.weight", 32 },
   { "model.layers.0.post_attention_layernorm.weight" }, { "model.layers.0.mlp.gate_proj.weight", 32 },
   { "model.layers.0.mlp.up_proj.weight", 32 }, { "model.layers.0.mlp.down_proj.weight", 32 },
}

--- edit.q: what is written of one tensor; edit.length: of the header; edit.tail: bytes behind the data.
local function safetensors(edit)
   local rows, data, offset = {}, {}, 0
   for i, weight in ipairs(weights) do
      local changed = weight[1] == q_proj and edit.q or {}
      local count = (weight[2] or 1) * width
      rows[i] = ("%q:{\"dtype\":%q,\"shape\":%s,\"data_offsets\":%s}"):format(changed.name or weight[1], changed.dtype or "F32",
         changed.shape or weight[2] and ("[%d,%d]"):format(weight[2], width) or "[32]",
         changed.offsets or ("[%d,%d]"):format(offset, offset + 4 * count))
      data[i] = changed.data or floats(0.01, count)
      offset = offset + 4 * count
   end
   local head = "{" .. table.concat(rows, ",") .. "}"
   return pack("<i8", edit.length or #head) .. head .. table.concat(data) .. (edit.tail or "")
end

local config = "{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
   .. "\"intermediate_size\":32,\"vocab_size\":16%s}"
local tokenizer = "{\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":%s}}"
local pieces = "{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3}"

local function write(edit)
   save(folder .. "/config.json", edit.config or config:format(edit.extra or ""))
   save(folder .. "/model.safetensors", edit.file or safetensors(edit))
   save(folder .. "/tokenizer.json", tokenizer:format(edit.vocab or pieces, edit.merges or "[]"))
end

for _, case in ipairs {
   { { length = 1 << 60 }, "format", "model.safetensors", "1152921504606846976" },
   { { length = -1 }, "format", "model.safetensors", "18446744073709551615" },
   { { file = safetensors({}):sub(1, -50) }, "format", "mlp.down_proj.weight", "33103" },
   { { file = "" }, "format", "model.safetensors", "0 bytes" },
   { { tail = "abc" }, "format", "3 bytes follow" },
   { { q = { offsets = "[8000,9999999]" } }, "format", q_proj, "[8000, 9999999)" },
   { { q = { offsets = "[9000,8000]" } }, "format", q_proj, "[9000, 8000)" },
   { { q = { offsets = "[18446744073709551615,18446744073709551616]" } }, "format", q_proj, "data_offsets" },
   { { q = { offsets = "[0,4096]" } }, "format", q_proj, "overlaps" },
   { { q = { dtype = "I64" } }, "format", q_proj, "I64", "8192" },
   { { q = { dtype = "F16" } }, "format", q_proj, "F16", "2048" },
   { { q = { dtype = "X9" } }, "unsupported", q_proj, "X9" },
   { { q = { shape = "[1152921504606846976,32]" } }, "format", q_proj, "shape" },
   { { q = { shape = "[64,16]" } }, "format", q_proj, "[64, 16], expected [32, 32]" },
   { { q = { name = "lm_head.weight" } }, "format", "lm_head.weight", "twice" },
   { { q = { data = floats(0 / 0, 1024) } }, "format", q_proj, "nan at row 0, column 0" },
   { { config = "{\"model_type\":" }, "format", "config.json", "ends too early" },
   { { config = "[]" }, "format", "config.json" },
   { { extra = ",\"hidden_size\":1152921504606846976" }, "format", "config.json", "\"hidden_size\" is 1.15" },
   { { extra = ",\"hidden_size\":\"32\"" }, "format", "config.json", "\"hidden_size\" is \"32\"" },
   { { merges = "[\"a b\",\"ab a\",\"aba b\"]" }, "format", "tokenizer.json", "model.merges", "\"aba\" and \"b\"" },
   { { merges = "[\"a b\",[\"a\",\"b\"]]" }, "format", "model.merges", "merge 1", "twice" },
   { { merges = "[[\"a\",\"b\",\"a\"]]" }, "format", "model.merges", "merge 0" },
   { { vocab = "{\"a\":1152921504606846976}" }, "format", "model.vocab", "1152921504606846976" },
   { { vocab = "{\"a\":0,\"b\":0}" }, "format", "model.vocab", "\"a\" and \"b\"" },
   { { vocab = "{\"a\":0,\"b\":20}" }, "format", "21 tokens", "16" },
} do
   write(case[1])
   refused(folder, case[2], table.move(case, 3, #case, 1, {}))
end

-- Merges may be strings or pairs, and a folder's name may end with a slash.
write { merges = "[[\"a\",\"b\"],\"ab a\"]" }
local m = assert(cop.model { path = folder .. "/", threads = 1 })
check.list(m.tokenizer:encode("abaab"), { 3, 2 })
check.is(tostring(m):find(folder:match("[^/]*$"), 1, true), tostring(m))
m:close()
os.remove(folder .. "/config.json")
refused(folder, "io", { "config.json" })
os.execute("rm -r " .. folder)
