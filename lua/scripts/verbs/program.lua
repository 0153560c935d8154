--- The program: one verb for each task. Returns function(words) → exit status.
--
-- Status 0: done; 1: it failed; 2: the command line is wrong, or asks for what is not built; 130:
-- stopped by Ctrl-C.

local cop, core = ...

local cli = core.use("cli")

-- ---- Opening models ------------------------------------------------------------------------------

--- What the world refuses: one message, exit status 1.
local function must(object, message)
   if object == nil then
      error(message, 0)
   end
   return object
end

function cli.open_model(verb, o, path)
   path = path or o.model or cli.fail("coppice %s: --model PATH is missing", verb)
   return must(cop.model { path = path, precision = o.precision, kv = o.kv, context = o.context, threads = o.threads })
end

cli.must = must

-- ---- Verbs ---------------------------------------------------------------------------------------

local verbs = {
   { "run", "script.lua [key=value …]", "runs an experiment script", script = "verb_run" },
   { "new", "NAME", "writes NAME.lua, an experiment script to begin with", script = "verb_new" },
   { "generate", "--model M [--proposer lookup | --draft PATH] \"prompt\"", "streams one answer",
      script = "verb_generate" },
   { "check", "rules [my.lua | my.so] [rule=NAME] [cases=N] [seed=N] | model | kernels",
      "the evidence: exact laws, greedy identity, kernel parity",
      script = "verb_check" },
   { "cost", "--model M [--draft PATH]", "measures and saves what a forward pass costs", script = "verb_cost" },
   { "train", "HEAD --model M --out FOLDER [--data FILE]", "trains a head or a small model on the target's own answers",
      script = "verb_train" },
   { "help", "[name]", "this list; a verb's options; or anything that scripts can construct" },
   { "stubs", "[--out coppice.lua]", "annotations for editors with the Lua language server", script = "verb_stubs" },
   { "report", "RUN … [--out DIR]", "tables and plots of stored runs", script = "verb_report" },
   { "merge", "RUN … --out DIR", "the parts of a run, from shards or several machines, as one", script = "verb_merge" },
   { "diff", "RUN RUN", "what differs between two runs", script = "verb_diff" },
   { "export", "RUN --format jsonl|csv|spec_bench --out PATH", "a stored run as text, for other programs",
      script = "verb_export" },
   { "import", "FILE.jsonl | FOLDER --out RUN", "a run of an exported one", script = "verb_import" },
   { "serve-bench", "", "load test of batched serving", missing = "experiments with batch = n serve in batches" },
   { "repl", "", "Lua with history and completion; without a terminal: the lines of standard input",
      script = "verb_repl" },
}

local function find(name)
   local names = {}
   for i, verb in ipairs(verbs) do
      names[i] = verb[1]
      if verb[1] == name then
         return verb
      end
   end
   return nil, names
end

local function usage()
   local lines = { "usage: coppice VERB …, one of", "" }
   for _, verb in ipairs(verbs) do
      lines[#lines + 1] = ("  %-12s %s%s"):format(verb[1], verb[3], verb.missing and " (not built yet)" or "")
   end
   lines[#lines + 1] = ""
   lines[#lines + 1] = "coppice help VERB lists a verb's options; coppice --version says what this build is."
   return table.concat(lines, "\n")
end

local function help(name)
   if not name then
      print(usage())
      return 0
   end
   local verb = find(name)
   if verb then
      print(("coppice %s %s\n  %s"):format(verb[1], verb[2], verb[3]))
      local specs = verb.script and core.use(verb.script).specs
      if specs then
         print("\n" .. cli.describe(specs))
      end
      return 0
   end
   cop.help(name)
   return 0
end

local function version()
   print(("coppice %s (%s, %s)"):format(cop.version, table.concat(cop.build.backends, ", "), cop.build.simd))
   return 0
end

local function dispatch(words)
   local name = table.remove(words, 1)
   if name == nil then
      io.stderr:write(usage(), "\n")
      return 2
   elseif name == "--help" or name == "-h" or name == "help" then
      return words[1] == "--stubs" and core.use("verb_stubs").main {} or help(words[1])
   elseif name == "--version" or name == "version" then
      return version()
   end
   local verb, names = find(name)
   if not verb then
      cli.fail("coppice: unknown verb \"%s\"%s; coppice help lists them", name, cli.hint(name, names))
   elseif verb.missing then
      cli.fail("coppice %s: not built yet; %s", name, verb.missing)
   end
   for _, word in ipairs(words) do
      if word == "--help" then
         return help(name)
      end
   end
   return core.use(verb.script).main(words) or 0
end

return function(words)
   local ok, status = xpcall(dispatch, function(message)
      -- a mistake in our own scripts deserves its place, a person's mistake only its words
      local text = tostring(message)
      local is_ours = type(message) == "string" and text:find("^coppice/[%w_]+%.lua:%d+:")
      return cli.is_usage(message) and message or is_ours and debug.traceback(text, 2) or text
   end, words)
   if ok then
      return status
   end
   io.stderr:write(tostring(status), "\n")
   return cli.is_usage(status) and 2 or 1
end
