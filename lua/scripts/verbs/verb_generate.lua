--- coppice generate: streams one answer; on a terminal the colour of a token says at which drafted
-- depth it came.

local cop, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = cli.with_model {
   { name = "proposer", type = "string", value = "NAME", help = "drafts without a model: lookup" },
   { name = "draft", type = "string", value = "PATH", help = "drafts with this model" },
   { name = "depth", type = "integer", value = "N", help = "drafted tokens a cycle" },
   { name = "temperature", type = "number", value = "T", help = "0: the best token (default)" },
   { name = "top-k", type = "integer", value = "K", help = "only the K best tokens" },
   { name = "top-p", type = "number", value = "P", help = "only the most probable tokens with mass P" },
   { name = "min-p", type = "number", value = "P", help = "only tokens with P times the best one's probability" },
   { name = "repetition-penalty", type = "number", value = "R", help = "on tokens of prompt and answer; 1: off" },
   { name = "presence-penalty", type = "number", value = "F", help = "on tokens that the answer has" },
   { name = "frequency-penalty", type = "number", value = "F", help = "times their count in the answer" },
   { name = "max-tokens", type = "integer", value = "N", help = "default 128" },
   { name = "seed", type = "integer", value = "N", help = "of the coins, default 0" },
   { name = "raw", type = "flag", help = "the prompt as it stands, without the chat template" },
   { name = "color", type = "flag", help = "colours, also when it is not a terminal; --no-color: never" },
}

-- Colours of the 256-colour palette by drafted depth: from green to blue to violet.
local palette = { 34, 36, 38, 32, 33, 63, 99, 129 }

local function painted(text, depth)
   if depth == 0 or text == "" then
      return text
   end
   return ("\27[38;5;%dm%s\27[0m"):format(palette[math.min(depth, #palette)], text)
end

--- Text arrives when it may be shown, tokens when they are decided: the bytes of the tokens wait in a
-- queue with their depth and colour the text as it comes.
local function painter(tokenizer)
   local queue, first = {}, 1
   return function(text, info)
      for i, id in ipairs(info.tokens or {}) do
         queue[#queue + 1] = { left = #(tokenizer:piece(id) or ""), depth = info.depths and info.depths[i] or 0 }
      end
      local out, at = {}, 1
      while at <= #text do
         local head = queue[first]
         local take = head and math.min(head.left, #text - at + 1) or #text - at + 1
         out[#out + 1] = painted(text:sub(at, at + take - 1), head and head.depth or 0)
         at = at + take
         if head then
            head.left = head.left - take
            first = head.left == 0 and first + 1 or first
         end
      end
      io.stdout:write(table.concat(out))
      io.stdout:flush()
   end
end

local function plain_writer(text)
   io.stdout:write(text)
   io.stdout:flush()
end

local function proposer_of(o)
   if o.draft and o.proposer then
      cli.fail("coppice generate: --draft and --proposer exclude each other")
   elseif o.draft then
      return cop.propose.model { cli.open_model("generate", { threads = o.threads }, o.draft) }
   elseif o.proposer == "lookup" then
      return cop.propose.lookup {}
   elseif o.proposer then
      cli.fail("coppice generate: --proposer %s needs a script; here: lookup, or --draft PATH", o.proposer)
   end
end

local function report(r)
   io.stderr:write(("\n[%d tokens (%s), %d passes, block efficiency %.2f, %.1f tokens/s, prefill %.2f s]\n"):format(
      #r.tokens, r.finish, r.forward_passes, r.block_efficiency or 1, #r.tokens / math.max(r.seconds, 1e-9),
      r.prefill_seconds))
end

function verb.main(words)
   local o = cli.parse("generate", words, verb.specs)
   local prompt = table.concat(o, " ")
   if prompt == "" then
      cli.fail("coppice generate: the prompt is missing")
   end
   local model = cli.open_model("generate", o)
   local colored = o.color
   if colored == nil then
      colored = core.system.is_terminal("stdout")
   end
   local asked = core.with_processing({
      model = model, proposer = proposer_of(o), temperature = o.temperature, top_k = o.top_k, top_p = o.top_p,
      min_p = o.min_p, max_tokens = o.max_tokens, seed = o.seed,
      tree = o.depth and cop.tree.chain { depth = o.depth } or nil,
      on_token = colored and painter(model.tokenizer) or plain_writer,
   }, o)
   if o.raw then
      asked.prompt = prompt
   else
      asked.messages = { { role = "user", content = prompt } }
   end
   core.system.catch(true)
   local r, problem, code = cop.generate(asked)
   local stopped = core.system.catch(false)
   if not r then
      if code == "cancelled" or stopped then
         return 130
      end
      error(problem, 0)
   end
   report(r)
   return stopped and 130 or r.finish == "error" and 1 or 0
end

return verb
