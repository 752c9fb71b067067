/* sample.c - field tables of struct sample. */
#include "sample.h"

#include <math.h>

static const char *const wa_init_names[] = {"identity", "xavier_uniform", NULL};
static const char *const precision_names[] = {"fp32", "bf16", NULL};
static const char *const part_names[] = {"test", "val", NULL};

static const struct field adamw_fields[] = {
    FIELD_REAL(struct sample_adamw, lr, 1e-3, 0, 10, "peak learning rate"),
    FIELD_REAL(struct sample_adamw, weight_decay, 0.05, 0, 1, "decoupled weight decay"),
    FIELD_REALS(struct sample_adamw, betas, "[0.9, 0.999]", 0, 1, "decay of the two moments"),
    FIELD_END,
};
static const struct field sgd_fields[] = {
    FIELD_REAL(struct sample_sgd, lr, 0.1, 0, 10, "learning rate at the peak"),
    FIELD_REAL(struct sample_sgd, momentum, 0.9, 0, 1, "of the running mean"),
    FIELD_BOOL(struct sample_sgd, nesterov, false, "look ahead"),
    FIELD_END,
};
static const struct field super_fields[] = {
    FIELD_ENUM(struct sample_super, wa_init, 0, wa_init_names, "start of the alignment"),
    FIELD_INT(struct sample_super, k, 0, 0, 4096, "rows"),
    FIELD_BOOL(struct sample_super, base, true, "with the base"),
    FIELD_END,
};

static const struct kind optimizers[] = {
    {.name = "adamw", .fields = adamw_fields, .size = sizeof(struct sample_adamw)},
    {.name = "sgd", .fields = sgd_fields, .size = sizeof(struct sample_sgd)},
};
static const struct field holdout_fields[] = {
    FIELD_RANGE(struct sample_holdout, holdout, "0.1", NULL, 0, 1e9, "records or share"),
    FIELD_END,
};
static const struct kind validations[] = {
    {.name = "holdout", .fields = holdout_fields, .size = sizeof(struct sample_holdout)},
    {.name = "test"},
};
static const struct kind schedules[] = {{.name = "constant"}, {.name = "cosine"}};
static const struct kind attentions[] = {
    {.name = "standard"},
    {.name = "super", .fields = super_fields, .size = sizeof(struct sample_super)},
    {.name = "efficient"},
};

static const struct kind *optimizer_at(int i)
{
    return i < 2 ? &optimizers[i] : NULL;
}

static const struct kind *validation_at(int i)
{
    return i < 2 ? &validations[i] : NULL;
}

static const struct kind *schedule_at(int i)
{
    return i < 2 ? &schedules[i] : NULL;
}

static const struct kind *attention_at(int i)
{
    return i < 3 ? &attentions[i] : NULL;
}

static const struct field vit_fields[] = {
    FIELD_PAIR(struct sample_vit, image_size, 28, 1, 4096, "pixels"),
    FIELD_INT(struct sample_vit, depth, 6, 1, 1000, "blocks"),
    FIELD_INT(struct sample_vit, dim, 64, 1, 65536, "width of a token"),
    FIELD_INTS(struct sample_vit, heads, "[4]", 1, 1024, "heads of each stage"),
    FIELD_BOOL(struct sample_vit, cls_token, true, "with a class token"),
    FIELD_RANGE(struct sample_vit, layer_scale, NULL, NULL, 1e-9, 10, "start value"),
    FIELD_CHOICE(struct sample_vit, attention, attention_at, "standard", "mixer of tokens"),
    FIELD_END,
};
static const struct kind models[] = {
    {.name = "vit", .fields = vit_fields, .size = sizeof(struct sample_vit)},
    {.name = "vit_tiny",
     .preset = "{\"name\": \"vit\", \"dim\": 192, \"depth\": 12, \"heads\": [3, 6, 12],"
               " \"layer_scale\": 0.1, \"attention\": {\"name\": \"super\", \"k\": 5}}"},
};

static const struct kind *model_at(int i)
{
    return i < 2 ? &models[i] : NULL;
}

static const struct field data_fields[] = {
    FIELD_PATH(struct sample_data, path, NULL, "folder"),
    FIELD_CHOICE(struct sample_data, validation, validation_at, NULL, "part"),
    FIELD_RANGE(struct sample_data, crop, "val", part_names, 0, (double)INFINITY, "number or name"),
    FIELD_RANGE(struct sample_data, limit, "null", NULL, 1, 1e9, "records"),
    FIELD_END,
};

static const struct field ema_fields[] = {
    FIELD_REAL(struct sample_ema, decay, 0.9998, 0, 1, "decay"),
    FIELD_INT(struct sample_ema, warmup, 2000, 0, 1000000, "updates"),
    FIELD_END,
};

static const struct field train_fields[] = {
    FIELD_INT(struct sample_train, epochs, 10, 1, 100000, "passes over the data"),
    FIELD_INT(struct sample_train, batch_size, 128, 1, 1000000, "records of an update"),
    FIELD_ENUM(struct sample_train, precision, 0, precision_names, "storage"),
    FIELD_REAL(struct sample_train, smoothing, 0.1, 0, 1, "of labels"),
    FIELD_CHOICE(struct sample_train, optimizer, optimizer_at, "adamw", "update rule"),
    FIELD_CHOICE(struct sample_train, schedule, schedule_at, NULL, "of the learning rate"),
    FIELD_MAYBE(struct sample_train, ema, struct sample_ema, ema_fields, NULL, "mean of weights"),
    FIELD_STRINGS(struct sample_train, freeze, "[]", "prefixes"),
    FIELD_END,
};

const struct field sample_fields[] = {
    FIELD_SEED(struct sample, seed, 1, "of all random numbers"),
    FIELD_OBJECT(struct sample, data, data_fields, "what is read"),
    FIELD_CHOICE(struct sample, model, model_at, "vit", "backbone"),
    FIELD_OBJECT(struct sample, train, train_fields, "how it learns"),
    FIELD_STRING(struct sample, output, "runs/x", "folder of the run"),
    FIELD_END,
};
