--- cop.dataset: prompts from files, one record a line.
--
-- A record ends at "\n" and nowhere else; "\r" before it, a byte order mark at the start, blank
-- lines and a missing last line end are taken in stride. A bad line ends the reading: nil and a
-- message with the file and the line.

local cop, core = ...

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
   return ("cop.dataset (%s: %d items%s)"):format(file_name(self.path or "list"), #self, tail)
end

local options = {
   { "path", "string", required = true },
   { "format", "choice", choices = "auto|spec_bench|mt_bench|jsonl|text", default = "auto" },
   { "field", "string" },
   { "limit", "integer", min = 1, max = 1 << 30 },
   { "sample", "integer", min = 1, max = 1 << 30 },
   { "seed", "long", default = 0 },
   { "filter", "function" },
   { "turns", "choice", choices = "all|first", default = "all" },
}

-- ---- Lines ---------------------------------------------------------------------------------------

local function read_file(path)
   if core.system.kind(path) == "folder" then
      return nil, ("cop.dataset: \"%s\" is a folder"):format(path)
   end
   local file, reason = io.open(path, "rb")
   if not file then
      return nil, "cop.dataset: cannot open " .. reason
   end
   local text, broken = file:read("a")
   file:close()
   if not text then
      return nil, ("cop.dataset: cannot read \"%s\": %s"):format(path, tostring(broken))
   end
   return (text:gsub("^\xEF\xBB\xBF", ""))
end

--- Iterates over the number and the text of every line that is not blank.
local function lines(text)
   local at, number = 1, 0
   return function()
      while at <= #text do
         local stop = text:find("\n", at, true) or #text + 1
         local line = text:sub(at, stop - 1):gsub("\r$", "")
         at, number = stop + 1, number + 1
         if line:find("[^ \t]") then
            return number, line
         end
      end
   end
end

-- ---- Records -------------------------------------------------------------------------------------

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

local function scalar(value)
   local kind = type(value)
   return (kind == "string" or kind == "number") and value or nil
end

local function field_names(record)
   local names = {}
   for name in pairs(record) do
      names[#names + 1] = name
   end
   table.sort(names)
   return table.concat(names, ", ")
end

--- The shape of Spec-Bench and MT-bench: question_id, category, turns, reference.
local function from_turns(record)
   if not is_text_list(record.turns) then
      return nil, "\"turns\" must be a list of strings"
   end
   return {
      id = scalar(record.question_id) or scalar(record.id), category = scalar(record.category),
      turns = record.turns, reference = record.reference,
   }
end

local function from_field(record, field)
   if type(record[field]) ~= "string" then
      return nil, ("no text in field \"%s\" (fields: %s)"):format(field, field_names(record))
   end
   return {
      id = scalar(record.id) or scalar(record.question_id), category = scalar(record.category),
      turns = { record[field] }, reference = record.reference,
   }
end

local usual_fields = { "prompt", "text", "question", "instruction" }

local function from_record(record, o)
   if type(record) ~= "table" or #record > 0 then
      return nil, "a record must be an object"
   end
   local has_turns = o.format == "spec_bench" or o.format == "mt_bench"
   if has_turns or (o.format == "auto" and not o.field and record.turns) then
      return from_turns(record)
   elseif o.field then
      return from_field(record, o.field)
   end
   for _, field in ipairs(usual_fields) do
      if type(record[field]) == "string" then
         return from_field(record, field)
      end
   end
   return nil, ("which field holds the prompt? give field= (fields: %s)"):format(field_names(record))
end

local function parse_line(line, o)
   if o.format == "text" then
      return { turns = { line } }
   end
   local record, problem = core.system.json.decode(line)
   if record == nil then
      return nil, problem
   end
   return from_record(record, o)
end

local function read_items(text, o)
   local items = {}
   for number, line in lines(text) do
      local item, problem = parse_line(line, o)
      if not item then
         return nil, ("cop.dataset: %s, line %d: %s"):format(o.path, number, problem)
      end
      item.index, item.line = #items + 1, number
      items[#items + 1] = item
   end
   if #items == 0 then
      return nil, ("cop.dataset: \"%s\" holds no records"):format(o.path)
   end
   return items
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
   if o.turns == "first" then
      for _, item in ipairs(items) do
         item.turns = { item.turns[1] }
      end
   end
   return items
end

--- cop.dataset { path =, … } → list of { index =, id =, category =, turns = { text, … }, reference = }
-- index counts the file's records from 1 and stays the same whatever is chosen.
function cop.dataset(given)
   local o = core.options("cop.dataset", given, options)
   local text, problem = read_file(o.path)
   if not text then
      return nil, problem, "io"
   end
   local items
   items, problem = read_items(text, o)
   if not items then
      return nil, problem, "format"
   end
   local chosen = choose(items, o)
   if #chosen == 0 then
      return nil, ("cop.dataset: nothing of \"%s\" is left after the filter"):format(o.path), "argument"
   end
   chosen.path, chosen.sha256, chosen.records = o.path, core.system.hash(text), #items
   return setmetatable(chosen, Dataset)
end

--- What cop.experiment takes as prompts: a dataset, or a list of texts or items.
function core.as_dataset(value)
   if getmetatable(value) == Dataset then
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
      items[i] = { index = i, id = from.id, category = from.category, turns = turns, reference = from.reference }
   end
   items.sha256 = core.system.hash(core.system.json.encode(items))
   items.records = #items
   return setmetatable(items, Dataset)
end
