/* lara_sequence.c - the weights of one sequence and their gradients; formulas in lara.c. */
#include "ops/lara_sequence.h"

#include <math.h>

static const double least_alpha = 1e-8;

/* half[i] = scale / 2 |x_i|^2; a row is made real in `row`. */
static void half_norms(real *half, struct vec x, double scale, int count, int cols, real *row)
{
    for (int i = 0; i < count; i++) {
        real sum = 0;
        kernel_accumulate(lara_rows(row, cols), 0, vec_at(x, (size_t)i, 0), 1, 1, (size_t)cols);
        for (int c = 0; c < cols; c++)
            sum += row[c] * row[c];
        half[i] = (real)(scale / 2) * sum;
    }
}

/* x = softmax(x - half) row by row, and the logarithm of each row's sum. */
static void softmax_below(real *log_sum, real *x, const real *half, int count, int cols)
{
    for (int r = 0; r < count; r++) {
        real *row = x + (size_t)r * (size_t)cols, top;
        int at = 0;
        for (int c = 0; c < cols; c++) {
            row[c] -= half[c];
            at = row[c] > row[at] ? c : at;
        }
        top = row[at];
        kernel_softmax(lara_rows(row, cols), lara_rows(row, cols), 1, (size_t)cols);
        log_sum[r] = top - (real)log((double)row[at]);
    }
}

/* alpha of proposal c at token i before its floor. */
static real alpha_at(const struct lara_sequence *k, int c, int i)
{
    size_t at = (size_t)c * (size_t)k->n + (size_t)i;
    return k->P[(size_t)c * (size_t)k->C + (size_t)c] +
           (real)k->alpha * (k->t[at] - k->mean[i]);
}

static void column_means(real *mean, const real *x, int count, int cols)
{
    for (int i = 0; i < cols; i++)
        mean[i] = 0;
    for (int c = 0; c < count; c++)
        for (int i = 0; i < cols; i++)
            mean[i] += x[(size_t)c * (size_t)cols + (size_t)i] / (real)count;
}

/* w = log alpha. */
static void log_alpha(struct lara_sequence *k)
{
    double s = k->scale;
    struct vec w = lara_rows(k->w, k->n), t = lara_rows(k->t, k->n);
    if (k->mis == LARA_BIASED) {
        kernel_gemm(w, 0, s, PLAIN, k->mu, TRANSPOSED, k->q, k->C, k->n, k->d, NULL);
    } else if (k->mis == LARA_BH) {
        for (size_t i = 0; i < (size_t)k->C * (size_t)k->n; i++)
            k->w[i] = 0;
    } else {
        kernel_gemm(t, 0, s, PLAIN, k->q_bar, TRANSPOSED, k->q, k->C, k->n, k->d, NULL);
        kernel_softmax(t, t, (size_t)k->C, (size_t)k->n);
        column_means(k->mean, k->t, k->C, k->n);
        for (int c = 0; c < k->C; c++)
            for (int i = 0; i < k->n; i++)
                k->w[(size_t)c * (size_t)k->n + (size_t)i] =
                    (real)log(fmax((double)alpha_at(k, c, i), least_alpha));
    }
}

/* r, kappa, f, M, P, eta, t and w. */
void lara_weigh(struct lara_sequence *k)
{
    const struct token_groups all = {NULL, 1};
    double s = k->scale;
    struct vec w = lara_rows(k->w, k->n);
    half_norms(k->half, k->mu, s, k->C, k->d, k->row);
    kernel_gemm(lara_rows(k->M, k->C), 0, s, PLAIN, k->omega, TRANSPOSED, k->mu, k->C, k->C, k->d, NULL);
    for (int i = 0; i < k->C * k->C; i++)
        k->P[i] = k->M[i];
    softmax_below(k->eta, k->P, k->half, k->C, k->C);
    for (int c = 0; c < k->C && k->mis == LARA_OPT; c++)
        k->eta[c] = k->M[c * k->C + c] - k->half[c];

    half_norms(k->half, k->k, s, k->n, k->d, k->row);
    kernel_gemm(lara_rows(k->r, k->n), 0, s, PLAIN, k->omega, TRANSPOSED, k->k, k->C, k->n, k->d, NULL);
    softmax_below(k->kappa, k->r, k->half, k->C, k->n);
    kernel_gemm(lara_rows(k->f, k->e), 0, 1, PLAIN, lara_rows(k->r, k->n), PLAIN, k->v, k->C, k->e, k->n,
                NULL);

    log_alpha(k);
    for (int c = 0; c < k->C; c++)
        for (int i = 0; i < k->n; i++)
            k->w[(size_t)c * (size_t)k->n + (size_t)i] += k->kappa[c] - k->eta[c];
    kernel_gemm(w, 1, s, PLAIN, k->omega, TRANSPOSED, k->q, k->C, k->n, k->d, NULL);
    kernel_token_softmax(w, w, &all, (size_t)k->C, (size_t)k->n);
}

