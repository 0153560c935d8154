--- coppice train: a head for a target, from the command line.

local cop, core = ...

local cli = core.use("cli")
local verb = {}

--- Options of cop.train that are given here in another way.
local other = { head = true, target = true, data = true, temperature = true, on_progress = true }
local types = { integer = "integer", number = "number", long = "integer", boolean = "flag" }

verb.specs = cli.with_model {
   { name = "data", type = "string", value = "FILE", help = "prompts, in a format of cop.dataset; absent: the target"
      .. " asks itself" },
   { name = "temperature", type = "string", value = "0,1", help = "of the answers; several take turns" },
}
for _, row in ipairs(core.train_spec) do
   if not other[row[1]] then
      verb.specs[#verb.specs + 1] = { name = (row[1]:gsub("_", "-")), type = types[row[2]] or "string",
         value = row.choices, help = row.help }
   end
end

local function numbers(text)
   local list = {}
   for word in text:gmatch("[^,]+") do
      list[#list + 1] = tonumber(word) or cli.fail("coppice train: \"--temperature\" must be numbers, got \"%s\"", text)
   end
   return list
end

function verb.main(words)
   local o = cli.parse("train", words, verb.specs)
   if #o ~= 1 then
      cli.fail("coppice train: which head? coppice train medusa|hydra|mlp|eagle|model --model M --out FOLDER")
   end
   local given = { head = o[1], target = cli.open_model("train", o),
      data = o.data and cli.must(cop.dataset { path = o.data }),
      temperature = o.temperature and numbers(o.temperature) }
   for _, row in ipairs(core.train_spec) do
      if not other[row[1]] then
         given[row[1]] = o[row[1]]
      end
   end
   if not given.out then
      cli.fail("coppice train: --out FOLDER is missing")
   end
   local result, problem, code = cop.train(given)
   if not result then
      if code == "cancelled" then
         io.stderr:write(problem, "\n")
         return 130
      end
      error(problem, 0)
   end
   print(tostring(result))
   return 0
end

return verb
