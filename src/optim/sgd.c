/* sgd.c - stochastic gradient descent with momentum, as PyTorch computes it: the decay is added to
 * the gradient after clipping, and the learning rate scales the momentum as a whole. */
#include "kernels/kernels.h"
#include "optim/optimizer.h"

struct sgd_options {
    struct optimizer_base base;
    double momentum;
    bool nesterov;
};

static const struct field sgd_fields[] = {
    FIELD_REAL(struct optimizer_base, lr, 0.1, 0, 1e9, "peak learning rate"),
    FIELD_REAL(struct optimizer_base, weight_decay, 0, 0, 1e3,
               "decay of weights of two or more axes, added to the gradient"),
    FIELD_REAL(struct sgd_options, momentum, 0.9, 0, 0.999999999,
               "part of the last step that goes on"),
    FIELD_BOOL(struct sgd_options, nesterov, false, "looks ahead along the momentum"),
    FIELD_END,
};

static enum status sgd_check(const void *options, struct error *err)
{
    const struct sgd_options *o = options;
    if (o->nesterov && o->momentum == 0)
        return error_set(err, ERR_INPUT, "nesterov: needs a momentum above 0");
    return OK;
}

static void sgd_update(const void *options, struct params *p, size_t at, size_t count, double lr,
                       double decay, double scale, long long update)
{
    (void)update; /* the momentum starts at zero, which makes the first update no special case */
    const struct sgd_options *o = options;
    const struct sgd k = {
        .lr = lr,
        .decay = decay,
        .momentum = o->momentum,
        .scale = scale,
        .nesterov = o->nesterov,
    };
    kernel_sgd(p->values + at, p->moments[0] + at, p->grads + at, count, &k);
}

static const struct optimizer sgd = {
    .moments = 1,
    .check = sgd_check,
    .update = sgd_update,
};

const struct kind sgd_optimizer = {
    .name = "sgd",
    .summary = "gradient descent with momentum",
    .fields = sgd_fields,
    .size = sizeof(struct sgd_options),
    .impl = &sgd,
};
