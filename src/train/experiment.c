/* experiment.c - the config's tables, and the checks that need more than one value. */
#include "train/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/recipes.h"

#define MAX_PARAMETERS 1099511627776.0 /* 2^40 */

static const struct field ema_fields[] = {
    FIELD_REAL(struct ema_config, decay, 0.9998, 0, 1, "decay of the average, an update"),
    FIELD_REAL(struct ema_config, warmup, 2000, 0, 1e12,
               "updates over which the decay rises: decay (1 - exp(-update / warmup))"),
    FIELD_END,
};

static const char *const distill_names[] = {"soft", "hard", NULL};

static const struct field distill_fields[] = {
    FIELD_PATH(struct distill_config, teacher, NULL, "checkpoint of attnbench with the same classes"),
    FIELD_ENUM(struct distill_config, kind, DISTILL_HARD, distill_names,
               "soft: the teacher's probabilities; hard: its likeliest class"),
    FIELD_REAL(struct distill_config, temperature, 1, 0.01, 1000,
               "soft: by which the logits of both are divided"),
    FIELD_REAL(struct distill_config, weight, 0.5, 0, 1,
               "part of the teacher in the loss; the labels have the rest"),
    FIELD_END,
};

static const char *const precision_names[] = {"fp32", "bf16", NULL};

static const struct field train_fields[] = {
    FIELD_INT(struct train_config, epochs, 10, 1, 1000000, "passes over the training set"),
    FIELD_INT(struct train_config, batch_size, 128, 1, 1 << 20, "images in a batch"),
    FIELD_INT(struct train_config, accumulate, 1, 1, 1 << 20, "batches that make one update"),
    FIELD_ENUM(struct train_config, precision, PRECISION_FP32, precision_names,
               "storage of activations and arithmetic of products"),
    FIELD_BOOL(struct train_config, recompute, false,
               "keeps only what enters each block and computes the rest again: about half of the "
               "activation memory for about a third more time, the same bits"),
    FIELD_CHOICE(struct train_config, optimizer, optimizer_kinds, "adamw",
                 "see attnbench list optimizers"),
    FIELD_CHOICE(struct train_config, schedule, schedule_kinds, "cosine",
                 "learning rate over the updates: constant, cosine, polynomial, step or plateau"),
    FIELD_REAL(struct train_config, layer_decay, 1, 0.01, 1,
               "factor of the rate from each block to the one before it; 1: none"),
    FIELD_REAL(struct train_config, label_smoothing, 0, 0, 1,
               "part of the target that is spread over all classes"),
    FIELD_RANGE(struct train_config, clip_norm, NULL, NULL, 1e-12, 1e12,
                "largest norm of all gradients together; null: not clipped"),
    FIELD_MAYBE(struct train_config, ema, struct ema_config, ema_fields, NULL,
                "moving average of the weights, evaluated beside them; null: none"),
    FIELD_PATH(struct train_config, init_from, NULL,
               "checkpoint whose weights training starts from"),
    FIELD_STRINGS(struct train_config, freeze, "[]",
                  "patterns of parameter names that are not trained, as in \"patch_embed.*\""),
    FIELD_MAYBE(struct train_config, distill, struct distill_config, distill_fields, NULL,
                "another model to learn from beside the labels; null: none"),
    FIELD_INT(struct train_config, checkpoint_every, 1, 1, 1000000,
              "epochs between two writes of the last checkpoint and the training state"),
    FIELD_END,
};

const struct field experiment_fields[] = {
    FIELD_STRING(struct experiment, recipe, NULL,
                 "published values for data.augment, train and model.drop_path, which other keys "
                 "override one by one: deit, deit3, swin, small; null: none"),
    FIELD_SEED(struct experiment, seed, 1, "of initial values, order, augmentation and noise"),
    FIELD_OBJECT(struct experiment, data, data_fields, "images and labels"),
    FIELD_CHOICE(struct experiment, model, model_kinds, "vit", "see attnbench list models"),
    FIELD_OBJECT(struct experiment, train, train_fields, "how it is trained"),
    FIELD_STRING(struct experiment, output, NULL, "directory of the run"),
    FIELD_END,
};

/* Puts file and section in front of "KEY: WHAT", the message of a part that knows its keys alone.
 */
static enum status located(const struct experiment *x, const char *section, struct error *err)
{
    struct error part = *err;
    char *what = strstr(part.text, ": ");
    if (part.status != ERR_INPUT || !what) {
        error_prefix(err, "%s: ", section);
        return part.status;
    }
    *what = 0;
    char path[256];
    snprintf(path, sizeof path, "%s.%.200s", section, part.text);
    return config_error(x->config, err, path, "%s", what + 2);
}

enum status experiment_locate(const struct experiment *x, struct error *err)
{
    char path[256];
    const char *end = strstr(err->text, ": ");
    if (err->status != ERR_INPUT || !end || (size_t)(end - err->text) >= sizeof path)
        return err->status;
    snprintf(path, sizeof path, "%.*s", (int)(end - err->text), err->text);
    char *value = config_value(x->config, path);
    if (value) {
        struct error part = *err;
        config_error(x->config, err, path, "%s", part.text + strlen(path) + 2);
    }
    free(value);
    return err->status;
}

