/* config.c - attnbench config. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/source.h"
#include "data/splits.h"
#include "train/recipes.h"

/* Updates of one epoch, 0 where the data cannot be read: err says why. */
static long long epoch_updates(const struct experiment *x, struct error *err)
{
    struct model_shape m = source_shape(x);
    struct image_shape image = {m.channels, m.height, m.width};
    struct splits splits;
    if (splits_open(&splits, &x->data, SPLITS_TRAIN, image, m.classes, x->seed, err))
        return 0;
    long long batch = x->train.batch_size, count = (long long)splits.train.count;
    splits_close(&splits);
    return experiment_epoch_updates(x, (count + batch - 1) / batch);
}

/* What follows from the values and is asked for most: the rate, and how long a run is. */
static void tell_training(const struct experiment *x)
{
    const struct train_config *t = &x->train;
    long long images = (long long)t->batch_size * t->accumulate;
    struct error err;
    fprintf(stderr, "learning rate %g", optimizer_base_of(&t->optimizer)->lr);
    if (recipe_lr(x->recipe) > 0)
        fprintf(stderr, " (recipe %s: %g x %lld / 512, unless overridden)", x->recipe,
                recipe_lr(x->recipe), images);
    long long updates = epoch_updates(x, &err);
    if (updates)
        fprintf(stderr, ", %d epochs of %lld steps with %lld images: %lld steps, %lld of warm-up\n",
                t->epochs, updates, images, updates * t->epochs,
                schedule_warmup(&t->schedule, updates));
    else
        fprintf(stderr, ", %d epochs of steps with %lld images, which cannot be counted: %s\n",
                t->epochs, images, err.text);
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct experiment x;
    enum source kind;
    enum status status = source_kind(&kind, a->operands[0], err);
    if (!status)
        status = source_load(&x, kind, a, NULL, err);
    if (status)
        return status;
    char *text = config_text(x.config);
    if (text) {
        fputs(text, stdout);
        fflush(stdout);
        tell_training(&x);
    } else {
        status = error_memory(err, 0);
    }
    free(text);
    experiment_free(&x);
    return status;
}

static const struct command_option options_of_config[] = {OPTION_SET, OPTION_END};

const struct command config_command = {
    .name = "config", .summary = "the effective config, every default filled in",
    .operands = "CONFIG", .least = 1, .most = 1, .options = options_of_config,
    .about =
        "Prints the config with what it extends, with --set, and with every default filled\n"
        "in, as JSON; and beside it, on stderr, the learning rate, the steps and the warm-up\n"
        "that follow. Also takes the directory of a run or a checkpoint.\n",
    .example = "  attnbench config configs/fashion_mnist_super.json --set model.depth=4\n",
    .run = run,
};
