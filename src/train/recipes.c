/* recipes.c - the recipes, and what of them depends on the rest of a config. */
#include "train/recipes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/experiment.h"

#define UNIT 512.0 /* images of an update that rates are given for */

struct recipe {
    const char *name;
    int epochs;
    double lr, warmup_lr, min_lr;
    double warmup_epochs;
    bool scaled_ends; /* warmup_lr and min_lr are for UNIT images too */
    double drop_path, label_smoothing;
    const char *clip_norm;
    const char *auto_augment; /* of images in colour */
    double color_jitter;
    const char *random_erasing;
    const char *mix_probability;
    int repeated;
    bool resized_crop; /* of images above SMALL_SIDE; else a padded one */
};

enum { SMALL_SIDE = 32, SMALL_PADDING = 4 };

#define ERASING "{\"probability\": 0.25, \"mode\": \"pixel\", \"count\": 1}"
#define RAND "\"rand-m9-mstd0.5-inc1\""

static const struct recipe recipes[] = {
    {
        .name = "deit",
        .epochs = 300,
        .lr = 5e-4,
        .warmup_lr = 1e-6,
        .min_lr = 1e-5,
        .warmup_epochs = 5,
        .drop_path = 0.1,
        .label_smoothing = 0.1,
        .clip_norm = "null",
        .auto_augment = RAND,
        .color_jitter = 0.3,
        .random_erasing = ERASING,
        .mix_probability = "1",
        .repeated = 3,
        .resized_crop = true,
    },
    {
        .name = "deit3",
        .epochs = 800,
        .lr = 5e-4,
        .warmup_lr = 1e-6,
        .min_lr = 1e-5,
        .warmup_epochs = 5,
        .drop_path = 0.05,
        .label_smoothing = 0,
        .clip_norm = "null",
        .auto_augment = "\"3a\"",
        .color_jitter = 0.3,
        .random_erasing = "null",
        .mix_probability = "1",
        .repeated = 3,
        .resized_crop = true,
    },
    {
        .name = "swin",
        .epochs = 300,
        .lr = 5e-4,
        .warmup_lr = 5e-7,
        .min_lr = 5e-6,
        .warmup_epochs = 20,
        .scaled_ends = true,
        .drop_path = 0.1,
        .label_smoothing = 0.1,
        .clip_norm = "5.0",
        .auto_augment = RAND,
        .color_jitter = 0.4,
        .random_erasing = ERASING,
        .mix_probability = "1",
        .repeated = 1,
        .resized_crop = true,
    },
    {
        .name = "small",
        .epochs = 100,
        .lr = 4e-3,
        .warmup_lr = 1e-6,
        .min_lr = 1e-5,
        .warmup_epochs = 5,
        .drop_path = 0.1,
        .label_smoothing = 0.1,
        .clip_norm = "1.0",
        .auto_augment = RAND,
        .color_jitter = 0,
        .random_erasing = ERASING,
        .mix_probability = "0.5",
        .repeated = 1,
    },
};

enum { RECIPES = sizeof recipes / sizeof recipes[0], TEXT_SIZE = 2048 };

static const struct recipe *find(const char *name)
{
    for (int i = 0; i < RECIPES; i++)
        if (strcmp(recipes[i].name, name) == 0)
            return &recipes[i];
    return NULL;
}

double recipe_lr(const char *name)
{
    const struct recipe *r = name ? find(name) : NULL;
    return r ? r->lr : 0;
}

/* What a recipe must know of the config. */
struct site {
    double images; /* of an update */
    struct image_shape image;
    char model[64];
};

/* Reads the config as it stands, without the recipe: what is wrong with it is told by the one who
 * reads it in earnest. */
static enum status look(struct site *site, const struct config *config, struct error *err)
{
    *site = (struct site){.images = 128, .image = {3, 224, 224}};
    char *text = config_text(config);
    struct config *copy = NULL;
    struct experiment x = {0};
    if (!text)
        return error_memory(err, TEXT_SIZE);
    arena_init(&x.memory);
    enum status status = config_parse(&copy, text, "config", NULL);
    if (!status)
        status = config_read(copy, experiment_fields, &x, &x.memory, NULL);
    if (!status && x.model.kind) {
        struct model_shape shape = model_of(&x.model)->shape(x.model.options);
        site->images = (double)x.train.batch_size * x.train.accumulate;
        site->image = (struct image_shape){shape.channels, shape.height, shape.width};
        snprintf(site->model, sizeof site->model, "%s", x.model.name);
    }
    config_destroy(copy);
    arena_free(&x.memory);
    free(text);
    return status == ERR_MEMORY ? error_memory(err, TEXT_SIZE) : OK;
}

