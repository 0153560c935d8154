/* The definitions of all metrics, in SQL.
 *
 * In the formulas: "cycles" are target passes with a tree or a lone root; "drafting cycles"
 * those with at least one draft; "progress" is accepted + the recovered or bonus token; "kept"
 * is progress after the cut by a stop or limit, so that kept tokens are the answer's tokens. A
 * quotient with 0 below is NULL. */
#include "core/trace/views.h"

#define OF_CYCLES          " FROM requests r JOIN cycles c ON c.request = r.id WHERE r.error IS NULL"
#define HOST_US            "(c.verify_us + c.commit_us + c.other_us)"
#define STEP_US            "(c.draft_us + c.score_us + " HOST_US ")"
/* 1.0 makes the quotient a real number. */
#define OF_ARM(expression) "SELECT arm_id, 1.0 * " expression " AS value FROM arm_counts"
#define OF_DEPTH(expression)                                                                   \
    "SELECT arm_id, depth, 1.0 * " expression " AS value FROM depth_counts"
/* Spec-Bench's: the first answers, of questions of sub-tasks; rates of a question. */
#define TASK                                                                                   \
    "CASE WHEN category IN ('writing', 'roleplay', 'reasoning', 'math', 'coding', "            \
    "'extraction',"                                                                            \
    " 'stem', 'humanities') THEN 'mt_bench' ELSE category END"
#define OF_FIRST_COUNTS                                                                        \
    " FROM answers a JOIN request_counts c ON c.request = a.request WHERE repeat = 1"
#define OF_QUESTIONS(recounted)                                                                \
    " FROM (SELECT arm_id, " TASK " AS task, TOTAL(n_tokens) / TOTAL(seconds) AS rate,"        \
    " TOTAL(" recounted ") / TOTAL(plain_seconds) AS plain_rate FROM pairs WHERE repeat = 1"   \
    " GROUP BY arm_id, prompt)"
#define OF_PAIRS(expression) "SELECT arm_id, " expression " AS value FROM pairs GROUP BY arm_id"

