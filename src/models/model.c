/* model.c - the table of backbones and presets. */
#include "models/model.h"

#include <string.h>

#define VIT_224(dim, heads)                                                                        \
    "{\"name\": \"vit\", \"image_size\": 224, \"channels\": 3, \"classes\": 1000, "                \
    "\"patch_size\": 16, \"dim\": " #dim ", \"depth\": 12, \"heads\": " #heads                     \
    ", \"mlp_ratio\": 4"

#define SWIN_224(dim, depths, heads)                                                               \
    "{\"name\": \"swin\", \"image_size\": 224, \"channels\": 3, \"classes\": 1000, "               \
    "\"patch_size\": 4, \"dim\": " #dim ", \"depths\": " depths ", \"heads\": " heads                \
    ", \"window_size\": 7, \"mlp_ratio\": 4}"

#define MODEL(name) extern const struct model name##_model;
#include "models/models.def"
#undef MODEL

static const struct model *const models[] = {
#define MODEL(name) &name##_model,
#include "models/models.def"
#undef MODEL
};

static const struct kind presets[] = {
#define PRESET(label, text) {.name = #label, .summary = "preset", .preset = text},
#include "models/presets.def"
#undef PRESET
};

enum { MODELS = sizeof models / sizeof models[0], PRESETS = sizeof presets / sizeof presets[0] };

const struct kind *model_kinds(int i)
{
    static struct kind kinds[MODELS];
    if (i < 0 || i >= MODELS + PRESETS)
        return NULL;
    if (i >= MODELS)
        return &presets[i - MODELS];
    const struct model *m = models[i];
    kinds[i] = (struct kind){.name = m->name, .summary = m->summary, .fields = m->fields,
                             .size = m->options_size, .impl = m};
    return &kinds[i];
}

const struct model *model_of(const struct choice *choice)
{
    return choice->kind->impl;
}

bool model_is_head(const struct model *m, const char *name)
{
    size_t length = strcspn(name, ".");
    for (const char *const *head = m->heads; head && *head; head++)
        if (strlen(*head) == length && strncmp(name, *head, length) == 0)
            return true;
    return false;
}

bool model_is_derived(const struct model *m, const char *name)
{
    const char *dot = strrchr(name, '.');
    for (const char *const *last = m->derived; last && *last; last++)
        if (strcmp(dot ? dot + 1 : name, *last) == 0)
            return true;
    return false;
}
