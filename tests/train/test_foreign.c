/* test_foreign.c - weights of Swin in files of other programs, and of other windows. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "kernels/kernels.h"
#include "rig.h"
#include "train/checkpoint.h"

/* Maps of 8 x 8, 4 x 4 and 2 x 2. */
static const char config[] =
    "{\"data\": {\"format\": \"synthetic\"},"
    " \"model\": {\"name\": \"swin\", \"image_size\": 16, \"channels\": 1, \"classes\": 6,"
    "  \"patch_size\": 2, \"dim\": 8, \"depths\": [2, 1, 1], \"heads\": [2, 2, 4],"
    "  \"window_size\": %s, \"attention\": \"%s\"}}";

struct fixture {
    struct experiment x;
    struct network *n;
    const char *path; /* of its weights */
};

static void make(struct fixture *f, const char *window, const char *attention)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    struct error err;
    CHECK_OK(kernels_init(&err), err);
    CHECK_OK(experiment_parse(&f->x, test_text(config, window, attention), "a.json", &err), err);
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_INFER, 4, 1, &err), err);
    for (size_t i = 0; i < f->n->params.total; i++)
        f->n->params.values[i] = (real)((double)i / 1024 - 3);
    f->path = test_text("%s/%s.safetensors", test_directory(), attention);
    CHECK_OK(checkpoint_write(f->path, f->n, f->n->params.values, names, 1, &err), err);
}

static void drop(struct fixture *f)
{
    network_destroy(f->n);
    experiment_free(&f->x);
}

/* The name with each part that stands in `pairs` (to NULL) replaced by the next. */
static const char *replaced(const char *name, const char *const *pairs)
{
    for (; *pairs; pairs += 2) {
        const char *at = strstr(name, pairs[0]);
        if (at)
            name = test_text("%.*s%s%s", (int)(at - name), name, pairs[1], at + strlen(pairs[0]));
    }
    return name;
}

/* The weights under other names, with a buffer for each attention as other programs keep. */
static const char *rewrite(const struct fixture *f, const char *const *pairs, const char *prefix)
{
    static const float zeros[16];
    struct st_file *file = NULL;
    struct error err;
    CHECK_OK(st_open(&file, f->path, &err), err);
    struct st_tensor *list = calloc(2 * (size_t)st_count(file), sizeof *list);
    CHECK(list != NULL);
    int count = 0;
    for (int i = 0; i < st_count(file); i++) {
        struct st_tensor t = *st_at(file, i);
        const char *tail = strstr(t.name, "attn.relative_position_bias_table");
        t.name = test_text("%s%s", prefix, replaced(t.name, pairs));
        list[count++] = t;
        if (!tail)
            continue;
        tail = strstr(t.name, "bias_table");
        list[count++] = (struct st_tensor){
            .name = test_text("%.*sindex", (int)(tail - t.name), t.name),
            .dtype = DTYPE_F32, .rank = 1, .shape = {16}, .count = 16, .data = zeros,
        };
    }
    const char *path = test_text("%s/theirs.safetensors", test_directory());
    CHECK_OK(st_write(path, list, count, NULL, 0, &err), err);
    free(list);
    st_close(file);
    return path;
}

