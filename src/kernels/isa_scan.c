/* isa_scan.c - the selective scan (kernels.h). A lane of channels goes through the rows with its
 * states in L1; the gradient computes the states again, a tile of rows at a time from the last to
 * the first, from those that a first pass leaves at the borders of the tiles. */
#include "kernels/isa.h"

enum { TILE = SCAN_TILE };

_Static_assert((int)LANE <= (int)SCAN_COLS, "scratch is for lanes of at most SCAN_COLS channels");

ALWAYS_INLINE lane row_get(struct vec x, int row, size_t c, size_t n)
{
    return lane_get_type(x.data, x.type, (size_t)row * (size_t)x.stride + c, n);
}

/* h = exp(dt A) h + dt x B for each state; `decay`: where exp(dt A) is kept, or NULL. */
ALWAYS_INLINE void advance(lane *h, real *decay, lane dt, lane input, const struct scan *s,
                           const real *B, size_t c, size_t n)
{
    for (size_t j = 0; j < (size_t)s->states; j++) {
        lane a = lane_exp(dt * lane_get(s->A + j * s->cols + c, n - c));
        if (decay)
            lane_store(decay + j * LANE, a);
        h[j] = a * h[j] + input * lane_all(B[j]);
    }
}

static void scan_forward(struct vec y, const struct scan *s, size_t c)
{
    lane h[SCAN_STATES];
    size_t n = s->cols, states = (size_t)s->states;
    memset(h, 0, states * sizeof *h);
    for (size_t t = 0; t < s->rows.count; t++) {
        int row = s->rows.at[t];
        lane dt = row_get(s->dt, row, c, n - c), x = row_get(s->x, row, c, n - c);
        const real *C = s->C + (size_t)row * states;
        advance(h, NULL, dt, dt * x, s, s->B + (size_t)row * states, c, n);
        lane sum = lane_get(s->D + c, n - c) * x;
        for (size_t j = 0; j < states; j++)
            sum += h[j] * lane_all(C[j]);
        lane_put_type(y.data, y.type, (size_t)row * (size_t)y.stride + c, sum, n - c);
    }
}

static void selective_scan(struct vec y, const struct scan *s)
{
    for (size_t c = 0; c < s->cols; c += LANE)
        scan_forward(y, s, c);
}

/* What the gradient keeps for a lane of channels: in `scratch`, states behind states. */
struct kept {
    real *border;    /* (tiles, states): h before the first row of each tile */
    real *h, *decay; /* (TILE, states): h before each row of a tile, exp(dt A) at the row */
};

static void keep_borders(const struct kept *k, const struct scan *s, size_t c)
{
    lane h[SCAN_STATES];
    size_t n = s->cols, states = (size_t)s->states;
    memset(h, 0, states * sizeof *h);
    for (size_t t = 0; t < s->rows.count; t++) {
        int row = s->rows.at[t];
        lane dt = row_get(s->dt, row, c, n - c), x = row_get(s->x, row, c, n - c);
        if (t % TILE == 0)
            memcpy(k->border + t / TILE * states * LANE, h, states * sizeof *h);
        advance(h, NULL, dt, dt * x, s, s->B + (size_t)row * states, c, n);
    }
}

static void keep_tile(const struct kept *k, const struct scan *s, size_t first, size_t rows,
                      size_t c)
{
    lane h[SCAN_STATES];
    size_t n = s->cols, states = (size_t)s->states;
    memcpy(h, k->border + first / TILE * states * LANE, states * sizeof *h);
    for (size_t t = 0; t < rows; t++) {
        int row = s->rows.at[first + t];
        lane dt = row_get(s->dt, row, c, n - c), x = row_get(s->x, row, c, n - c);
        memcpy(k->h + t * states * LANE, h, states * sizeof *h);
        advance(h, k->decay + t * states * LANE, dt, dt * x, s, s->B + (size_t)row * states, c, n);
    }
}

/* Adds what row t of a tile says; dh: the gradient of the state behind it, then before it. */
static void row_grad(const struct scan_grad *g, const struct kept *k, const struct scan *s,
                     lane *dh, size_t t, int row, size_t c)
{
    size_t n = s->cols, states = (size_t)s->states, at = (size_t)row * states;
    const real *B = s->B + at, *C = s->C + at;
    lane dt = row_get(s->dt, row, c, n - c), x = row_get(s->x, row, c, n - c);
    lane dy = row_get(g->dy, row, c, n - c), input = dt * x;
    lane d_input = lane_all(0), d_decay = lane_all(0);
    for (size_t j = 0; j < states; j++) {
        const real *A = s->A + j * n + c;
        real *dA = g->dA + j * n + c;
        size_t at_state = (t * states + j) * LANE;
        lane a = lane_load(k->decay + at_state), before = a * lane_load(k->h + at_state);
        lane now = dh[j] + dy * lane_all(C[j]), along = now * before;
        g->dC[at + j] += lane_sum((before + input * lane_all(B[j])) * dy);
        g->dB[at + j] += lane_sum(now * input);
        d_decay += along * lane_get(A, n - c);
        d_input += now * lane_all(B[j]);
        lane_put(dA, lane_get(dA, n - c) + along * dt, n - c);
        dh[j] = now * a;
    }
    lane dx = d_input * dt + lane_get(s->D + c, n - c) * dy, ddt = d_input * x + d_decay;
    lane_put(g->dD + c, lane_get(g->dD + c, n - c) + dy * x, n - c);
    if (g->dx.data) {
        size_t to = (size_t)row * (size_t)g->dx.stride + c;
        if (g->beta_x)
            dx += lane_get_type(g->dx.data, g->dx.type, to, n - c);
        lane_put_type(g->dx.data, g->dx.type, to, dx, n - c);
    }
    if (g->ddt.data) {
        size_t to = (size_t)row * (size_t)g->ddt.stride + c;
        if (g->beta_dt)
            ddt += lane_get_type(g->ddt.data, g->ddt.type, to, n - c);
        lane_put_type(g->ddt.data, g->ddt.type, to, ddt, n - c);
    }
}

static void selective_scan_grad(const struct scan_grad *g, const struct scan *s, real *scratch)
{
    size_t states = (size_t)s->states, count = s->rows.count;
    size_t tiles = (count + TILE - 1) / TILE;
    const struct kept k = {.h = scratch,
                           .decay = scratch + TILE * states * LANE,
                           .border = scratch + 2 * TILE * states * LANE};
    for (size_t c = 0; c < s->cols; c += LANE) {
        lane dh[SCAN_STATES];
        memset(dh, 0, states * sizeof *dh);
        keep_borders(&k, s, c);
        for (size_t tile = tiles; tile-- > 0;) {
            size_t first = tile * TILE, rows = count - first < TILE ? count - first : TILE;
            keep_tile(&k, s, first, rows, c);
            for (size_t t = rows; t-- > 0;)
                row_grad(g, &k, s, dh, t, s->rows.at[first + t], c);
        }
    }
}

const struct kernels_scan KERNELS_NAME(scan) = {
    .selective_scan = selective_scan,
    .selective_scan_grad = selective_scan_grad,
};
