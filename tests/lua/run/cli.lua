--- The command line.

local check, _, core = ...
local cli = core.use("cli")

local specs = {
   { name = "max-tokens", type = "integer", help = "" }, { name = "out", type = "string", help = "" },
   { name = "sizes", type = "integers", help = "" }, { name = "resume", type = "flag", help = "" },
   { name = "top-p", type = "number", help = "" },
}

local function parse(...)
   return cli.parse("run", { ... }, specs)
end

local o = parse("script.lua", "--max-tokens", "5", "a=1", "--out=x=y", "--sizes", "1,2,16", "--top-p=0.5", "--",
   "--resume")
check.list(o, { "script.lua", "a=1", "--resume" })
check.equal(o.max_tokens, 5)
check.equal(o.out, "x=y")
check.equal(o.top_p, 0.5)
check.list(o.sizes, { 1, 2, 16 })
check.equal(o.resume, nil)
check.equal(parse("--resume").resume, true)
check.equal(parse("--no-resume").resume, false)

local function refused(text, ...)
   local ok, message = pcall(parse, ...)
   check.is(not ok and cli.is_usage(message), "a usage error")
   check.equal(tostring(message), text)
end
refused('coppice run: unknown option "--max-token" (did you mean "--max-tokens"?)', "--max-token", "5")
refused('coppice run: unknown option "--no-out"', "--no-out")
refused('coppice run: "--max-tokens" needs a value', "--max-tokens")
refused('coppice run: "--max-tokens" must be of type integer, got "5.5"', "--max-tokens", "5.5")
refused('coppice run: "--resume" takes no value', "--resume=yes")
refused('coppice run: unknown option "-r"; options begin with "--"', "-r")
