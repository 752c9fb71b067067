/* optimizer.c - the list of optimizers, and their work shared out over threads in fixed pieces. */
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define OPTIMIZER(name) extern const struct kind name##_optimizer;
#include "optim/optimizers.def"
#undef OPTIMIZER

static const struct kind *const kinds[] = {
#define OPTIMIZER(name) &name##_optimizer,
#include "optim/optimizers.def"
#undef OPTIMIZER
};

enum {
    KIND_COUNT = sizeof kinds / sizeof kinds[0],
    PIECE = 1 << 14, /* elements that one thread handles at a time */
    NORM_PARTS = 64, /* partial sums of the gradient norm */
};

const struct kind *optimizer_kinds(int i)
{
    return i >= 0 && i < KIND_COUNT ? kinds[i] : NULL;
}

const struct optimizer *optimizer_of(const struct choice *optimizer)
{
    return optimizer->kind->impl;
}

const struct optimizer_base *optimizer_base_of(const struct choice *optimizer)
{
    return optimizer->options;
}

enum status optimizer_check(const struct choice *optimizer, struct error *err)
{
    const struct optimizer *o = optimizer_of(optimizer);
    return o->check ? o->check(optimizer->options, err) : OK;
}

double optimizer_grad_norm(const struct params *p, int threads)
{
    double part[NORM_PARTS];
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (p->trained > PIECE)
    for (int i = 0; i < NORM_PARTS; i++) {
        size_t each = (p->trained + NORM_PARTS - 1) / NORM_PARTS;
        size_t first = (size_t)i * each;
        size_t left = first < p->trained ? p->trained - first : 0;
        part[i] = kernel_sum_squares(p->grads + (left ? first : 0), left < each ? left : each);
    }
    double sum = 0;
    for (int i = 0; i < NORM_PARTS; i++)
        sum += part[i];
    return sqrt(sum);
}

static long long piece_count(size_t elements)
{
    return (long long)((elements + PIECE - 1) / PIECE);
}

/* Updates the elements first .. last - 1, parameter by parameter, for decay differs between them.
 */
static void update_piece(const struct optimizer *o, const void *options, struct params *p,
                         size_t first, size_t last, double lr, double scale, long long update)
{
    const struct optimizer_base *base = options;
    for (int i = 0; i < p->count; i++) {
        const struct param *param = p->list[i];
        if (param->flags & (PARAM_FROZEN | PARAM_BUFFER))
            continue;
        size_t from = param->at > first ? param->at : first;
        size_t end = param->at + param->count;
        size_t to = end < last ? end : last;
        double decay = param->flags & PARAM_DECAY ? base->weight_decay : 0;
        if (from < to)
            o->update(options, p, from, to - from, lr, decay, scale, update);
    }
}

void optimizer_step(const struct choice *optimizer, struct params *p, double lr, double scale,
                    long long update, int threads)
{
    const struct optimizer *o = optimizer_of(optimizer);
    long long pieces = piece_count(p->trained);
#pragma omp parallel num_threads(threads) if (pieces > 1)
    {
        kernels_thread_init();
#pragma omp for schedule(dynamic, 4)
        for (long long i = 0; i < pieces; i++) {
            size_t first = (size_t)i * PIECE;
            size_t last = p->trained - first < PIECE ? p->trained : first + PIECE;
            update_piece(o, optimizer->options, p, first, last, lr, scale, update);
        }
    }
}

void optimizer_average(struct params *p, double decay, int threads)
{
    long long pieces = piece_count(p->trained);
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) if (pieces > 1)
    for (long long i = 0; i < pieces; i++) {
        size_t first = (size_t)i * PIECE;
        size_t count = p->trained - first < PIECE ? p->trained - first : PIECE;
        kernel_average(p->average + first, p->values + first, count, decay);
    }
    memcpy(p->average + p->trained, p->values + p->trained, (p->total - p->trained) * sizeof(real));
}
