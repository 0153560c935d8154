--- cop.recipe: published numbers beside ours.
--
-- A recipe is a Lua table that a file returns (experiments/recipes, which are in the program as well):
--
--     { name = "block-verification-toy", source = "arXiv:2403.10444", about = "tokens kept by a cycle",
--       tolerance = nil,
--       values = { { "token, two drafts", "10/9", function() return … end, source = nil, tolerance = nil }, … } }
--
-- A published value is text, as it is printed: a fraction must be met within 1e-9, a decimal number
-- within half a unit of its last digit; tolerance (absolute) says otherwise. Text that is no number
-- must be the same text.
--
-- A recipe that reads files of others says so, data = "specdecode_traces": its functions are given that folder inside
-- the data folder (--data DIR, or data = DIR; else ../shared/data; DIR may be that folder itself). Where it is absent
-- the values are skipped, and so is a value whose function calls cop.recipe.skip("why"): neither same nor different.
-- Recipes of big models (recipe_models.lua) take words besides, target=DIR and others, and have a dry run.

local cop, core = ...

cop.recipe = {}

local fields = {
   { "name", "string", required = true },
   { "source", "string", required = true },
   { "about", "string", required = true },
   { "tolerance", "number", min = 0 },
   { "data", "string" },
   { "words", "table" },
   { "check", "function" },
   { "values", "table", required = true },
}

local function check_value(owner, i, value)
   if type(value) ~= "table" or type(value[1]) ~= "string" or type(value[2]) ~= "string"
      or type(value[3]) ~= "function" then
      core.raise(("%s: values[%d] must be { name, published value as text, function, source =, tolerance = }")
         :format(owner, i))
   end
   for key in pairs(value) do
      if key ~= 1 and key ~= 2 and key ~= 3 and key ~= "source" and key ~= "tolerance" then
         core.raise(("%s: values[%d]: unknown key \"%s\""):format(owner, i, tostring(key)))
      end
   end
end

local function checked(recipe, where)
   if type(recipe) ~= "table" then
      core.raise(("%s: must return a recipe, a table; got a %s"):format(where, core.type(recipe)))
   end
   local owner = ("recipe %s"):format(type(recipe.name) == "string" and recipe.name or where)
   recipe = core.options(owner, recipe, fields)
   for i, value in ipairs(recipe.values) do
      check_value(owner, i, value)
   end
   return recipe
end

--- Whether what a script returned looks like one.
function core.is_recipe(value)
   return type(value) == "table" and type(value.values) == "table" and type(value.source) == "string"
end

-- ---- Comparing -----------------------------------------------------------------------------------

--- "10/9" → 10/9, 1e-9; "0.79" → 0.79, 0.005; "3 9 1" → nil
local function number_of(text)
   local over, under = text:match("^(%-?%d+)/(%d+)$")
   if over then
      return tonumber(over) / tonumber(under), 1e-9
   end
   local digits = text:match("^%-?%d+%.?(%d*)$")
   if digits then
      return tonumber(text) + 0.0, digits == "" and 1e-9 or 0.5000001 * 10.0 ^ -#digits
   end
end

local function shown(value)
   if math.type(value) == "float" then
      return ("%.9g"):format(value)
   end
   return tostring(value)
end

local Skip = { __tostring = function(self) return self.reason end }

--- Ends a value's function: what it needs is not here.
function cop.recipe.skip(reason)
   error(setmetatable({ reason = tostring(reason) }, Skip), 0)
end

local function data_folder(data)
   return data or core.run_options and core.run_options.data or "../shared/data"
end

--- The folder of a recipe's data; raises the skip.
local function data_of(recipe, data)
   if not recipe.data or recipe.data == "." then
      return recipe.data and data_folder(data)
   end
   local outer = data_folder(data):gsub("(.)/+$", "%1")
   local folder = ("%s/%s"):format(outer, recipe.data)
   if ("/" .. outer):match("[^/]*$") == recipe.data and core.system.kind(folder) ~= "folder" then
      folder = outer -- the set itself was named
   end
   if core.system.kind(folder) ~= "folder" then
      cop.recipe.skip(("there is no folder %s (--data DIR says where the data is)"):format(folder))
   end
   return folder
end

local function compare(recipe, value, data, words)
   local row = { name = value[1], published = value[2], source = value.source or recipe.source }
   local ok, ours = pcall(function()
      return value[3](data_of(recipe, data), words)
   end)
   if not ok and getmetatable(ours) == Skip then
      row.verdict, row.ours = "skipped", ours.reason
      return row
   elseif not ok then
      row.verdict, row.ours = "failed", (tostring(ours):gsub("\n.*", ""))
      return row
   end
   local theirs, tolerance = number_of(value[2])
   row.ours = ours
   if theirs and type(ours) == "number" then
      tolerance = value.tolerance or recipe.tolerance or tolerance
      row.tolerance = tolerance
      row.verdict = math.abs(ours - theirs) <= tolerance and "same" or "different"
   else
      row.verdict = tostring(ours) == value[2] and "same" or "different"
   end
   return row
