/* sample.h - the config of a small imagined program, with a field of each type. */
#ifndef TESTS_CONFIG_SAMPLE_H
#define TESTS_CONFIG_SAMPLE_H

#include "config/field.h"

struct sample_adamw {
    double lr, weight_decay;
    struct reals betas;
};
struct sample_sgd {
    double lr, momentum;
    bool nesterov;
};
struct sample_super {
    int wa_init, k;
    bool base;
};
struct sample_vit {
    int image_size[2], depth, dim;
    struct ints heads;
    bool cls_token;
    struct number_or_name layer_scale;
    struct choice attention;
};
struct sample_holdout {
    struct number_or_name holdout;
};
struct sample_ema {
    double decay;
    int warmup;
};
struct sample_data {
    const char *path;
    struct choice validation;
    struct number_or_name crop, limit;
};
struct sample_train {
    int epochs, batch_size, precision;
    double smoothing;
    struct choice optimizer, schedule;
    struct sample_ema *ema;
    struct strings freeze;
};
struct sample {
    uint64_t seed;
    struct sample_data data;
    struct choice model;
    struct sample_train train;
    const char *output;
};

extern const struct field sample_fields[];

#endif
