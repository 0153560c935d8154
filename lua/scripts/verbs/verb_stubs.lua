--- coppice stubs: annotations of everything that scripts can call, for editors (stubs.lua).

local _, core = ...

local cli = core.use("cli")
local verb = {}

verb.specs = {
   { name = "out", type = "string", value = "FILE", help = "where they go (default: standard output)" },
}

function verb.main(words)
   local o = cli.parse("stubs", words, verb.specs)
   if o[1] then
      cli.fail("coppice stubs: what is \"%s\"? (coppice stubs --out coppice.lua)", o[1])
   end
   local text = core.use("stubs").text()
   if o.out then
      cli.must(core.system.write(o.out, text))
      print(o.out .. ": name its folder in the language server's workspace.library")
   else
      io.stdout:write(text)
   end
   return 0
end

return verb