/* --- backward --------------------------------------------------------------------------------- */

/* Of the queries' scores for proposals: dl, df, and the sums of dl over tokens. */
static void score_grads(struct lara_sequence *k, struct vec dy)
{
    const struct token_groups all = {NULL, 1};
    kernel_gemm(lara_rows(k->dw, k->n), 0, 1, PLAIN, lara_rows(k->f, k->e), TRANSPOSED, dy, k->C, k->n, k->e,
                NULL);
    kernel_token_softmax_grad(lara_rows(k->dl, k->n), 0, lara_rows(k->w, k->n), lara_rows(k->dw, k->n), &all,
                              (size_t)k->C, (size_t)k->n);
    kernel_gemm(lara_rows(k->df, k->e), 0, 1, PLAIN, lara_rows(k->w, k->n), PLAIN, dy, k->C, k->e, k->n, NULL);
    for (int c = 0; c < k->C; c++) {
        real sum = 0;
        for (int i = 0; i < k->n; i++)
            sum += k->dl[(size_t)c * (size_t)k->n + (size_t)i];
        k->sum_dl[c] = sum;
    }
}

/* dw becomes the gradient of the logits of t, db that of the diagonal of P. Takes w, which is not needed
 * any more. */
static void alpha_grads(struct lara_sequence *k)
{
    for (int c = 0; c < k->C; c++) {
        real sum = 0;
        for (int i = 0; i < k->n; i++) {
            size_t at = (size_t)c * (size_t)k->n + (size_t)i;
            real alpha = alpha_at(k, c, i);
            k->w[at] = (double)alpha > least_alpha ? k->dl[at] / alpha : 0;
            sum += k->w[at];
        }
        k->db[c] = sum;
    }
    column_means(k->mean, k->w, k->C, k->n);
    for (int c = 0; c < k->C; c++)
        for (int i = 0; i < k->n; i++) {
            real *dt = &k->w[(size_t)c * (size_t)k->n + (size_t)i];
            *dt = (real)k->alpha * (*dt - k->mean[i]);
        }
    kernel_softmax_grad(lara_rows(k->dw, k->n), 0, lara_rows(k->t, k->n), lara_rows(k->w, k->n), (size_t)k->C,
                        (size_t)k->n);
}

static void proposal_grads(struct lara_sequence *k)
{
    bool opt = k->mis == LARA_OPT;
    for (int c = 0; c < k->C; c++) {
        const real *P = k->P + (size_t)c * (size_t)k->C;
        real *dM = k->dM + (size_t)c * (size_t)k->C;
        real share = opt ? k->db[c] * P[c] : k->sum_dl[c];
        for (int i = 0; i < k->C; i++)
            dM[i] = -share * P[i];
        if (opt)
            dM[c] += share - k->sum_dl[c];
    }
}

/* dl becomes the gradient of the logits of r. Takes dw, which is not needed any more. */
static void key_grads(struct lara_sequence *k)
{
    kernel_gemm(lara_rows(k->dw, k->n), 0, 1, PLAIN, lara_rows(k->df, k->e), TRANSPOSED, k->v, k->C, k->n,
                k->e, NULL);
    kernel_softmax_grad(lara_rows(k->dl, k->n), 0, lara_rows(k->r, k->n), lara_rows(k->dw, k->n), (size_t)k->C,
                        (size_t)k->n);
    for (int c = 0; c < k->C; c++)
        for (int i = 0; i < k->n; i++) {
            size_t at = (size_t)c * (size_t)k->n + (size_t)i;
            k->dl[at] += k->sum_dl[c] * k->r[at];
        }
}

