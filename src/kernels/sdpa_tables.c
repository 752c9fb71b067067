/* sdpa_tables.c - attention of groups of queries to lists of keys, one group after the other: what
 * a group needs is brought together in scratch, where it is an attention with as many keys as
 * slots; sdpa_head.c does that. Patterns become biases, written out once a call for each head.
 * Gradients of keys and values are summed in scratch over the groups of an image and head. */
#include <math.h>
#include <string.h>

#include "kernels/sdpa_head.h"
#include "kernels/team.h"

/* Reals of the pieces of the scratch, and what they follow from. */
struct sizes {
    size_t queries, slots; /* of the largest groups */
    size_t shared;         /* of all members together */
    size_t plan, one;      /* of a member: for the plan of any group, and in all */
};

/* One call, forward or backward. */
struct call {
    const struct sdpa_tables *s;
    const struct kernels_bf16 *bf16;
    enum type type; /* of the operands that are brought together */
    bool backward;
    real *scratch;
    struct sizes sizes;
    struct sdpa_tables_grad t; /* forward reads its tensors */
    struct heads y;            /* written */
    real *lse;
};

/* The pieces of the scratch: of all members, and of one. */
struct shared {
    real *bias;  /* (heads, entries of all patterns) */
    real *dbias; /* (H, the same) */
};

struct own {
    struct sdpa_plan plan;    /* made anew for each group */
    void *q, *k, *v, *y, *dy; /* of a group, in the type of the operands; y as it is stored */
    real *dq;
    real *dk, *dv, *drow_k, *drow_v; /* sums over the groups: (M, d), (M, e), (C, d), (C, e) */
};

static int slots_of(const struct key_group *g)
{
    return g->keys + g->rows;
}

/* Biases differ between heads only where a table has something to say. */
static int bias_heads(const struct sdpa_tables *s)
{
    return s->biased ? s->H : 1;
}

static size_t divide_shared(struct shared *p, const struct sdpa_tables *s, bool backward,
                            real *scratch)
{
    size_t used = 0, entries = s->pattern_at[s->patterns];
    p->bias = scratch_take(scratch, &used, (size_t)bias_heads(s) * entries);
    p->dbias = scratch_take(scratch, &used, backward && s->biased ? (size_t)s->H * entries : 0);
    return used;
}

static size_t divide_own(struct own *p, const struct sdpa_tables *s, bool backward,
                         const struct sizes *sizes, real *scratch)
{
    size_t used = sizes->plan, d = (size_t)s->d, e = (size_t)s->e;
    p->q = scratch_take(scratch, &used, sizes->queries * d);
    p->k = scratch_take(scratch, &used, sizes->slots * d);
    p->v = scratch_take(scratch, &used, sizes->slots * e);
    p->y = scratch_take(scratch, &used, sizes->queries * e);
    if (!backward)
        return used;
    p->dy = scratch_take(scratch, &used, sizes->queries * e);
    p->dq = scratch_take(scratch, &used, sizes->queries * d);
    p->dk = scratch_take(scratch, &used, (size_t)s->M * d);
    p->dv = scratch_take(scratch, &used, (size_t)s->M * e);
    p->drow_k = scratch_take(scratch, &used, (size_t)s->C * d);
    p->drow_v = scratch_take(scratch, &used, (size_t)s->C * e);
    return used;
}

/* The attention that a group is. */
static struct sdpa sdpa_of(const struct sdpa_tables *s, const struct key_group *g)
{
    return (struct sdpa){
        .B = 1, .H = 1, .N = g->queries, .M = slots_of(g), .d = s->d, .e = s->e, .scale = s->scale};
}

static struct sizes sizes_of(const struct sdpa_tables *s, bool backward)
{
    struct sizes z = {.queries = 0};
    struct shared shared;
    struct own own;
    for (int i = 0; i < s->groups; i++) {
        const struct key_group *g = &s->group[i];
        struct sdpa of = sdpa_of(s, g);
        z.queries = size_most(z.queries, (size_t)g->queries);
        z.slots = size_most(z.slots, (size_t)slots_of(g));
        z.plan = size_most(z.plan, sdpa_plan_make(&own.plan, &of, NULL));
    }
    z.shared = divide_shared(&shared, s, backward, NULL);
    z.one = divide_own(&own, s, backward, &z, NULL);
    return z;
}

