/* test_resize.c - checkpoints for models with another map of tokens, other windows, or other tokens
 * before the map. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "nn/interpolate.h"
#include "rig.h"
#include "train/checkpoint.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

struct fixture {
    struct experiment x;
    struct network *n;
    const char *path; /* of its weights, all values different */
};

/* Settings of the rig, or a whole config. */
static void load(struct fixture *f, const char *const *settings)
{
    struct error err;
    if (settings && settings[0][0] == '{')
        CHECK_OK(experiment_parse(&f->x, settings[0], "a.json", &err), err);
    else
        rig_load(&f->x, settings);
}

static void make(struct fixture *f, const char *file, const char *const *settings)
{
    struct error err;
    load(f, settings);
    f->path = test_text("%s/%s.safetensors", test_directory(), file);
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_INFER, 8, 1, &err), err);
    for (size_t i = 0; i < f->n->params.total; i++)
        f->n->params.values[i] = (real)(float)(sin((double)i) / 4); /* as files hold it */
    CHECK_OK(checkpoint_write(f->path, f->n, f->n->params.values, names, 1, &err), err);
}

static void drop(struct fixture *f)
{
    network_destroy(f->n);
    experiment_free(&f->x);
}

/* A model to start. */
static void make_new(struct fixture *f, const char *const *settings)
{
    struct error err;
    load(f, settings);
    f->path = NULL;
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_INFER, 8, 1, &err), err);
}

static const struct param *param(const struct fixture *f, const char *name)
{
    const struct param *p = params_find(&f->n->params, name);
    test_about("%s", name);
    CHECK(p != NULL);
    return p;
}

static bool same(const struct fixture *a, const char *name, const struct fixture *b, const char *other)
{
    const struct param *p = param(a, name), *q = param(b, other);
    return p->count == q->count && memcmp(p->value, q->value, p->count * sizeof(real)) == 0;
}

/* The file without its metadata, under other names: name becomes rename(name), NULL leaves it out. */
static const char *rewrite(const struct fixture *f, const char *(*rename)(const char *name))
{
    struct st_file *file = NULL;
    struct error err;
    const char *path = test_text("%s/theirs.safetensors", test_directory());
    CHECK_OK(st_open(&file, f->path, &err), err);
    struct st_tensor *list = calloc((size_t)st_count(file), sizeof *list);
    CHECK(list != NULL);
    int count = 0;
    for (int i = 0; i < st_count(file); i++) {
        list[count] = *st_at(file, i);
        if ((list[count].name = rename(list[count].name)))
            count++;
    }
    CHECK_OK(st_write(path, list, count, NULL, 0, &err), err);
    free(list);
    st_close(file);
    return path;
}

static const char *keep(const char *name)
{
    return name;
}

/* The rows of the map of `f`'s position embedding, resampled: what those of `g` are to be. */
static void check_map(const struct fixture *f, const int from[2], int their_prefix,
                      const struct fixture *g, const int to[2], int our_prefix)
{
    real want[1024];
    struct error err;
    const struct param *p = param(f, "pos_embed"), *q = param(g, "pos_embed");
    int D = p->shape.dim[2];
    CHECK_INT(q->shape.dim[1], our_prefix + to[0] * to[1]);
    CHECK(to[0] * to[1] * D <= 1024);
    CHECK_OK(nn_interpolate(want, to, p->value + their_prefix * D, from, D, INTERPOLATE_ANTIALIAS,
                            &err),
             err);
    CHECK(memcmp(want, q->value + our_prefix * D, (size_t)(to[0] * to[1] * D) * sizeof *want) == 0);
}

/* Of rows of tokens before the map. */
static bool same_row(const struct fixture *f, int row, const struct fixture *g, int other)
{
    const struct param *p = param(f, "pos_embed"), *q = param(g, "pos_embed");
    size_t D = (size_t)p->shape.dim[2];
    return memcmp(p->value + (size_t)row * D, q->value + (size_t)other * D, D * sizeof(real)) == 0;
}

