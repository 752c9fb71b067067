/* rng.c - Philox4x32-10 and what is drawn from it. */
#include "base/rng.h"

#include <math.h>

/* FNV-1a over the seed's bytes and the name, then the finaliser of splitmix64. */
uint64_t rng_stream(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 8; i++) {
        h ^= (seed >> (8 * i)) & 0xff;
        h *= 0x100000001b3u;
    }
    for (; *name; name++) {
        h ^= (unsigned char)*name;
        h *= 0x100000001b3u;
    }
    h ^= h >> 30;
    h *= 0xbf58476d1ce4e5b9u;
    h ^= h >> 27;
    h *= 0x94d049bb133111ebu;
    return h ^ (h >> 31);
}

void rng_block(uint32_t out[4], uint64_t stream, uint64_t step, uint64_t sample, uint64_t index)
{
    /* 128 bits of counter: 40 of step, 40 of sample, 48 of index. */
    uint32_t c0 = (uint32_t)index;
    uint32_t c1 = (uint32_t)(index >> 32 & 0xffff) | (uint32_t)(sample & 0xffff) << 16;
    uint32_t c2 = (uint32_t)(sample >> 16 & 0xffffff) | (uint32_t)(step & 0xff) << 24;
    uint32_t c3 = (uint32_t)(step >> 8);
    uint32_t k0 = (uint32_t)stream, k1 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t rng_bits(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index)
{
    uint32_t word[4];
    rng_block(word, stream, step, sample, index);
    return (uint64_t)word[0] << 32 | word[1];
}

double rng_uniform(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index)
{
    return ((double)(rng_bits(stream, step, sample, index) >> 12) + 0.5) * 0x1p-52;
}

uint64_t rng_below(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)rng_bits(stream, step, sample, index) * n >> 64);
}

static double polynomial(const double *c, double x)
{
    double y = c[7];
    for (int i = 6; i >= 0; i--)
        y = y * x + c[i];
    return y;
}

/* Inverse of the normal distribution function at p in (0, 1): Wichura, algorithm AS 241 (PPND16),
 * Applied Statistics 37 (1988), relative error about 1e-16. */
static double normal_quantile(double p)
{
    static const double a[] = {3.3871328727963666080e0,  1.3314166789178437745e2,
                               1.9715909503065514427e3,  1.3731693765509461125e4,
                               4.5921953931549871457e4,  6.7265770927008700853e4,
                               3.3430575583588128105e4,  2.5090809287301226727e3};
    static const double b[] = {1.0,
                               4.2313330701600911252e1,  6.8718700749205790830e2,
                               5.3941960214247511077e3,  2.1213794301586595867e4,
                               3.9307895800092710610e4,  2.8729085735721942674e4,
                               5.2264952788528545610e3};
    static const double c[] = {1.42343711074968357734e0, 4.63033784615654529590e0,
                               5.76949722146069140550e0, 3.64784832476320460504e0,
                               1.27045825245236838258e0, 2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[] = {1.0,
                               2.05319162663775882187e0, 1.67638483018380384940e0,
                               6.89767334985100004550e-1, 1.48103976427480074590e-1,
                               1.51986665636164571966e-2, 5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
    static const double e[] = {6.65790464350110377720e0, 5.46378491116411436990e0,
                               1.78482653991729133580e0, 2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[] = {1.0,
                               5.99832206555887937690e-1, 1.36929880922735805310e-1,
                               1.48753612908506148525e-2, 7.86869131145613259100e-4,
                               1.84631831751005468180e-5, 1.42151175831644588870e-7,
                               2.04426310338993978564e-15};
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    double r = sqrt(-log(q < 0 ? p : 1 - p));
    double x = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                      : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -x : x;
}

double rng_normal(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index)
{
    return normal_quantile(rng_uniform(stream, step, sample, index));
}

void rng_permutation(size_t *order, size_t n, uint64_t stream, uint64_t step)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)rng_below(stream, step, 0, i, i);
        size_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}
