/* selective_scan.c - a linear recurrence for each channel whose coefficients depend on the token.
 * x, dt, y: (B, N, E)  A_log: (E, n)  B, C: (B, N, n)  D: (E)
 *   h[t] = exp(dt[t] A) h[t-1] + dt[t] x[t] B[t],  y[t] = h[t] . C[t] + D x[t],  A = - exp(A_log)
 * Backward from the last token, dh = 0 behind it: dh += dy C;  dC = sum over channels of h dy;
 *   G = dh exp(dt A) h[t-1];  dA += G dt;  d(dt) = sum over states of G A + x (dh . B);
 *   dx = dt (dh . B) + D dy;  dB = sum over channels of dh dt x;  dD += x dy;  dh = dh exp(dt A) */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/sequence.h"
#include "ops/sample.h"
#include "ops/sequences.h"

enum { X, DT, A_LOG, IN, OUT, SKIP }; /* B, C and D are IN, OUT and SKIP */

static void selective_scan_infer(struct graph *g, struct node *n)
{
    const struct sequences *o = n->options;
    const struct shape *x = &n->in[X]->shape, *A = &n->in[A_LOG]->shape, *B = &n->in[IN]->shape;
    int E = x->dim[x->rank - 1], states = A->dim[A->rank - 1];
    infer_sequences(g, n, o, X);
    if (!shape_equal(x, &n->in[DT]->shape) || A->rank != 2 || A->dim[0] != E ||
        !shape_equal(B, &n->in[OUT]->shape) || B->rank != 3 || B->dim[0] != x->dim[0] ||
        B->dim[1] != x->dim[1] || B->dim[2] != states || tensor_count(n->in[SKIP]) != (size_t)E ||
        states > SCAN_STATES) {
        char a[64], b[64], c[64];
        graph_fail(g, ERR_SHAPE, "selective_scan: %s with A %s and B %s (at most %d states)",
                   shape_text(a, x), shape_text(b, A), shape_text(c, B), SCAN_STATES);
        return;
    }
    infer_param(g, n, A_LOG);
    infer_param(g, n, SKIP);
    size_t matrix = (size_t)E * (size_t)states, rows = (size_t)o->tokens * (size_t)states;
    graph_out(g, n, n->in[X]->type, *x);
    graph_scratch(g, n, matrix,
                  2 * matrix + 2 * rows + (size_t)E +
                      kernel_selective_scan_scratch((size_t)o->longest, states));
}

/* Multiply-adds of the states: decay, input and output of each. */
static double selective_scan_macs(const struct node *n)
{
    return 3.0 * (double)tensor_count(n->out) * tensor_cols(n->in[A_LOG]);
}

/* A (n, E) from A_log (E, n). */
static void take_exp(real *A, const struct tensor *A_log)
{
    const real *log = A_log->data;
    size_t E = (size_t)A_log->shape.dim[0], states = (size_t)A_log->shape.dim[1];
    for (size_t e = 0; e < E; e++)
        for (size_t j = 0; j < states; j++)
            A[j * E + e] = -(real)exp((double)log[e * states + j]);
}

/* Sample b, all but its rows. */
static struct scan scan_of(const struct node *n, const real *A, int b)
{
    const struct tensor *B = n->in[IN], *C = n->in[OUT];
    size_t at = (size_t)b * (size_t)B->shape.dim[1] * (size_t)B->shape.dim[2];
    return (struct scan){
        .x = sample_vec(n->in[X], b), .dt = sample_vec(n->in[DT], b), .A = A,
        .B = (const real *)B->data + at, .C = (const real *)C->data + at,
        .D = n->in[SKIP]->data, .states = tensor_cols(B), .cols = (size_t)tensor_cols(n->in[X]),
    };
}

static void selective_scan_forward(const struct node *n)
{
    const struct sequences *o = n->options;
    real *A = n->scratch->data;
    take_exp(A, n->in[A_LOG]);
    for (int b = 0; b < n->out->shape.dim[0]; b++) {
        struct scan s = scan_of(n, A, b);
        while (sequences_next(o, b, &s.rows))
            kernel_selective_scan(sample_vec(n->out, b), &s);
    }
}

