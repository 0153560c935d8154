--- The options that change logits, for whoever makes engines: cop.generate, arms, experiments.

local _, core = ...

core.processing_options = {
   { "repetition_penalty", "number", min = 0, max = 1e6,
      help = "on tokens of prompt and answer, as in transformers; 1: off" },
   { "presence_penalty", "number", min = -1e6, max = 1e6, help = "on tokens that the answer has, OpenAI's; 0: off" },
   { "frequency_penalty", "number", min = -1e6, max = 1e6, help = "times their count in the answer, OpenAI's; 0: off" },
   { "logit_bias", "table", help = "{ [id] = bias }; -math.huge: never" },
   { "banned", "table", help = "ids that are never chosen" },
   { "processor", "function", help = "function(prefix ids, row): changes row[id] in place" },
}

--- Copies these options from the tables given, the first that has one wins, into `into`.
function core.with_processing(into, ...)
   for _, row in ipairs(core.processing_options) do
      for _, from in ipairs { ... } do
         if into[row[1]] == nil then
            into[row[1]] = from[row[1]]
         end
      end
   end
   return into
end

--- Many words in a few: equal texts give equal words.
local function digest(text)
   local sum = 5381
   for i = 1, #text do
      sum = (sum * 33 ~ text:byte(i)) & 0xffffffff
   end
   return ("%08x"):format(sum)
end

local function bias_text(bias)
   local words = {}
   for id, value in pairs(bias) do
      words[#words + 1] = ("%s:%s"):format(id, value)
   end
   table.sort(words)
   local text = table.concat(words, ",")
   return #words <= 3 and text or ("%d tokens #%s"):format(#words, digest(text))
end

local function ids_text(ids)
   local text = table.concat(ids, ",")
   return #ids <= 6 and text or ("%d tokens #%s"):format(#ids, digest(text))
end

--- "repetition_penalty=1.2", …: what names a sampling besides temperature and truncation. Functions
-- are told apart by number, in the order in which they are first seen: `functions` remembers.
function core.processing_words(o, functions)
   local words = {}
   for _, row in ipairs(core.processing_options) do
      local name, value = row[1], o[row[1]]
      if name == "processor" and value then
         if not functions[value] then
            functions.count = (functions.count or 0) + 1
            functions[value] = functions.count
         end
         words[#words + 1] = functions[value] == 1 and name or ("%s %d"):format(name, functions[value])
      elseif type(value) == "table" then
         words[#words + 1] = ("%s=%s"):format(name, name == "banned" and ids_text(value) or bias_text(value))
      elseif value then
         words[#words + 1] = ("%s=%.6g"):format(name, value)
      end
   end
   return words
end
