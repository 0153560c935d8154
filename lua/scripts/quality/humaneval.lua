--- HumanEval's tasks (Chen et al. 2021, arXiv:2107.03374): from an answer to a program, and whether the
-- program passes the task's tests in the sandbox.
--
-- A prompt that was continued gives prompt + answer, cut before the first of the stop texts that the
-- benchmark uses. An answer to a message (chat) gives its code block that defines the function, else its
-- first block, else its text; what the prompt has above the function (imports, helpers) stands before it,
-- and code that does not define the function is taken as the prompt's continuation.
--
-- The program ends with a status of its own after its last test, so that one that leaves early (exit(0))
-- has not passed.

local cop, core = ...

local humaneval = {}

--- Where a continued function ends: stop = cop.quality.humaneval_stops of an experiment.
cop.quality.humaneval_stops = { "\nclass", "\ndef", "\n#", "\nif", "\nprint" }

local passed = 113

local function cut(text)
   local first = #text + 1
   for _, stop in ipairs(cop.quality.humaneval_stops) do
      first = math.min(first, text:find(stop, 1, true) or first)
   end
   return text:sub(1, first - 1)
end

--- The place of the line "def NAME(" that begins at the margin, or nil.
local function definition(code, name)
   local pattern = "\ndef%s+" .. name:gsub("%p", "%%%0") .. "%s*%("
   return (("\n" .. code):find(pattern))
end

--- Texts between lines of ``` (or ~~~); the last may lack its end.
local function blocks(text)
   local list, open = {}, nil
   for line in (text:gsub("\r\n", "\n") .. "\n"):gmatch("(.-)\n") do
      local fence = line:match("^%s*(```)") or line:match("^%s*(~~~)")
      if fence and not open then
         open = { fence = fence }
      elseif open and fence == open.fence then
         list[#list + 1], open = table.concat(open, "\n"), nil
      elseif open then
         open[#open + 1] = line
      end
   end
   list[#list + 1] = open and table.concat(open, "\n") or nil
   return list
end

local function check_text(owner, what, value)
   if type(value) ~= "string" then
      core.raise(("%s: %s must be a text, got a %s"):format(owner, what, core.type(value)))
   end
end

--- The code of a chat answer: the block that defines `name`, else the first block, else the whole text.
function cop.quality.code_block(text, name)
   check_text("cop.quality.code_block", "the answer", text)
   check_text("cop.quality.code_block", "the function's name", name or "")
   local list = blocks(text)
   for _, code in ipairs(name and list or {}) do
      if definition(code, name) then
         return code
      end
   end
   return list[1] or text
end

--- Whether an item has what a program can be tested with.
function humaneval.has_tests(item)
   return type(item.test) == "string" and type(item.entry_point) == "string"
end

local function solution(item, answer)
   local prompt = type(item.prompt) == "string" and item.prompt or item.turns[1]
   if not item.chat then
      return prompt .. cut(answer)
   end
   local code = cop.quality.code_block(answer, item.entry_point)
   local head = definition(code, item.entry_point) and definition(prompt, item.entry_point)
   return head and prompt:sub(1, head - 1) .. "\n" .. code
      or definition(code, item.entry_point) and code or prompt .. code
end

local options = {
   { "seconds", "number", min = 0.01, max = 86400, default = 3, help = "of wall clock" },
   { "memory", "integer", min = 1 << 26, max = 1 << 50, default = 1 << 30, help = "bytes of address space" },
   { "interpreter", "string", default = "python3", help = "name or path of a Python 3" },
}

--- cop.quality.humaneval(item, answer, { seconds =, memory =, interpreter = }) → { passed = boolean, program =,
-- and what cop.quality.run_program returns } | nil, message, code. item: of cop.dataset, format "humaneval".
function cop.quality.humaneval(item, answer, given)
   local owner = "cop.quality.humaneval"
   if type(item) ~= "table" or not humaneval.has_tests(item) then
      core.raise(owner .. ": the first argument must be an item with test and entry_point, as the format \"humaneval\""
         .. " of cop.dataset gives it")
   end
   check_text(owner, "the answer", answer)
   local o = core.options(owner, given or {}, options)
   o.program = ("%s\n\n%s\n\ncheck(%s)\nraise SystemExit(%d)\n"):format(solution(item, answer), item.test,
      item.entry_point, passed)
   local result, problem, code = cop.quality.run_program(o)
   if not result then
      return nil, problem, code
   end
   result.passed, result.program = result.status == passed, o.program
   return result
end

local patience = 10 -- seconds; the benchmark's 3 would let a busy machine decide

--- The measure pass_at_1.
function humaneval.measure(item, answer)
   if not humaneval.has_tests(item) then
      return nil
   end
   local result, problem = cop.quality.humaneval(item, answer.text, { seconds = patience })
   return result and result.passed or not result and error(problem, 0)
end

--- A dry run refuses what this machine cannot measure.
function humaneval.check(where)
   local place, problem = core.use("sandbox").place("python3")
   if not place then
      error(("%scop.experiment: quality \"pass_at_1\" runs programs, and that is not possible here: %s"):format(where,
         problem), 0)
   end
end

-- ---- pass@k --------------------------------------------------------------------------------------

local counts = "SELECT prompt, COUNT(*) AS n, SUM(value) AS correct FROM quality q"
   .. " WHERE arm = ?1 AND measure = 'pass_at_1'"
   .. " AND NOT EXISTS (SELECT 1 FROM quality k WHERE k.arm = q.arm AND k.prompt = q.prompt AND k.measure = ?2)"
   .. " GROUP BY prompt ORDER BY prompt"

--- A measure of a prompt's answers together, stored with the first of them.
function humaneval.at_k(k)
   local name = ("pass_at_%d"):format(k)
   return { name = name, better = "higher", of_prompts = function(trace, arm, store, fail)
      for _, row in ipairs(trace:rows(counts, arm.id, name) or {}) do
         if row.n >= k then
            store(row.prompt, cop.quality.pass_at_k(row.n, math.tointeger(row.correct), k))
         else
            fail(row.prompt, ("%d answers were run, %d are needed"):format(row.n, k))
         end
      end
   end }
end

return humaneval
