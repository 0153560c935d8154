--- Identities that hold in every run: between metrics, between a run and its cycles.

local check, test = ...
local cop = require("coppice")

local target = assert(cop.model { path = test.tiny { seed = 7 }, threads = 1, context = 256 })
local draft = assert(cop.model { path = test.tiny { seed = 7, noise = 0.4, noise_seed = 2 }, threads = 1,
   context = 256 })
local depth = 3
local e = cop.experiment {
   name = "identities", target = target, max_tokens = 30, temperature = { 0, 1 }, ignore_eos = true,
   prompts = { "the cat and the hat", "in the end", "he said that she", "one two three" },
   arms = { cop.arm { "chain", proposer = cop.propose.model { draft }, tree = cop.tree.chain { depth = depth } } },
}
local folder = test.folder() .. "/run"
test.quietly(function() return assert(e:run { out = folder }) end)
local run = assert(cop.open_run(folder))
check.equal(#run:broken_identities(), 0)
local seen = 0
for _, m in ipairs(run:metrics()) do
   if not m.is_plain then
      local of_arm = " FROM cycles c JOIN requests r ON r.id = c.request JOIN arms a ON a.id = r.arm"
         .. " WHERE a.name = ?1 AND a.sampling = ?2"
      local c = run:sql("SELECT COUNT(*) AS rounds, SUM(n_accepted) AS accepted, SUM(n_accepted + 1) AS emitted,"
         .. " SUM(n_accepted < nodes) AS rejections, SUM(nodes > 0) AS drafting" .. of_arm, m.arm, m.sampling)[1]
      check.is(c.accepted > 0 and c.rejections > 0, "a chain that is sometimes right")
      -- emitted = sum of (n + 1); P = 1 + accepted / rounds
      check.near(m.block_efficiency, c.emitted / c.rounds)
      check.near(m.block_efficiency, 1 + c.accepted / c.rounds)
      -- the histogram sums to the rounds, weighted to the accepted tokens
      local rounds, accepted = 0, 0
      for n, count in pairs(m.acceptance_histogram_vllm) do
         rounds, accepted = rounds + count, accepted + n * count
      end
      check.equal(rounds, c.drafting, "the histogram counts rounds that drafted")
      check.equal(accepted, c.accepted)
      -- rounds with n >= i: never more at a deeper place; their sum is P - 1
      local sum, last = 0, 1
      for d = 1, depth do
         local rate = m.rate_at_depth_of_cycles[d] or 0
         check.is(rate <= last)
         -- conditional: of the rounds that tested this place, which is this rate over the one before where all do
         local tested = run:sql("SELECT SUM(n_accepted >= ?3) AS kept, SUM(depth >= ?3 AND n_accepted >= ?3 - 1) AS n"
            .. of_arm, m.arm, m.sampling, d)[1]
         check.near(m.rate_at_depth_of_tests[d] or 0, tested.n > 0 and tested.kept / tested.n or 0)
         check.near(rate, tested.kept / c.rounds)
         sum, last = sum + rate, rate
      end
      check.near(sum, m.block_efficiency - 1, 1e-9)
      -- the likeliest constant acceptance: accepted / (accepted + rejections) = accepted / tested
      check.near(m.acceptance_per_test, c.accepted / (c.accepted + c.rejections))
      seen = seen + 1
   end
end
check.equal(seen, 2)
run:close()
