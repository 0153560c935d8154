/* Bytes of the weights that only drafting needs, as the engine reports them: by the sizes of
 * what is stored on the reference device, which keeps matrices as the files have them. */
#include "tests/algorithms/heads/checkpoints.h"

static size_t bytes_of(struct cop_model *of, struct cop_part *proposer)
{
    struct cop_engine_options options = {.target = of,
                                         .proposer = proposer,
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = COP_SAMPLING_DEFAULT};
    struct cop_engine_facts facts;
    struct cop_error err = {0};
    cr_assert_eq(cop_engine_check(&options, &facts, &err), COP_OK, "%s", err.text);
    struct cop_engine *engine = new_engine(&options);
    cr_expect_eq(cop_engine_facts(engine)->draft_bytes, facts.draft_bytes);
    cop_engine_free(engine);
    return facts.draft_bytes;
}

static struct cop_model *open_reference(struct tiny_model description)
{
    return open_model(tiny_model_new(&description),
                      (struct cop_model_options){.device = "reference"});
}

/* Of a head's block and its output layer, two to four bytes a weight; vectors do not count. */
Test(draft_bytes, of_heads_are_those_of_their_matrices)
{
    enum { BLOCKS = HEADS * WIDTH * WIDTH, ROW = HEADS * WIDTH };
    struct cop_model *on = open_reference((struct tiny_model){.seed = 7, .has_output = true});
    open_target();
    for (int32_t kind = 0; kind < 4; kind++) {
        static const int32_t kept[] = {40, 3, 11, 7, 5};
        struct head_folder *folder = new_medusa(kind == 3 ? SHARED : COPIES);
        struct cop_part *part =
            set_string(new_part(COP_PLUG_PROPOSER, "medusa"), "path", head_folder_path(folder));
        size_t expected = 4 * (BLOCKS + VOCAB * ROW);
        if (kind == 1) { /* blocks of 32 weights take 34 bytes */
            (void)set_string(part, "weights", "q8_0");
            expected = (BLOCKS + VOCAB * ROW) / 32 * 34;
        } else if (kind == 2) {
            cr_assert_eq(cop_option_set_ints(option(part, "vocabulary"), part->state, kept, 5,
                                             "test", NULL),
                         COP_OK);
            expected = 4 * (BLOCKS + 5 * ROW);
        } else if (kind == 3) {
            expected = 4 * BLOCKS; /* the LM head is the target's */
        }
        cr_expect_eq(bytes_of(on, ready(part)), expected, "kind %d", kind);
        cop_part_free(part);
        head_folder_free(folder);
    }
    cop_model_free(on);
    close_target();
}

/* A model that two drafters share counts once; what draws on the target alone holds nothing. */
Test(draft_bytes, of_models_count_each_once)
{
    struct cop_model *on = open_reference((struct tiny_model){.seed = 7});
    struct cop_model *kin = open_reference((struct tiny_model){.seed = 7, .layers = 1});
    struct cop_part *parts[] = {new_draft(kin), new_draft(kin)};
    struct cop_part *mixture = new_part(COP_PLUG_PROPOSER, "mixture");
    struct cop_part *lookup = ready(new_part(COP_PLUG_PROPOSER, "lookup"));
    static const char *const names[] = {"first", "second"};
    for (int32_t i = 0; i < 2; i++) {
        cr_assert_eq(cop_option_set_object(option(mixture, names[i]), mixture->state, parts[i],
                                           "test", NULL),
                     COP_OK);
    }
    size_t bytes = cop_model_info(kin)->weight_bytes;
    cr_expect_gt(bytes, 0);
    cr_expect_eq(bytes_of(on, parts[0]), bytes);
    cr_expect_eq(bytes_of(on, ready(mixture)), bytes);
    cr_expect_eq(bytes_of(on, lookup), 0);
    cr_expect_eq(bytes_of(on, NULL), 0);
    cop_part_free(mixture);
    cop_part_free(parts[0]);
    cop_part_free(parts[1]);
    cop_part_free(lookup);
    cop_model_free(kin);
    cop_model_free(on);
}
