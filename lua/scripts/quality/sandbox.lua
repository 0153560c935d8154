--- cop.quality.run_program: a Python program that nobody has read, run where it can harm nothing
-- (core/sandbox/sandbox.h says what that means). Of the means that a machine may have the first that
-- works serves; which one that is is found once, by running a program of one line.

local cop, core = ...

local sandbox = {}
local system = core.system.sandbox

local found = {} -- by interpreter: { path =, means = } or { problem = }

local sign = 113 -- a status that no accident gives

local function try(means, path)
   local result, problem = system.run(means, path, ("raise SystemExit(%d)"):format(sign), 20, 1 << 29, 4096)
   if not result then
      return problem
   elseif result.status ~= sign then
      local said = result.stderr:match("[^\n]+")
      return said or ("a first program ended by %s"):format(result.finish)
   end
end

local function look(interpreter)
   local path, problem = system.find(interpreter)
   if not path then
      return { problem = problem }
   end
   local problems = {}
   for _, means in ipairs(system.means) do
      problem = try(means, path)
      if not problem then
         return { path = path, means = means }
      end
      problems[#problems + 1] = ("%s: %s"):format(means, problem)
   end
   return { problem = ("no sandbox on this machine (%s); one of them is needed: unprivileged user namespaces"
      .. " (sysctl user.max_user_namespaces above 0; in a container its seccomp profile must let them), bubblewrap, or"
      .. " a kernel with Landlock"):format(table.concat(problems, "; ")) }
end

--- Where programs of this interpreter run → { path =, means = } | nil, message, "unsupported"
function sandbox.place(interpreter)
   found[interpreter] = found[interpreter] or look(interpreter)
   local place = found[interpreter]
   if place.problem then
      return nil, place.problem, "unsupported"
   end
   return place
end

local options = {
   { "program", "string", required = true, positional = true, help = "source text" },
   { "interpreter", "string", default = "python3", help = "name or path of a Python 3" },
   { "seconds", "number", min = 0.01, max = 86400, default = 3, help = "of wall clock" },
   { "memory", "integer", min = 1 << 26, max = 1 << 50, default = 1 << 30, help = "bytes of address space" },
   { "output", "integer", min = 0, max = 1 << 30, default = 1 << 20, help = "bytes, of stdout and stderr together" },
}

--- cop.quality.run_program { program =, interpreter =, seconds =, memory =, output = } → { finish = "exit" |
-- "signal" | "timeout" | "output", status =, signal =, stdout =, stderr =, seconds =, sandbox = } | nil,
-- message, code
function cop.quality.run_program(given)
   local o = core.options("cop.quality.run_program", given, options)
   local place, problem, code = sandbox.place(o.interpreter)
   if not place then
      return nil, "cop.quality.run_program: " .. problem, code
   end
   local result
   result, problem, code = system.run(place.means, place.path, o.program, o.seconds + 0.0, o.memory, o.output)
   if not result then
      return nil, "cop.quality.run_program: " .. problem, code
   end
   result.sandbox = place.means
   return result
end

return sandbox