end

local columns = {
   { title = "value", align = "left" }, { title = "published" }, { title = "ours" }, { title = "", align = "left" },
   { title = "source", align = "left" },
}

local Told = { __name = "coppice.recipe_result" }
Told.__index = Told

function Told:__tostring()
   local rows, reasons = {}, {}
   for i, row in ipairs(self.rows) do
      local is_skipped = row.verdict == "skipped"
      rows[i] = { row.name, row.published, is_skipped and "" or shown(row.ours), row.verdict, row.source }
      if is_skipped and row.ours ~= reasons[#reasons] then
         reasons[#reasons + 1] = row.ours
      end
   end
   local lines = core.table(columns, rows)
   table.insert(lines, 1, ("%s: %s (%s)"):format(self.name, self.about, self.source))
   for _, reason in ipairs(reasons) do
      lines[#lines + 1] = "skipped: " .. reason
   end
   lines[#lines + 1] = ("%s: %d same, %d different, %d failed%s"):format(self.name, self.same, self.different,
      self.failed, self.skipped > 0 and (", %d skipped"):format(self.skipped) or "")
   return table.concat(lines, "\n")
end

--- Runs a recipe that is a table → { name =, source =, rows = { { name =, published =, ours =, verdict =
-- "same" | "different" | "failed" | "skipped", source = }, … }, same =, different =, failed =, skipped = }, which
-- prints as a table. data: the folder that data sets lie in; words: { target = DIR, … } of big models.
function core.run_recipe(recipe, where, data, words)
   recipe = checked(recipe, where)
   local told = setmetatable({ name = recipe.name, source = recipe.source, about = recipe.about, rows = {}, same = 0,
      different = 0, failed = 0, skipped = 0 }, Told)
   for i, value in ipairs(recipe.values) do
      told.rows[i] = compare(recipe, value, data, words)
      told[told.rows[i].verdict] = told[told.rows[i].verdict] + 1
   end
   return told
end

core.use("recipe_models")

--- The words of a command line for a recipe that takes some; raises for others.
function core.recipe_words(recipe)
   local words, known = {}, recipe.words or {}
   for _, word in ipairs(recipe.words and core.words or {}) do
      local is_known = false
      for _, key in ipairs(known) do
         is_known = is_known or key == word[1]
      end
      if not is_known then
         core.unknown("coppice run", "argument", word[1], known)
      end
      words[word[1]], core.words_are_used = word[2], true
   end
   return words
end

--- Everything but the weights. → lines
function core.check_recipe(recipe, where)
   recipe = checked(recipe, where)
   return recipe.check and recipe.check(data_folder()) or { ("%s: %d values, no weights needed"):format(recipe.name,
      #recipe.values) }
end

-- ---- Those of the program ------------------------------------------------------------------------

local function built_in()
   local list = {}
   for i, name in ipairs(core.system.scripts("recipes/")) do
      list[i] = checked(core.use(name), name)
   end
   return list
end

--- The recipes of the program → { { name =, about =, source =, values = how many }, … }; each prints as
-- a line.
function cop.recipe.list()
   local list = {}
   for i, recipe in ipairs(built_in()) do
      list[i] = setmetatable({ name = recipe.name, about = recipe.about, source = recipe.source,
         values = #recipe.values }, { __tostring = function(self)
         return ("%-24s %3d values; %s (%s)"):format(self.name, self.values, self.about, self.source)
      end })
   end
   return list
end

--- Runs one of them by its name, or the recipe that a file returns, or a table; prints the table and
-- returns it. given: { data = folder, words = { target = DIR, … } }.
function cop.recipe.run(name, given)
   local told
   local o = core.options("cop.recipe.run", given or {}, { { "data", "string" }, { "words", "table" } })
   local data, words = o.data, o.words
   if type(name) == "table" then
      told = core.run_recipe(name, "cop.recipe.run", data, words)
   elseif type(name) ~= "string" then
      core.raise(("cop.recipe.run: expects a name, a file or a recipe, got a %s"):format(core.type(name)))
   elseif name:find("%.lua$") then
      told = core.run_recipe(core.use("script").load("cop.recipe.run", name)(), name, data, words)
   else
      local known = {}
      for i, recipe in ipairs(built_in()) do
         known[i] = recipe.name
         told = told or recipe.name == name and core.run_recipe(recipe, name, data, words)
      end
      if not told then
         core.unknown("cop.recipe.run", "recipe", name, known)
      end
   end
   print(told)
   return told
end