/* Gradient of B or C, input i, of sample b: the sums are complete. */
static void add_rows_grad(const struct node *n, int i, int b, real *sums, size_t rows)
{
    size_t cols = (size_t)tensor_cols(n->in[i]);
    struct vec from = {sums, TYPE_REAL, (ptrdiff_t)cols};
    if (n->in[i]->grad)
        kernel_accumulate(sample_grad(n->in[i], b), n->beta[i], from, 1, rows, cols);
}

static void selective_scan_backward(const struct node *n)
{
    const struct sequences *o = n->options;
    const struct tensor *A_log = n->in[A_LOG];
    size_t E = (size_t)A_log->shape.dim[0], states = (size_t)A_log->shape.dim[1];
    size_t matrix = E * states, rows = (size_t)o->tokens;
    real *A = n->scratch_backward->data, *dA = A + matrix, *dD = dA + matrix, *dB = dD + E;
    real *dC = dB + rows * states, *scratch = dC + rows * states;
    take_exp(A, A_log);
    memset(dA, 0, (matrix + E) * sizeof *dA);
    for (int b = 0; b < n->out->shape.dim[0]; b++) {
        struct scan s = scan_of(n, A, b);
        const struct scan_grad g = {
            .dy = sample_grad(n->out, b), .dx = sample_grad(n->in[X], b), .beta_x = n->beta[X],
            .ddt = sample_grad(n->in[DT], b), .beta_dt = n->beta[DT], .dA = dA, .dB = dB, .dC = dC,
            .dD = dD,
        };
        memset(dB, 0, 2 * rows * states * sizeof *dB);
        while (sequences_next(o, b, &s.rows))
            kernel_selective_scan_grad(&g, &s, scratch);
        add_rows_grad(n, IN, b, dB, rows);
        add_rows_grad(n, OUT, b, dC, rows);
    }
    real *grad = A_log->grad;
    for (size_t e = 0; e < E && grad; e++)
        for (size_t j = 0; j < states; j++)
            grad[e * states + j] += dA[j * E + e] * A[j * E + e];
    if (n->in[SKIP]->grad)
        kernel_sum_into(n->in[SKIP]->grad, dD, E);
}

/* Both directions through the same input; the second in two regions. */
static struct tensor *selective_scan_sample(struct graph *g)
{
    static const unsigned char region[5] = {1, 1, 0, 1, 0};
    static const struct token_regions regions = {.windows = 1, .tokens = 5, .id = region};
    static const int order[5] = {1, 2, 0, 3, 4};
    struct tensor *x = graph_sample(g, SHAPE(2, 5, 9));
    struct tensor *dt = op_map(g, graph_columns(g, x, 1, 4), MAP_SOFTPLUS);
    struct tensor *A_log = graph_param(g, "A_log", SHAPE(4, 2), INIT_NORMAL(1));
    struct tensor *D = graph_param(g, "D", SHAPE(4), INIT_NORMAL(1));
    struct tensor *B = graph_columns(g, x, 5, 2), *C = graph_columns(g, x, 7, 2);
    struct tensor *y = op_selective_scan(g, graph_columns(g, x, 0, 4), dt, A_log, B, C, D,
                                         &(struct token_sequence){.order = order});
    return op_selective_scan(g, y, dt, A_log, C, B, D,
                             &(struct token_sequence){.reversed = true, .regions = &regions});
}

const struct op selective_scan_op = {
    .name = "selective_scan", .infer = selective_scan_infer, .macs = selective_scan_macs,
    .forward = selective_scan_forward, .backward = selective_scan_backward,
    .backward_reads = READS_IN(X) | READS_IN(DT) | READS_IN(A_LOG) | READS_IN(IN) | READS_IN(OUT) |
                      READS_IN(SKIP),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = selective_scan_sample,
};

struct tensor *op_selective_scan(struct graph *g, struct tensor *x, struct tensor *dt,
                                 struct tensor *A_log, struct tensor *B, struct tensor *C,
                                 struct tensor *D, const struct token_sequence *sequence)
{
    if (g->error.status)
        return g->inert;
    if (x->shape.rank != 3) {
        char text[64];
        return graph_fail(g, ERR_SHAPE, "selective_scan: %s, wanted (B, N, E)",
                          shape_text(text, &x->shape));
    }
    const struct sequences *o = sequences_create(g, "selective_scan", x->shape.dim[1], sequence);
    if (!o)
        return g->inert;
    return graph_record(g, &selective_scan_op, o,
                        INPUTS(x, dt, A_log, op_real(g, B), op_real(g, C), D));
}