TEST(init__position_embeddings_are_resampled_for_another_map)
{
    static const int from[] = {3, 2}, to[][2] = {{2, 3}, {5, 3}, {2, 2}};
    static const char *const sizes[] = {"[8, 12]", "[20, 12]", "8"};
    struct fixture f;
    make(&f, "from", NULL);
    for (int i = 0; i < 3; i++) {
        struct fixture g;
        struct error err;
        const char *said;
        make_new(&g, SETTINGS(test_text("model.image_size=%s", sizes[i])));
        CHECK_OK(rig_init(&g.n->params, &g.x.model, f.path, &said, &err), err);
        CHECK_CONTAINS(said, test_text("%d of %d tensors loaded, 1 resized, 0 initialised",
                                       g.n->params.count - 1, g.n->params.count));
        CHECK_CONTAINS(said, test_text("resized: pos_embed: %d x %d patches from 3 x 2\n", to[i][0],
                                       to[i][1]));
        check_map(&f, from, 1, &g, to[i], 1);
        CHECK(same_row(&f, 0, &g, 0));
        CHECK(same(&f, "blocks.1.attn.qkv.weight", &g, "blocks.1.attn.qkv.weight"));
        drop(&g);
    }
    drop(&f);
}

TEST(init__maps_of_files_that_do_not_say_them_are_squares)
{
    static const int from[] = {3, 3}, to[] = {4, 2};
    struct fixture f, g;
    struct error err;
    make(&f, "from", SETTINGS("model.image_size=12"));
    make_new(&g, SETTINGS("model.image_size=[16, 8]"));
    CHECK_OK(rig_init(&g.n->params, &g.x.model, rewrite(&f, keep), NULL, &err), err);
    check_map(&f, from, 1, &g, to, 1);
    drop(&f);
    make(&f, "from", SETTINGS("model.image_size=[12, 16]"));
    CHECK_INT(rig_init(&g.n->params, &g.x.model, rewrite(&f, keep), NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "pos_embed (1, 13, 24) instead of (1, 9, 24)");
    drop(&f);
    drop(&g);
}

TEST(init__a_pooling_of_another_kind_takes_what_both_have)
{
    static const int grid[] = {3, 2};
    static const char *const pools[][2] = {
        {"model.pool=cls", "model.pool=mean"}, {"model.pool=mean", "model.pool=cls"},
        {"model.pool=cls", "model.distilled=true"}, {"model.distilled=true", "model.pool=cls"},
    };
    static const int prefixes[][2] = {{1, 0}, {0, 1}, {1, 2}, {2, 1}};
    for (int i = 0; i < 4; i++)
        for (int foreign = 0; foreign < 2; foreign++) {
            struct fixture f, g, start;
            struct error err;
            const char *said;
            /* A square, as a file must have it that does not say its map. */
            const char *size = foreign ? "model.image_size=12" : "model.image_size=[12, 8]";
            const int square[] = {3, 3}, *map = foreign ? square : grid;
            int theirs = prefixes[i][0], ours = prefixes[i][1];
            make(&f, "from", SETTINGS(pools[i][0], size));
            make_new(&g, SETTINGS(pools[i][1], size));
            make_new(&start, SETTINGS(pools[i][1], size));
            test_about("%s to %s", pools[i][0], pools[i][1]);
            CHECK_OK(rig_init(&g.n->params, &g.x.model, foreign ? rewrite(&f, keep) : f.path, &said,
                              &err),
                     err);
            CHECK_CONTAINS(said, test_text("rows of %d token%s before them from %d\n", ours,
                                           ours == 1 ? "" : "s", theirs));
            check_map(&f, map, theirs, &g, map, ours);
            for (int row = 0; row < ours; row++)
                CHECK(same_row(row < theirs ? &f : &start, row, &g, row));
            if (ours && theirs)
                CHECK(same(&f, "cls_token", &g, "cls_token"));
            else
                CHECK_CONTAINS(said, ours ? "initialised: cls_token" : "left unused: cls_token");
            CHECK(same(&f, "head.weight", &g, "head.weight"));
            CHECK(same(&f, "norm.bias", &g, "norm.bias"));
            drop(&f);
            drop(&g);
            drop(&start);
        }
}

TEST(init__the_last_norm_may_stand_before_or_behind_the_mean)
{
    struct fixture f, g;
    struct error err;
    const char *said;
    make(&f, "from", NULL);
    make_new(&g, SETTINGS("model.pool=mean", "model.fc_norm=true"));
    CHECK_OK(rig_init(&g.n->params, &g.x.model, f.path, &said, &err), err);
    CHECK_CONTAINS(said, "fc_norm.weight: norm.weight");
    CHECK(same(&f, "norm.weight", &g, "fc_norm.weight") && same(&f, "norm.bias", &g, "fc_norm.bias"));
    CHECK_INT(checkpoint_load_resized(&g.n->params, &g.x.model, f.path, &(char *){NULL}, &err),
              ERR_INPUT);
    CHECK_CONTAINS(err.text, "missing: fc_norm.weight");
    drop(&f);
    drop(&g);
}

/* DeiT III: the class token has no position. */
static void cut_first_row(struct st_tensor *t)
{
    t->data = (const float *)t->data + t->shape[2];
    t->count -= (size_t)t->shape[2];
    t->shape[1]--;
}

TEST(init__a_class_token_without_position_gets_zeros)
{
    static const int from[] = {3, 3}, to[] = {4, 4};
    struct fixture f, g;
    struct st_file *file = NULL;
    struct st_tensor list[64];
    struct error err;
    make(&f, "from", SETTINGS("model.image_size=12"));
    make_new(&g, SETTINGS("model.image_size=16"));
    CHECK_OK(st_open(&file, f.path, &err), err);
    CHECK(st_count(file) <= 64);
    for (int i = 0; i < st_count(file); i++) {
        list[i] = *st_at(file, i);
        if (strcmp(list[i].name, "pos_embed") == 0)
            cut_first_row(&list[i]);
    }
    const char *path = test_text("%s/theirs.safetensors", test_directory());
    CHECK_OK(st_write(path, list, st_count(file), NULL, 0, &err), err);
    st_close(file);
    CHECK_OK(rig_init(&g.n->params, &g.x.model, path, NULL, &err), err);
    check_map(&f, from, 1, &g, to, 1);
    for (int i = 0; i < 24; i++)
        CHECK(param(&g, "pos_embed")->value[i] == 0);
    drop(&f);
    drop(&g);
}

/* --- names of torchvision ----------------------------------------------------------------------- */

static const char *torchvision_name(const char *name)
{
    static const char *const pairs[][2] = {
        {"blocks.", "encoder.layers.encoder_layer_"}, {"attn.qkv.", "self_attention.in_proj_"},
        {"attn.proj.", "self_attention.out_proj."}, {".norm1.", ".ln_1."}, {".norm2.", ".ln_2."},
        {"mlp.fc1.", "mlp.0."}, {"mlp.fc2.", "mlp.3."}, {"patch_embed.proj.", "conv_proj."},
        {"cls_token", "class_token"}, {"pos_embed", "encoder.pos_embedding"},
    };
    if (strncmp(name, "norm.", 5) == 0)
        return test_text("encoder.ln.%s", name + 5);
    if (strncmp(name, "head.", 5) == 0)
        return test_text("heads.head.%s", name + 5);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *at = strstr(name, pairs[i][0]);
        if (at)
            name = test_text("%.*s%s%s", (int)(at - name), name, pairs[i][1], at + strlen(pairs[i][0]));
    }
    return name;
}

