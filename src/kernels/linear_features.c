/* linear_features.c - features whose products are a polynomial of q . k, and the gradient through
 * them.
 *
 *   c0 + c1 (q . k) + c2 (q . k)^2 = phi(q) . phi(k)
 *   phi(x) = [sqrt c0, sqrt c1 x, sqrt c2 x_i^2, sqrt(2 c2) x_i x_j (i < j)]     of BASIS_SYM
 *
 * The products lie row by row of the matrix x x^T, in BASIS_FULL all of them, else from the
 * diagonal on. */
#include <math.h>
#include <string.h>

#include "kernels/linear_head.h"

/* Factors of the blocks, and how often those of constant and linear terms occur. */
struct blocks {
    int copies;
    bool full;
    real constant, linear, square, cross;
};

static struct blocks blocks_of(const struct linear_attention *o)
{
    int copies = o->basis == BASIS_KRON ? 2 : 1;
    bool full = o->basis != BASIS_SYM;
    return (struct blocks){
        .copies = copies,
        .full = full,
        .constant = (real)sqrt(o->c[0] / copies),
        .linear = (real)sqrt(o->c[1] / copies),
        .square = (real)sqrt(o->c[2]),
        .cross = (real)sqrt(full ? o->c[2] : 2 * o->c[2]),
    };
}

int kernel_linear_features(int d, enum linear_basis basis, const double c[3])
{
    int copies = basis == BASIS_KRON ? 2 : 1;
    int products = basis == BASIS_SYM ? d * (d + 1) / 2 : d * d;
    if (basis == BASIS_NONE)
        return d;
    return (c[0] > 0 ? copies : 0) + (c[1] > 0 ? copies * d : 0) + (c[2] > 0 ? products : 0);
}

static void expand_products(real *y, const real *x, const struct blocks *b, int d)
{
    for (int i = 0; i < d; i++) {
        int first = b->full ? 0 : i;
        real factor = b->cross * x[i];
#pragma omp simd
        for (int j = first; j < d; j++)
            y[j - first] = factor * x[j];
        y[i - first] = b->square * x[i] * x[i];
        y += d - first;
    }
}

void linear_expand(struct vec y, const struct linear_attention *o, struct vec x, int rows)
{
    const struct blocks b = blocks_of(o);
    for (int r = 0; r < rows; r++) {
        const real *from = vec_at(x, (size_t)r, 0).data;
        real *to = vec_at(y, (size_t)r, 0).data;
        for (int k = 0; k < b.copies && o->c[0] > 0; k++)
            *to++ = b.constant;
        for (int k = 0; k < b.copies && o->c[1] > 0; k++, to += o->d)
            for (int i = 0; i < o->d; i++)
                to[i] = b.linear * from[i];
        if (o->c[2] > 0)
            expand_products(to, from, &b, o->d);
    }
}

/* dx += the gradient through the products, whose own is g. */
static void products_grad(real *dx, const real *g, const real *x, const struct blocks *b, int d)
{
    for (int i = 0; i < d; i++) {
        int first = b->full ? 0 : i;
        real factor = b->cross * x[i], sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int j = first; j < d; j++) {
            sum += g[j - first] * x[j];
            dx[j] += factor * g[j - first];
        }
        real twice = 2 * (b->square - b->cross) * x[i] * g[i - first]; /* of the diagonal */
        dx[i] += b->cross * sum + twice;
        g += d - first;
    }
}

void linear_expand_grad(struct vec dx, int beta, const struct linear_attention *o, struct vec x,
                        struct vec g, int rows)
{
    const struct blocks b = blocks_of(o);
    for (int r = 0; r < rows; r++) {
        const real *at = vec_at(x, (size_t)r, 0).data, *from = vec_at(g, (size_t)r, 0).data;
        real *to = vec_at(dx, (size_t)r, 0).data;
        if (!beta)
            memset(to, 0, (size_t)o->d * sizeof *to);
        from += o->c[0] > 0 ? b.copies : 0;
        for (int k = 0; k < b.copies && o->c[1] > 0; k++, from += o->d)
            for (int i = 0; i < o->d; i++)
                to[i] += b.linear * from[i];
        if (o->c[2] > 0)
            products_grad(to, from, at, &b, o->d);
    }
}
