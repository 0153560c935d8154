--- cop.help(): everything that is registered; cop.help("accept.token"): one entry with its options.
-- The text is printed and returned. It comes from the option tables alone.

local cop, core = ...

local kinds = { "propose", "tree", "accept", "length" }
local titles = {
   propose = "proposers: where draft rows come from",
   tree = "tree builders: the shape of the guess",
   accept = "acceptance rules: which drafted tokens survive",
   length = "length policies: how much to draft",
}

local custom = {
   propose = "a proposer in Lua: { name =, rows =, depth =, start =, expand =, observe =, finish = }",
   tree = "a tree builder in Lua: { name =, depth =, nodes =, shape =, grow = }",
   accept = "a rule in Lua: { name =, lossless_for =, state =, verify = }",
   length = "a length policy in Lua: { name =, decide = }",
   metric = "a number for an answer's cycles: { name =, of = function(cycles, request) }, for metrics = { … }",
   quality = "a number for an answer: { name =, of = function(item, answer, baseline), better = \"lower\" },"
      .. " for quality = { … }",
}

local function first_line(text)
   return (text or ""):match("^[^\n]*")
end

local function index()
   local out = {}
   local parts = core.parts()
   for _, kind in ipairs(kinds) do
      out[#out + 1] = ("cop.%s: %s"):format(kind, titles[kind])
      for _, part in ipairs(parts) do
         if part.kind == kind then
            out[#out + 1] = ("   %-16s %s"):format(part.name, first_line(part.help))
         end
      end
      out[#out + 1] = ("   %-16s %s"):format("custom", custom[kind])
      out[#out + 1] = ""
   end
   out[#out + 1] = "measures of a script's own:"
   for _, kind in ipairs { "metric", "quality" } do
      out[#out + 1] = ("   %-16s %s"):format(kind .. ".custom", custom[kind])
   end
   out[#out + 1] = ""
   out[#out + 1] = "cop.help(\"accept.match\") shows one of them, cop.help(\"generate\") the options of cop.generate,"
   out[#out + 1] = "cop.help(\"sampling\") what happens to logits, in which order."
   return table.concat(out, "\n")
end

local function entry(part)
   local out = { ("cop.%s.%s"):format(part.kind, part.name), "   " .. (part.help or "") }
   if part.source then
      out[#out + 1] = "   source: " .. part.source
   end
   if part.synonyms then
      out[#out + 1] = "   also called: " .. part.synonyms
   end
   out[#out + 1] = #part.options > 0 and "   options:" or "   no options"
   for _, option in ipairs(part.options) do
      local positional = option.positional and " (may be given without its name)" or ""
      out[#out + 1] = "      " .. option.text .. positional
   end
   return table.concat(out, "\n")
end

local function range(row)
   if row.min and row.max then
      return (" (%g to %g)"):format(row.min, row.max)
   elseif row.min then
      return (" (at least %g)"):format(row.min)
   end
   return row.choices and (" (%s)"):format(row.choices:gsub("|", ", ")) or ""
end

local function generate()
   local out = { "cop.generate", "   one answer; options:" }
   for _, row in ipairs(core.generate_spec) do
      if row.help then
         local default = row.required and ", required" or row.default ~= nil and " = " .. tostring(row.default) or ""
         out[#out + 1] = ("      %s%s, %s%s: %s"):format(row[1], default, row[2], range(row), row.help)
      end
   end
   return table.concat(out, "\n")
end

--- The processors in the order in which they happen.
local function sampling()
   local out = {
      "sampling",
      "   what happens to the target's logits, in this order; each step sees the prefix of its own node:",
   }
   for _, step in ipairs(core.steps()) do
      out[#out + 1] = ("      %-18s %s"):format(step.name, step.help)
   end
   out[#out + 1] = "   Log-probabilities and raw logits are read before temperature. Draft rows see temperature and"
   out[#out + 1] = "   truncation at most: whatever they propose, answers stay those of the target so processed."
   return table.concat(out, "\n")
end

local function find(name)
   local known = { "generate", "sampling" }
   if name == "generate" then
      return generate()
   elseif name == "sampling" then
      return sampling()
   end
   for _, part in ipairs(core.parts()) do
      local full = part.kind .. "." .. part.name
      known[#known + 1] = full
      if full == name then
         return entry(part)
      end
   end
   for _, kind in ipairs { "propose", "tree", "accept", "length", "metric", "quality" } do
      known[#known + 1] = kind .. ".custom"
      if kind .. ".custom" == name then
         return ("cop.%s.custom\n   %s"):format(kind, custom[kind])
      end
   end
   return core.unknown("cop.help", "name", name, known)
end

function cop.help(name)
   if name ~= nil and type(name) ~= "string" then
      core.raise(("cop.help: expects a name such as \"accept.token\", got a %s"):format(core.type(name)))
   end
   local text = name and find((name:gsub("^cop%.", ""))) or index()
   print(text)
   return text
end
