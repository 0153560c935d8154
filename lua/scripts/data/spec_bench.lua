--- Answers in the files that Spec-Bench's own scripts read: data/<bench>/model_answer/<model-id>.jsonl, one
-- line for each question, one file for each arm and sampling. What comes in: spec_bench_import.lua.
--
-- wall_time is prefill + decoding, as theirs; accept_lengths are the tokens that each cycle added to the
-- answer, so that evaluation/speed.py prints our mean_accepted_tokens_spec_bench, tokens_per_second_spec_bench,
-- …_of_plain and, with the model's own tokenizer, speed_up_spec_bench of cop.help("metrics"). A question without an
-- answer to each of its turns is left out.

local _, core = ...

local spec_bench = {}

local json = core.system.json

local must = core.use("must")

local function kept_of(trace, request)
   local list = {}
   for i, row in ipairs(must(trace:rows("SELECT kept FROM cycles WHERE request = ? ORDER BY cycle", request))) do
      list[i] = row.kept
   end
   return list
end

local function new_choice(index)
   return { index = index, turns = json.list {}, decoding_steps = json.list {}, new_tokens = json.list {},
      wall_time = json.list {}, accept_lengths = json.list {} }
end

local function add_turn(trace, choice, row)
   choice.turns[#choice.turns + 1] = row.text or ""
   choice.decoding_steps[#choice.decoding_steps + 1] = row.forward_passes
   choice.new_tokens[#choice.new_tokens + 1] = row.n_tokens
   choice.wall_time[#choice.wall_time + 1] = row.decode_seconds + (row.prefill_seconds or 0.0)
   local kept = kept_of(trace, row.id)
   table.move(kept, 1, #kept, #choice.accept_lengths + 1, choice.accept_lengths)
end

--- How many turns a question has, by the answers of any arm: [prompt] = n.
local function turns_of(run)
   local turns = {}
   for _, row in ipairs(must(run.trace:rows("SELECT prompt, MAX(turn) AS n FROM requests GROUP BY prompt"))) do
      turns[row.prompt] = row.n
   end
   return turns
end

local function is_whole(item, turns)
   for _, choice in pairs(item.choices) do
      if #choice.turns < turns then
         return false
      end
   end
   return true
end

--- Lines of one arm in the order of questions.
local function lines_of(run, arm, model_id, turns)
   local failed, items, order = {}, {}, {}
   local rows = must(run.trace:rows("SELECT id, prompt, repeat, turn, question, category, text, n_tokens,"
      .. " forward_passes, decode_seconds, prefill_seconds, error, strftime('%s', ended) AS ended FROM requests"
      .. " WHERE arm = ? ORDER BY prompt, repeat, turn", arm.id))
   for _, row in ipairs(rows) do
      failed[row.prompt] = failed[row.prompt] or row.error ~= nil
   end
   for _, row in ipairs(rows) do
      if not failed[row.prompt] then
         local item = items[row.prompt]
         if not item then
            item = { question_id = math.tointeger(tonumber(row.question)) or row.question or row.prompt,
               category = row.category or "all", model_id = model_id, choices = json.list {},
               answer_id = core.system.hash(("%s %s %d"):format(model_id, run.folder, row.prompt)):sub(1, 22) }
            items[row.prompt], order[#order + 1] = item, { item, turns[row.prompt] }
         end
         item.choices[row["repeat"]] = item.choices[row["repeat"]] or new_choice(row["repeat"] - 1)
         add_turn(run.trace, item.choices[row["repeat"]], row)
         item.tstamp = (tonumber(row.ended) or 0) + 0.0
      end
   end
   local lines = {}
   for _, entry in ipairs(order) do
      lines[#lines + 1] = is_whole(table.unpack(entry)) and json.encode(entry[1]) or nil
   end
   return lines
end

--- A name for a file, from those of an arm and its sampling: "draft-T=0".
local function file_name(arm)
   return (("%s-%s"):format(arm.name, arm.sampling):gsub("[^%w=._-]+", "_"))
end

--- Writes out/<arm>-<sampling>.jsonl for every arm. → list of paths | nil, message, code
function spec_bench.export(run, out)
   local ok, problem, code = core.system.folder(out)
   if not ok then
      return nil, problem, code
   end
   local paths, turns = {}, turns_of(run)
   for arm in run:arms() do
      local model_id = file_name(arm)
      local path = ("%s/%s.jsonl"):format(out, model_id)
      local lines = lines_of(run, arm, model_id, turns)
      ok, problem, code = core.system.write(path, #lines > 0 and table.concat(lines, "\n") .. "\n" or "")
      if not ok then
         return nil, problem, code
      end
      paths[#paths + 1] = path
   end
   return paths
end

return spec_bench
