--- coppice run: loads a script, gives it its words, and runs the experiment that it returns. A script
-- that runs its experiment itself returns the result of experiment:run() instead. A script may return a
-- recipe (recipe.lua) or a simulation (simulate.lua) as well, and of a folder all recipes run.

local _, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = {
   { name = "out", type = "string", value = "DIR", help = "the run's folder (default: runs/NAME)" },
   { name = "shard", type = "string", value = "i/n", help = "only every n-th prompt, from the i-th on" },
   { name = "resume", type = "flag", help = "go on with a stored run (default); --no-resume refuses to" },
   { name = "data", type = "string", value = "DIR",
     help = "where recipes find the data sets that they read (default: ../shared/data)" },
   { name = "check", type = "flag", help = "only say what would run" },
}

local function take_words(words, first)
   core.words = {}
   for i = first, #words do
      local key, value = words[i]:match("^([%a_][%w_]*)=(.*)$")
      if not key then
         cli.fail("coppice run: \"%s\" is neither an option nor key=value", words[i])
      end
      core.words[#core.words + 1] = { key, value }
   end
end

local function check_words()
   if #core.words > 0 and not core.words_are_used then
      cli.fail("coppice run: the script takes no arguments (it never calls cop.args), but got %s=%s",
         core.words[1][1], core.words[1][2])
   end
end

--- 1: answers are missing, or a promise is broken.
local function status_of(result)
   return result.state == "interrupted" and 130 or (result.broken > 0 or result.failed > 0) and 1 or 0
end

local function run(experiment)
   local result, problem = experiment:run()
   if not result then
      error(problem, 0)
   end
   return status_of(result)
end

local function refuse(path, value)
   local got = value == nil and "nothing" or type(value) == "number" and tostring(value) or "a " .. core.type(value)
   error(("%s: the script must return an experiment (is `return` missing before cop.experiment?), or what"
      .. " experiment:run() returned; it returned %s"):format(path, got), 0)
end

-- ---- Recipes -------------------------------------------------------------------------------------

local function status_of_recipe(told)
   return (told.different > 0 or told.failed > 0) and 1 or 0
end

local columns = {
   { title = "recipe", align = "left" }, { title = "values" }, { title = "same" }, { title = "different" },
   { title = "failed" }, { title = "skipped" }, { title = "source", align = "left" },
}

--- Why the first value was skipped.
local function reason_of(told)
   for _, row in ipairs(told.rows) do
      if row.verdict == "skipped" then
         return row.ours
      end
   end
end

--- Values that are not the same, then one line for each recipe.
local function run_folder(folder)
   local rows, sum, status = {}, { values = 0, same = 0, different = 0, failed = 0, skipped = 0 }, 0
   for _, name in ipairs(cli.must(core.system.list(folder))) do
      if name:find("%.lua$") then
         local path = ("%s/%s"):format(folder:gsub("(.)/+$", "%1"), name)
         local told = core.run_recipe(core.use("script").load("coppice run", path)(), path)
         for _, row in ipairs(told.rows) do
            if row.verdict ~= "same" and row.verdict ~= "skipped" then
               print(("!!! %s: %s: published %s, ours %s (%s)"):format(told.name, row.name, row.published,
                  tostring(row.ours), row.source))
            end
         end
         rows[#rows + 1] = { told.name, tostring(#told.rows), tostring(told.same), tostring(told.different),
            tostring(told.failed), tostring(told.skipped), told.source }
         if told.skipped > 0 then
            print(("%s: %d values skipped: %s"):format(told.name, told.skipped, reason_of(told)))
         end
         sum.values = sum.values + #told.rows
         for _, verdict in ipairs { "same", "different", "failed", "skipped" } do
            sum[verdict] = sum[verdict] + told[verdict]
         end
         status = math.max(status, status_of_recipe(told))
      end
   end
   if #rows == 0 then
      error(("coppice run: no recipe in the folder \"%s\""):format(folder), 0)
   end
   rows[#rows + 1] = { rule = true }
   rows[#rows + 1] = { "all", tostring(sum.values), tostring(sum.same), tostring(sum.different), tostring(sum.failed),
      tostring(sum.skipped) }
   print(table.concat(core.table(columns, rows), "\n"))
   return status
end

function verb.main(words)
   local o = cli.parse("run", words, verb.specs)
   if not o[1] then
      cli.fail("coppice run: which script? (coppice run script.lua [key=value …])")
   end
   take_words(o, 2)
   local part, of = (o.shard or "1/1"):match("^(%d+)/(%d+)$")
   if not part or tonumber(part) < 1 or tonumber(part) > tonumber(of) then
      cli.fail("coppice run: --shard must be i/n with 1 <= i <= n, got \"%s\"", o.shard)
   end
   core.run_options = { out = o.out, shard = o.shard, resume = o.resume, data = o.data }
   core.run_problem = nil
   if core.system.kind(o[1]) == "folder" then
      check_words()
      return run_folder(o[1])
   end
   local experiment, problem = core.use("script").load("coppice run", o[1])()
   local recipe_words = core.is_recipe(experiment) and core.recipe_words(experiment)
   check_words()
   if core.is_experiment(experiment) or core.is_study(experiment) then
      if o.check then
         experiment:check()
         return 0
      end
      return run(experiment)
   elseif experiment == nil and (problem or core.run_problem) then
      error(tostring(problem or core.run_problem), 0)
   elseif core.is_recipe(experiment) then
      if o.check then
         print(table.concat(core.check_recipe(experiment, o[1]), "\n"))
         return 0
      end
      local told = core.run_recipe(experiment, o[1], nil, recipe_words)
      print(told)
      return status_of_recipe(told)
   elseif core.is_simulation(experiment) or core.is_training(experiment) then
      print(experiment)
      return 0
   elseif core.is_result(experiment) then -- the script ran its experiment itself
      return status_of(experiment)
   end
   return refuse(o[1], experiment)
end

return verb
