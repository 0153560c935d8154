--- cop.dataset: prompts from files.
--
-- Files are cut into records by dataset_text.lua and read by dataset_formats.lua; here they are
-- opened, checked against each other and chosen from. A bad record ends the reading: nil and a
-- message with the file, the line and the field.

local cop, core = ...

local files, formats = core.use("dataset_text"), core.use("dataset_formats")

local Dataset = {}
Dataset.__index = Dataset
Dataset.__name = "coppice.dataset"

local function file_name(path)
   return path:match("[^/]*$")
end

function Dataset:__tostring()
   local categories, count = {}, 0
   for _, item in ipairs(self) do
      if item.category and not categories[item.category] then
         categories[item.category] = true
         count = count + 1
      end
   end
   local tail = count > 0 and (", %d categories"):format(count) or ""
   if (self.skipped or 0) > 0 then
      tail = ("%s; %d records without a question left out"):format(tail, self.skipped)
   end
   return ("cop.dataset (%s: %d items%s)"):format(file_name(self.path or "list"), #self, tail)
end

local options = {
   { "path", "string", required = true },
   { "format", "choice", default = "auto",
     choices = "auto|spec_bench|mt_bench|eagle|gsm8k|humaneval|multiple_choice|sharegpt|alpaca|jsonl|text" },
   { "field", "string" },
   { "fields", "table" },
   { "chat", "boolean" },
   { "duplicate_ids", "boolean", default = false },
   { "limit", "integer", min = 1, max = 1 << 30 },
   { "sample", "integer", min = 1, max = 1 << 30 },
   { "seed", "long", default = 0 },
   { "filter", "function" },
   { "turns", "any", default = "all" },
}

local field_options = {
   { "prompt", "string" }, { "id", "string" }, { "category", "string" }, { "reference", "string" },
   { "system", "string" },
}

local function is_text_list(value)
   if type(value) ~= "table" or #value == 0 then
      return false
   end
   for _, entry in ipairs(value) do
      if type(entry) ~= "string" then
         return false
      end
   end
   return true
end

-- ---- Options -------------------------------------------------------------------------------------

--- How many turns: "all", "first" or a number, as a number.
local function turn_count(value)
   local count = value == "all" and math.maxinteger or value == "first" and 1
      or type(value) == "number" and math.tointeger(value)
   if not count or count < 1 then
      core.raise(("cop.dataset: option \"turns\" must be \"all\", \"first\" or how many, got %s")
         :format(tostring(value)))
   end
   return count
end

local function read_options(given)
   local o = core.options("cop.dataset", given, options)
   if (o.field or o.fields) and o.format ~= "auto" and o.format ~= "jsonl" then
      core.raise(("cop.dataset: field names are for format \"jsonl\", not \"%s\""):format(o.format))
   elseif o.field and o.fields then
      core.raise("cop.dataset: give field or fields, not both")
   elseif o.fields then
      o.fields = core.options("cop.dataset: fields", o.fields, field_options)
   elseif o.field then
      o.fields = { prompt = o.field }
   end
   o.turns = turn_count(o.turns)
   return o
end

-- ---- Reading -------------------------------------------------------------------------------------

--- Whether a file of any format is plain text: its name says so, or no name says anything and it
-- does not begin as JSON does. (A broken first line does not make prompts of a file of JSON.)
local function is_plain(bytes, o)
   if o.format ~= "auto" or o.fields then
      return o.format == "text"
   end
   local ending = (o.path:match("%.(%w+)$") or ""):lower()
   local is_json = bytes:find("^%s*%[?%s*{%s*\"") ~= nil
   return not is_json and not ending:find("^json") and ending ~= "ndjson"
end

--- Ids are what answers of different runs are matched by: one that comes twice is refused.
local function claim(item, line, lines)
   local before = item.id ~= nil and lines[item.id]
   if before then
      return nil, ("field \"%s\": %s is the id of line %d already (duplicate_ids = true takes both)")
         :format(item.id_field, tostring(item.id), before)
   elseif item.id ~= nil then
      lines[item.id] = line
   end
   return true
end

local function read_record(text, o, reading)
   if reading.is_plain then
      return formats.read_plain(text)
   end
   local item, problem = formats.read(text, reading)
   if item and not o.duplicate_ids then
      local ok, taken = claim(item, reading.line, reading.lines)
      if not ok then
         return nil, taken
      end
   end
   return item, problem
end

--- → items, reading { format =, skipped = } | nil, message
local function read_items(bytes, o)
   local items, skipped = {}, 0
   local reading = { is_plain = is_plain(bytes, o), lines = {}, fields = o.fields, chat = o.chat,
      format = formats.by_name[o.fields and "jsonl" or o.format] }
   for line, text, problem in files.records(bytes, reading.is_plain) do
      local item
      reading.line = line
      if text then
         item, problem = read_record(text, o, reading)
      end
      if item == nil then
         local is_text = not (text or "{"):find("^%s*[{%[]")
         local hint = o.format == "auto" and not reading.is_plain and not o.fields and #items + skipped == 0 and is_text
            and " (format = \"text\" takes every line as a prompt)" or ""
         return nil, ("cop.dataset: %s, line %d: %s%s"):format(o.path, line, problem, hint)
      elseif item then
         item.index, item.line, item.id_field = #items + 1, line, nil
         if item.chat == nil then
            item.chat = o.chat
         end
         items[#items + 1] = item
      else
         skipped = skipped + 1
      end
   end
   if #items == 0 then
      return nil, ("cop.dataset: \"%s\" holds no records"):format(o.path)
   end
   return items, { format = reading.is_plain and "text" or reading.format.name, skipped = skipped }
end

-- ---- Choosing ------------------------------------------------------------------------------------

local function filtered(items, filter)
   local kept = {}
   for _, item in ipairs(items) do
      if filter(item) then
         kept[#kept + 1] = item
      end
   end
   return kept
end

--- A sample without replacement that stays in the file's order: each item gets a coin named by
-- (seed, its index), and the lowest coins win.
local function sampled(items, count, seed)
   local coins = {}
   for i, item in ipairs(items) do
      local words = cop.philox({ item.index, 0, 0, 0 }, { seed & 0xffffffff, seed >> 32 })
      coins[i] = { at = i, coin = words[1] << 21 ~ words[2] }
   end
   table.sort(coins, function(a, b) return a.coin < b.coin or (a.coin == b.coin and a.at < b.at) end)
   local wins = {}
   for i = 1, math.min(count, #coins) do
      wins[coins[i].at] = true
   end
   local at = 0
   return filtered(items, function()
      at = at + 1
      return wins[at]
   end)
end

local function choose(items, o)
   if o.filter then
      items = filtered(items, o.filter)
   end
   if o.sample then
      items = sampled(items, o.sample, o.seed)
   end
   if o.limit then
      items = table.move(items, 1, math.min(o.limit, #items), 1, {})
   end
   for _, item in ipairs(items) do
      item.turns = table.move(item.turns, 1, math.min(#item.turns, o.turns), 1, {})
   end
   return items
end

--- cop.dataset { path =, format = "auto", … } → list of items (dataset_formats.lua says what they hold)
--
-- index counts the file's records from 1 and stays the same whatever is chosen. In this order:
-- filter = function(item), sample = how many by seed, limit = the first so many, turns = "all",
-- "first" or how many. field = "name" of the prompt, or fields = { prompt =, id =, category =,
-- reference =, system = }, for JSON lines of any kind. chat = false: prompts are continued as they
-- stand; HumanEval's are unless chat = true.
function cop.dataset(given)
   local o = read_options(given)
   local bytes, problem, code = files.read(o.path)
   if not bytes then
      return nil, problem, code
   end
   local items, found = read_items(bytes, o)
   if not items then
      return nil, found, "format"
   end
   local chosen = choose(items, o)
   if #chosen == 0 then
      return nil, ("cop.dataset: nothing of \"%s\" is left after the filter"):format(o.path), "argument"
   end
   chosen.path, chosen.sha256, chosen.records = o.path, core.system.hash(bytes), #items
   chosen.format, chosen.skipped = found.format, found.skipped
   return setmetatable(chosen, Dataset)
end

--- Whether its items are records of one file still, each with a number of its own: a script may have put others to
-- them, and answers are kept by number.
local function is_whole(dataset)
   local seen = {}
   for _, item in ipairs(dataset) do
      local index = type(item) == "table" and math.type(item.index) == "integer" and item.index
      if not index or index < 1 or index > dataset.records or seen[index] or not is_text_list(item.turns) then
         return false
      end
      seen[index] = true
   end
   return #dataset > 0
end

--- What cop.experiment takes as prompts: a dataset, or a list of texts or items, which are numbered from 1.
function core.as_dataset(value)
   if getmetatable(value) == Dataset and is_whole(value) then
      return value
   end
   if type(value) ~= "table" or #value == 0 then
      return nil
   end
   local items = {}
   for i, entry in ipairs(value) do
      local turns = type(entry) == "string" and { entry } or type(entry) == "table" and entry.turns
      if not is_text_list(turns) then
         return nil
      end
      local from = type(entry) == "table" and entry or {}
      items[i] = { index = i, id = from.id, category = from.category, turns = turns, reference = from.reference,
         system = from.system, chat = from.chat }
   end
   items.sha256 = core.system.hash(core.system.json.encode(items))
   for i, item in ipairs(items) do -- for filters and measures, as with the fields of a file's records
      for key, field in pairs(type(value[i]) == "table" and value[i] or {}) do
         item[key] = item[key] == nil and field or item[key]
      end
   end
   items.records = #items
   return setmetatable(items, Dataset)
end