/* Records the model alone, for one image: nothing is planned and nothing gets memory. What does not
 * fit together is told by the one who plans it. */
static enum status check_size(const struct experiment *x, struct error *err)
{
    const struct model *model = model_of(&x->model);
    struct model_shape s = model->shape(x->model.options);
    struct params params;
    double count = 0;
    params_init(&params);
    const struct graph_options options = {.batch = 1, .seed = x->seed};
    struct graph *g = graph_create(&params, &options);
    if (g) {
        struct shape image = SHAPE(1, s.channels, s.height, s.width);
        model->record(g, x->model.options, graph_input(g, "x", TYPE_REAL, image, false), NULL);
        for (int i = 0; i < params.count; i++)
            count += (double)params.list[i]->count;
        graph_free(g);
    }
    params_free(&params);
    if (!g)
        return error_memory(err, sizeof params);
    if (count <= MAX_PARAMETERS)
        return OK;
    return config_error(x->config, err, "model",
                        "has %.3g parameters, more than 2^40 (use a smaller dim or depth)", count);
}

static enum status experiment_check(const struct experiment *x, struct error *err)
{
    const struct train_config *t = &x->train;
    if (!x->model.kind)
        return config_error(x->config, err, "model", "is null, expected a model");
    if (!t->optimizer.kind)
        return config_error(x->config, err, "train.optimizer", "is null, expected an optimizer");
    if (!t->schedule.kind)
        return config_error(x->config, err, "train.schedule", "is null, expected a schedule");
    const struct model *model = model_of(&x->model);
    if (model->check && model->check(x->model.options, err))
        return located(x, "model", err);
    if (augment_check(&x->data.augment, model->shape(x->model.options).channels, err))
        return experiment_locate(x, err);
    if (augment_mixes(&x->data.augment) && t->batch_size == 1)
        return config_error(x->config, err, "data.augment",
                            "mixes images of a batch, and train.batch_size is 1 (set mixup and "
                            "cutmix to 0, or a larger batch)");
    if (optimizer_check(&t->optimizer, err))
        return located(x, "train.optimizer", err);
    if (schedule_check(&t->schedule, optimizer_base_of(&t->optimizer)->lr, t->epochs, err))
        return located(x, "train.schedule", err);
    long long window = (long long)t->batch_size * t->accumulate;
    if (window > 1 << 30)
        return config_error(x->config, err, "train.accumulate",
                            "%d batches of %d are %lld images an update, more than %d",
                            t->accumulate, t->batch_size, window, 1 << 30);
    if (t->distill && t->distill->kind == DISTILL_HARD && t->distill->temperature != 1)
        return config_error(x->config, err, "train.distill.temperature",
                            "has no effect on the likeliest class (set kind to \"soft\")");
    if (x->output && !*x->output)
        return config_error(x->config, err, "output", "is empty, expected a directory");
    return check_size(x, err);
}

/* Takes the document, whatever happens. */
static enum status experiment_read(struct experiment *x, struct config *config, struct error *err)
{
    struct error unseen;
    err = err ? err : &unseen; /* parts of messages are read back */
    x->config = config;
    enum status status = recipe_apply(config, err);
    if (!status)
        status = config_read(config, experiment_fields, x, &x->memory, err);
    if (!status)
        status = experiment_check(x, err);
    if (status)
        experiment_free(x);
    return status;
}

enum status experiment_load(struct experiment *x, const char *path, const char *const *settings,
                            int count, struct error *err)
{
    *x = (struct experiment){0};
    arena_init(&x->memory);
    struct config *config = NULL;
    enum status status = config_load(&config, path, settings, count, err);
    return status ? status : experiment_read(x, config, err);
}

enum status experiment_parse(struct experiment *x, const char *text, const char *name,
                             struct error *err)
{
    return experiment_parse_with(x, text, name, NULL, 0, err);
}

enum status experiment_parse_with(struct experiment *x, const char *text, const char *name,
                                  const char *const *settings, int count, struct error *err)
{
    *x = (struct experiment){0};
    arena_init(&x->memory);
    struct config *config = NULL;
    enum status status = config_parse(&config, text, name, err);
    if (!status && (status = config_override(config, settings, count, err)))
        config_destroy(config);
    return status ? status : experiment_read(x, config, err);
}

void experiment_free(struct experiment *x)
{
    config_destroy(x->config);
    arena_free(&x->memory);
    *x = (struct experiment){0};
}

long long experiment_epoch_updates(const struct experiment *x, long long batches)
{
    return (batches + x->train.accumulate - 1) / x->train.accumulate;
}

enum type experiment_type(const struct experiment *x)
{
    return x->train.precision == PRECISION_BF16 ? TYPE_BF16 : TYPE_REAL;
}

const char *precision_name(const struct experiment *x)
{
    if (x->train.precision == PRECISION_FP32 && sizeof(real) == sizeof(double))
        return "fp64";
    return precision_names[x->train.precision];
}

struct loader_options experiment_loader(const struct experiment *x, bool train)
{
    int workers = x->data.workers, ahead = workers > 1 ? workers : 1;
    return (struct loader_options){
        .batch_size = x->train.batch_size,
        .train = train,
        .seed = x->seed,
        .workers = workers,
        .ahead = train ? 2 * ahead : ahead,
    };
}