const struct cop_trace_view cop_trace_views[] = {
    /* ---- Counts ---- */
    {.name = "answers",
     .sql = "SELECT id AS request, arm AS arm_id, prompt, repeat, turn, category, n_prompt,"
            " n_tokens, forward_passes, drafted, accepted, progress, prefill_seconds,"
            " decode_seconds, decode_seconds + COALESCE(prefill_seconds, 0) AS seconds,"
            " peak_pages, (SELECT text_tokens FROM requests WHERE id = r.id) AS text_tokens"
            " FROM (SELECT NULL AS text_tokens) CROSS JOIN requests r WHERE error IS NULL"},
    {.name = "plain_arms",
     .sql = "SELECT a.id AS arm_id, p.id AS plain_id FROM arms a JOIN arms p"
            " ON p.sampling = a.sampling AND p.is_plain"},
    {.name = "cycle_counts",
     .sql = "SELECT r.arm AS arm_id, c.n_accepted, c.origin = 'recovered' AND c.nodes > 0 AS"
            " rejected, c.nodes, c.depth, COUNT(*) AS cycles, SUM(c.progress) AS progress,"
            " SUM(c.kept) AS kept, SUM(c.kv_bytes_moved) AS kv_bytes,"
            " SUM(c.draft_us / c.batch_size) / 1e6 AS draft_seconds,"
            " SUM(c.score_us / c.batch_size) / 1e6 AS score_seconds,"
            " SUM(" HOST_US " / c.batch_size) / 1e6 AS host_seconds" OF_CYCLES
            " GROUP BY 1, 2, 3, 4, 5"},
    {.name = "position_counts",
     .sql = "SELECT r.arm AS arm_id,"
            " MAX(0, c.context_length + 1 - r.n_prompt) / 32 * 32 AS position,"
            " COUNT(*) AS cycles, SUM(c.progress) AS progress" OF_CYCLES
            " AND c.context_length NOT NULL GROUP BY 1, 2"},
    {.name = "step_times",
     .sql = "WITH ranked AS (SELECT r.arm AS arm_id, " STEP_US " / 1e6 AS seconds, ROW_NUMBER()"
            " OVER (PARTITION BY r.arm ORDER BY " STEP_US ") - 1 AS place,"
            " COUNT(*) OVER (PARTITION BY r.arm) AS n" OF_CYCLES ") SELECT arm_id,"
            " TOTAL(seconds * MAX(0, 1 - ABS(place - 0.2 * (n - 1)))) AS percentile_20"
            " FROM ranked GROUP BY arm_id"},
    {.name = "request_counts",
     .sql =
         "SELECT r.id AS request, r.forward_passes, r.drafted, r.accepted, r.progress,"
         " r.n_tokens, COUNT(*) AS cycles, SUM(c.nodes) AS sum_nodes,"
         " SUM(c.n_accepted) AS sum_accepted, SUM(c.progress) AS sum_progress,"
         " SUM(c.kept) AS sum_kept, SUM(c.progress <> c.n_accepted + 1 OR c.kept > c.progress"
         " OR c.n_accepted > c.depth OR c.depth > c.nodes) AS odd_cycles" OF_CYCLES
         " GROUP BY r.id"},
    {.name = "arm_counts",
     .sql =
         "SELECT c.*, a.* FROM (SELECT arm_id, SUM(cycles) AS cycles,"
         " SUM(cycles * (nodes > 0)) AS drafting_cycles, SUM(cycles * nodes) AS drafted,"
         " SUM(cycles * n_accepted) AS accepted, SUM(cycles * rejected) AS rejections,"
         " SUM(progress) AS progress, SUM(kept) AS kept, SUM(cycles * (nodes + 1)) AS scored,"
         " SUM(kv_bytes) AS kv_bytes, SUM(draft_seconds) AS draft_seconds,"
         " SUM(score_seconds) AS score_seconds, SUM(host_seconds) AS host_seconds,"
         " MAX(depth) AS depth, MIN(nodes = depth) AS is_chain FROM cycle_counts"
         " GROUP BY arm_id) c JOIN (SELECT arm_id AS of_arm, COUNT(*) AS requests,"
         " SUM(n_tokens) AS tokens, TOTAL(decode_seconds) AS decode_seconds,"
         " TOTAL(seconds) AS seconds, MAX(peak_pages) AS peak_pages FROM answers"
         " GROUP BY arm_id) a ON a.of_arm = c.arm_id"},
    {.name = "depth_counts",
     .sql = "WITH RECURSIVE d(depth) AS (SELECT 1 UNION ALL SELECT depth + 1 FROM d"
            " WHERE depth < (SELECT MAX(depth) FROM cycle_counts)) SELECT c.arm_id, d.depth,"
            " a.is_chain, a.cycles, a.drafting_cycles,"
            " SUM(c.cycles * (c.n_accepted >= d.depth)) AS reached,"
            " SUM(c.cycles * (c.n_accepted + c.rejected >= d.depth)) AS tested,"
            " SUM(c.cycles * (c.depth >= d.depth AND c.n_accepted >= d.depth - 1)) AS offered,"
            " SUM(c.cycles * (c.nodes > 0 AND c.n_accepted >= d.depth - 1)) AS reached_above"
            " FROM cycle_counts c JOIN arm_counts a ON a.arm_id = c.arm_id"
            " JOIN d ON d.depth <= a.depth GROUP BY c.arm_id, d.depth"},
    {.name = "pairs",
     .sql = "SELECT a.arm_id, a.prompt, a.repeat, a.turn, a.category, a.n_tokens,"
            " a.decode_seconds, a.seconds, p.n_tokens AS plain_tokens,"
            " p.decode_seconds AS plain_decode_seconds, p.seconds AS plain_seconds,"
            " COALESCE(p.text_tokens, p.n_tokens) - 1 AS plain_recounted"
            " FROM answers a JOIN plain_arms b ON b.arm_id = a.arm_id JOIN answers p"
            " ON p.arm_id = b.plain_id AND p.prompt = a.prompt AND p.repeat = a.repeat"
            " AND p.turn = a.turn"},

    /* ---- Tokens per pass ---- */
    {.name = "block_efficiency",
     .formula = "sum of progress / cycles; the last token counted, before the cut by a stop",
     .sql = OF_ARM("progress / cycles")},
    {.name = "tau_eagle",
     .formula = "sum of progress / cycles (the same as block_efficiency)",
     .source = "EAGLE papers, average acceptance length",
     .sql = OF_ARM("progress / cycles")},
    {.name = "mean_accepted_tokens_spec_bench",
     .formula =
         "sum of kept / cycles, pooled over questions; the last step is cut at the end; first "
         "repeat only",
     .source = "Spec-Bench, mean accepted tokens (eagle, pld)",
     .sql = "SELECT arm_id, 1.0 * SUM(sum_kept) / SUM(cycles) AS value" OF_FIRST_COUNTS
            " GROUP BY arm_id"},
    {.name = "mean_accepted_tokens_spec_bench_of_task",
     .key = "task",
     .formula = "the same over the questions of a sub-task; mt_bench is eight categories",
     .source = "Spec-Bench, evaluation/speed.py",
     .sql = "SELECT arm_id, " TASK
            " AS task, 1.0 * SUM(sum_kept) / SUM(cycles) AS value" OF_FIRST_COUNTS
            " AND category NOT NULL GROUP BY arm_id, task"},
    {.name = "mean_accepted_tokens_spec_bench_uncut",
     .formula = "sum of progress / cycles, pooled over questions",
     .source = "Spec-Bench, mean accepted tokens (medusa, hydra, rest)",
     .sql = OF_ARM("progress / cycles")},
    {.name = "mean_acceptance_length_vllm",
     .formula = "1 + accepted / drafting cycles",
     .source = "vLLM, mean acceptance length; speculators, acceptance_length",
     .sql = OF_ARM("accepted / drafting_cycles + 1")},
    {.name = "acc_length_sglang",
     .formula = "tokens of the answers / cycles, pooled over requests (prefill makes no token "
                "here; in SGLang it makes the first)",
     .source = "SGLang bench, SpecForge, acc_length",
     .sql = OF_ARM("tokens / cycles")},
    {.name = "acc_length_sglang_of_requests",
     .formula = "mean over requests of tokens / cycles",
     .source = "SGLang, SpecForge, acc_length averaged over requests",
     .sql = "SELECT arm_id, AVG(1.0 * n_tokens / forward_passes) AS value FROM answers"
            " GROUP BY arm_id"},
    {.name = "average_acceptance_length_dflash",
     .formula = "mean over answers of (mean over cycles of progress): a short answer weighs as "
                "much as a long one",
     .source = "DFlash, DDTree, average acceptance length",
     .sql = "SELECT arm_id, AVG(1.0 * progress / forward_passes) AS value FROM answers"
            " GROUP BY arm_id"},
    {.name = "tokens_per_target_pass_sequoia",
     .formula = "tokens of the answers / cycles",
     .source = "Sequoia, ratio large model steps",
     .sql = OF_ARM("tokens / cycles")},
    {.name = "gen_rate_specexec",
     .formula = "tokens of the answers / drafting cycles",
     .source = "SpecExec, gen_rate",
     .sql = OF_ARM("tokens / drafting_cycles")},
    {.name = "tokens_per_scored_position",
     .formula = "sum of progress / sum of (nodes + 1)",
     .sql = OF_ARM("progress / scored")},
    {.name = "tokens_per_target_equivalent",
     .formula = "sum of progress / ((D + V) / mean V of a cycle of plain decoding): tokens for "
                "the work of one plain target pass",
     .sql = "SELECT a.arm_id, a.progress / ((a.draft_seconds + a.score_seconds)"
            " / (p.score_seconds / p.cycles)) AS value FROM arm_counts a JOIN plain_arms b"
            " ON b.arm_id = a.arm_id JOIN arm_counts p ON p.arm_id = b.plain_id"},

    /* ---- Acceptance ---- */
    {.name = "draft_acceptance_rate",
     .formula =
         "accepted / drafted tokens; falls when more is drafted, so it says nothing across "
         "depths or widths",
     .source = "vLLM, llama.cpp, draft acceptance rate",
     .sql = OF_ARM("accepted / drafted")},
    {.name = "acceptance_per_test",
     .formula =
         "accepted / (accepted + rejections), a rejection being a drafting cycle that ends "
         "with a recovered token: the most likely alpha of independent positions",
     .source = "Leviathan et al. 2023, alpha",
     .sql = OF_ARM("accepted / (accepted + rejections)")},
    {.name = "drafting_share",
     .formula = "drafting cycles / cycles",
     .sql = OF_ARM("drafting_cycles / cycles")},
    {.name = "alpha_at_depth_eagle",
     .key = "depth",
     .formula =
         "chains only: cycles that accepted depth d / cycles that accepted depth d - 1 and "
         "drafted depth d",
     .source = "EAGLE, n-alpha (eagle/evaluation/alpha.py)",
     .sql = OF_DEPTH("reached / offered") " WHERE is_chain"},
    {.name = "rate_at_depth_vllm",
     .key = "depth",
     .formula = "cycles that accepted depth d / drafting cycles (unconditional, never rises)",
     .source = "vLLM, speculators, per-position acceptance rate",
     .sql = OF_DEPTH("reached / drafting_cycles")},
    {.name = "rate_at_depth_sglang",
     .key = "depth",
     .formula = "cycles that accepted depth d / drafting cycles that accepted depth d - 1",
     .source = "SGLang, ik_llama.cpp, speculators' training, conditional per-position rate",
     .sql = OF_DEPTH("reached / reached_above")},
    {.name = "rate_at_depth_of_tests",
     .key = "depth",
     .formula = "cycles that accepted depth d / cycles that put a draft of depth d to the test",
     .sql = OF_DEPTH("reached / tested")},
    {.name = "rate_at_depth_of_cycles",
     .key = "depth",
     .formula = "cycles that accepted depth d / cycles; sums to block_efficiency - 1",
     .sql = OF_DEPTH("reached / cycles")},
    {.name = "acceptance_histogram_vllm",
     .key = "accepted",
     .formula = "drafting cycles that accepted exactly this many tokens",
     .source = "vLLM, acceptance_histogram",
     .sql = "SELECT arm_id, n_accepted AS accepted, SUM(cycles) AS value FROM cycle_counts"
            " WHERE nodes > 0 GROUP BY arm_id, n_accepted"},
    {.name = "progress_distribution",
     .key = "tokens",
     .formula = "share of cycles that committed this many tokens; its mean is block_efficiency",
     .sql =
         "SELECT c.arm_id, c.n_accepted + 1 AS tokens, 1.0 * SUM(c.cycles) / a.cycles AS value"
         " FROM cycle_counts c JOIN arm_counts a ON a.arm_id = c.arm_id"
         " GROUP BY c.arm_id, c.n_accepted"},
    {.name = "verify_shapes",
     .key = "nodes",
     .formula = "share of cycles whose tree had this many drafted nodes",
     .sql = "SELECT c.arm_id, c.nodes, 1.0 * SUM(c.cycles) / a.cycles AS value"
            " FROM cycle_counts c JOIN arm_counts a ON a.arm_id = c.arm_id"
            " WHERE c.nodes NOT NULL GROUP BY c.arm_id, c.nodes"},
    {.name = "block_efficiency_at_nodes",
     .key = "nodes",
     .formula = "mean progress of the cycles whose tree had this many drafted nodes",
     .source = "DDTree's plot over node budgets",
     .sql = "SELECT arm_id, nodes, 1.0 * SUM(progress) / SUM(cycles) AS value FROM cycle_counts"
            " WHERE nodes NOT NULL GROUP BY arm_id, nodes"},
    {.name = "block_efficiency_at_position",
     .key = "position",
     .formula = "mean progress of the cycles that began at position .. position + 31 of the "
                "answer",
     .sql = "SELECT arm_id, position, 1.0 * progress / cycles AS value FROM position_counts"},
    {.name = "block_efficiency_of_category",
     .key = "category",
     .formula = "sum of progress / cycles, over the answers of a category of the dataset",
     .sql = "SELECT arm_id, category, 1.0 * SUM(progress) / SUM(forward_passes) AS value"
            " FROM answers WHERE category NOT NULL GROUP BY arm_id, category"},

    /* ---- Speed ---- */
    {.name = "tokens_per_second",
     .formula = "tokens of the answers / seconds of their cycles (each divided by its batch); "
                "prefill apart",
     .sql = OF_ARM("tokens / decode_seconds")},
    {.name = "tokens_per_second_end_to_end",
     .formula = "tokens of the answers / (seconds of their cycles + prefill)",
     .sql = OF_ARM("tokens / seconds")},
    {.name = "speed_up_of_pooled_rates",
     .formula = "tokens per second over those of plain decoding on the same answers, prefill "
                "apart",
     .source = "JetSpec, baseline time per token / method time per token",
     .sql = OF_PAIRS("(TOTAL(n_tokens) / TOTAL(decode_seconds))"
                     " / (TOTAL(plain_tokens) / TOTAL(plain_decode_seconds))")},
    {.name = "speed_up_end_to_end",
     .formula =
         "the same with prefill inside: the ratio of throughputs at the run's batch size",
     .source = "JetSpec end to end; serving papers, ratio of throughputs",
     .sql = OF_PAIRS("(TOTAL(n_tokens) / TOTAL(seconds))"
                     " / (TOTAL(plain_tokens) / TOTAL(plain_seconds))")},
    {.name = "tokens_per_second_spec_bench",
     .formula = "mean over questions of tokens / wall time; prefill inside; first repeat only",
     .source = "Spec-Bench, evaluation/speed.py",
     .sql = "SELECT arm_id, AVG(rate) AS value" OF_QUESTIONS(
         "plain_recounted") " GROUP BY arm_id"},
    {.name = "tokens_per_second_spec_bench_of_plain",
     .formula = "the same of plain decoding, whose tokens are what the model's tokenizer cuts "
                "the answer's text into (where the run does not know: the answer's tokens), "
                "less one a turn",
     .source = "Spec-Bench, evaluation/speed.py, tokens per second for the baseline",
     .sql = "SELECT arm_id, AVG(plain_rate) AS value" OF_QUESTIONS(
         "plain_recounted") " GROUP BY arm_id"},
    {.name = "speed_up_spec_bench",
     .formula = "tokens_per_second_spec_bench / tokens_per_second_spec_bench_of_plain",
     .source = "Spec-Bench, evaluation/speed.py",
     .sql = "SELECT arm_id, AVG(rate) / AVG(plain_rate) AS value" OF_QUESTIONS(
         "plain_recounted") " GROUP BY arm_id"},
    {.name = "speed_up_spec_bench_corrected",
     .formula = "the same with all tokens of plain decoding counted",
     .sql = "SELECT arm_id, AVG(rate) / AVG(plain_rate) AS value" OF_QUESTIONS(
         "plain_tokens") " GROUP BY arm_id"},
    {.name = "speed_up_spec_bench_of_task",
     .key = "task",
     .formula = "speed_up_spec_bench over the questions of a sub-task; mt_bench is eight "
                "categories",
     .source = "Spec-Bench, evaluation/speed.py",
     .sql = "SELECT arm_id, task, AVG(rate) / AVG(plain_rate) AS value" OF_QUESTIONS(
         "plain_recounted") " WHERE task NOT NULL GROUP BY arm_id, task"},
    {.name = "speed_up_dflash",
     .formula =
         "mean over answers of plain decoding's seconds per token / mean over answers of "
         "the arm's; prefill apart",
     .source = "DFlash, time per output token",
     .sql = OF_PAIRS("AVG(plain_decode_seconds / plain_tokens)"
                     " / AVG(decode_seconds / n_tokens)")},
    {.name = "speed_proxy_sglang",
     .formula =
         "acc_length_sglang / 20th percentile of the seconds of a cycle: tokens per second",
     .source = "SGLang bench_speculative",
     .sql = "SELECT a.arm_id, 1.0 * a.tokens / a.cycles / s.percentile_20 AS value"
            " FROM arm_counts a JOIN step_times s ON s.arm_id = a.arm_id"},
    {.name = "speed_up_proxy_sglang",
     .formula = "speed_proxy_sglang over that of plain decoding",
     .source = "SGLang bench_speculative, compared by hand",
     .sql = "SELECT a.arm_id, (1.0 * a.tokens / a.cycles / s.percentile_20)"
            " / (1.0 * p.tokens / p.cycles / t.percentile_20) AS value"
            " FROM arm_counts a JOIN step_times s ON s.arm_id = a.arm_id"
            " JOIN plain_arms b ON b.arm_id = a.arm_id JOIN arm_counts p ON p.arm_id ="
            " b.plain_id JOIN step_times t ON t.arm_id = p.arm_id"},
    {.name = "speed_up_of_category",
     .key = "category",
     .formula = "speed_up_of_pooled_rates over the answers of a category of the dataset",
     .sql = "SELECT arm_id, category, (TOTAL(n_tokens) / TOTAL(decode_seconds))"
            " / (TOTAL(plain_tokens) / TOTAL(plain_decode_seconds)) AS value FROM pairs"
            " WHERE category NOT NULL GROUP BY arm_id, category"},
    {.name = "goodput_of_target_time",
     .formula = "accepted tokens / seconds of V",
     .source = "simulation papers, goodput",
     .sql = OF_ARM("accepted / score_seconds")},
    {.name = "draft_share",
     .formula = "D / (D + V + H)",
     .sql = OF_ARM("draft_seconds / (draft_seconds + score_seconds + host_seconds)")},
    {.name = "score_share",
     .formula = "V / (D + V + H)",
     .sql = OF_ARM("score_seconds / (draft_seconds + score_seconds + host_seconds)")},
    {.name = "host_share",
     .formula = "H / (D + V + H): verify, commit, scheduling and everything else",
     .sql = OF_ARM("host_seconds / (draft_seconds + score_seconds + host_seconds)")},
    {.name = "kv_bytes_per_token",
     .formula = "bytes of keys and values moved by commits and rollbacks / sum of progress",
     .sql = OF_ARM("kv_bytes / progress")},
    {.name = "peak_kv_pages",
     .formula = "most pages of the cache that one answer held",
     .sql = "SELECT arm_id, peak_pages AS value FROM arm_counts"},
    {0}};