TEST(checkpoint_load__reads_swin_as_other_programs_name_it)
{
    static const struct {
        const char *program;
        const char *const pairs[20];
    } rows[] = {
        {"timm",
         {"layers.1.downsample.", "layers.2.downsample.", "layers.0.downsample.",
          "layers.1.downsample.", "head.", "head.fc.", NULL}},
        {"torchvision",
         {"patch_embed.proj.", "features.0.0.", "patch_embed.norm.", "features.0.2.",
          "layers.0.blocks.", "features.1.", "layers.0.downsample.", "features.2.",
          "layers.1.blocks.", "features.3.", "layers.1.downsample.", "features.4.",
          "layers.2.blocks.", "features.5.", "mlp.fc1.", "mlp.0.", "mlp.fc2.", "mlp.3.", NULL}},
    };
    static const char *const prefixes[] = {"", "module."};
    struct fixture f;
    make(&f, "4", "standard");
    struct params *p = &f.n->params;
    real *want = malloc(p->total * sizeof *want);
    CHECK(want != NULL);
    memcpy(want, p->values, p->total * sizeof *want);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 2; k++) {
            struct error err;
            char *note = NULL;
            const char *path = rewrite(&f, rows[i].pairs, prefixes[k]);
            test_about("%s, prefix \"%s\"", rows[i].program, prefixes[k]);
            memset(p->values, 0, p->total * sizeof(real));
            CHECK_OK(checkpoint_load(p, &f.x.model, path, &note, &err), err);
            CHECK_CONTAINS(note, test_text("%d tensors match", p->count));
            CHECK_CONTAINS(note, test_text("named as in %s), 0 missing", rows[i].program));
            CHECK(memcmp(p->values, want, p->total * sizeof *want) == 0);
            free(note);
            CHECK_OK(rig_init(p, &f.x.model, path, NULL, &err), err);
        }
    free(want);
    drop(&f);
}

TEST(checkpoint_load__counts_what_is_missing_under_other_names)
{
    static const char *const pairs[] = {"layers.0.downsample.norm.", "layers.0.merge.norm.", NULL};
    struct fixture f;
    struct error err;
    make(&f, "4", "standard");
    const char *path = rewrite(&f, pairs, "");
    CHECK_INT(checkpoint_load(&f.n->params, &f.x.model, path, NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "2 missing: layers.0.downsample.norm.weight, ");
    CHECK_CONTAINS(err.text, "2 unexpected: layers.0.merge.norm.weight, ");
    CHECK_INT(rig_init(&f.n->params, &f.x.model, path, NULL, &err), ERR_INPUT);
    drop(&f);
}

TEST(checkpoint_load__of_another_window_is_refused_with_both)
{
    static const char *const attentions[] = {"standard", "super"};
    for (int i = 0; i < 2; i++) {
        struct fixture f, g;
        struct error err;
        make(&f, "4", attentions[i]);
        make(&g, "2", attentions[i]);
        test_about("%s", attentions[i]);
        CHECK_INT(checkpoint_load(&g.n->params, &g.x.model, f.path, NULL, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, f.path);
        CHECK_CONTAINS(err.text, "(49, 2) instead of (9, 2)");
        CHECK_CONTAINS(err.text, "layers.0.blocks.0.attn.");
        CHECK_CONTAINS(err.text, "the checkpoint has windows of 4 x 4, the model of 2 x 2 in stage 1");
        drop(&f);
        drop(&g);
    }
}

/* As many relative positions, and tensors of the same shapes. */
TEST(checkpoint_load__of_a_window_that_lies_otherwise_is_refused_too)
{
    struct fixture f, g;
    struct error err;
    make(&f, "[2, 4]", "super");
    make(&g, "[4, 2]", "super");
    CHECK_INT(checkpoint_load(&g.n->params, &g.x.model, f.path, NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, f.path);
    CHECK_CONTAINS(err.text, "the checkpoint has windows of 2 x 4, the model of 4 x 2 in stage 1");
    drop(&f);
    drop(&g);
}

/* Weights of a trained standard Swin may start one with another attention: the tables are shared. */
TEST(checkpoint_init__takes_the_position_tables_to_another_attention)
{
    struct fixture f, g;
    struct error err;
    const char *said = NULL;
    make(&f, "4", "standard");
    make(&g, "4", "super");
    memset(g.n->params.values, 0, g.n->params.total * sizeof(real));
    CHECK_OK(rig_init(&g.n->params, &g.x.model, f.path, &said, &err), err);
    CHECK_CONTAINS(said, "; layers.*.blocks.*.attn.relative_position_bias_table (4); ");
    const char *table = "layers.1.blocks.0.attn.relative_position_bias_table";
    const struct param *a = params_find(&f.n->params, table), *b = params_find(&g.n->params, table);
    CHECK(a && b && memcmp(a->value, b->value, a->count * sizeof(real)) == 0);
    drop(&f);
    drop(&g);
}
