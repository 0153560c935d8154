--- Measures of one's own: a number for an answer's cycles, a number for its text, and an observer that sees
--- every cycle while it happens.

local cop = require("coppice")

local args = cop.args {
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",
   limit = 6,
   max_tokens = 64,
}

--- The longest run of cycles that kept no draft: how long a reader waits at the worst place.
local drought = cop.metric.custom {
   name = "longest drought",
   of = function(cycles)
      local run, longest = 0, 0
      for _, cycle in ipairs(cycles) do
         run = cycle.progress == 1 and run + 1 or 0
         longest = math.max(longest, run)
      end
      return longest
   end,
}

--- Whether the answer ends where a sentence does; nil (nothing to say) for one that was cut by max_tokens.
local whole = cop.quality.custom {
   name = "ends a sentence",
   of = function(_, answer)
      if answer.finish == "length" then
         return nil
      end
      return answer.text:find("[.!?`]%s*$") ~= nil
   end,
}

local longest = 0

return cop.experiment {
   name = "own-measures",
   target = cop.model { path = args.model },
   prompts = cop.dataset {
      path = args.prompts, limit = args.limit,
      filter = function(item) return #item.turns[1] < 2000 end, -- sees all fields of the record
   },
   max_tokens = args.max_tokens,
   arms = {
      cop.arm { "short", proposer = cop.propose.lookup { tokens = 4 } },
      cop.arm { "long", proposer = cop.propose.lookup { tokens = 16 } },
   },
   metrics = { drought },
   quality = { whole, "repetition" },
   observe = function(cycle) -- a debugging aid: its time is counted in H
      if cycle.progress > longest then
         longest = cycle.progress
         io.stderr:write(("arm %s, prompt %d: a cycle of %d tokens\n"):format(cycle.arm, cycle.prompt, longest))
      end
   end,
}
