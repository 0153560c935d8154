--- cop.train: heads and small models, trained on a target's own answers.

local cop, core = ...

local system = core.system

local spec = {
   { "head", "choice", choices = "medusa|hydra|mlp|eagle|model", required = true, help = "what is trained" },
   { "target", "model", required = true, help = "whose answers it is to guess" },
   { "out", "string", required = true, help = "the folder: config.json, tensors, the checkpoint" },
   { "from", "string", help = "a folder of such a head, whose weights it begins with" },
   { "data", "any", help = "a cop.dataset or its path, prompts, or lists of ids; absent: the target asks itself" },
   { "questions", "integer", min = 1, max = 1 << 30, help = "that the target asks itself; default 3000" },
   { "answers", "boolean", default = true, help = "the target answers the prompts; false: texts as they are" },
   { "chat", "boolean", default = true, help = "prompts go through the chat template" },
   { "temperature", "any", help = "of the answers, or several that take turns; default { 0, 1 }" },
   { "max_tokens", "integer", min = 1, max = 1 << 20, default = 160, help = "of an answer" },
   { "batch", "integer", min = 1, max = 256, default = 16, help = "answers made together" },
   { "cache", "string", help = "the file of training data; default data.train in the folder" },
   { "taps", "boolean", default = false, help = "training data for every head, EAGLE-3 too" },
   { "heads", "integer", min = 1, max = 16, help = "medusa 4, hydra 4, mlp 3" },
   { "layers", "integer", min = 1, max = 32, help = "blocks of a medusa or hydra head 1; of a model 4" },
   { "width", "integer", min = 4, max = 1 << 16, help = "inside an mlp 64; of a model 192" },
   { "version", "integer", min = 1, max = 3, help = "of eagle: 1 (and 2, the same weights) or 3" },
   { "unroll", "integer", min = 1, max = 16, help = "steps of eagle on its own states: 1; of version 3, 3" },
   { "vocabulary", "integer", min = 2, max = 1 << 24, help = "tokens that eagle 3 drafts; default 8192" },
   { "share_lm_head", "boolean", help = "eagle 3 drafts all tokens, by the target's LM head, and has none of its own" },
   { "noise", "number", min = 0, max = 100, help = "on eagle 1's states, in their deviations; default 0.1" },
   { "feature_weight", "number", min = 0, max = 1e6,
      help = "of eagle 1's distance to the target's states, to 1 of its rows; default 10" },
   { "tie_weights", "boolean", help = "of mlp: heads share their tables; default true" },
   { "scale_input", "boolean", help = "of mlp: the state is normed first; default true" },
   { "copy_lm_head", "boolean", help = "writes the target's LM head as each head's output layer of medusa, hydra" },
   { "loss", "choice", choices = "kl|ce", default = "kl", help = "to the target's rows, or to the text" },
   { "labels", "integer", min = 1, max = 16, default = 16, help = "best tokens of a target row that count" },
   { "samples", "integer", min = 0, max = 1 << 20, default = 1024, help = "other tokens in the soft-max" },
   { "depth_decay", "number", min = 0, max = 1, default = 0.8, help = "weight of the loss from depth to depth" },
   { "prompt_weight", "number", min = 0, max = 1, default = 0.3,
      help = "of prompts in the loss; eagle's unrolled steps leave them out" },
   { "epochs", "number", min = 0.001, max = 1e6, default = 6, help = "passes over the data" },
   { "steps", "integer", min = 1, max = 1 << 30, help = "in place of epochs" },
   { "rows", "integer", min = 16, max = 1 << 15, default = 256, help = "positions in a step" },
   { "window", "integer", min = 8, max = 4096, default = 256, help = "positions of a text that are seen together" },
   { "rate", "number", min = 0, max = 10, help = "the highest learning rate; default 3e-3, of eagle and model 1e-3" },
   { "warmup", "number", min = 0, max = 1, default = 0.05, help = "share of the steps in which it rises" },
   { "decay", "number", min = 0, max = 10, default = 0.01, help = "of weights (AdamW)" },
   { "clip", "number", min = 0, max = 1e9, default = 1, help = "largest norm of a gradient; 0: none" },
   { "held_out", "integer", min = 2, max = 1 << 20, default = 20, help = "every so many-th text is for measuring" },
   { "measure_rows", "integer", min = 1, max = 1 << 30, default = 2048, help = "held-out positions measured" },
   { "measure_every", "integer", min = 1, max = 1 << 30, help = "steps; default a tenth of them" },
   { "save_every", "integer", min = 1, max = 1 << 30, help = "steps between checkpoints; default as measure_every" },
   { "seed", "long", default = 0, help = "64 bits" },
   { "resume", "boolean", default = true, help = "goes on from the folder's checkpoint" },
   { "quiet", "boolean", default = false, help = "prints nothing" },
   { "on_progress", "function", help = "function(info): step, steps, loss, accuracy, tokens_per_second; false stops" },
}
core.train_spec = spec