/* Adds tokens' gradients, (n, cols) in tokens[3], to those of x. */
static void give(const struct lara_sequence *k, struct vec dx, int beta, int cols)
{
    struct vec from = lara_rows(k->tokens[3], cols);
    if (k->order.at)
        kernel_scatter_rows(dx, beta, from, &k->order, 0, (size_t)k->n, (size_t)cols);
    else
        kernel_accumulate(dx, beta, from, 1, (size_t)k->n, (size_t)cols);
}

/* tokens[3] = beta tokens[3] + factor a^T b, a: (C, n), b: (C, cols). */
static void to_tokens(const struct lara_sequence *k, int beta, double factor, real *a, struct vec b, int cols)
{
    kernel_gemm(lara_rows(k->tokens[3], cols), beta, factor, TRANSPOSED, lara_rows(a, k->n), PLAIN, b, k->n,
                cols, k->C, NULL);
}

/* x = beta x + s a y, a: (C, n), y: (n, d). */
static void to_proposals(const struct lara_sequence *k, struct vec x, int beta, real *a, struct vec y)
{
    if (x.data)
        kernel_gemm(x, beta, k->scale, PLAIN, lara_rows(a, k->n), PLAIN, y, k->C, k->d, k->n, NULL);
}

/* tokens[3] -= s (column sums of a) k. */
static void subtract_norms(struct lara_sequence *k, const real *a)
{
    for (int i = 0; i < k->n; i++) {
        real sum = 0;
        for (int c = 0; c < k->C; c++)
            sum += a[(size_t)c * (size_t)k->n + (size_t)i];
        kernel_accumulate(lara_rows(k->tokens[3] + (size_t)i * (size_t)k->d, k->d), 1,
                          vec_at(k->k, (size_t)i, 0), -k->scale * (double)sum, 1, (size_t)k->d);
    }
}

/* dmu = beta dmu + s dM^T omega - s (column sums of dM) mu */
static void mu_grads(const struct lara_sequence *k, struct vec dmu, int beta)
{
    kernel_gemm(dmu, beta, k->scale, TRANSPOSED, lara_rows(k->dM, k->C), PLAIN, k->omega, k->C, k->d,
                k->C, NULL);
    for (int i = 0; i < k->C; i++) {
        double sum = 0;
        for (int c = 0; c < k->C; c++)
            sum += (double)k->dM[c * k->C + i];
        kernel_accumulate(vec_at(dmu, (size_t)i, 0), 1, vec_at(k->mu, (size_t)i, 0),
                          -k->scale * sum, 1, (size_t)k->d);
    }
}

void lara_sequence_grads(struct lara_sequence *k, const struct lara_grads *to, struct vec dy)
{
    double s = k->scale;
    const int *beta = to->beta;
    score_grads(k, dy);
    bool opt = k->mis == LARA_OPT, biased = k->mis == LARA_BIASED;
    if (opt)
        alpha_grads(k);
    proposal_grads(k);
    if (to->q.data) {
        to_tokens(k, 0, s, k->dl, k->omega, k->d);
        if (opt || biased)
            to_tokens(k, 1, s, opt ? k->dw : k->dl, opt ? k->q_bar : k->mu, k->d);
        give(k, to->q, beta[LARA_Q], k->d);
    }
    if (opt)
        to_proposals(k, to->q_bar, beta[LARA_Q_BAR], k->dw, k->q);
    if (to->mu.data) {
        mu_grads(k, to->mu, beta[LARA_MU]);
        if (biased)
            to_proposals(k, to->mu, 1, k->dl, k->q);
    }
    to_proposals(k, to->omega, beta[LARA_OMEGA], k->dl, k->q);
    key_grads(k);
    to_proposals(k, to->omega, 1, k->dl, k->k);
    if (to->omega.data)
        kernel_gemm(to->omega, 1, s, PLAIN, lara_rows(k->dM, k->C), PLAIN, k->mu, k->C, k->d, k->C, NULL);
    if (to->k.data) {
        to_tokens(k, 0, s, k->dl, k->omega, k->d);
        subtract_norms(k, k->dl);
        give(k, to->k, beta[LARA_K], k->d);
    }
    if (to->v.data) {
        to_tokens(k, 0, 1, k->r, lara_rows(k->df, k->e), k->e);
        give(k, to->v, beta[LARA_V], k->e);
    }
}

