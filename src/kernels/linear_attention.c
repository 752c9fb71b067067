/* linear_attention.c - linear attention for one image and head at a time, by either order. Where
 * tokens are divided into regions their rows are brought together first, so that each region is a
 * head of its own; what it gives is put back. */
#include "kernels/linear_head.h"
#include "kernels/team.h"

/* One call, forward or backward; data is NULL where a gradient is not wanted. */
struct call {
    const struct linear_attention *o;
    real *scratch;
    struct heads y, a, f, v, dy, da, df, dv;
    int beta_a, beta_f, beta_v;
    real *state, *n;
    bool backward;
};

/* The pieces of a member's scratch: what regions bring together, (N, d) or (N, e), and the order's.
 */
struct plan {
    real *a, *f, *v, *y, *dy, *da, *df, *dv;
    real *state; /* of one region */
    real *order;
};

/* Divides the scratch (NULL: only counts). Returns the number of reals. */
static size_t make_plan(struct plan *p, const struct linear_attention *o, real *scratch)
{
    size_t used = 0, tokens = o->length ? (size_t)o->N : 0;
    size_t features = tokens * (size_t)o->d, values = tokens * (size_t)o->e;
    p->a = scratch_take(scratch, &used, features);
    p->f = scratch_take(scratch, &used, features);
    p->da = scratch_take(scratch, &used, features);
    p->df = scratch_take(scratch, &used, features);
    p->v = scratch_take(scratch, &used, values);
    p->y = scratch_take(scratch, &used, values);
    p->dy = scratch_take(scratch, &used, values);
    p->dv = scratch_take(scratch, &used, values);
    p->state = scratch_take(scratch, &used, o->length ? linear_state_size(o) : 0);
    size_t order = o->quadratic ? quadratic_order_scratch(o) : linear_order_scratch(o);
    p->order = scratch_take(scratch, &used, order);
    return used;
}

/* Reals for one thread: its own cache lines. */
static size_t scratch_of_one(const struct linear_attention *o)
{
    struct plan p;
    return make_plan(&p, o, NULL) + SCRATCH_LINE;
}

size_t kernel_linear_attention_scratch(const struct linear_attention *o)
{
    return scratch_of_one(o) * (size_t)(o->team > 1 ? o->team : 1);
}

size_t kernel_linear_attention_state(const struct linear_attention *o)
{
    return o->quadratic ? 0 : (size_t)o->B * (size_t)o->H * linear_state_size(o);
}

void linear_row_grads(real *dp, real *inverse, const struct linear_head *h, int i, int rows)
{
    const struct kernels_elementwise *elementwise = kernels_level()->elementwise;
    size_t e = (size_t)h->o->e;
    struct vec dy = vec_at(h->dy, (size_t)i, 0), to = {dp, TYPE_REAL, linear_width(h->o)};
    if (!linear_is_normalised(h->o)) {
        elementwise->accumulate(to, 0, dy, (double)linear_factor(h), (size_t)rows, e);
        return;
    }
    linear_inverse(inverse, h, h->n + i, rows);
    elementwise->scale_rows(to, 0, dy, inverse, (size_t)rows, e, 1);
}

void linear_den_grads(real *dp, const real *inverse, const real *dots, const struct linear_head *h,
                      int i, int rows)
{
    int e = h->o->e, width = linear_width(h->o);
    for (int r = 0; r < rows && width > e; r++) {
        bool depends = h->o->den == DEN_ADD || h->n[i + r] > h->eps;
        dp[r * width + e] = depends ? -inverse[r] * dots[r] : 0;
    }
}

static struct vec rows_of(struct heads x, int b, int h)
{
    return x.data ? heads_at(x, b, h) : (struct vec){.data = NULL};
}

static struct linear_head head_of(const struct call *c, int b, int h)
{
    const struct linear_attention *o = c->o;
    size_t index = (size_t)b * (size_t)o->H + (size_t)h;
    return (struct linear_head){
        .o = o,
        .N = o->N,
        .M = o->M,
        .eps = (real)(o->per_key ? o->eps * o->M : o->eps),
        .a = rows_of(c->a, b, h),
        .f = rows_of(c->f, b, h),
        .v = rows_of(c->v, b, h),
        .y = rows_of(c->y, b, h),
        .n = c->n ? c->n + index * (size_t)o->N : NULL,
        .state = c->state ? c->state + index * linear_state_size(o) : NULL,
        .state_is_known = c->backward,
        .dy = rows_of(c->dy, b, h),
        .da = rows_of(c->da, b, h),
        .df = rows_of(c->df, b, h),
        .dv = rows_of(c->dv, b, h),
        .beta_a = c->beta_a,
        .beta_f = c->beta_f,
        .beta_v = c->beta_v,
    };
}

static void run_head(const struct linear_head *h, bool backward, real *scratch)
{
    if (h->o->quadratic)
        (backward ? quadratic_order_grad : quadratic_order)(h, scratch);
    else
        (backward ? linear_order_grad : linear_order)(h, scratch);
}