--- Options that some heads have, with defaults, and the name under which the trainer knows them.
local own = {
   heads = { name = "depths", medusa = 4, hydra = 4, mlp = 3 },
   layers = { name = "blocks", medusa = 1, hydra = 1, model = 4 },
   width = { name = "inner", mlp = 64, model = 192 },
   version = { name = "version", eagle = 1 },
   unroll = { name = "depths", eagle = 1 },
   vocabulary = { name = "vocabulary", eagle = 0 },
   share_lm_head = { name = "shares_lm_head", eagle = false },
   noise = { name = "noise", eagle = 0.1 },
   feature_weight = { name = "feature_weight", eagle = 10 },
   tie_weights = { name = "tied", mlp = true },
   scale_input = { name = "scaled", mlp = true },
   copy_lm_head = { name = "copies_lm_head", medusa = false, hydra = false },
}
local passed = { "loss", "labels", "samples", "depth_decay", "prompt_weight", "epochs", "steps", "rows", "window",
   "rate", "warmup", "decay", "clip", "held_out" }

-- ---- Options -------------------------------------------------------------------------------------

local function heads_with(row)
   local names = {}
   for _, head in ipairs { "medusa", "hydra", "mlp", "eagle", "model" } do
      names[#names + 1] = row[head] ~= nil and head or nil
   end
   return table.concat(names, ", ")
end

local function read_temperature(o)
   local list = type(o.temperature) == "table" and o.temperature or { o.temperature or 0, o.temperature or 1 }
   for _, value in ipairs(list) do
      if type(value) ~= "number" or not (value >= 0 and value < math.huge) then
         core.raise("cop.train: option \"temperature\" must be a number or a list of numbers, at least 0")
      end
   end
   if #list == 0 then
      core.raise("cop.train: option \"temperature\" must name at least one number")
   end
   o.temperature = list
end

--- What the trainer in C is made of.
local function trainer_options(o)
   local out = { head = o.head, seed_low = o.seed & 0xffffffff, seed_high = o.seed >> 32 }
   for name, row in pairs(own) do
      if row[o.head] == nil and o[name] ~= nil then
         core.raise(("cop.train: option \"%s\" is not for head \"%s\"; it is for %s"):format(name, o.head,
            heads_with(row)))
      elseif row[o.head] ~= nil then
         local value = o[name]
         out[row.name] = value == nil and row[o.head] or value
      end
   end
   if o.head == "eagle" then
      local third = out.version == 3
      if out.version == 2 then
         core.raise("cop.train: EAGLE-2 drafts with EAGLE-1's weights: say version = 1")
      elseif not third and o.vocabulary then
         core.raise("cop.train: option \"vocabulary\" is for version 3 of eagle: 1 has the target's LM head")
      elseif not third and o.share_lm_head ~= nil then
         core.raise("cop.train: \"share_lm_head\" is for version 3 of eagle: 1 always has the target's LM head")
      elseif o.share_lm_head and o.vocabulary then
         core.raise("cop.train: with \"share_lm_head\" all tokens are drafted: leave out \"vocabulary\"")
      end
      out.depths = o.unroll or third and 3 or 1
      out.vocabulary = third and not o.share_lm_head and math.min(o.vocabulary or 8192, o.target.vocab_size) or 0
   elseif o.head == "model" then
      out.depths = 1
   end
   for _, name in ipairs(passed) do
      out[name] = o[name]
   end
   return out
end

local function read_options(given)
   local o = core.options("cop.train", given, spec)
   read_temperature(o)
   if o.target.device ~= "cpu" and o.target.device ~= "reference" then
      core.raise("cop.train: trains on the processor: open the target with device = \"cpu\"")
   end
   o.rate = o.rate or (o.head == "eagle" or o.head == "model") and 1e-3 or 3e-3
   o.cache = o.cache or o.out .. "/data.train"
   return o, trainer_options(o)
end

-- ---- The folder ----------------------------------------------------------------------------------

local function read_file(path)
   local file = io.open(path, "rb")
   local bytes = file and file:read("a")
   if file then
      file:close()
   end
   return bytes
end

--- What training.json says, { head =, target =, target_path = }. → facts | nil, message, code
local function read_claim(path, bytes)
   local facts, problem = system.json.decode(bytes)
   if type(facts) == "table" and type(facts.head) == "string" and type(facts.target) == "string" then
      return facts
   end
   return nil, ("cop.train: \"%s\" is damaged (%s): remove it and give the options of that training again, or give"
      .. " another folder"):format(path, problem or "it names no head and no target"), "format"
end

--- The folder, made where it is missing, for this training alone. → what holds it | nil, message, code
local function hold_folder(o)
   local ok, problem, code = system.folder(o.out)
   if not ok then
      return nil, problem, code
   end
   local lock
   lock, problem, code = system.lock(o.out)
   if not lock then
      return nil, problem or ("cop.train: another training writes \"%s\" now: give another folder, or wait for its"
         .. " end"):format(o.out), code or "argument"
   end
   system.sweep(o.out) -- parts of files whose writers were killed
   return lock
end

--- The folder is new, or of this head for this target. A checkpoint without the rest says itself what it is of.
local function claim_folder(o, fingerprint)
   local path = o.out .. "/training.json"
   local bytes = read_file(path)
   if not bytes then
      if system.kind(o.out .. "/config.json") and not system.kind(o.out .. "/checkpoint") then
         return nil, ("cop.train: \"%s\" holds something that was not trained here: give another folder"):format(o.out),
            "argument"
      end
      return system.write(path, system.json.encode { head = o.head, target = fingerprint,
         target_path = o.target.path } .. "\n")
   end
   local facts, problem, code = read_claim(path, bytes)
   if not facts then
      return nil, problem, code
   elseif facts.head ~= o.head then
      return nil, ("cop.train: \"%s\" is of head \"%s\": give another folder for \"%s\""):format(o.out, facts.head,
         o.head), "argument"
   elseif facts.target ~= fingerprint then
      return nil, ("cop.train: \"%s\" is of another target, \"%s\": give another folder"):format(o.out,
         tostring(facts.target_path)), "argument"
   end
   return true
end

local function fingerprint_of(model)
   local path = model.path
   for _, name in ipairs { "", "/model.safetensors.index.json", "/model.safetensors" } do
      if system.kind(path .. name) == "file" then
         return system.hash_file(path .. name)
      end
   end
   return nil, ("cop.train: no file of \"%s\" can be read"):format(path), "io"
end

local function sorted_text(options)
   local words = {}
   for key, value in pairs(options) do
      words[#words + 1] = ("%s=%s"):format(key, tostring(value))
   end
   table.sort(words)
   return table.concat(words, " ")
end

-- ---- Training ------------------------------------------------------------------------------------

local Training = {}
Training.__index = Training

local function percent(list)
   local words = {}
   for i, value in ipairs(list) do
      words[i] = ("%.2f"):format(value)
   end
   return table.concat(words, " / ")
end

function Training:say(text)
   if not self.o.quiet then
      self.console:line(text)
   end
end

function Training:measure()
   local accuracy, problem, code = self.trainer:measure(self.o.measure_rows)
   if accuracy then
      self.accuracy = accuracy
   end
   return accuracy, problem, code
end

function Training:tell(facts)
   local seconds = system.clock() - self.started
   self.speed = self.rows / math.max(seconds, 1e-9)
   self:say(("step %d/%d  loss %.4f  held out: %s right by depth, %.3f accepted  %.0f tokens/s"):format(facts.step,
      facts.steps, self.loss or 0, percent(self.accuracy.conditional), self.accuracy.accepted, self.speed))
end

--- A checkpoint, and the tensors as they are.
function Training:save()
   local ok, problem, code = self.trainer:save(self.checkpoint, self.identity)
   if ok then
      ok, problem, code = self.trainer:publish(self.o.out)
   end
   return ok, problem, code
end

function Training:observe(facts)
   if not self.o.on_progress then
      return true
   end
   local goes_on = self.o.on_progress { step = facts.step, steps = facts.steps, loss = self.loss,
      accuracy = self.accuracy, tokens_per_second = self.speed, rate = facts.rate }
   return goes_on ~= false
end

--- One step and what is due after it. → true | false: it has to stop | nil, message, code
function Training:advance(facts)
   local loss, rows, code = self.trainer:step()
   if not loss then
      local saved = system.kind(self.checkpoint) and "; the checkpoint before it is in the folder" or ""
      return nil, rows .. saved, code
   end
   self.loss = self.loss and 0.95 * self.loss + 0.05 * loss or loss
   self.rows = self.rows + rows
   local step = facts.step + 1
   if step % self.measure_every == 0 or step == facts.steps then
      local ok, problem
      ok, problem, code = self:measure()
      if not ok then
         return nil, problem, code
      end
      self:tell(self.trainer:facts())
   end
   if step % self.save_every == 0 or step == facts.steps then
      local ok, problem
      ok, problem, code = self:save()
      if not ok then
         return nil, problem, code
      end
   end
   if not self.o.quiet then
      self.console:progress(step, facts.steps, step - self.first, ("loss %.4f  %.0f tokens/s"):format(self.loss,
         self.rows / (system.clock() - self.started)))
   end
   return self:observe(self.trainer:facts()) and not system.interrupted()
end

function Training:run()
   local facts = self.trainer:facts()
   self.started, self.rows, self.first, self.speed = system.clock(), 0, facts.step, 0
   while facts.step < facts.steps do
      local goes_on, problem, code = self:advance(facts)
      facts = self.trainer:facts()
      if goes_on == nil then
         return nil, problem, code
      elseif not goes_on and facts.step < facts.steps then
         local ok
         ok, problem, code = self:save()
         if not ok then
            return nil, problem, code
         end
         return nil, ("cop.train: stopped at step %d of %d; the same call goes on from there"):format(facts.step,
            facts.steps), "cancelled"
      end
   end
   return true
end

local Result = { __name = "training", __tostring = function(r)
   return ("training of %s: %d steps, held out %s right by depth, %.3f accepted, in %s"):format(r.head, r.steps,
      percent(r.accuracy.conditional), r.accuracy.accepted, r.out)
end }

function core.is_training(value)
   return getmetatable(value) == Result
end

function Training:result()
   local facts = self.trainer:facts()
   return setmetatable({ head = self.o.head, out = self.o.out, steps = facts.steps, loss = self.loss,
      parameters = facts.parameters, texts = facts.texts, accuracy = self.accuracy, before = self.before,
      seconds = system.clock() - self.started, tokens_per_second = self.speed }, Result)
end

--- The trainer, from its checkpoint where there is one. → true | nil, message, code
function Training:open()
   local o = self.o
   local problem, code
   self.trainer, problem, code = core.train.trainer(o.target, o.cache, self.options)
   if not self.trainer then
      return nil, problem, code
   end
   if o.from then
      local ok
      ok, problem, code = self.trainer:begin(o.from)
      if not ok then
         return nil, problem, code
      end
   end
   local facts = self.trainer:facts()
   self.identity = ("%s %d"):format(self.identity, facts.texts)
   self.measure_every = o.measure_every or math.max(1, facts.steps // 10)
   self.save_every = o.save_every or self.measure_every
   self.checkpoint = o.out .. "/checkpoint"
   self.before, problem, code = self:measure()
   if not self.before then
      return nil, problem, code
   end
   if o.resume and system.kind(self.checkpoint) then
      local ok
      ok, problem, code = self.trainer:load(self.checkpoint, self.identity)
      if ok then -- whoever was killed between the two left older tensors
         ok, problem, code = self.trainer:publish(o.out)
      end
      if ok then
         ok, problem, code = self:measure()
      end
      if not ok then
         return nil, problem, code
      end
      self:say(("goes on from step %d of %d"):format(self.trainer:facts().step, facts.steps))
   end
   self:say(("%s: %d parameters, %d texts of %d tokens, %d held out; before: %s right by depth"):format(o.head,
      facts.parameters, facts.texts, facts.rows + facts.held_rows, facts.held_rows, percent(self.before.conditional)))
   if facts.held_rows == 0 then
      self:say(("nothing is held out to measure on: give %d texts or more, or a lower `held_out`"):format(o.held_out))
   end
   return true
end

local function train(o, options)
   if type(o.data) == "string" then
      local set, problem, code = cop.dataset { path = o.data }
      if not set then
         return nil, problem, code
      end
      o.data = set
   end
   local source = core.use("train_data").source(o)
   local layers = core.train.layers(o.target, options)
   if o.taps then
      layers = { -1 } -- the last, normed, and what EAGLE-3 reads
      for _, layer in ipairs { 2, o.target.layers // 2, o.target.layers - 3 } do
         layers[#layers + 1] = layer >= 0 and layer or nil
      end
   end
   local fingerprint, why, kind = fingerprint_of(o.target)
   if not fingerprint then
      return nil, why, kind
   end
   local lock <close>, problem, code = hold_folder(o)
   if not lock then
      return nil, problem, code
   end
   local ok
   ok, problem, code = claim_folder(o, fingerprint)
   if not ok then
      return nil, problem, code
   end
   local console = core.use("console").new(not o.quiet and o.out .. "/console.log" or nil)
   local self = setmetatable({ o = o, options = options, console = console }, Training)
   self.identity = ("%s %s %s %s"):format(fingerprint, core.use("train_data").recipe(o, source), sorted_text(options),
      o.from or "")
   local quiet = { progress = function() end }
   ok, problem, code = core.use("train_data").make(o, source, layers, fingerprint, o.quiet and quiet or console)
   if ok then
      ok, problem, code = self:open()
   end
   if ok then
      ok, problem, code = self:run()
   end
   local result = ok and self:result()
   console:close()
   if self.trainer then
      self.trainer:close()
   end
   if not result then
      return nil, problem, code
   end
   return result
end

--- cop.train { head =, target =, out =, data =, … } → { accuracy =, before =, loss =, steps =, … } | nil, message, code
--
-- accuracy.conditional[d]: share of held-out positions at which the guess of depth d is the target's best
-- token, of those where the shallower guesses were; accuracy.accepted: the mean length of such chains.
function cop.train(given)
   local o, options = read_options(given)
   system.catch(true)
   local results = table.pack(xpcall(train, function(message) return message end, o, options))
   system.catch(false)
   if not results[1] then
      error(results[2], 0)
   end
   return table.unpack(results, 2, results.n)
end