TEST(torchvision__a_vision_transformer_is_read_and_converted)
{
    struct fixture f, g, wide, super, own;
    struct error err;
    char *note = NULL;
    const char *said;
    make(&f, "from", SETTINGS("model.image_size=12"));
    make_new(&g, SETTINGS("model.image_size=12"));
    make_new(&wide, SETTINGS("model.image_size=16", "model.classes=4"));
    make_new(&super, SETTINGS("model.image_size=12", "model.attention=super"));
    const char *path = rewrite(&f, torchvision_name);
    CHECK_OK(checkpoint_load(&g.n->params, &g.x.model, path, &note, &err), err);
    CHECK_CONTAINS(note, "named as in torchvision), 0 missing, 0 unexpected");
    CHECK(memcmp(f.n->params.values, g.n->params.values, f.n->params.total * sizeof(real)) == 0);
    free(note);
    CHECK_OK(rig_init(&wide.n->params, &wide.x.model, path, &said, &err), err);
    CHECK_CONTAINS(said, "1 resized, 2 initialised");
    check_map(&f, (const int[]){3, 3}, 1, &wide, (const int[]){4, 4}, 1);
    CHECK_OK(rig_init(&super.n->params, &super.x.model, path, &said, &err), err);
    CHECK_CONTAINS(said, "named as in torchvision, 0 left unused");
    make_new(&own, SETTINGS("model.image_size=12", "model.attention=super"));
    CHECK_OK(rig_init(&own.n->params, &own.x.model, f.path, NULL, &err), err);
    CHECK(memcmp(super.n->params.values, own.n->params.values, own.n->params.total * sizeof(real)) == 0);
    drop(&own);
    drop(&f);
    drop(&g);
    drop(&wide);
    drop(&super);
}

