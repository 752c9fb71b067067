#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/safetensors.h"
#include "rig.h"
#include "train/checkpoint.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const names[] = {"zero", "one", "two \"2\"", "drei", "vier", "\xc3\xbc"};

struct fixture {
    struct experiment x;
    struct network *n;
    const char *path;
};

static void make(struct fixture *f, const char *const *settings, enum network_mode mode)
{
    struct error err;
    rig_load(&f->x, settings);
    f->path = test_text("%s/a.safetensors", test_directory());
    CHECK_OK(network_create(&f->n, &f->x, mode, 8, 1, &err), err);
}

static void drop(struct fixture *f)
{
    network_destroy(f->n);
    experiment_free(&f->x);
}

/* Values that differ in every element, exact in float. */
static void fill(struct network *n)
{
    for (size_t i = 0; i < n->params.total; i++)
        n->params.values[i] = (real)((double)i / 1024 - 3);
}

static void write(const struct fixture *f)
{
    struct error err;
    CHECK_OK(checkpoint_write(f->path, f->n, f->n->params.values, names, 7, &err), err);
}

/* How a file is written again: tensors left out or renamed. */
struct change {
    const char *drop, *prefix;
    const char *half_prefix; /* for every second tensor */
    const char *rename, *to;
    bool reshape_head;
};

/* The checkpoint with changes, as another file. */
static const char *rewrite(const struct fixture *f, struct change c)
{
    struct st_file *file = NULL;
    struct error err;
    CHECK_OK(st_open(&file, f->path, &err), err);
    struct st_tensor *list = calloc((size_t)st_count(file), sizeof *list);
    CHECK(list != NULL);
    int count = 0;
    for (int i = 0; i < st_count(file); i++) {
        struct st_tensor t = *st_at(file, i);
        if (c.drop && strcmp(t.name, c.drop) == 0)
            continue;
        if (c.rename && strcmp(t.name, c.rename) == 0)
            t.name = c.to;
        if (c.reshape_head && strcmp(t.name, "head.weight") == 0) {
            t.shape[0] /= 2;
            t.shape[1] *= 2;
        }
        if (c.prefix)
            t.name = test_text("%s%s", c.prefix, t.name);
        if (c.half_prefix && i % 2)
            t.name = test_text("%s%s", c.half_prefix, t.name);
        list[count++] = t;
    }
    const char *path = test_text("%s/changed.safetensors", test_directory());
    CHECK_OK(st_write(path, list, count, NULL, 0, &err), err);
    free(list);
    st_close(file);
    return path;
}

TEST(checkpoint__values_names_and_shapes_survive)
{
    struct fixture f;
    make(&f, NULL, NETWORK_INFER);
    fill(f.n);
    write(&f);
    struct fixture g;
    make(&g, SETTINGS("seed=99"), NETWORK_INFER);
    struct error err;
    char *note = NULL;
    CHECK_OK(checkpoint_load(&g.n->params, &g.x.model, f.path, &note, &err), err);
    CHECK(!note);
    CHECK(memcmp(f.n->params.values, g.n->params.values, f.n->params.total * sizeof(real)) == 0);

    struct st_file *file = NULL;
    CHECK_OK(st_open(&file, f.path, &err), err);
    CHECK_INT(st_count(file), f.n->params.count);
    const struct st_tensor *t = st_find(file, "blocks.1.attn.qkv.weight");
    CHECK(t && t->dtype == DTYPE_F32 && t->rank == 2);
    CHECK_INT(t->shape[0], 72);
    CHECK_INT(t->shape[1], 24);
    CHECK_STR(st_metadata(file, "epoch"), "7");
    CHECK_STR(st_metadata(file, "class_names"),
              "[\"zero\",\"one\",\"two \\\"2\\\"\",\"drei\",\"vier\",\"\xc3\xbc\"]");
    CHECK_CONTAINS(st_metadata(file, "normalize"), "\"mean\":[");
    CHECK(st_metadata(file, "attnbench_version") != NULL);
    st_close(file);
    drop(&f);
    drop(&g);
}

