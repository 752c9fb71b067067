/* absorb.c - products of projections, formed once when a layer starts: plain loops, sums in double. */
#include "attention/absorb.h"

/* Whether the old layer has that map of the tokens for heads that share the width, and the new one has
 * none. */
static bool can_absorb(const struct adapt *a, const struct adapt_part *old, char map)
{
    return old->value && old->rows == a->site->D && old->columns == a->site->D &&
           !adapt_weight(a->to, map).value;
}

static double dot(const real *a, size_t a_stride, const real *b, size_t b_stride, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i * a_stride] * (double)b[i * b_stride];
    return sum;
}

void absorb_keys(const struct adapt *a)
{
    size_t D = (size_t)a->site->D, d = D / (size_t)a->site->H;
    struct adapt_part k = adapt_weight(a->from, 'k'), q = adapt_weight(a->from, 'q');
    struct adapt_part bias = adapt_bias(a->from, 'q');
    struct adapt_part to = adapt_weight(a->to, 'q'), to_bias = adapt_bias(a->to, 'q');
    if (!can_absorb(a, &k, 'k') || !q.value || q.rows != a->site->D || to.rows != q.rows)
        return;
    for (size_t i = 0; i < D; i++) {
        const size_t head = i / d * d; /* rows of both maps that belong to the head of column i */
        const real *column = k.value + head * D + i;
        for (size_t j = 0; j < D; j++)
            to.value[i * D + j] = (real)dot(column, D, q.value + head * D + j, D, d);
        if (to_bias.value && bias.value)
            to_bias.value[i] = (real)dot(bias.value + head, 1, column, D, d);
    }
    adapt_use(&k);
    struct adapt_part unseen = adapt_bias(a->from, 'k'); /* it has no effect in either */
    adapt_use(&unseen);
    const char *how = d == D ? "times W_k^T" : "times its columns' part of W_k^T";
    adapt_say(to.tensor, "%s", how);
    if (to_bias.value && bias.value)
        adapt_say(to_bias.tensor, "%s", how);
}

void absorb_values(const struct adapt *a)
{
    size_t D = (size_t)a->site->D;
    struct adapt_part v = adapt_weight(a->from, 'v'), bias = adapt_bias(a->from, 'v');
    struct adapt_tensor *to = adapt_find(a->to, "proj.weight");
    struct adapt_tensor *old = adapt_find(a->from, "proj.weight");
    struct adapt_tensor *to_bias = adapt_find(a->to, "proj.bias");
    if (!can_absorb(a, &v, 'v') || !to || !to->loaded || !old)
        return;
    for (size_t i = 0; i < D; i++) {
        const real *row = old->value + i * D;
        for (size_t j = 0; j < D; j++)
            to->value[i * D + j] = (real)dot(row, 1, v.value + j, D, D);
        if (to_bias && bias.value)
            to_bias->value[i] += (real)dot(row, 1, bias.value, 1, D);
    }
    adapt_use(&v);
    adapt_say(to, "times W_v");
    if (!to_bias || !bias.value)
        return;
    adapt_use(&bias);
    to_bias->loaded = true;
    adapt_say(to_bias, "plus W_o b_v");
}
