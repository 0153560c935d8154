--- cop.study: experiments that belong together, such as one design on two datasets or for two targets. Each
-- has a run folder of its own below the study's, which ends in one report.html and summary.csv of all.

local cop, core = ...

local Study = { __name = "coppice.study" }
Study.__index = Study

function Study:__tostring()
   return ("cop.study \"%s\" (%d experiments)"):format(self.name, #self.experiments)
end

local options = { { "name", "string", required = true }, { "experiments", "table", required = true } }

--- cop.study { name =, experiments = { cop.experiment { … }, … } }: it has :check() and :run { … }.
function cop.study(given)
   local study, names = core.options("cop.study", given, options), {}
   if not study.name:find("^[%w][%w._-]*$") then
      core.raise("cop.study: the name becomes a folder: letters, digits, \".\", \"_\" and \"-\"")
   elseif #study.experiments == 0 then
      core.raise("cop.study: experiments must name at least one cop.experiment { … }")
   end
   for i, e in ipairs(study.experiments) do
      if not core.is_experiment(e) then
         core.raise(("cop.study: experiments[%d] must be a cop.experiment { … }, got a %s"):format(i, core.type(e)))
      elseif names[e.name] then
         core.raise(("cop.study: two experiments are called \"%s\""):format(e.name))
      end
      names[e.name] = true
   end
   return setmetatable(study, Study)
end

--- A dry run of every experiment.
function Study:check()
   local texts = {}
   for i, e in ipairs(self.experiments) do
      texts[i] = e:check()
   end
   return table.concat(texts, "\n")
end

--- One page of all runs that are there.
local function report(folder, runs)
   local list = {}
   for i, result in ipairs(runs) do
      list[i] = core.use("report").told_of(result.out)
   end
   local ok, note = core.use("report").write(folder, list)
   print(ok and ("%s/report.html, %s/summary.csv: all %d runs"):format(folder, folder, #runs) or note)
end

--- Runs all, each in OUT/NAME. → { state =, broken =, failed =, runs = results, out = } | nil, message, code:
-- of the first that could not run; the others have run nevertheless.
function Study:run(given)
   local o = core.options("study:run", given or {}, {
      { "out", "string" }, { "resume", "boolean" }, { "shard", "string" },
   })
   local folder = o.out or (core.run_options or {}).out or ("runs/" .. self.name)
   local all = { state = "finished", broken = 0, failed = 0, runs = {}, out = folder }
   local failure
   for _, e in ipairs(self.experiments) do
      local result, problem, code = e:run { out = ("%s/%s"):format(folder, e.name), resume = o.resume, shard = o.shard }
      if result then
         all.runs[#all.runs + 1] = result
         all.broken, all.failed = all.broken + result.broken, all.failed + result.failed
         all.state = result.state ~= "finished" and result.state or all.state
      else
         failure = failure or { ("%s: %s"):format(e.name, problem), code }
      end
      if all.state == "interrupted" then
         break
      end
   end
   if #all.runs > 0 then
      report(folder, all.runs)
   end
   if failure then
      return nil, failure[1], failure[2]
   end
   return core.result(all)
end

Study.check, Study.run = core.wrap(Study.check), core.wrap(Study.run)

function core.is_study(value)
   return getmetatable(value) == Study
end
