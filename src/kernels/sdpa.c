/* sdpa.c - attention: which images and heads are done by whom. */
#include "kernels/sdpa_head.h"
#include "kernels/team.h"

/* Reals for one thread: its own cache lines. */
static size_t scratch_of_one(const struct sdpa *s)
{
    struct sdpa_plan p;
    return sdpa_plan_make(&p, s, NULL) + SCRATCH_LINE;
}

size_t kernel_sdpa_scratch(const struct sdpa *s)
{
    return scratch_of_one(s) * (size_t)(s->team > 1 ? s->team : 1);
}

/* One call, forward or backward; data is NULL where a gradient is not wanted. */
struct call {
    const struct sdpa *s;
    const struct kernels_bf16 *bf16;
    real *scratch;
    int groups; /* of query rows, forward */
    struct heads y, q, k, v, dy, dq, dk, dv;
    real *out_lse;
    const real *lse;
    real *dbias;
    int beta_q, beta_k, beta_v, beta_bias;
};

/* The plan in the scratch of one member. */
static struct sdpa_plan plan_of(const struct call *o, int member)
{
    struct sdpa_plan p;
    size_t skipped = (size_t)member * scratch_of_one(o->s);
    sdpa_plan_make(&p, o->s, o->scratch ? scratch_aligned(o->scratch) + skipped : NULL);
    p.bf16 = o->bf16;
    return p;
}

/* Of the team, as far as there is scratch for all of it. */
static int threads_for(const struct sdpa *s)
{
    int threads = team_threads();
    return threads <= s->team ? threads : 1;
}

static void share(team_part *part, const struct call *o, int parts)
{
    if (threads_for(o->s) > 1) {
        team_run(part, o, parts);
        return;
    }
    for (int i = 0; i < parts; i++)
        part(o, i, 0);
}

static size_t lse_at(const struct sdpa *s, int b, int h)
{
    return ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->N;
}

static void forward_part(const void *job, int part, int member)
{
    const struct call *o = job;
    const struct sdpa *s = o->s;
    struct sdpa_plan p = plan_of(o, member);
    int group = part % o->groups, head = part / o->groups, b = head / s->H, h = head % s->H;
    int first = (int)((long long)s->N * group / o->groups);
    int last = (int)((long long)s->N * (group + 1) / o->groups);
    sdpa_forward_rows(&p, s, b, h, first, last, heads_at(o->y, b, h), o->out_lse + lse_at(s, b, h),
                      heads_at(o->q, b, h), heads_at(o->k, b, h), heads_at(o->v, b, h));
}

/* As many that all threads get the same number of parts; each packs its keys and values anew. What
 * a row gives does not depend on it. */
static int row_groups(const struct sdpa *s)
{
    int threads = threads_for(s), a = threads, b = s->B * s->H;
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    int groups = a ? threads / a : 1, most = s->N / SDPA_TILE_ROWS;
    groups = groups < most ? groups : most;
    return groups > 1 ? groups : 1;
}

void kernel_sdpa(struct heads y, real *lse, struct heads q, struct heads k, struct heads v,
                 const struct sdpa *s, real *scratch)
{
    struct call o = {
        .s = s,
        .bf16 = sdpa_bf16(q.type, k.type, v.type, v.type),
        .scratch = scratch,
        .groups = row_groups(s),
        .y = y,
        .q = q,
        .k = k,
        .v = v,
        .out_lse = lse,
    };
    share(forward_part, &o, s->B * s->H * o.groups);
}

/* Stores a gradient (rows, cols) that was summed in real, where it is wanted. */
static void store(struct heads to, int beta, const real *sums, int b, int h, int rows, int cols)
{
    if (to.data)
        kernels_level()->tile->store(heads_at(to, b, h), beta, sums, cols, NULL, rows, cols);
}

static void backward_one(const struct call *o, const struct sdpa_plan *p, int b, int h)
{
    const struct sdpa *s = o->s;
    struct sdpa_head_grad g = {
        .wants_k = o->dk.data != NULL,
        .wants_v = o->dv.data != NULL,
        .dbias = o->dbias ? o->dbias + (ptrdiff_t)h * s->N * s->M : NULL,
        .beta_q = o->beta_q,
        .beta_bias = o->beta_bias || b > 0,
        .q = heads_at(o->q, b, h),
        .k = heads_at(o->k, b, h),
        .v = heads_at(o->v, b, h),
        .y = heads_at(o->y, b, h),
        .dy = heads_at(o->dy, b, h),
        .lse = o->lse + lse_at(s, b, h),
    };
    if (o->dq.data)
        g.dq = heads_at(o->dq, b, h);
    sdpa_backward_head(p, s, &g, b, h);
    store(o->dk, o->beta_k, p->dk, b, h, s->M, s->d);
    store(o->dv, o->beta_v, p->dv, b, h, s->M, s->e);
}

/* One head of one image. */
static void backward_part(const void *job, int part, int member)
{
    const struct call *o = job;
    struct sdpa_plan p = plan_of(o, member);
    backward_one(o, &p, part / o->s->H, part % o->s->H);
}

/* One head of all images in their order, which add to the gradient of one bias. */
static void backward_bias_part(const void *job, int part, int member)
{
    const struct call *o = job;
    struct sdpa_plan p = plan_of(o, member);
    for (int b = 0; b < o->s->B; b++)
        backward_one(o, &p, b, part);
}

void kernel_sdpa_grad(struct heads dq, int beta_q, struct heads dk, int beta_k, struct heads dv,
                      int beta_v, real *dbias, int beta_bias, struct heads q, struct heads k,
                      struct heads v, struct heads y, struct heads dy, const real *lse,
                      const struct sdpa *s, real *scratch)
{
    struct call o = {
        .s = s,
        .bf16 = sdpa_bf16(q.type, k.type, v.type, dy.type),
        .scratch = scratch,
        .y = y,
        .q = q,
        .k = k,
        .v = v,
        .dy = dy,
        .dq = dq,
        .dk = dk,
        .dv = dv,
        .lse = lse,
        .dbias = dbias,
        .beta_q = beta_q,
        .beta_k = beta_k,
        .beta_v = beta_v,
        .beta_bias = beta_bias,
    };
    if (dbias)
        share(backward_bias_part, &o, s->H);
    else
        share(backward_part, &o, s->B * s->H);
}