/* Rows of x in the order of the regions, in `to`. */
static struct vec gather(real *to, struct vec x, const struct row_order *order, int cols)
{
    struct vec rows = {x.data ? to : NULL, TYPE_REAL, cols};
    if (x.data)
        kernel_gather_rows(rows, 0, x, order, NULL, 0, order->period, (size_t)cols);
    return rows;
}

static void scatter(struct vec y, int beta, const real *from, const struct row_order *order,
                    int cols)
{
    const struct vec rows = {(void *)(uintptr_t)from, TYPE_REAL, cols};
    if (y.data)
        kernel_scatter_rows(y, beta, rows, order, 0, order->period, (size_t)cols);
}

/* Where what is computed for the gathered tokens goes, if it is wanted. */
static struct vec wanted_rows(real *to, struct vec wanted, int cols)
{
    return (struct vec){wanted.data ? to : NULL, TYPE_REAL, cols};
}

static struct vec part_of(struct vec x, int first)
{
    return x.data ? vec_at(x, (size_t)first, 0) : x;
}

/* The tokens first .. first + count - 1 of what was gathered. */
static struct linear_head region_of(const struct linear_head *all, int first, int count)
{
    struct linear_head h = *all;
    h.N = h.M = count;
    h.eps = (real)(h.o->per_key ? h.o->eps * count : h.o->eps);
    h.a = part_of(all->a, first);
    h.f = part_of(all->f, first);
    h.v = part_of(all->v, first);
    h.y = part_of(all->y, first);
    h.dy = part_of(all->dy, first);
    h.da = part_of(all->da, first);
    h.df = part_of(all->df, first);
    h.dv = part_of(all->dv, first);
    h.n = all->n ? all->n + first : NULL;
    return h;
}

/* The head of a window with several regions, whose tokens are `at` in their order. */
static void run_regions(const struct plan *p, const struct linear_head *h, const int *at,
                        const int *length, bool backward)
{
    int N = h->N, d = h->o->d, e = h->o->e;
    const struct row_order order = {at, (size_t)N};
    struct linear_head all = *h;
    all.a = gather(p->a, h->a, &order, d);
    all.f = gather(p->f, h->f, &order, d);
    all.v = gather(p->v, h->v, &order, e);
    all.y = wanted_rows(p->y, h->y, e);
    all.dy = gather(p->dy, h->dy, &order, e);
    all.da = wanted_rows(p->da, h->da, d);
    all.df = wanted_rows(p->df, h->df, d);
    all.dv = wanted_rows(p->dv, h->dv, e);
    all.beta_a = all.beta_f = all.beta_v = 0;
    all.state = p->state;
    all.state_is_known = false;
    for (int first = 0; first < N; first += length[first]) {
        struct linear_head region = region_of(&all, first, length[first]);
        run_head(&region, backward, p->order);
    }
    scatter(h->y, 0, p->y, &order, e);
    scatter(h->da, h->beta_a, p->da, &order, d);
    scatter(h->df, h->beta_f, p->df, &order, d);
    scatter(h->dv, h->beta_v, p->dv, &order, e);
}

/* One head of one image. */
static void run_part(const void *job, int part, int member)
{
    const struct call *c = job;
    const struct linear_attention *o = c->o;
    struct plan p;
    make_plan(&p, o, scratch_aligned(c->scratch) + (size_t)member * scratch_of_one(o));
    struct linear_head head = head_of(c, part / o->H, part % o->H);
    ptrdiff_t window = o->length ? (ptrdiff_t)(part / o->H % o->windows) * o->N : 0;
    if (o->length && o->length[window] < o->N)
        run_regions(&p, &head, o->at + window, o->length + window, c->backward);
    else
        run_head(&head, c->backward, p.order);
}

void kernel_linear_attention(struct heads y, real *state, real *n, struct heads a, struct heads f,
                             struct heads v, const struct linear_attention *o, real *scratch)
{
    struct call c = {
        .o = o,
        .scratch = scratch,
        .y = y,
        .a = a,
        .f = f,
        .v = v,
        .state = state,
        .n = n,
    };
    team_share(run_part, &c, o->B * o->H, o->team);
}

void kernel_linear_attention_grad(struct heads da, int beta_a, struct heads df, int beta_f,
                                  struct heads dv, int beta_v, struct heads a, struct heads f,
                                  struct heads v, struct heads dy, const real *state, const real *n,
                                  const struct linear_attention *o, real *scratch)
{
    struct call c = {
        .o = o,
        .scratch = scratch,
        .a = a,
        .f = f,
        .v = v,
        .dy = dy,
        .da = da,
        .df = df,
        .dv = dv,
        .beta_a = beta_a,
        .beta_f = beta_f,
        .beta_v = beta_v,
        .state = (real *)(uintptr_t)state,
        .n = (real *)(uintptr_t)n,
        .backward = true,
    };
    team_share(run_part, &c, o->B * o->H, o->team);
}
