/* gradcheck_list.c - what there is to check: ops.def and variants.def. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "config/config.h"
#include "ops/ops.h"
#include "study/gradcheck.h"

static int op_count(void)
{
    int count = 0;
    while (op_at(count))
        count++;
    return count;
}

const char *gradcheck_name(int i)
{
    int ops = op_count();
    if (i < ops)
        return op_at(i)->name;
    const struct kind *kind = attn_kinds(i - ops);
    return kind ? kind->name : NULL;
}

/* Keeps what is worse: the larger error, and the first failure with its case in front. */
static void merge(struct gradcheck *result, const struct gradcheck *part, const char *what)
{
    if (!isnan(result->worst) && !(part->worst <= result->worst))
        result->worst = part->worst;
    if (part->passed || !result->passed)
        return;
    result->passed = false;
    snprintf(result->note, sizeof result->note, "%.100s%s%.150s", what,
             *what ? ": " : "", part->note);
}

/* --- ops
 * ---------------------------------------------------------------------------------------- */

static struct tensor *build_op(struct graph *g, const void *context)
{
    const struct op *op = context;
    return op->sample(g);
}

static void check_op(struct gradcheck *result, const struct op *op)
{
    struct gradcheck part;
    if (!op->sample) {
        result->passed = false;
        snprintf(result->note, sizeof result->note, "has no sample to check");
        return;
    }
    gradcheck_graph(&part, build_op, op, NULL);
    merge(result, &part, "");
    gradcheck_graph(&part, build_op, op, op);
    merge(result, &part, "with two readers of its inputs");
}

/* --- attention variants
 * ------------------------------------------------------------------------- */

struct variant_case {
    struct choice attention;
    struct attn_site site;
};

static struct tensor *build_variant(struct graph *g, const void *context)
{
    const struct variant_case *v = context;
    const struct attn_site *s = &v->site;
    struct tensor *x = graph_sample(g, SHAPE(s->B, s->N, s->D));
    return attn_build(g, "attn", &v->attention, s, x);
}

/* Places to check it at: a whole map without and with a prefix token, and windows that are shifted
 * along one axis; then a map for what needs sides with a common divisor. */
#define SMALL_MAP                                                                                  \
    .B = 2, .D = 8, .H = 2, .grid = {3, 4}, .block = 1, .blocks = 3, .qkv_bias = true,             \
    .proj_bias = true
#define LONG_MAP .B = 2, .D = 8, .H = 2, .grid = {8, 4}, .blocks = 3, .qkv_bias = true
static const struct {
    const char *where;
    struct attn_site site;
} places[] = {
    {"a whole map", {SMALL_MAP, .N = 12}},
    {"a prefix token", {SMALL_MAP, .N = 13, .prefix = 1}},
    {"shifted windows", {SMALL_MAP, .N = 12, .window = {3, 2}, .shift = {0, 1}}},
    {"a long map", {LONG_MAP, .N = 33, .prefix = 1}},
    {"windows of a long map", {LONG_MAP, .N = 32, .window = {4, 2}, .shift = {2, 1}}},
};

/* Checks the variant with these options, made exact, at each place that it takes. */
static void check_options(struct gradcheck *result, const struct choice *attention,
                          const char *what)
{
    const struct attn_variant *variant = attention->kind->impl;
    int checked = 0;
    struct error err = {.status = OK};
    if (variant->exact)
        variant->exact(attention->options);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct variant_case v = {.attention = *attention, .site = places[i].site};
        char where[96];
        struct gradcheck part;
        if (attn_check(attention, &v.site, &err))
            continue;
        snprintf(where, sizeof where, "%s%s%s", what, *what ? ", " : "", places[i].where);
        gradcheck_graph(&part, build_variant, &v, NULL);
        merge(result, &part, where);
        checked++;
    }
    if (!checked) {
        struct gradcheck part = {.passed = false};
        snprintf(part.note, sizeof part.note, "%.200s", err.text);
        merge(result, &part, what);
    }
}

/* Sets a field to its n-th value other than the default, and others as it needs them; false past the
 * last one, and where the field has no list of values. */
static bool vary(const struct attn_variant *v, void *options, const struct field *f, int n,
                 char text[64])
{
    config_meet_needs(v->fields, v->needs, f->name, options);
    unsigned char *at = (unsigned char *)options + f->offset;
    int normal = (int)f->number, value = n >= normal ? n + 1 : n;
    if (f->type == FIELD_TYPE_BOOL && n == 0) {
        bool flipped = !normal;
        memcpy(at, &flipped, sizeof flipped);
        snprintf(text, 64, "%.40s %s", f->name, flipped ? "true" : "false");
        return true;
    }
    if (f->type != FIELD_TYPE_ENUM)
        return false;
    for (int i = 0; i <= value; i++)
        if (!f->names[i])
            return false;
    memcpy(at, &value, sizeof value);
    snprintf(text, 64, "%.30s %.30s", f->name, f->names[value]);
    return true;
}

static enum status defaults(struct choice *attention, const struct kind *kind,
                            struct arena *memory, struct error *err)
{
    *attention = (struct choice){.kind = kind, .name = kind->name,
                                 .options = arena_alloc(memory, kind->size ? kind->size : 1)};
    if (!attention->options)
        return error_memory(err, kind->size);
    return kind->fields ? config_defaults(kind->fields, attention->options, memory, err) : OK;
}

static void check_variant(struct gradcheck *result, const struct kind *kind)
{
    struct arena memory;
    struct error err = {.status = OK};
    struct choice attention;
    char text[64] = "";
    const struct attn_variant *variant = kind->impl;
    if (variant->kinks && sizeof(real) == sizeof(float)) {
        snprintf(result->note, sizeof result->note, "not checked: has kinks (use BUILD=double)");
        return;
    }
    arena_init(&memory);
    enum status status = defaults(&attention, kind, &memory, &err);
    if (!status)
        check_options(result, &attention, "");
    for (const struct field *f = kind->fields; f && f->type != FIELD_TYPE_END; f++) {
        for (int n = 0; !status; n++) {
            status = defaults(&attention, kind, &memory, &err);
            if (status || !vary(variant, attention.options, f, n, text))
                break;
            check_options(result, &attention, text);
        }
    }
    if (status) {
        struct gradcheck part = {.passed = false};
        snprintf(part.note, sizeof part.note, "%.200s", err.text);
        merge(result, &part, "");
    }
    arena_free(&memory);
}

void gradcheck_run(struct gradcheck *result, int i)
{
    int ops = op_count();
    *result = (struct gradcheck){.group = i < ops ? "op" : "attention", .name = gradcheck_name(i),
                                 .passed = true};
    if (i < ops)
        check_op(result, op_at(i));
    else
        check_variant(result, attn_kinds(i - ops));
}
