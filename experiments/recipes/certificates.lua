--- Acceptance certificates: the least divergence of the draft row at which a draft can be refused.

local cop = require("coppice")

local function certificate(row, children)
   return function() return cop.certificate { row = row, children = children } end
end

local row = { .6, .25, .1, .05 }

return {
   name = "certificates",
   about = "the least KL(target || draft), in nats, at which none of the draft's m best tokens need be kept",
   source = "acceptance certificates: Sharma, arXiv:2606.30265",
   values = {
      { "target (.6, .3, .1), m = 1", "0.05097", certificate { .6, .3, .1 } },
      { "target (.9, .05, .05), m = 1", "0.46261", certificate { .9, .05, .05 } },
      { "target (.5, .5), m = 1", "0.00000", certificate { .5, .5 } },
      { "target (1, 0), m = 1", "0.69315", certificate { 1, 0 } },
      { "target (.6, .25, .1, .05), m = 1", "0.07425", certificate(row, 1) },
      { "target (.6, .25, .1, .05), m = 2", "0.20908", certificate(row, 2) },
      { "target (.6, .25, .1, .05), m = 3", "0.35318", certificate(row, 3) },
   },
}