/* Swin's published rates of stochastic depth are those of its sizes. */
static double drop_path_of(const struct recipe *r, const char *model)
{
    static const struct {
        const char *part;
        double rate;
    } sizes[] = {{"swin_tiny", 0.2}, {"swin_small", 0.3}, {"swin_base", 0.5}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (strcmp(r->name, "swin") == 0 &&
            strncmp(model, sizes[i].part, strlen(sizes[i].part)) == 0)
            return sizes[i].rate;
    return r->drop_path;
}

/* The recipe as JSON. */
static void write_recipe(char text[TEXT_SIZE], const struct recipe *r, const struct site *site)
{
    double factor = site->images / UNIT, lr = r->lr * factor, ends = r->scaled_ends ? factor : 1;
    int height = site->image.height, width = site->image.width;
    int side = height > width ? height : width, least = height < width ? height : width;
    bool resized = r->resized_crop && side > SMALL_SIDE, colour = site->image.channels == 3;
    int padding = resized ? 0 : r->resized_crop ? SMALL_PADDING : (least + 4) / 8;
    snprintf(
        text, TEXT_SIZE,
        "{\"data\": {\"augment\": {\"random_crop_padding\": %d, \"hflip\": 0.5, "
        "\"random_resized_crop\": %s, \"interpolation\": \"bicubic\", \"color_jitter\": %.17g, "
        "\"auto_augment\": %s, \"random_erasing\": %s, \"mixup\": 0.8, \"cutmix\": 1.0, "
        "\"mix_probability\": %s, \"mix_switch\": 0.5, \"repeated\": %d}}, "
        "\"model\": {\"drop_path\": %.17g}, "
        "\"train\": {\"epochs\": %d, \"optimizer\": {\"name\": \"adamw\", \"lr\": %.17g, "
        "\"weight_decay\": 0.05, \"betas\": [0.9, 0.999], \"eps\": 1e-8}, "
        "\"schedule\": {\"name\": \"cosine\", \"warmup_epochs\": %.17g, \"warmup_lr\": %.17g, "
        "\"min_lr\": %.17g}, \"label_smoothing\": %.17g, \"clip_norm\": %s}}",
        padding, resized ? "{\"scale\": [0.08, 1], \"ratio\": [0.75, 1.3333333333333333]}" : "null",
        colour ? r->color_jitter : 0, colour ? r->auto_augment : "null", r->random_erasing,
        r->mix_probability, r->repeated, drop_path_of(r, site->model), r->epochs, lr,
        r->warmup_epochs, fmin(lr, r->warmup_lr * ends), fmin(lr, r->min_lr * ends),
        r->label_smoothing, r->clip_norm);
}

enum status recipe_apply(struct config *config, struct error *err)
{
    char *value = config_value(config, "recipe"), name[32] = "";
    size_t length = value ? strlen(value) : 0;
    bool text = length >= 2 && value[0] == '"';
    if (text)
        snprintf(name, sizeof name, "%.*s", (int)length - 2, value + 1);
    free(value);
    if (!text) /* null, or what is no name: for config_read to tell */
        return OK;
    const struct recipe *r = find(name);
    if (!r) {
        const char *names[RECIPES + 1] = {NULL};
        for (int i = 0; i < RECIPES; i++)
            names[i] = recipes[i].name;
        config_error(config, err, "recipe", "\"%s\" is no recipe", name);
        config_hint_name(err, name, names);
        return ERR_INPUT;
    }
    struct site site;
    char values[TEXT_SIZE], origin[64];
    enum status status = look(&site, config, err);
    if (status)
        return status;
    write_recipe(values, r, &site);
    snprintf(origin, sizeof origin, "recipe %s", r->name);
    return config_underlay(config, values, origin, err);
}
