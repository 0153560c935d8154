--- coppice new: writes a script that runs as it is, with a note at each place where one's own ideas go.

local _, core = ...

local cli = core.use("cli")
local verb = { specs = {} }

local template = [[
--- NAME: what is the question? One sentence here; the report keeps it with the numbers.
---
---    coppice run FILE --check     says what would run, and refuses what is unsound
---    coppice run FILE limit=2     a short try
---    coppice report runs/NAME     the tables again; runs/NAME/report.html is the page

local cop = require("coppice")

local args = cop.args { -- what the command line may change: key=value
   model = "models/SmolLM2-135M-Instruct.Q4_1.gguf", -- a GGUF file, or a folder as it was downloaded
   draft = "experiments/heads/draft-smollm2-q8_0.gguf",
   prompts = "experiments/prompts/quickstart.jsonl",  -- text, one prompt a line, or JSON lines
   limit = 4,
   max_tokens = 64,
}

local draft = cop.model { path = args.draft }

return cop.experiment {
   name = "NAME", -- the run's folder is runs/NAME
   target = cop.model { path = args.model },
   prompts = cop.dataset { path = args.prompts, limit = args.limit },
   seed = 17,
   temperature = { 0, 1 },
   max_tokens = args.max_tokens,
   -- What is compared. Plain decoding runs by itself. `coppice help` lists all proposers, trees, rules and lengths.
   arms = {
      cop.arm { "lookup", proposer = cop.propose.lookup {} },
      cop.arm { "draft", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 3 },
                rule = cop.accept.token {} },
      -- a rule that changes the target's distribution says so
      cop.arm { "typical", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = 3 },
                rule = cop.accept.typical {}, relaxed = true },
   },
   quality = { "target_nll" }, -- `coppice help quality` lists the measures
}
]]

--- "a/b/my idea" → the file, and a name that can be a folder's.
local function names_of(word)
   local path = word:find("%.lua$") and word or word .. ".lua"
   local name = path:match("([^/]*)%.lua$"):gsub("[^%w._-]+", "-"):gsub("^[^%w]+", "")
   if name == "" then
      cli.fail("coppice new: \"%s\" has no name in it: letters, digits, \".\", \"_\" and \"-\"", word)
   end
   return path, name
end

function verb.main(words)
   local o = cli.parse("new", words, verb.specs)
   if not o[1] then
      cli.fail("coppice new: which name? (coppice new my-idea writes my-idea.lua)")
   elseif o[2] then
      cli.fail("coppice new: one name, not \"%s\" as well", o[2])
   end
   local path, name = names_of(o[1])
   if core.system.kind(path) ~= nil then
      error(("coppice new: %s is there already, and is left as it is; give another name"):format(path), 0)
   end
   local words_of = { NAME = name, FILE = path }
   cli.must(core.system.write(path, (template:gsub("%f[%u]%u+%f[%U]", words_of))))
   print(("%s: coppice run %s --check says what it would do"):format(path, path))
   return 0
end

return verb
