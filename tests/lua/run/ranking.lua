--- cop.ranking: ids by how often they occur, ends among them, lists made elsewhere, what is refused.

local check, test = ...
local cop = require("coppice")

local folder = test.folder()
local function write(name, bytes)
   local file = assert(io.open(folder .. "/" .. name, "wb"))
   file:write(bytes)
   file:close()
   return folder .. "/" .. name
end

local ids, share = cop.ranking { tokens = { { 5, 5, 3 }, { 9, 9, 1 } } }
check.list(ids, { 5, 9, 1, 3 })
check.near(share, 1)
ids, share = cop.ranking { tokens = { { 5, 5, 3, 9, 9, 1 } }, size = 3 }
check.list(ids, { 5, 9, 1 })
check.near(share, 5 / 6)
local raw = write("a.u16", string.pack("=I2I2I2", 3, 3, 3))
check.list(cop.ranking { files = { raw }, tokens = { { 5, 5, 3, 9 } }, size = 2 }, { 3, 5 })

-- Text: bytes are ids here; 256 and 258 end an answer and are kept whatever they count.
local model = assert(cop.model { path = test.tiny { seed = 7, vocab = 263, tokenizer = true }, threads = 1 })
local text = write("a.txt", "aaabbc")
check.list(cop.ranking { tokenizer = model.tokenizer, files = { text } }, { 97, 98, 99, 256, 258 })
check.list(cop.ranking { tokenizer = model.tokenizer, files = { text }, size = 3 }, { 97, 256, 258 })
check.list(cop.ranking { tokenizer = model.tokenizer, files = { text }, size = 1 }, { 256 })
check.list(cop.ranking { tokenizer = model.tokenizer, files = { text }, tokens = { { 258, 258, 258, 258 } }, size = 3 },
   { 258, 97, 256 })

-- Lists made elsewhere: JSON, and torch.save([7, 300, 2]).
check.list(cop.ranking { path = write("a.json", "[7, 300, 2]") }, { 7, 300, 2 })
check.list(cop.ranking { path = write("a.json", "[7, 300, 2]"), size = 2 }, { 7, 300 })
local function archive(name, data)
   local head = string.pack("<I2I2I2I4I4I4I4I2", 20, 0, 0, 0, 0, #data, #data, #name)
   local entry = "PK\3\4" .. head .. string.pack("<I2", 0) .. name .. data
   local directory = "PK\1\2" .. string.pack("<I2", 20) .. head
      .. string.pack("<I2I2I2I2I4I4", 0, 0, 0, 0, 0, 0) .. name
   return entry .. directory .. "PK\5\6" .. string.pack("<I2I2I2I2I4I4I2", 0, 0, 1, 1, #directory, #entry, 0)
end
local pickle = "\x80\2]q\0(K\7M\x2c\1K\2e."
check.list(cop.ranking { path = write("freq_3.pt", archive("freq_3/data.pkl", pickle)) }, { 7, 300, 2 })

check.fails("format", "a.json: is no list of token ids", cop.ranking { path = write("a.json", "[7, 0.5]") })
check.fails("format", "a.json: is no list of token ids", cop.ranking { path = write("a.json", "{\"a\": 1}") })
check.fails("format", "a.json: is no list of token ids", cop.ranking { path = write("a.json", "[") })
check.fails("io", "none.json", cop.ranking { path = folder .. "/none.json" })
check.fails("io", "none.pt", cop.ranking { path = folder .. "/none.pt" })
check.fails("format", "its zip directory is missing", cop.ranking { path = write("b.pt", "PK") })
check.fails("format", "names \"os.system\"",
   cop.ranking { path = write("c.pt", archive("c/data.pkl", "\x80\2cos\nsystem\n.")) })
check.fails("format", "holds neither a list of integers nor one tensor of them",
   cop.ranking { path = write("d.pt", archive("d/data.pkl", "\x80\2}.")) })
check.raises("cop.ranking: there are no tokens to count", function() return cop.ranking { tokens = { {} } } end)
check.raises_with("is text, which needs a tokenizer", cop.ranking, { files = { text } })
check.fails("io", "none.txt", cop.ranking { tokenizer = model.tokenizer, files = { folder .. "/none.txt" } })
check.raises("cop.ranking: needs files or tokens to count, or the path of a list made elsewhere", function()
   return cop.ranking {}
end)
check.raises("cop.ranking: needs files or tokens to count, or the path of a list made elsewhere", function()
   return cop.ranking { path = "a.json", tokens = { { 1 } } }
end)
check.raises("cop.ranking: files[1] must be a path, got a number", function()
   return cop.ranking { tokenizer = model.tokenizer, files = { 1 } }
end)
