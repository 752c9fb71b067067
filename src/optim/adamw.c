/* adamw.c - Adam with decoupled weight decay. Loshchilov and Hutter, arXiv:1711.05101, algorithm 2,
 * with the decay scaled by the learning rate as in PyTorch. */
#include <math.h>

#include "kernels/kernels.h"
#include "optim/optimizer.h"

struct adamw_options {
    struct optimizer_base base;
    struct reals betas;
    double eps;
};

static const struct field adamw_fields[] = {
    FIELD_REAL(struct optimizer_base, lr, 1e-3, 0, 1e9, "peak learning rate"),
    FIELD_REAL(struct optimizer_base, weight_decay, 0.05, 0, 1e3,
               "decay of weights of two or more axes, times the learning rate"),
    FIELD_REALS(struct adamw_options, betas, "[0.9, 0.999]", 0, 0.999999999,
                "decay of the running means of gradient and squared gradient"),
    FIELD_REAL(struct adamw_options, eps, 1e-8, 1e-30, 1, "added to the root in the denominator"),
    FIELD_END,
};

static enum status adamw_check(const void *options, struct error *err)
{
    const struct adamw_options *o = options;
    if (o->betas.count != 2)
        return error_set(err, ERR_INPUT, "betas: has %d numbers, expected two (as in [0.9, 0.999])",
                         o->betas.count);
    return OK;
}

static void adamw_update(const void *options, struct params *p, size_t at, size_t count, double lr,
                         double decay, double scale, long long update)
{
    const struct adamw_options *o = options;
    const double beta1 = o->betas.at[0], beta2 = o->betas.at[1];
    const struct adamw k = {
        .lr = lr,
        .decay = decay,
        .beta1 = beta1,
        .beta2 = beta2,
        .eps = o->eps,
        .correction1 = 1 - pow(beta1, (double)update),
        .correction2 = 1 - pow(beta2, (double)update),
        .scale = scale,
    };
    kernel_adamw(p->values + at, p->moments[0] + at, p->moments[1] + at, p->grads + at, count, &k);
}

static const struct optimizer adamw = {
    .moments = 2,
    .check = adamw_check,
    .update = adamw_update,
};

const struct kind adamw_optimizer = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .fields = adamw_fields,
    .size = sizeof(struct adamw_options),
    .impl = &adamw,
};
