/* test_convert.c - train.init_from a checkpoint of another attention. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "config/json.h"
#include "io/safetensors.h"
#include "rig.h"
#include "train/checkpoint.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

/* Settings of a model on a map of 4 x 4, the variant and more of them. */
static const char *const *model_settings(const char *attention, const char *const *more)
{
    static const char *list[16];
    int count = 0;
    list[count++] = "model.image_size=16";
    list[count++] = test_text("model.attention=%s", attention);
    while (more && *more)
        list[count++] = *more++;
    list[count] = NULL;
    return list;
}

struct fixture {
    struct experiment x;
    struct network *n;
};

static void make(struct fixture *f, const char *attention, const char *const *more)
{
    struct error err;
    rig_load(&f->x, model_settings(attention, more));
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_INFER, 8, 1, &err), err);
}

static void drop(struct fixture *f)
{
    network_destroy(f->n);
    experiment_free(&f->x);
}

/* A checkpoint of a model with this attention, all values different. */
static const char *checkpoint_of(const char *attention, const char *const *more)
{
    struct fixture f;
    struct error err;
    const char *path = test_text("%s/from.safetensors", test_directory());
    make(&f, attention, more);
    for (size_t i = 0; i < f.n->params.total; i++)
        f.n->params.values[i] = (real)(0.2 * sin((double)i) + (double)(i % 7) / 64);
    CHECK_OK(checkpoint_write(path, f.n, f.n->params.values, names, 1, &err), err);
    drop(&f);
    return path;
}

/* The same file without its metadata, as another program would write it. */
static const char *without_metadata(const char *path)
{
    struct st_file *f = NULL;
    struct error err;
    const char *to = test_text("%s/foreign.safetensors", test_directory());
    CHECK_OK(st_open(&f, path, &err), err);
    struct st_tensor *list = calloc((size_t)st_count(f), sizeof *list);
    CHECK(list != NULL);
    for (int i = 0; i < st_count(f); i++)
        list[i] = *st_at(f, i);
    CHECK_OK(st_write(to, list, st_count(f), NULL, 0, &err), err);
    free(list);
    st_close(f);
    return to;
}

/* Whether the variant can be placed on this map with a class token, or with these settings. */
static bool can_make(const char *attention, const char *const *more)
{
    struct error err;
    struct experiment x;
    enum status status = rig_refused(model_settings(attention, more), &err);
    if (status)
        return false;
    rig_load(&x, model_settings(attention, more));
    experiment_free(&x);
    return true;
}

static const char *const *mean_pool = (const char *const[]){"model.pool=mean", NULL};

/* --- the report ------------------------------------------------------------------------------- */

static int times_in(const struct init_report *r, enum init_list list, const char *name)
{
    int times = 0;
    for (int i = 0; i < r->list[list].count; i++)
        times += strcmp(r->list[list].at[i].name, name) == 0;
    return times;
}

/* Every parameter is told once, and has the file's values where it is said to be just loaded; every
 * tensor of the file that is not in use is told once. */
static void check_report(const struct init_report *r, const struct params *p, const char *path)
{
    struct st_file *f = NULL;
    struct error err;
    int loaded = 0, idle = 0;
    CHECK_OK(st_open(&f, path, &err), err);
    for (int i = 0; i < p->count; i++) {
        const struct param *param = p->list[i];
        int told = times_in(r, INIT_LOADED, param->name);
        CHECK_INT(told + times_in(r, INIT_INITIALISED, param->name), 1);
        CHECK(told || attn_owns(param->name));
        loaded += told;
    }
    CHECK_INT(loaded, r->list[INIT_LOADED].count);
    CHECK_INT(p->count - loaded, r->list[INIT_INITIALISED].count);
    for (int i = 0; i < loaded; i++) {
        const struct init_item *item = &r->list[INIT_LOADED].at[i];
        const struct st_tensor *t = st_find(f, item->name);
        const struct param *param = params_find(p, item->name);
        if (*item->how)
            continue;
        CHECK(t && t->count == param->count);
        for (size_t k = 0; k < t->count; k++)
            CHECK_NEAR(param->value[k], ((const float *)t->data)[k], 0);
    }
    for (int i = 0; i < st_count(f); i++)
        idle += times_in(r, INIT_UNUSED, st_at(f, i)->name);
    CHECK_INT(idle, r->list[INIT_UNUSED].count);
    CHECK_INT(r->tensors, st_count(f));
    st_close(f);
}

