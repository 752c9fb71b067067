/* attention.c - the registry made from variants.def, and the way into it. */
#include "attention/attention.h"

#include <math.h>
#include <string.h>

#include "attention/adapt.h"
#include "attention/window.h"
#include "config/config.h"
#include "ops/ops.h"

#define ATTENTION(name) extern const struct attn_variant name##_attn;
#include "attention/variants.def"
#undef ATTENTION

static const struct attn_variant *const variants[] = {
#define ATTENTION(name) &name##_attn,
#include "attention/variants.def"
#undef ATTENTION
};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

const struct kind *attn_kinds(int i)
{
    static struct kind kinds[VARIANTS];
    if (i < 0 || i >= VARIANTS)
        return NULL;
    const struct attn_variant *v = variants[i];
    kinds[i] = (struct kind){.name = v->name, .summary = v->summary, .fields = v->fields,
                             .size = v->options_size, .impl = v};
    return &kinds[i];
}

static const struct attn_variant *variant_of(const struct choice *attention)
{
    return attention->kind->impl;
}

/* Whether the variant works inside windows that the site has. */
static bool is_inside(const struct choice *attention, const struct attn_site *s)
{
    const struct attn_variant *v = variant_of(attention);
    return s->window[0] &&
           (!v->placement || v->placement(attention->options, s) == ATTN_INNER);
}

struct tensor *attn_build(struct graph *g, const char *name, const struct choice *attention,
                          const struct attn_site *s, struct tensor *x)
{
    const struct attn_variant *v = variant_of(attention);
    struct tensor *y;
    graph_scope_push(g, "%s", name);
    if (is_inside(attention, s)) {
        struct attn_site inside = window_site_regions(g, s);
        y = v->build(g, attention->options, &inside, window_cut(g, s, x));
        y = window_join(g, s, y);
    } else {
        y = v->build(g, attention->options, s, x);
    }
    graph_trace(g, y);
    graph_scope_pop(g);
    return y;
}

struct attn_site attn_seen(const struct choice *attention, const struct attn_site *s)
{
    return is_inside(attention, s) ? window_site(s) : *s;
}

enum status attn_check(const struct choice *attention, const struct attn_site *s,
                       struct error *err)
{
    const struct attn_variant *v = variant_of(attention);
    struct attn_site seen = attn_seen(attention, s);
    enum status status = config_check_needs(v->fields, v->needs, attention->options, err);
    if (!status && v->check)
        status = v->check(attention->options, &seen, err);
    return status;
}

double attn_macs(const struct choice *attention, const struct attn_site *s)
{
    const struct attn_variant *v = variant_of(attention);
    if (!is_inside(attention, s))
        return v->macs(attention->options, s);
    const struct token_windows w = windows_of_site(s);
    struct attn_site inside = window_site(s);
    return windows_count(&w) * v->macs(attention->options, &inside);
}

bool attn_table_offsets(const struct choice *attention, const struct attn_site *s,
                        struct attn_offsets *o)
{
    const struct attn_variant *v = variant_of(attention);
    struct attn_site seen = attn_seen(attention, s);
    if (v->offsets)
        return v->offsets(attention->options, &seen, o);
    *o = (struct attn_offsets){{seen.window[0], seen.window[1]}, 1};
    return seen.window[0] > 0;
}

double attn_scale(const struct attn_site *s)
{
    return 1 / sqrt((double)s->D / s->H);
}

struct tensor *attn_bias(struct graph *g, const struct attn_site *s)
{
    if (!s->window[0])
        return NULL;
    int entries = (2 * s->window[0] - 1) * (2 * s->window[1] - 1);
    struct tensor *table = graph_param_flags(g, "relative_position_bias_table",
                                             SHAPE(entries, s->H), INIT_TRUNCATED(0.02), 0);
    return op_relative_bias(g, table, s->window);
}

struct tensor *attn_sdpa(struct graph *g, const struct attn_site *s, struct tensor *q,
                         struct tensor *k, struct tensor *v)
{
    const struct sdpa_terms terms = {.bias = attn_bias(g, s), .regions = s->regions};
    return op_sdpa_terms(g, q, k, v, attn_scale(s), &terms);
}

bool attn_owns(const char *name)
{
    for (const char *at = name; (at = strstr(at, "attn")); at += 4)
        if ((at == name || at[-1] == '.') && (at[4] == 0 || at[4] == '.'))
            return true;
    return false;
}
