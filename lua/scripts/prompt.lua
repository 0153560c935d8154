--- A dataset's item and the answers so far, as the ids that the model reads.

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
   return tokenizer:encode(table.concat(messages, "\n"), { bos = true })
end

return prompt
