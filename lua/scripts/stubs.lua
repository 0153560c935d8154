--- Annotations for editors with the Lua language server: every function of the module with its options, their
-- types, ranges and documentation, from the tables that check them.

local cop, core = ...

local stubs = {}

-- ---- Types ---------------------------------------------------------------------------------------

local types = {
   integer = "integer", number = "number", boolean = "boolean", string = "string", long = "integer", any = "any",
   integers = "integer[]", numbers = "number[]", lists = "integer[][]", paths = "(integer[]|string)[]",
   table = "table", ["function"] = "function", model = "coppice.model", tokenizer = "coppice.tokenizer",
   propose = "coppice.propose", tree = "coppice.tree", accept = "coppice.accept", length = "coppice.length",
}

local function type_of(option)
   local choices = option.choices and option.choices:gsub("[^|]+", "\"%0\"")
   if option.type == "choice" then
      return choices
   elseif option.type == "vocabulary" then
      return "integer[]|integer" .. (choices and "|" .. choices or "")
   end
   return types[option.type] or "any"
end

--- What a constructor makes; of everything else the stub says nothing.
local results = {
   model = "coppice.model?, string?, string?", tokenizer = "coppice.tokenizer?, string?, string?",
   generate = "coppice.answer?, string?, string?", dataset = "coppice.dataset?, string?, string?", arm = "coppice.arm",
   experiment = "coppice.experiment|coppice.study", study = "coppice.study",
   open_run = "coppice.run?, string?, string?",
   import_run = "coppice.run?, string?, string?", args = "table", grid = "fun(): table",
   ["metric.custom"] = "coppice.measure", ["quality.custom"] = "coppice.measure",
}
for _, kind in ipairs { "propose", "tree", "accept", "length" } do
   results[kind] = "coppice." .. kind
end

--- Objects that scripts hold. tests/lua/run/stubs.lua asks real ones for these.
stubs.classes = {
   { "tokenizer", "text into ids and back",
      { "size", "integer" }, { "bos", "integer?" }, { "eos", "integer[]" },
      { "encode", "fun(self, text: string, options?: { special: boolean?, bos: boolean? }): integer[]" },
      { "decode", "fun(self, ids: integer[], options?: { special: boolean? }): string" },
      { "piece", "fun(self, id: integer): string" }, { "id", "fun(self, piece: string): integer?" },
      { "chat", "fun(self, messages: { role: string, content: string }[], options?: { generation: boolean? }):"
         .. " string, integer[]" } },
   { "model", "an opened model",
      { "tokenizer", "coppice.tokenizer?" }, { "architecture", "string" }, { "vocab_size", "integer" },
      { "hidden_size", "integer" }, { "layers", "integer" }, { "context", "integer" }, { "bytes", "integer" },
      { "path", "string" }, { "threads", "integer" },
      { "score", "fun(self, options: { context: integer[], nodes: integer[]?, parents: integer[]?,"
         .. " hidden: integer[]? }): table?, string?, string?" } },
   { "experiment", "a comparison of arms", { "name", "string" }, { "check", "fun(self): string" },
      { "run", "fun(self, options?: { out: string?, resume: boolean?, shard: string? }): coppice.result?, string?,"
         .. " string?" } },
   { "study", "experiments that belong together", { "name", "string" }, { "experiments", "coppice.experiment[]" },
      { "check", "fun(self): string" },
      { "run", "fun(self, options?: { out: string?, resume: boolean?, shard: string? }): coppice.result?, string?,"
         .. " string?" } },
   { "run", "a stored run, for reading", { "folder", "string" }, { "name", "string" }, { "manifest", "table" },
      { "arms", "fun(self): fun(): table?" }, { "requests", "fun(self, filter?: table): fun(): table?" },
      { "cycles", "fun(self, request?: table): fun(): table?" }, { "metrics", "fun(self): table[]" },
      { "sql", "fun(self, text: string, ...): table[]?, string?, string?" },
      { "broken_identities", "fun(self): table[]" },
      { "export", "fun(self, options: { format: \"jsonl\"|\"csv\"|\"spec_bench\", out: string }): any, string?,"
         .. " string?" },
      { "close", "fun(self)" } },
}

--- Values without functions of their own.
local opaque = {
   result = "what a run returns: state, failed, broken, arms, groups, fingerprint, out",
   answer = "tokens, text, finish, cycles, forward_passes, block_efficiency, seconds, …", dataset = "a list of prompts",
   arm = "a way to decode", measure = "a measure of a script's own", propose = "a proposer", tree = "a tree builder",
   accept = "an acceptance rule", length = "a length policy",
}

-- ---- Text ----------------------------------------------------------------------------------------

local width = 110