static void check_conversion(const char *attention, const char *const *more, const char *path)
{
    struct fixture g;
    struct init_report r;
    struct error err;
    make(&g, attention, more);
    init_report_begin(&r);
    CHECK_OK(checkpoint_init(&g.n->params, &g.x.model, path, &r, &err), err);
    CHECK_STR(r.from, "standard");
    CHECK_STR(r.to, attention);
    check_report(&r, &g.n->params, path);
    const char *summary = init_report_summary(&r);
    CHECK_CONTAINS(summary, test_text("standard to %s: %d of %d tensors loaded, %d initialised; of the "
                                      "checkpoint's %d, %d left unused",
                                      attention, r.list[INIT_LOADED].count, g.n->params.count,
                                      r.list[INIT_INITIALISED].count, r.tensors,
                                      r.list[INIT_UNUSED].count));
    init_report_free(&r);
    drop(&g);
}

TEST(every_attention__starts_from_standard)
{
    const char *path[] = {checkpoint_of("standard", NULL), checkpoint_of("standard", mean_pool)};
    for (int i = 0; attn_kinds(i); i++) {
        const char *attention = attn_kinds(i)->name;
        int places = 0;
        for (int pool = 0; pool < 2; pool++) {
            if (!can_make(attention, pool ? mean_pool : NULL))
                continue;
            test_about("%s%s", attention, pool ? ", mean" : "");
            check_conversion(attention, pool ? mean_pool : NULL, path[pool]);
            check_conversion(attention, pool ? mean_pool : NULL, without_metadata(path[pool]));
            places++;
        }
        CHECK(places > 0);
    }
}

/* --- runs --------------------------------------------------------------------------------------- */

static const char *train_directory(void)
{
    return test_text("%s/run", test_directory());
}

TEST(every_attention__trains_resumes_and_is_loaded_after_conversion)
{
    for (int i = 0; attn_kinds(i); i++) {
        const char *attention = attn_kinds(i)->name;
        const char *const *pool = can_make(attention, NULL) ? NULL : mean_pool;
        const char *from = test_text("train.init_from=%s", checkpoint_of("standard", pool));
        const char *more[] = {from, "train.epochs=1", "train.schedule=constant",
                              "data.train_count=44", pool ? pool[0] : NULL, NULL};
        struct experiment x;
        struct network *n = NULL;
        struct error err;
        test_about("%s", attention);
        rig_load(&x, model_settings(attention, more));
        struct rig_run run = {.threads = 1};
        const char *whole = train_directory();
        CHECK_OK(rig_train(&x, whole, &run, &err), err);
        CHECK_CONTAINS(run.said, test_text("standard to %s: ", attention));
        CHECK_CONTAINS(run.said, "\nloaded: ");

        const char *stopped = train_directory();
        run = (struct rig_run){.stop_after = 1};
        CHECK_INT(rig_train(&x, stopped, &run, &err), ERR_INTERRUPTED);
        run = (struct rig_run){.resume = true};
        CHECK_OK(rig_train(&x, stopped, &run, &err), err);
        CHECK(!strstr(run.said, "init_from"));
        CHECK(rig_same_file(test_text("%s/last.safetensors", whole),
                            test_text("%s/last.safetensors", stopped)));
        CHECK_STR(rig_metrics(whole), rig_metrics(stopped));

        CHECK_OK(network_create(&n, &x, NETWORK_INFER, 8, 1, &err), err);
        CHECK_OK(checkpoint_load(&n->params, &x.model, test_text("%s/last.safetensors", whole), NULL,
                                 &err), err);
        network_destroy(n);
        experiment_free(&x);
    }
}

