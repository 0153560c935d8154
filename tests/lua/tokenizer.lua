--- cop.tokenizer: every byte survives, ids are checked, chat.

-- luacheck: no max line length

local check, test = ...
local cop = require("coppice")

local path = test.tiny { seed = 7, vocab = 263, tokenizer = true }
local tok = cop.tokenizer { path = path }

check.equal(tok.size, 263)
check.equal(tok.bos, 257)
check.list(tok.eos, { 258, 256 })
check.equal(tok.nothing, nil)
check.equal(tostring(tok), "cop.tokenizer (263 pieces)")

-- Text with zero bytes, and every single byte.
check.list(tok:encode("a\0b"), { 97, 0, 98 })
check.equal(tok:decode { 97, 0, 98 }, "a\0b")
check.equal(tok:piece(0), "\0")
for byte = 0, 127 do
   local text = string.char(byte)
   check.equal(tok:decode(tok:encode(text)), text, "byte " .. byte)
end
check.equal(tok:decode(tok:encode("€ in the water")), "€ in the water")
check.list(tok:encode(""), {})
check.equal(tok:decode {}, "")
check.equal(math.type(tok:encode("a")[1]), "integer")

-- Special tokens.
check.equal(#tok:encode("<|im_end|>"), 10)
check.list(tok:encode("<|im_end|>", { special = true }), { 258 })
check.list(tok:encode("a", { bos = true }), { 257, 97 })
check.equal(tok:decode { 97, 258 }, "a<|im_end|>")
check.equal(tok:decode({ 97, 258 }, { special = false }), "a")
check.equal(tok:id("<|im_end|>"), 258)
check.equal(tok:id("no such piece"), nil)

-- What is wrong is said.
check.raises("tokenizer:decode: token id 2 of the list must be an integer from 0 to 262, got 263", function() return tok:decode { 1, 263 } end)
check.raises("tokenizer:decode: token id 1 of the list must be an integer from 0 to 262, got -1", function() return tok:decode { -1 } end)
check.raises("tokenizer:decode: token id 1 of the list must be an integer from 0 to 262, got 1.5", function() return tok:decode { 1.5 } end)
check.equal(tok:decode { 97.0 }, "a")
check.raises("tokenizer:decode: expected a list of token ids, got \"a\"", function() return tok:decode("a") end)
check.raises("tokenizer:decode: expected a list of token ids, got nothing", function() return tok:decode() end)
check.raises("tokenizer:piece: the token id must be an integer from 0 to 262, got 263", function() return tok:piece(263) end)
check.raises("tokenizer:encode: the text must be a string, got nothing", function() return tok:encode() end)
check.raises("tokenizer:encode: the text must be a string, got 5", function() return tok:encode(5) end)
check.raises("tokenizer:encode: unknown option \"specials\"; did you mean \"special\"? (known: special, bos)", function()
   return tok:encode("a", { specials = true })
end)
check.raises("tokenizer:encode: option \"special\" must be true or false, got 1", function()
   return tok:encode("a", { special = 1 })
end)
check.raises("tokenizer:encode: options must be a table, got true", function() return tok:encode("a", true) end)
check.raises("tokenizer:encode: 2 arguments at most, got 4", function() return tok:encode("a", {}, 1, 2) end)

-- Chat: the text, and its ids with control tokens.
local messages = { { role = "system", content = "S" }, { role = "user", content = "Hi" } }
local text, ids = tok:chat(messages, { generation = true })
check.equal(text, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
check.list(ids, tok:encode(text, { special = true }))
check.equal(ids[1], 257)
check.raises("tokenizer:chat: content of message 1 must be a string, got nothing", function() tok:chat { { role = "user" } } end)
check.raises("tokenizer:chat: unknown key of a message: \"contents\"; did you mean \"content\"? (known: role, content)", function()
   tok:chat { { role = "user", contents = "x" } }
end)
check.raises("tokenizer:chat: message 1 must be { role =, content = }, got \"x\"", function() tok:chat { "x" } end)
check.raises("tokenizer:chat: no message to render", function() tok:chat {} end)
check.raises_with("role", function() tok:chat { { role = "wizard", content = "x" } } end)

-- Opening.
check.fails("io", "cop.tokenizer: ", cop.tokenizer { path = "nowhere.gguf" })
check.fails("format", "", cop.tokenizer { path = "tests/lua/helper.lua" })
check.fails("format", "no tokenizer", cop.tokenizer { path = test.tiny { seed = 1 } })
check.raises("cop.tokenizer: option \"path\" is required: a string", function() return cop.tokenizer {} end)

-- Closing: twice is fine, later use is an error.
tok:close()
tok:close()
check.equal(tostring(tok), "cop.tokenizer (closed)")
check.raises("tokenizer:encode: this tokenizer is closed", function() return tok:encode("a") end)
check.raises("tokenizer: this tokenizer is closed", function() return tok.size end)
do
   local scoped <close> = cop.tokenizer { path = path }
   check.equal(scoped.size, 263)
end

-- A model's tokenizer is one object, with the model's own chat function.
local m = cop.model {
   path = path, threads = 1,
   chat = function(list, options) return ("%s %s %s"):format(list[1].content, tostring(options.generation), #list) end,
}
check.equal(m.tokenizer, m.tokenizer)
local own, own_ids = m.tokenizer:chat({ { role = "user", content = "x" } }, { generation = true })
check.equal(own, "x true 1")
check.list(own_ids, m.tokenizer:encode("x true 1"))
local kept = m.tokenizer
m:close()
collectgarbage()
check.equal(kept:decode { 104 }, "h")
