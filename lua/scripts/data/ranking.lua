--- cop.ranking: the most frequent token ids of a corpus, best first, for the `vocabulary` of a drafter (FR-Spec).

local cop, core = ...

local options = {
   { "tokenizer", "tokenizer" }, { "files", "table" }, { "tokens", "lists", min = 0, max = (1 << 21) - 1 },
   { "path", "string" }, { "size", "integer", min = 1, max = 1 << 21, default = 1 << 21 },
}

-- A list that somebody else made: a file of torch.save (FR-Spec's freq_32768.pt), or a list in JSON.
local function stored(path)
   if not path:find("%.json$") then
      return core.system.torch_integers(path)
   end
   local file, message = io.open(path, "rb")
   if not file then
      return nil, message, "io"
   end
   local ok, list = pcall(core.system.json.decode, file:read("a"))
   file:close()
   for i = 1, ok and type(list) == "table" and math.max(#list, 1) or 1 do
      if not ok or type(list) ~= "table" or math.type(list[i]) ~= "integer" then
         return nil, path .. ": is no list of token ids", "format"
      end
   end
   return list
end

--- cop.ranking { tokenizer =, files = { "book.txt", "ids.u16" }, tokens = { { ids }, … }, size = 8192 } → ids, share:
-- up to `size` of the ids that occur, most frequent first (ties: lowest first), the ends of an answer among them,
-- and the share of the corpus that they are. cop.ranking { path = "freq_32768.pt" } → ids of a list made elsewhere.
function cop.ranking(given)
   local o = core.options("cop.ranking", given, options)
   if o.path and (o.files or o.tokens) or not (o.path or o.files or o.tokens) then
      core.raise("cop.ranking: needs files or tokens to count, or the path of a list made elsewhere")
   end
   for i, path in ipairs(o.files or {}) do
      if type(path) ~= "string" then
         core.raise(("cop.ranking: files[%d] must be a path, got a %s"):format(i, core.type(path)))
      end
   end
   if not o.path then
      return core.system.ranking(o.size, o.tokenizer, o.files or {}, o.tokens or {})
   end
   local list, message, code = stored(o.path)
   return list and table.move(list, 1, math.min(#list, o.size), 1, {}), message, code
end
