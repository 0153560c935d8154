--- Multiple choice: which letter an answer gives. cop.quality.choice_answer and the measure multiple_choice.

local cop, core = ...

local choice = {}

local function letters(n)
   local list = {}
   for i = 1, n do
      list[i] = string.char(64 + i)
   end
   return list
end

--- Labels as a list: of a list of labels, or the first n letters.
local function labels_of(owner, labels)
   if math.tointeger(labels) and labels >= 2 and labels <= 26 then
      return letters(labels)
   elseif type(labels) == "table" and #labels >= 2 then
      for i, label in ipairs(labels) do
         if type(label) ~= "string" or label == "" then
            core.raise(("%s: labels[%d] must be a text, got a %s"):format(owner, i, core.type(label)))
         end
      end
      return labels
   end
   core.raise(("%s: labels must be a list of at least two texts, or how many letters (2 to 26), got %s"):format(owner,
      core.type(labels)))
end

local quotes = "[%s%(%*_\"'`]*"

--- "answer is (B)", "Answer: **B**", "option B": the last such place says it.
local function announced(text, is_label)
   local lower = text:lower()
   for _, words in ipairs { "answer%s+is%s*:?", "answer%s*:", "option%s", "choice%s" } do
      local found
      for from, to in lower:gmatch(words .. quotes .. "()%w+()") do
         local word = text:sub(from, to - 1)
         found = is_label[word] and word or found
      end
      if found then
         return found
      end
   end
end

--- The first word, when it stands alone in its line or before one of . ) : ,
local function leading(text, is_label)
   local word, rest = text:match("^" .. quotes .. "(%w+)([^\n]*)")
   rest = (rest or ""):gsub("[%*_\"'`]", "")
   return is_label[word] and (rest:find("^%s*$") or rest:find("^[%.%):,]")) and word or nil
end

--- The last label that is a word of its own: in brackets, else anywhere but for the "A" or "I" of a sentence.
local function standing(text, is_label)
   local in_brackets, alone
   for word in text:gmatch("%(%s*(%w+)%s*%)") do
      in_brackets = is_label[word] and word or in_brackets
   end
   for word, to in text:gmatch("%f[%w](%w+)()") do
      local is_word = (word == "A" or word == "I") and text:find("^[ '][%l']", to)
      alone = is_label[word] and not is_word and word or alone
   end
   return in_brackets or alone
end

--- The label that an answer gives, or nil: where it says "answer is …", else its first word; how = "flexible"
-- (the default) also takes the last label that stands alone, "strict" does not. labels: a list, or how many letters.
function cop.quality.choice_answer(text, labels, how)
   local owner, is_label = "cop.quality.choice_answer", {}
   if type(text) ~= "string" then
      core.raise(("%s: the answer must be a text, got a %s"):format(owner, core.type(text)))
   elseif how ~= nil and how ~= "strict" and how ~= "flexible" then
      core.raise(("%s: the third argument must be \"strict\" or \"flexible\", got %s"):format(owner, tostring(how)))
   end
   for _, label in ipairs(labels_of(owner, labels)) do
      is_label[label] = true
   end
   return announced(text, is_label) or leading(text, is_label)
      or how ~= "strict" and standing(text, is_label) or nil
end

--- Whether an item can be measured: labels and the right one, as the format "multiple_choice" reads them.
function choice.is_choice(item)
   return type(item.labels) == "table" and #item.labels >= 2 and type(item.answer) == "string"
end

--- The measure multiple_choice.
function choice.measure(item, answer)
   if not choice.is_choice(item) then
      return nil
   end
   return cop.quality.choice_answer(answer.text, item.labels) == item.answer
end

return choice
