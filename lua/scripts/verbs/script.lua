--- A script of the user's: read, compiled, its folder on the search path.

local _, core = ...

local script = {}

local function read(verb, path)
   local file, reason = io.open(path, "rb")
   if not file then
      error(("%s: cannot open %s"):format(verb, reason), 0)
   end
   local text = file:read("a")
   file:close()
   return text or error(("%s: cannot read \"%s\""):format(verb, path), 0)
end

--- Returns the script as a function. `verb` ("coppice run") begins messages.
function script.load(verb, path)
   local text = read(verb, path)
   core.script = { name = path:match("[^/]*$"), text = text }
   package.path = (path:match("^(.*/)[^/]*$") or "./") .. "?.lua;" .. package.path
   -- a first line "#!…" stays as an empty line, so that line numbers are right
   local chunk, problem = load(text:gsub("^#[^\n]*", "", 1), "@" .. path, "t")
   return chunk or error(problem, 0)
end

return script
