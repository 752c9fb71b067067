/* mix.c - shares from the beta distribution, and mixing of pairs in place. */
#include "data/mix.h"

#include <math.h>

#include "base/rng.h"

/* Where the numbers of one batch come from: the next index each time. */
struct source {
    uint64_t stream, epoch, batch, index;
};

static double uniform(struct source *s)
{
    return rng_uniform(s->stream, s->epoch, s->batch, s->index++);
}

/* Logarithm of a Gamma(alpha) variate: Marsaglia and Tsang, "A Simple Method for Generating Gamma
 * Variables", 2000, for alpha + 1, times u^(1 / alpha). Small alpha would underflow without the
 * logarithm. */
static double log_gamma(double alpha, struct source *s)
{
    double d = alpha + 1 - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = rng_normal(s->stream, s->epoch, s->batch, s->index++);
        double v = pow(1 + c * x, 3), u = uniform(s);
        if (v > 0 && log(u) < 0.5 * x * x + d * (1 - v + log(v)))
            return log(d * v) + log(uniform(s)) / alpha;
    }
}

static double beta(double alpha, struct source *s)
{
    double a = log_gamma(alpha, s), b = log_gamma(alpha, s);
    return 1 / (1 + exp(b - a));
}

/* [*low, *high] of length `size`, rounded down to even, about a uniform place, cut to 0..all. */
static void cut(int *low, int *high, int all, int size, struct source *s)
{
    int centre = (int)rng_below(s->stream, s->epoch, s->batch, s->index++, (uint64_t)all);
    *low = centre - size / 2;
    *high = centre + size / 2;
    *low = *low < 0 ? 0 : *low;
    *high = *high > all ? all : *high;
}

struct mix mix_draw(const struct augment *o, struct image_shape shape, uint64_t stream,
                    uint64_t epoch, uint64_t batch)
{
    struct source s = {stream, epoch, batch, 0};
    struct mix m = {.share = 1};
    double gate = uniform(&s), choice = uniform(&s);
    if ((!(o->mixup > 0) && !(o->cutmix > 0)) || gate >= o->mix_probability)
        return m;
    m.cutmix = o->cutmix > 0 && (!(o->mixup > 0) || choice < o->mix_switch);
    m.share = beta(m.cutmix ? o->cutmix : o->mixup, &s);
    if (m.cutmix) {
        double side = sqrt(1 - m.share);
        cut(&m.top, &m.bottom, shape.height, (int)(shape.height * side), &s);
        cut(&m.left, &m.right, shape.width, (int)(shape.width * side), &s);
        double area = (double)(m.bottom - m.top) * (m.right - m.left);
        m.share = 1 - area / ((double)shape.height * shape.width);
    }
    return m;
}

static void blend(real *a, real *b, size_t n, real share)
{
    real rest = 1 - share;
    for (size_t i = 0; i < n; i++) {
        real mixed = share * a[i] + rest * b[i];
        b[i] = share * b[i] + rest * a[i];
        a[i] = mixed;
    }
}

static void exchange(const struct mix *m, struct image_shape shape, real *a, real *b)
{
    for (int c = 0; c < shape.channels; c++) {
        for (int y = m->top; y < m->bottom; y++) {
            size_t row = ((size_t)c * (size_t)shape.height + (size_t)y) * (size_t)shape.width;
            for (int x = m->left; x < m->right; x++) {
                real kept = a[row + (size_t)x];
                a[row + (size_t)x] = b[row + (size_t)x];
                b[row + (size_t)x] = kept;
            }
        }
    }
}

void mix_apply(const struct mix *m, struct image_shape shape, real *images, int count)
{
    size_t size = (size_t)shape.channels * (size_t)shape.height * (size_t)shape.width;
    if (!(m->share < 1))
        return;
    for (int i = 0; i < count / 2; i++) {
        real *a = images + (size_t)i * size, *b = images + (size_t)(count - 1 - i) * size;
        if (m->cutmix)
            exchange(m, shape, a, b);
        else
            blend(a, b, size, (real)m->share);
    }
}
