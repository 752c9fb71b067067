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

/* One update of all trained parameters. */
struct step {
    const struct choice *optimizer;
    struct params *params;
    const double *rates;
    double lr, scale;
    long long update;
};

/* The elements of parameter `number` that lie in first .. last - 1. */
static void update_param(const struct step *s, int number, size_t first, size_t last)
{
    const struct param *param = s->params->list[number];
    if (param->flags & (PARAM_FROZEN | PARAM_BUFFER))
        return;
    size_t from = param->at > first ? param->at : first;
    size_t end = param->at + param->count;
    size_t to = end < last ? end : last;
    double decay = param->flags & PARAM_DECAY ? optimizer_base_of(s->optimizer)->weight_decay : 0;
    double lr = s->rates ? s->lr * s->rates[number] : s->lr;
    if (from < to)
        optimizer_of(s->optimizer)->update(s->optimizer->options, s->params, from, to - from, lr,
                                           decay, s->scale, s->update);
}

static void update_pieces(const struct step *s, int threads)
{
    const struct params *p = s->params;
    long long pieces = piece_count(p->trained);
#pragma omp parallel num_threads(threads) if (pieces > 1)
    {
        kernels_thread_init();
#pragma omp for schedule(dynamic, 4)
        for (long long i = 0; i < pieces; i++) {
            size_t first = (size_t)i * PIECE;
            size_t last = p->trained - first < PIECE ? p->trained : first + PIECE;
            for (int k = 0; k < p->count; k++)
                update_param(s, k, first, last);
        }
    }
}

static void update_wholes(const struct step *s, int threads)
{
    const struct params *p = s->params;
#pragma omp parallel num_threads(threads) if (p->trained > PIECE)
    {
        kernels_thread_init();
#pragma omp for schedule(dynamic, 1)
        for (int k = 0; k < p->count; k++)
            update_param(s, k, 0, p->trained);
    }
}

void optimizer_step(const struct choice *optimizer, struct params *p, const double *rates, double lr,
                    double scale, long long update, int threads)
{
    const struct step s = {optimizer, p, rates, lr, scale, update};
    if (optimizer_of(optimizer)->whole)
        update_wholes(&s, threads);
    else
        update_pieces(&s, threads);
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