/* The line of metrics.jsonl says the same as the report, name by name. */
TEST(metrics__list_every_tensor)
{
    const char *from = test_text("train.init_from=%s", checkpoint_of("standard", NULL));
    struct experiment x;
    struct error err;
    struct rig_run run = {.threads = 1};
    const char *directory = train_directory();
    rig_load(&x, model_settings("hedgehog", SETTINGS(from, "train.epochs=1", "train.schedule=constant")));
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    const char *text = rig_text(test_text("%s/metrics.jsonl", directory));
    const char *line = strchr(text, '\n') + 1;
    struct json_value *root = NULL;
    CHECK_OK(json_parse(&root, line, strcspn(line, "\n"), &err), err);
    CHECK_STR(json_to_string(json_member(root, "event")), "init_from");
    CHECK_STR(json_to_string(json_member(root, "from")), "standard");
    CHECK_STR(json_to_string(json_member(root, "to")), "hedgehog");
    static const char *const keys[] = {"loaded", "initialised", "partly_used", "unused"};
    static const int counts[] = {32, 4, 0, 0};
    for (int i = 0; i < 4; i++) {
        int count = 0;
        const struct json_value *list = json_member(root, keys[i]);
        for (const struct json_value *v = json_first(list); v; v = json_next(v), count++)
            CHECK(json_to_string(json_member(v, "name")) != NULL);
        test_about("%s", keys[i]);
        CHECK_INT(count, counts[i]);
    }
    const struct json_value *first = json_first(json_member(root, "initialised"));
    CHECK_STR(json_to_string(json_member(first, "name")), "blocks.0.attn.q_map.weight");
    CHECK_STR(json_to_string(json_member(first, "how")), "1.682 times the identity");
    json_free(root);
    experiment_free(&x);
}

/* --- what is refused ---------------------------------------------------------------------------- */

TEST(another_backbone__is_refused_with_the_path_and_the_value)
{
    static const struct {
        const char *setting, *text, *foreign;
    } rows[] = {
        {"model.dim=48", "model.dim is 48, the checkpoint's 24", "model.dim is 48, the checkpoint's 24"},
        {"model.depth=3", "model.depth is 3, the checkpoint's 2", "missing: blocks.2.norm1.weight"},
        {"model.patch_size=2", "model.patch_size is 2, the checkpoint's 4",
         "model.patch_size is 2, the checkpoint's 4"},
        {"model.channels=3", "model.channels is 3, the checkpoint's 1",
         "model.channels is 3, the checkpoint's 1"},
        {"model.mlp_ratio=4", "model.mlp_ratio is 4, the checkpoint's 2",
         "mlp.fc1.weight (48, 24) instead of (96, 24)"},
        {"model.heads=4", "model.heads is 4, the checkpoint's 3", NULL},
    };
    const char *path = checkpoint_of("standard", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int foreign = 0; foreign < (rows[i].foreign ? 2 : 1); foreign++) {
            struct experiment x;
            struct error err;
            struct rig_run run = {.threads = 1};
            const char *from = foreign ? without_metadata(path) : path;
            test_about("%s%s", rows[i].setting, foreign ? ", foreign" : "");
            const char *setting = test_text("train.init_from=%s", from);
            rig_load(&x, model_settings("hedgehog", SETTINGS(setting, rows[i].setting)));
            CHECK_INT(rig_train(&x, train_directory(), &run, &err), ERR_INPUT);
            CHECK_CONTAINS(err.text, "train.init_from: ");
            CHECK_CONTAINS(err.text, from);
            CHECK_CONTAINS(err.text, foreign ? rows[i].foreign : rows[i].text);
            experiment_free(&x);
        }
}

/* A layer that is bound to a token count starts anew for another one, and says so. */
TEST(the_same_attention__starts_anew_where_it_is_bound_to_the_tokens)
{
    struct fixture g, start;
    struct error err;
    const char *said, *name = "blocks.0.attn.proj_k";
    const char *path = checkpoint_of("linformer", SETTINGS("model.pos_embed=none"));
    make(&g, "linformer", SETTINGS("model.pos_embed=none", "model.image_size=24"));
    make(&start, "linformer", SETTINGS("model.pos_embed=none", "model.image_size=24"));
    CHECK_OK(rig_init(&g.n->params, &g.x.model, path, &said, &err), err);
    CHECK_CONTAINS(said, "initialised: blocks.*.attn.proj_k (2): as at the start, (37, 9) where the "
                         "checkpoint has (17, 4)");
    const struct param *p = params_find(&g.n->params, name), *q = params_find(&start.n->params, name);
    CHECK(memcmp(p->value, q->value, p->count * sizeof(real)) == 0);
    drop(&g);
    drop(&start);
}