--- Comment lines of a text, wrapped.
local function comment(out, text)
   for paragraph in (text or ""):gmatch("[^\n]+") do
      local line = "---"
      for word in paragraph:gmatch("%S+") do
         if #line + #word >= width and line ~= "---" then
            out[#out + 1], line = line, "---"
         end
         line = line .. " " .. word
      end
      out[#out + 1] = line
   end
end

local function one_line(text)
   return (text:gsub("%s+", " "))
end

local function option_class(out, class, options, rows, row_text)
   local place = 0
   out[#out + 1] = "---@class " .. class
   for i, option in ipairs(options) do
      local text = rows and row_text(rows[i]) or option.text
      text = one_line(text:sub(1, #option.name) == option.name and text:sub(#option.name + 1) or text)
      out[#out + 1] = ("---@field %s%s %s %s"):format(option.name, (option.required and not option.positional) and ""
         or "?", type_of(option), text:gsub("^[ ,=:]*", ""))
      if option.positional then
         local element = type_of(option):match("^%(?(.-)%)?%[%]$") -- a list is the table's own list part
         place = place + 1
         out[#out + 1] = ("---@field [%s] %s the same as %s"):format(element and "integer" or place,
            element or type_of(option) .. "?", option.name)
      end
   end
   out[#out + 1] = ""
end

--- Names of the parameters that a text such as "cop.stats.wilson(successes, n, level) → …" shows.
local function parameters_of(name, text)
   local list = {}
   local shown = text and text:match("cop%." .. name:gsub("%p", "%%%0") .. "%((.-)%)")
   for word in (shown or ""):gsub("%b{}", "options"):gmatch("[^,]+") do
      local parameter = word:match("^%s*([%a_][%w_]*)%s*$")
      list[#list + 1] = parameter or nil
   end
   return list
end

-- ---- Functions -----------------------------------------------------------------------------------

local function sorted(t)
   local keys = {}
   for key in next, t do
      keys[#keys + 1] = key
   end
   table.sort(keys)
   return keys
end

local function add_function(out, name, f, texts, row_text)
   local options, rows = core.describe(f)
   local class = "coppice." .. name .. ".options"
   local parameters = { "options" }
   if options and #options > 0 then
      option_class(out, class, options, rows, row_text)
      comment(out, texts[name])
      out[#out + 1] = ("---@param options%s %s"):format(name:find("%.") and "?" or "", class)
   elseif options then
      comment(out, texts[name])
      out[#out + 1] = "---@param options? {}"
   else
      comment(out, texts[name])
      parameters = parameters_of(name, texts[name])
      for _, parameter in ipairs(parameters) do
         out[#out + 1] = ("---@param %s any"):format(parameter)
      end
   end
   local result = results[name] or results[name:match("^%l+")]
   out[#out + 1] = result and "---@return " .. result or nil
   if #parameters == 0 then
      parameters[1] = "..."
   end
   out[#out + 1] = ("function cop.%s(%s) end"):format(name, table.concat(parameters, ", "))
   out[#out + 1] = ""
end

local function add_table(out, t, prefix, texts, row_text)
   for _, key in ipairs(sorted(t)) do
      local value, name = t[key], prefix .. key
      if type(value) == "function" then
         add_function(out, name, value, texts, row_text)
      elseif type(value) == "table" and prefix == "" then
         out[#out + 1] = ("cop.%s = {}"):format(name)
         out[#out + 1] = ""
         add_table(out, value, name .. ".", texts, row_text)
      else
         out[#out + 1] = ("---@type %s"):format(math.type(value) or type(value))
         out[#out + 1] = ("cop.%s = %s"):format(name, type(value) == "table" and "{}" or ("%q"):format(value))
         out[#out + 1] = ""
      end
   end
end

local function add_classes(out)
   for _, class in ipairs(stubs.classes) do
      comment(out, class[2])
      out[#out + 1] = "---@class coppice." .. class[1]
      for i = 3, #class do
         out[#out + 1] = ("---@field %s %s"):format(class[i][1], class[i][2])
      end
      out[#out + 1] = ""
   end
   for _, name in ipairs(sorted(opaque)) do
      comment(out, opaque[name])
      out[#out + 1] = "---@class coppice." .. name
      out[#out + 1] = ""
   end
end

--- The whole file.
function stubs.text()
   local texts, row_text = core.help_texts()
   local out = { "---@meta coppice", ("--- Coppice %s for editors, made by `coppice stubs`. Nothing runs here."):format(
      cop.version), "-- luacheck: ignore 212, no max line length", "" }
   add_classes(out)
   out[#out + 1] = "---@class coppice"
   out[#out + 1] = "local cop = {}"
   out[#out + 1] = ""
   add_table(out, cop, "", texts, row_text)
   out[#out + 1] = "return cop"
   return table.concat(out, "\n") .. "\n"
end

return stubs
