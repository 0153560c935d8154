--- record = { rows = "f16" } of cop.experiment, and where a run keeps the rows of its answers: in its folder,
-- rows/ARM-PROMPT-REPEAT-TURN.safetensors, arm by its number in trace.db. A file is whole before the answer is
-- entered into the trace.

local _, core = ...

local row_files = {}

function row_files.folder(run_folder)
   return run_folder .. "/rows"
end

function row_files.path(run_folder, arm, prompt, number, turn)
   return ("%s/%d-%d-%d-%d.safetensors"):format(row_files.folder(run_folder), arm, prompt, number, turn)
end

--- Whether there are rows of an arm.
function row_files.of_arm(run_folder, arm)
   if core.system.kind(row_files.folder(run_folder)) ~= "folder" then
      return false
   end
   for _, name in ipairs(core.system.list(row_files.folder(run_folder)) or {}) do
      if name:find(("^%d%%-%%d+%%-%%d+%%-%%d+%%.safetensors$"):format(arm)) then
         return true
      end
   end
   return false
end

-- ---- record = { … } ------------------------------------------------------------------------------

local function contains(list, value)
   for _, entry in ipairs(list) do
      if entry == value then
         return true
      end
   end
   return false
end

local options = {
   { "rows", "choice", choices = "f16|f32", required = true },
   { "top", "integer", min = 1, max = 1 << 24 },
   { "arms", "table" },
}

--- All of a row or its `top` best, of the arms that are named or of all that draft.
function row_files.option(given, arms)
   if given == nil then
      return nil
   end
   local owner = "cop.experiment: record"
   local record, known, drafting = core.options(owner, given, options), { "plain" }, {}
   for _, arm in ipairs(arms) do
      known[#known + 1] = arm.name
      drafting[#drafting + 1] = arm.proposer and arm.name or nil
   end
   for _, name in ipairs(record.arms or {}) do
      if not contains(known, name) then
         core.unknown(owner, "arm", tostring(name), known)
      end
   end
   record.arms = record.arms or drafting
   if #record.arms == 0 then
      core.raise(owner .. ": no arm drafts, so there are no rows to replay")
   end
   return record
end

--- What core.trace.record is told for an answer of an arm: nothing, or the format and how many of the best.
function row_files.of_answer(record, name)
   if record and contains(record.arms, name) then
      return record.rows, record.top
   end
end

return row_files
