--- cop.datastore: files of text or of ids become the datastore that cop.propose.retrieval looks n-grams up in.

local cop, core = ...

local options = {
   { "path", "string", required = true }, { "tokenizer", "tokenizer" }, { "files", "table" },
   { "tokens", "lists", min = 0, max = (1 << 21) - 1 }, { "vocab", "integer", min = 1, max = 1 << 21 },
}

--- cop.datastore { path =, tokenizer =, files = { "book.txt", "ids.u16" }, tokens = { { ids }, … }, vocab = } →
-- { path =, tokens =, vocab =, bytes =, seconds = }. Texts are encoded as they are and follow one another;
-- names that end in .u16 or .u32 are raw ids of two or four bytes. Without a tokenizer the datastore
-- fits every model whose vocabulary holds its ids.
function cop.datastore(given)
   local o = core.options("cop.datastore", given, options)
   if not o.files and not o.tokens then
      core.raise("cop.datastore: needs files or tokens")
   elseif o.tokenizer and o.vocab then
      core.raise("cop.datastore: vocab is the tokenizer's where there is one")
   end
   for i, path in ipairs(o.files or {}) do
      if type(path) ~= "string" then
         core.raise(("cop.datastore: files[%d] must be a path, got a %s"):format(i, core.type(path)))
      end
   end
   local started = core.system.clock()
   local tokens, vocab, code = core.system.datastore(o.path, o.tokenizer, o.files or {}, o.tokens or {}, o.vocab)
   if not tokens then
      return nil, vocab, code
   end
   local seconds = core.system.clock() - started
   local file = assert(io.open(o.path, "rb"))
   local bytes = file:seek("end")
   file:close()
   return { path = o.path, tokens = tokens, vocab = vocab, bytes = bytes, seconds = seconds }
end