size_t kernel_sdpa_tables_scratch(const struct sdpa_tables *s, bool backward)
{
    struct sizes z = sizes_of(s, backward);
    return z.shared + z.one * (size_t)(s->team > 1 ? s->team : 1) + SCRATCH_LINE;
}

static struct shared shared_of(const struct call *o)
{
    struct shared p;
    divide_shared(&p, o->s, o->backward, scratch_aligned(o->scratch));
    return p;
}

/* The scratch of one member. */
static real *scratch_of(const struct call *o, int member)
{
    return scratch_aligned(o->scratch) + o->sizes.shared + (size_t)member * o->sizes.one;
}

static struct own own_of(const struct call *o, int member)
{
    struct own p = {.dy = NULL};
    divide_own(&p, o->s, o->backward, &o->sizes, scratch_of(o, member));
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

/* --- patterns --------------------------------------------------------------------------------- */

/* What patterns add, for one head. */
static void write_bias(real *to, const struct sdpa_tables *s, int h)
{
    for (int p = 0; p < s->patterns; p++) {
        const struct key_pattern *pattern = s->pattern[p];
        const int *entry = pattern->entry;
        for (int i = 0; i < pattern->queries; i++)
            for (int j = 0; j < pattern->slots; j++, entry++) {
                real term = pattern->shift ? pattern->shift[j] : 0;
                if (*entry > 0)
                    term += s->bias[(ptrdiff_t)(*entry - 1) * s->H + h];
                *to++ = *entry < KEY_PLAIN ? (real)-INFINITY : term;
            }
    }
}

/* Adds what was summed over the images to the table's gradient. */
static void read_bias_grad(real *dbias, const struct sdpa_tables *s, const real *from, int h)
{
    for (int p = 0; p < s->patterns; p++) {
        const int *entry = s->pattern[p]->entry;
        for (size_t i = s->pattern_at[p]; i < s->pattern_at[p + 1]; i++, entry++)
            if (*entry > 0)
                dbias[(ptrdiff_t)(*entry - 1) * s->H + h] += from[i];
    }
}

static void write_biases(const struct call *o)
{
    struct shared p = shared_of(o);
    for (int h = 0; h < bias_heads(o->s); h++)
        write_bias(p.bias + (size_t)h * o->s->pattern_at[o->s->patterns], o->s, h);
}

/* A group's place among the entries of head h; NULL without a pattern. */
static real *entries_at(const struct sdpa_tables *s, real *of_all, int h, int group)
{
    int pattern = s->pattern_of[group];
    if (pattern < 0 || !of_all)
        return NULL;
    return of_all + (size_t)h * s->pattern_at[s->patterns] + s->pattern_at[pattern];
}

/* --- one group -------------------------------------------------------------------------------- */

/* Rows of x in the order of a list. */
static struct vec gather(void *to, enum type type, struct vec x, const int *list, int rows,
                         int cols)
{
    struct vec y = {to, type, cols};
    const struct row_order order = {list, (size_t)rows};
    if (rows > 0)
        kernel_gather_rows(y, 0, x, &order, NULL, 0, (size_t)rows, (size_t)cols);
    return y;
}

static void scatter(struct vec y, int beta, const real *x, const int *list, int rows, int cols)
{
    const struct row_order order = {list, (size_t)rows};
    if (rows > 0)
        kernel_scatter_rows(y, beta, (struct vec){(void *)(uintptr_t)x, TYPE_REAL, cols}, &order, 0,
                            (size_t)rows, (size_t)cols);
}

/* Keys, or values, of a group: tokens, then rows. */
static struct vec gather_slots(const struct call *o, void *to, const struct key_group *g,
                               struct heads x, struct heads rows, int cols, int b, int h)
{
    struct vec y = gather(to, o->type, heads_at(x, b, h), g->key, g->keys, cols);
    if (g->rows > 0)
        gather(vec_at(y, (size_t)g->keys, 0).data, o->type, heads_at(rows, b, h), g->row, g->rows,
               cols);
    return y;
}

/* The attention of group i for head h, and its plan. */
static struct sdpa begin_group(const struct call *o, struct own *p, int member, int i, int h)
{
    const struct sdpa_tables *s = o->s;
    struct sdpa of = sdpa_of(s, &s->group[i]);
    struct shared all = shared_of(o);
    of.bias = entries_at(s, all.bias, s->biased ? h : 0, i);
    sdpa_plan_make(&p->plan, &of, scratch_of(o, member));
    p->plan.bf16 = o->bf16;
    return of;
}

static size_t lse_at(const struct sdpa_tables *s, int b, int h, int group)
{
    return ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->N + (size_t)s->first[group];
}

/* One group of one head of one image. */
static void forward_part(const void *job, int part, int member)
{
    const struct call *o = job;
    const struct sdpa_tables *s = o->s;
    int i = part % s->groups, head = part / s->groups, b = head / s->H, h = head % s->H;
    const struct key_group *g = &s->group[i];
    struct own p = own_of(o, member);
    struct sdpa of = begin_group(o, &p, member, i, h);
    struct vec q = gather(p.q, o->type, heads_at(o->t.q, b, h), g->query, g->queries, s->d);
    struct vec k = gather_slots(o, p.k, g, o->t.k, o->t.row_k, s->d, b, h);
    struct vec v = gather_slots(o, p.v, g, o->t.v, o->t.row_v, s->e, b, h);
    struct vec y = {p.y, o->y.type, s->e};
    sdpa_forward_rows(&p.plan, &of, 0, 0, 0, g->queries, y, o->lse + lse_at(s, b, h, i), q, k, v);
    const struct row_order order = {g->query, (size_t)g->queries};
    kernel_scatter_rows(heads_at(o->y, b, h), 0, y, &order, 0, (size_t)g->queries, (size_t)s->e);
}

void kernel_sdpa_tables(struct heads y, real *lse, struct heads q, struct heads k, struct heads v,
                        struct heads row_k, struct heads row_v, const struct sdpa_tables *s,
                        real *scratch)
{
    struct call o = {
        .s = s,
        .bf16 = sdpa_bf16(q.type, k.type, v.type, v.type),
        .scratch = scratch,
        .sizes = sizes_of(s, false),
        .t = {.q = q, .k = k, .v = v, .row_k = row_k, .row_v = row_v},
        .y = y,
        .lse = lse,
    };
    o.type = o.bf16 ? TYPE_BF16 : TYPE_REAL;
    write_biases(&o);
    share(forward_part, &o, s->B * s->H * s->groups);
}

/* Group i of one head of one image: writes dq, adds to the sums of keys and values. */
static void backward_group(const struct call *o, struct own *p, int member, int b, int h, int i)
{
    const struct sdpa_tables *s = o->s;
    const struct sdpa_tables_grad *t = &o->t;
    const struct key_group *g = &s->group[i];
    struct sdpa of = begin_group(o, p, member, i, h);
    struct shared all = shared_of(o);
    struct sdpa_head_grad grad = {
        .wants_k = t->dk.data || t->drow_k.data,
        .wants_v = t->dv.data || t->drow_v.data,
        .dbias = t->dbias ? entries_at(s, all.dbias, h, i) : NULL,
        .beta_bias = 1,
        .q = gather(p->q, o->type, heads_at(t->q, b, h), g->query, g->queries, s->d),
        .k = gather_slots(o, p->k, g, t->k, t->row_k, s->d, b, h),
        .v = gather_slots(o, p->v, g, t->v, t->row_v, s->e, b, h),
        .y = gather(p->y, t->y.type, heads_at(t->y, b, h), g->query, g->queries, s->e),
        .dy = gather(p->dy, o->type, heads_at(t->dy, b, h), g->query, g->queries, s->e),
        .lse = t->lse + lse_at(s, b, h, i),
    };
    if (t->dq.data)
        grad.dq = (struct vec){p->dq, TYPE_REAL, s->d};
    sdpa_backward_head(&p->plan, &of, &grad, 0, 0);
    if (t->dq.data)
        scatter(heads_at(t->dq, b, h), t->beta_q, p->dq, g->query, g->queries, s->d);
    const struct vec dk = {p->dk, TYPE_REAL, s->d}, dv = {p->dv, TYPE_REAL, s->e};
    const struct vec drow_k = {p->drow_k, TYPE_REAL, s->d}, drow_v = {p->drow_v, TYPE_REAL, s->e};
    if (grad.wants_k) {
        scatter(dk, 1, p->plan.dk, g->key, g->keys, s->d);
        scatter(drow_k, 1, p->plan.dk + (ptrdiff_t)g->keys * s->d, g->row, g->rows, s->d);
    }
    if (grad.wants_v) {
        scatter(dv, 1, p->plan.dv, g->key, g->keys, s->e);
        scatter(drow_v, 1, p->plan.dv + (ptrdiff_t)g->keys * s->e, g->row, g->rows, s->e);
    }
}

static void store(struct heads to, int beta, const real *sums, int b, int h, int rows, int cols)
{
    if (to.data)
        kernels_level()->tile->store(heads_at(to, b, h), beta, sums, cols, NULL, rows, cols);
}

static void clear(real *to, int rows, int cols)
{
    memset(to, 0, (size_t)rows * (size_t)cols * sizeof *to);
}

static void backward_one(const struct call *o, int b, int h, int member)
{
    const struct sdpa_tables *s = o->s;
    const struct sdpa_tables_grad *t = &o->t;
    struct own p = own_of(o, member);
    clear(p.dk, s->M, s->d);
    clear(p.dv, s->M, s->e);
    clear(p.drow_k, s->C, s->d);
    clear(p.drow_v, s->C, s->e);
    for (int i = 0; i < s->groups; i++)
        backward_group(o, &p, member, b, h, i);
    store(t->dk, t->beta_k, p.dk, b, h, s->M, s->d);
    store(t->dv, t->beta_v, p.dv, b, h, s->M, s->e);
    store(t->drow_k, t->beta_row_k, p.drow_k, b, h, s->C, s->d);
    store(t->drow_v, t->beta_row_v, p.drow_v, b, h, s->C, s->e);
}

/* One head of one image. */
static void backward_part(const void *job, int part, int member)
{
    const struct call *o = job;
    backward_one(o, part / o->s->H, part % o->s->H, member);
}

/* One head of all images in their order, which add to the gradient of one table. */
static void backward_bias_part(const void *job, int part, int member)
{
    const struct call *o = job;
    const struct sdpa_tables *s = o->s;
    struct shared all = shared_of(o);
    size_t entries = s->pattern_at[s->patterns];
    memset(all.dbias + (size_t)part * entries, 0, entries * sizeof *all.dbias);
    for (int b = 0; b < s->B; b++)
        backward_one(o, b, part, member);
}

void kernel_sdpa_tables_grad(const struct sdpa_tables_grad *g, const struct sdpa_tables *s,
                             real *scratch)
{
    struct call o = {
        .s = s,
        .bf16 = sdpa_bf16(g->q.type, g->k.type, g->v.type, g->dy.type),
        .backward = true,
        .scratch = scratch,
        .sizes = sizes_of(s, true),
        .t = *g,
    };
    o.type = o.bf16 ? TYPE_BF16 : TYPE_REAL;
    write_biases(&o);
    if (!g->dbias) {
        share(backward_part, &o, s->B * s->H);
        return;
    }
    share(backward_bias_part, &o, s->H);
    struct shared all = shared_of(&o);
    for (int h = 0; h < s->H; h++)
        read_bias_grad(g->dbias, s, all.dbias + (size_t)h * s->pattern_at[s->patterns], h);
}