TEST(checkpoint__carries_its_config_and_class_names)
{
    struct fixture f;
    make(&f, SETTINGS("output=/some/where"), NETWORK_INFER);
    write(&f);
    struct error err;
    char *text = NULL, **read = NULL;
    CHECK_OK(checkpoint_config(&text, f.path, &err), err);
    CHECK(!strstr(text, "/some/where"));
    struct experiment x;
    CHECK_OK(experiment_parse(&x, text, f.path, &err), err);
    CHECK_STR(x.model.name, "vit");
    experiment_free(&x);
    free(text);
    CHECK_OK(checkpoint_class_names(&read, f.path, &err), err);
    for (int i = 0; i < 6; i++)
        CHECK_STR(read[i], names[i]);
    CHECK(!read[6]);
    free(read);
    drop(&f);
}

TEST(checkpoint_config__sends_foreign_files_to_data)
{
    struct fixture f;
    make(&f, NULL, NETWORK_INFER);
    write(&f);
    const char *foreign = rewrite(&f, (struct change){0});
    struct error err;
    char *text = NULL, **read = NULL;
    CHECK_INT(checkpoint_config(&text, foreign, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "--data CONFIG");
    CHECK_CONTAINS(err.text, foreign);
    CHECK_OK(checkpoint_class_names(&read, foreign, &err), err);
    CHECK(!read);
    drop(&f);
}

TEST(checkpoint_load__strips_a_prefix_of_all_names_and_says_so)
{
    static const char *const prefixes[] = {"module.", "model."};
    struct fixture f, g;
    make(&f, NULL, NETWORK_INFER);
    make(&g, SETTINGS("seed=99"), NETWORK_INFER);
    fill(f.n);
    write(&f);
    for (int i = 0; i < 2; i++) {
        struct error err;
        char *note = NULL;
        memset(g.n->params.values, 0, g.n->params.total * sizeof(real));
        CHECK_OK(
            checkpoint_load(&g.n->params, &g.x.model,
                            rewrite(&f, (struct change){.prefix = prefixes[i]}), &note, &err),
            err);
        CHECK_CONTAINS(note, prefixes[i]);
        CHECK(memcmp(f.n->params.values, g.n->params.values, f.n->params.total * sizeof(real)) ==
              0);
        free(note);
    }
    drop(&f);
    drop(&g);
}

TEST(checkpoint_load__refuses_what_does_not_fit_and_changes_nothing)
{
    static const struct {
        struct change change;
        const char *what;
    } rows[] = {
        {{.half_prefix = "model."}, "missing"},
        {{.drop = "norm.bias"}, "1 missing: norm.bias"},
        {{.rename = "norm.bias", .to = "norm.beta"}, "1 unexpected: norm.beta"},
        {{.reshape_head = true}, "head.weight (3, 48) instead of (6, 24)"},
    };
    struct fixture f;
    make(&f, NULL, NETWORK_INFER);
    write(&f);
    fill(f.n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err;
        char *note = NULL;
        const char *path = rewrite(&f, rows[i].change);
        test_about("%s", rows[i].what);
        CHECK_INT(checkpoint_load(&f.n->params, &f.x.model, path, &note, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, path);
        CHECK_CONTAINS(err.text, "tensors match");
        CHECK_CONTAINS(err.text, rows[i].what);
        CHECK_NEAR(f.n->params.values[5], 5.0 / 1024 - 3, 0);
    }
    drop(&f);
}

TEST(checkpoint_load__refuses_super_with_another_token_count)
{
    struct fixture f, g;
    make(&f, SETTINGS("model.attention=super", "model.pos_embed=sincos"), NETWORK_INFER);
    make(&g, SETTINGS("model.attention=super", "model.pos_embed=sincos", "model.image_size=8"),
         NETWORK_INFER);
    struct error err;
    write(&f);
    CHECK_INT(checkpoint_load(&g.n->params, &g.x.model, f.path, NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "blocks.0.attn.align.weight (7, 7) instead of (5, 5)");
    drop(&f);
    drop(&g);
}

TEST(checkpoint_init__lets_attention_and_head_differ_alone)
{
    struct fixture f;
    make(&f, NULL, NETWORK_INFER);
    struct fixture g;
    make(&g, SETTINGS("model.attention=super", "seed=99"), NETWORK_INFER);
    fill(f.n);
    write(&f);
    struct error err;
    const char *said = NULL;
    const struct param *align = params_find(&g.n->params, "blocks.0.attn.align.weight");
    CHECK_OK(rig_init(&g.n->params, &g.x.model, f.path, &said, &err), err);
    CHECK_CONTAINS(said, "initialised: blocks.*.attn.align.weight (2): the identity");
    CHECK_CONTAINS(said, "loaded: blocks.*.attn.q.weight (2): q of qkv.weight, times");
    CHECK_CONTAINS(said, "of the checkpoint's 32, 0 left unused, 0 used in part");
    for (int i = 0; i < 49; i++)
        CHECK_NEAR(align->value[i], i % 8 == 0, 0);
    const struct param *a = params_find(&f.n->params, "blocks.1.mlp.fc1.weight");
    const struct param *b = params_find(&g.n->params, "blocks.1.mlp.fc1.weight");
    CHECK(memcmp(a->value, b->value, a->count * sizeof(real)) == 0);

    const char *path = rewrite(&f, (struct change){.drop = "blocks.0.norm1.weight"});
    CHECK_INT(rig_init(&f.n->params, &f.x.model, path, NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "1 missing: blocks.0.norm1.weight");
    struct fixture deep;
    make(&deep, SETTINGS("model.depth=3"), NETWORK_INFER);
    CHECK_INT(rig_init(&deep.n->params, &deep.x.model, f.path, NULL, &err), ERR_INPUT);
    drop(&f);
    drop(&g);
    drop(&deep);
}

TEST(checkpoint_init__a_head_for_other_classes_starts_anew)
{
    struct fixture f, g, start;
    make(&f, NULL, NETWORK_INFER);
    make(&g, SETTINGS("model.classes=4"), NETWORK_INFER);
    make(&start, SETTINGS("model.classes=4"), NETWORK_INFER);
    fill(f.n);
    write(&f);
    struct error err;
    const char *said = NULL;
    CHECK_OK(rig_init(&g.n->params, &g.x.model, f.path, &said, &err), err);
    CHECK_CONTAINS(said, "initialised: head.weight: as at the start, (4, 24) where the checkpoint has "
                         "(6, 24); head.bias: ");
    CHECK_CONTAINS(said, test_text("%d of %d tensors loaded, 2 initialised; of the checkpoint's %d, 2 "
                                   "left unused, 0 used in part",
                                   f.n->params.count - 2, f.n->params.count, f.n->params.count));
    for (int i = 0; i < g.n->params.count; i++) {
        const struct param *got = g.n->params.list[i];
        bool head = strncmp(got->name, "head.", 5) == 0;
        const struct network *from = head ? start.n : f.n;
        const struct param *want = params_find(&from->params, got->name);
        test_about("%s", got->name);
        CHECK(memcmp(got->value, want->value, got->count * sizeof(real)) == 0);
    }
    CHECK_INT(checkpoint_load(&g.n->params, &g.x.model, f.path, NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "2 of another shape: head.weight");
    drop(&f);
    drop(&g);
    drop(&start);
}

TEST(checkpoint_load__position_embeddings_of_another_grid_are_refused)
{
    static const char *const sizes[] = {"model.image_size=8", "model.image_size=[8, 12]"};
    static const char *const what[] = {"pos_embed (1, 7, 24) instead of (1, 5, 24)",
                                       "the checkpoint has 3 x 2 patches, the model 2 x 3"};
    struct fixture f;
    make(&f, NULL, NETWORK_INFER);
    write(&f);
    for (int i = 0; i < 2; i++) {
        struct fixture g;
        struct error err;
        make(&g, SETTINGS(sizes[i]), NETWORK_INFER);
        CHECK_INT(checkpoint_load(&g.n->params, &g.x.model, f.path, NULL, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, what[i]);
        CHECK_CONTAINS(err.text, "image_size");
        drop(&g);
    }
    drop(&f);
}

TEST(checkpoint_load__says_what_matched_of_foreign_files)
{
    struct fixture f;
    make(&f, NULL, NETWORK_INFER);
    write(&f);
    struct error err;
    char *note = NULL;
    const char *path = rewrite(&f, (struct change){0});
    CHECK_OK(checkpoint_load(&f.n->params, &f.x.model, path, &note, &err), err);
    CHECK_CONTAINS(note, test_text(": %d tensors match, 0 missing, 0 unexpected",
                                   f.n->params.count));
    free(note);
    drop(&f);
}

TEST(state__all_of_it_survives)
{
    struct fixture f, g;
    make(&f, NULL, NETWORK_TRAIN);
    make(&g, NULL, NETWORK_TRAIN);
    struct params *p = &f.n->params, *q = &g.n->params;
    for (size_t i = 0; i < p->total; i++) {
        p->values[i] = (real)(sin((double)i) / 3);
        p->average[i] = (real)(cos((double)i) / 3);
    }
    for (size_t i = 0; i < p->trained; i++) {
        p->moments[0][i] = (real)(1e-30 * (double)i);
        p->moments[1][i] = (real)(1e-3 / (double)(i + 1));
    }
    struct train_state s =
                           {
                               .update = 12345678901,
                               .epoch = 3,
                               .position = 4,
                               .metrics_bytes = 5,
                               .fingerprint = 0xfedcba9876543210u,
                               .total_seconds = 0.1 + 0.2,
                               .total_samples = 77,
                               .train_seconds = 1e-300,
                               .best = {{1.0 / 3, 2.0 / 3, 2}, {(double)NAN, (double)NAN, 0}},
                               .last = {{99.99, 0.25, 3}, {0, 0, 3}},
                               .loss_sum = 0.7,
                               .grad_norm_sum = 1e10 / 3,
                               .seconds = 3.25,
                               .waited = 0.125,
                               .correct = 8,
                               .samples = 9,
                               .updates = 10,
                               .lr = 1e-3 / 3,
                               .complete = true,
                               .test_top1 = {12.5, (double)NAN},
                           },
                       r;
    memset(&r, 0, sizeof r);
    struct error err;
    CHECK_OK(state_write(f.path, f.n, &s, &err), err);
    CHECK_OK(state_read(f.path, g.n, &r, &err), err);
    CHECK(memcmp(p->values, q->values, p->total * sizeof(real)) == 0);
    CHECK(memcmp(p->average, q->average, p->total * sizeof(real)) == 0);
    CHECK(memcmp(p->moments[0], q->moments[0], p->trained * sizeof(real)) == 0);
    CHECK(memcmp(p->moments[1], q->moments[1], p->trained * sizeof(real)) == 0);
    CHECK(r.update == s.update && r.epoch == 3 && r.position == 4 && r.metrics_bytes == 5);
    CHECK(r.fingerprint == s.fingerprint && r.total_seconds == s.total_seconds);
    CHECK(r.total_samples == 77 && r.train_seconds == s.train_seconds);
    CHECK(r.best[0].val_top1 == s.best[0].val_top1 && r.best[0].val_loss == s.best[0].val_loss);
    CHECK(r.best[0].epoch == 2 && isnan(r.best[1].val_top1) && r.best[1].epoch == 0);
    CHECK(r.last[0].val_top1 == 99.99 && r.last[1].epoch == 3 && r.lr == s.lr);
    CHECK(r.loss_sum == s.loss_sum && r.grad_norm_sum == s.grad_norm_sum && r.seconds == 3.25);
    CHECK(r.waited == 0.125 && r.correct == 8 && r.samples == 9 && r.updates == 10);
    CHECK(r.complete && r.test_top1[0] == 12.5 && isnan(r.test_top1[1]));
    char *text = NULL;
    CHECK_OK(checkpoint_config(&text, f.path, &err), err);
    free(text);
    drop(&f);
    drop(&g);
}

TEST(state_read__refuses_other_files)
{
    struct fixture f, sgd;
    make(&f, NULL, NETWORK_TRAIN);
    make(&sgd, SETTINGS("train.optimizer=sgd"), NETWORK_TRAIN);
    struct train_state s = {0};
    struct error err;
    write(&f);
    CHECK_INT(state_read(f.path, f.n, &s, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "no training state");
    CHECK_OK(state_write(sgd.path, sgd.n, &s, &err), err);
    CHECK_INT(state_read(sgd.path, f.n, &s, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "moment2.");
    CHECK_OK(file_write(f.path, "<!DOCTYPE html>", 15, &err), err);
    CHECK_INT(state_read(f.path, f.n, &s, &err), ERR_INPUT);
    drop(&f);
    drop(&sgd);
}
