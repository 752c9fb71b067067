/* sets.c - sets of tokens: which images and heads are done by whom. Gradients of tokens are summed
 * in scratch over the sets, of which several may hold a token. */
#include <string.h>

#include "kernels/operand.h"
#include "kernels/team.h"

/* One call, forward or backward. */
struct call {
    const struct set_pool *s;
    double divisor;
    const struct set_softmax *softmax;
    real *scratch;
    struct heads y, x, q, k, v, dy, dx, dq, dk, dv;
    int beta_x, beta_q, beta_k, beta_v;
    real *out_weight;
    const real *weight;
};

/* The pieces of the scratch of one member. */
struct own {
    real *dk, *dv; /* (N, d), (N, e) */
    real *da;      /* of the members of a set */
};

static size_t divide(struct own *p, const struct set_pool *s, real *scratch)
{
    size_t used = 0, most = 0;
    for (int i = 0; i < s->sets.count; i++)
        most = size_most(most, (size_t)(s->sets.first[i + 1] - s->sets.first[i]));
    p->dk = scratch_take(scratch, &used, (size_t)s->N * (size_t)s->d);
    p->dv = scratch_take(scratch, &used, (size_t)s->N * (size_t)s->e);
    p->da = scratch_take(scratch, &used, most);
    return used;
}

size_t kernel_set_scratch(const struct set_pool *s)
{
    struct own p;
    return divide(&p, s, NULL) * (size_t)(s->team > 1 ? s->team : 1) + SCRATCH_LINE;
}

static struct own own_of(const struct call *o, int member)
{
    struct own p;
    size_t one = divide(&p, o->s, NULL);
    divide(&p, o->s, scratch_aligned(o->scratch) + (size_t)member * one);
    return p;
}

/* Of the team, as far as there is scratch for all of it. */
static void share(team_part *part, const struct call *o, int parts)
{
    int threads = team_threads();
    if (threads > 1 && threads <= o->s->team) {
        team_run(part, o, parts);
        return;
    }
    for (int i = 0; i < parts; i++)
        part(o, i, 0);
}

static void store(struct heads to, int beta, const real *sums, int b, int h, int rows, int cols)
{
    if (to.data)
        kernels_level()->tile->store(heads_at(to, b, h), beta, sums, cols, NULL, rows, cols);
}

static size_t weight_at(const struct set_pool *s, int b, int h)
{
    return ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->sets.first[s->sets.count];
}

static void mean_part(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    int b = part / o->s->H, h = part % o->s->H;
    kernels_level()->sets->mean(heads_at(o->y, b, h), heads_at(o->x, b, h), &o->s->sets, o->divisor,
                                o->s->d);
}

void kernel_set_mean(struct heads y, struct heads x, double divisor, const struct set_pool *s)
{
    const struct call o = {.s = s, .divisor = divisor, .y = y, .x = x};
    share(mean_part, &o, s->B * s->H);
}

static void mean_grad_part(const void *job, int part, int member)
{
    const struct call *o = job;
    const struct set_pool *s = o->s;
    int b = part / s->H, h = part % s->H;
    struct own p = own_of(o, member);
    memset(p.dk, 0, (size_t)s->N * (size_t)s->d * sizeof *p.dk);
    kernels_level()->sets->mean_grad(p.dk, heads_at(o->dy, b, h), &s->sets, o->divisor, s->d);
    store(o->dx, o->beta_x, p.dk, b, h, s->N, s->d);
}

void kernel_set_mean_grad(struct heads dx, int beta, struct heads dy, double divisor,
                          const struct set_pool *s, real *scratch)
{
    const struct call o = {
        .s = s, .divisor = divisor, .scratch = scratch, .dy = dy, .dx = dx, .beta_x = beta};
    share(mean_grad_part, &o, s->B * s->H);
}

static void softmax_part(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    int b = part / o->s->H, h = part % o->s->H;
    kernels_level()->sets->softmax(heads_at(o->y, b, h), o->out_weight + weight_at(o->s, b, h),
                                   heads_at(o->q, b, h), heads_at(o->k, b, h), heads_at(o->v, b, h),
                                   o->softmax);
}

void kernel_set_softmax(struct heads y, real *weight, struct heads query, struct heads k,
                        struct heads v, const struct set_softmax *s)
{
    const struct call o = {
        .s = &s->pool, .softmax = s, .y = y, .q = query, .k = k, .v = v, .out_weight = weight};
    share(softmax_part, &o, s->pool.B * s->pool.H);
}

static void softmax_grad_one(const struct call *o, int b, int h, int member)
{
    const struct set_pool *s = o->s;
    struct own p = own_of(o, member);
    struct vec dq = {.data = NULL};
    if (o->dq.data)
        dq = heads_at(o->dq, b, h);
    memset(p.dk, 0, (size_t)s->N * (size_t)s->d * sizeof *p.dk);
    memset(p.dv, 0, (size_t)s->N * (size_t)s->e * sizeof *p.dv);
    kernels_level()->sets->softmax_grad(
        dq, o->beta_q, o->dk.data ? p.dk : NULL, o->dv.data ? p.dv : NULL, heads_at(o->q, b, h),
        heads_at(o->k, b, h), heads_at(o->v, b, h), heads_at(o->dy, b, h),
        o->weight + weight_at(s, b, h), p.da, o->softmax);
    store(o->dk, o->beta_k, p.dk, b, h, s->N, s->d);
    store(o->dv, o->beta_v, p.dv, b, h, s->N, s->e);
}

/* One head of one image. */
static void softmax_grad_part(const void *job, int part, int member)
{
    const struct call *o = job;
    softmax_grad_one(o, part / o->s->H, part % o->s->H, member);
}

/* One head of all images in their order, which add to the gradient of one query. */
static void softmax_grad_head(const void *job, int part, int member)
{
    const struct call *o = job;
    for (int b = 0; b < o->s->B; b++)
        softmax_grad_one(o, b, part, member);
}

void kernel_set_softmax_grad(struct heads dquery, int beta_query, struct heads dk, int beta_k,
                             struct heads dv, int beta_v, struct heads query, struct heads k,
                             struct heads v, struct heads dy, const real *weight,
                             const struct set_softmax *s, real *scratch)
{
    const struct call o = {
        .s = &s->pool,
        .softmax = s,
        .scratch = scratch,
        .q = query,
        .k = k,
        .v = v,
        .dy = dy,
        .dq = dquery,
        .dk = dk,
        .dv = dv,
        .beta_q = beta_query,
        .beta_k = beta_k,
        .beta_v = beta_v,
        .weight = weight,
    };
    if (dquery.data && dquery.batch == 0)
        share(softmax_grad_head, &o, s->pool.H);
    else
        share(softmax_grad_part, &o, s->pool.B * s->pool.H);
}
