/* attention.c - the registry made from variants.def, and the way into it. */
#include "attention/attention.h"

#include <math.h>

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

struct tensor *attn_build(struct graph *g, const char *name, const struct choice *attention,
                          const struct attn_site *s, struct tensor *x)
{
    graph_scope_push(g, "%s", name);
    struct tensor *y = variant_of(attention)->build(g, attention->options, s, x);
    graph_trace(g, y);
    graph_scope_pop(g);
    return y;
}

enum status attn_check(const struct choice *attention, const struct attn_site *s,
                       struct error *err)
{
    const struct attn_variant *v = variant_of(attention);
    return v->check ? v->check(attention->options, s, err) : OK;
}

double attn_macs(const struct choice *attention, const struct attn_site *s)
{
    return variant_of(attention)->macs(attention->options, s);
}

double attn_scale(const struct attn_site *s)
{
    return 1 / sqrt((double)s->D / s->H);
}