/* --- windows ------------------------------------------------------------------------------------ */

/* Maps of 8 x 8 and 4 x 4. */
static const char *const *swin(const char *window, const char *attention)
{
    static const char *list[2];
    list[0] = test_text("{\"data\": {\"format\": \"synthetic\"}, \"model\": {\"name\": \"swin\", "
                        "\"image_size\": 16, \"channels\": 1, \"classes\": 6, \"patch_size\": 2, "
                        "\"dim\": 8, \"depths\": [2, 1], \"heads\": [2, 2], \"window_size\": %s, "
                        "\"attention\": \"%s\"}}",
                        window, attention);
    return list;
}

static void check_table(const struct fixture *f, const int from[2], const struct fixture *g,
                        const int to[2], const char *name)
{
    real want[1024];
    struct error err;
    const struct param *p = param(f, name), *q = param(g, name);
    CHECK(q->count <= 1024 && q->count == (size_t)(2 * to[0] * to[1]));
    CHECK_OK(nn_interpolate(want, to, p->value, from, 2, INTERPOLATE_PLAIN, &err), err);
    CHECK(memcmp(want, q->value, q->count * sizeof *want) == 0);
}

TEST(init__tables_of_windows_are_resampled_for_other_windows)
{
    static const char first[] = "layers.0.blocks.1.attn.relative_position_bias_table";
    static const char *const windows[] = {"2", "[4, 2]", "8"};
    static const int to[][2] = {{3, 3}, {7, 3}, {15, 15}}, from[] = {7, 7};
    struct fixture f;
    make(&f, "from", swin("4", "standard"));
    for (int i = 0; i < 3; i++)
        for (int kind = 0; kind < 3; kind++) {
            struct fixture g;
            struct error err;
            const char *said;
            make_new(&g, swin(windows[i], kind == 2 ? "super" : "standard"));
            CHECK_OK(rig_init(&g.n->params, &g.x.model, kind ? rewrite(&f, keep) : f.path, &said,
                              &err),
                     err);
            CHECK_CONTAINS(said, test_text("resized: layers.*.blocks.*.attn."
                                           "relative_position_bias_table (%d): %d x %d offsets from "
                                           "7 x 7", i == 2 ? 2 : 3, to[i][0], to[i][1]));
            check_table(&f, from, &g, to[i], first);
            drop(&g);
        }
    drop(&f);
}

