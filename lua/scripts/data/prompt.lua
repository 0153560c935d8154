--- A dataset's item and the answers so far, as the ids that the model reads.

local _, core = ...

local prompt = {}

--- texts: a conversation that ends with a question, { turn, answer, turn, … }. use_chat: whether it
-- goes through the model's chat template; an item may say that it is to be continued as it stands.
function prompt.ids(tokenizer, item, texts, use_chat)
   local messages = {}
   if item.system then
      messages[1] = { role = "system", content = item.system }
   end
   for i, text in ipairs(texts) do
      messages[#messages + 1] = { role = i % 2 == 1 and "user" or "assistant", content = text }
   end
   if use_chat and item.chat ~= false then
      return select(2, tokenizer:chat(messages, { generation = true }))
   end
   for i, message in ipairs(messages) do
      messages[i] = message.content
   end
   return tokenizer:encode(table.concat(messages, "\n"), { bos = tokenizer.adds_bos })
end

--- Whether prompts go through the target's chat template; without one they go in as they are.
function prompt.uses_chat(e)
   if not e.chat then
      return false
   end
   local text, problem = core.use("plan").try(e.target.tokenizer.chat, e.target.tokenizer,
      { { role = "user", content = "?" } }, { generation = true })
   return text ~= nil, problem
end

--- Prompts that no answer can follow, since a turn alone fills the context: a list of texts.
function prompt.too_long(e)
   local use_chat, limit, list = prompt.uses_chat(e), e.target.context, {}
   for _, item in ipairs(e.prompts) do
      for turn, text in ipairs(item.turns) do
         local n = #prompt.ids(e.target.tokenizer, item, { text }, use_chat)
         if n >= limit then
            list[#list + 1] = ("prompt %d%s%s has %d tokens"):format(item.index,
               item.id and (" (id %s)"):format(item.id) or "", turn > 1 and (", turn %d,"):format(turn) or "", n)
            break
         end
      end
   end
   return list
end

return prompt