/* As many offsets, which lie otherwise. */
TEST(init__windows_with_as_many_offsets_are_told_apart)
{
    struct fixture f, g;
    struct error err;
    make(&f, "from", swin("[2, 4]", "super"));
    make_new(&g, swin("[4, 2]", "super"));
    CHECK_OK(rig_init(&g.n->params, &g.x.model, f.path, NULL, &err), err);
    check_table(&f, (const int[]){3, 7}, &g, (const int[]){7, 3},
                "layers.1.blocks.0.attn.relative_position_bias_table");
    CHECK(same(&f, "layers.0.blocks.0.attn.align.weight", &g, "layers.0.blocks.0.attn.align.weight"));
    drop(&f);
    drop(&g);
}

/* --- evaluation --------------------------------------------------------------------------------- */

TEST(load_resized__takes_the_same_model_for_images_of_another_size)
{
    struct fixture f, g;
    struct error err;
    char *note = NULL;
    make(&f, "from", NULL);
    make_new(&g, SETTINGS("model.image_size=[20, 12]"));
    for (int foreign = 0; foreign < 2; foreign++) {
        if (foreign)
            drop(&f), make(&f, "from", SETTINGS("model.image_size=12"));
        CHECK_OK(checkpoint_load_resized(&g.n->params, &g.x.model,
                                         foreign ? rewrite(&f, keep) : f.path, &note, &err),
                 err);
        CHECK_CONTAINS(note, "tensors match, 0 missing, 0 unexpected; resized: pos_embed: 5 x 3 patches");
        check_map(&f, foreign ? (const int[]){3, 3} : (const int[]){3, 2}, 1, &g, (const int[]){5, 3},
                  1);
        CHECK(same(&f, "head.weight", &g, "head.weight"));
        free(note);
    }
    drop(&f);
    make(&f, "from", SETTINGS("model.image_size=[20, 12]"));
    CHECK_OK(checkpoint_load_resized(&g.n->params, &g.x.model, f.path, &note, &err), err);
    CHECK(!note);
    CHECK(memcmp(f.n->params.values, g.n->params.values, f.n->params.total * sizeof(real)) == 0);
    drop(&f);
    drop(&g);
}

TEST(load_resized__swin_in_other_windows)
{
    struct fixture f, g;
    struct error err;
    char *note = NULL;
    make(&f, "from", swin("4", "standard"));
    make_new(&g, swin("8", "standard"));
    for (int foreign = 0; foreign < 2; foreign++) {
        CHECK_OK(checkpoint_load_resized(&g.n->params, &g.x.model,
                                         foreign ? rewrite(&f, keep) : f.path, &note, &err),
                 err);
        CHECK_CONTAINS(note, "(2): 15 x 15 offsets from 7 x 7");
        check_table(&f, (const int[]){7, 7}, &g, (const int[]){15, 15},
                    "layers.0.blocks.0.attn.relative_position_bias_table");
        free(note);
    }
    drop(&f);
    drop(&g);
}

TEST(load_resized__refuses_what_is_not_of_the_same_model)
{
    static const struct {
        const char *from, *to, *what;
    } rows[] = {
        {"model.attention=super", "model.image_size=8", "attn.align.weight"},
        {"model.attention=super", "model.attention=standard", "missing"},
        {"model.classes=6", "model.classes=4", "of another shape: head.weight"},
        {"model.pool=cls", "model.pool=mean", "the checkpoint has 7 tokens for the same 6 patches, the model 6"},
        {"model.depth=2", "model.depth=3", "missing: blocks.2."},
        {"model.heads=3", "model.heads=4", "model.heads is 4, the checkpoint's 3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f, g;
        struct error err;
        char *note = NULL;
        make(&f, "from", SETTINGS(rows[i].from, i == 0 ? "seed=1" : "seed=2"));
        make_new(&g, i == 0 ? SETTINGS(rows[i].from, rows[i].to) : SETTINGS(rows[i].to));
        test_about("%s to %s", rows[i].from, rows[i].to);
        CHECK_INT(checkpoint_load_resized(&g.n->params, &g.x.model, f.path, &note, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, rows[i].what);
        CHECK(!note);
        drop(&f);
        drop(&g);
    }
}
