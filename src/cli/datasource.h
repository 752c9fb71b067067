/* datasource.h - operands that name labelled images: a config, the directory of a run, or a folder
 * of data files. */
#ifndef CLI_DATASOURCE_H
#define CLI_DATASOURCE_H

#include "data/splits.h"
#include "train/experiment.h"

/* What a data operand stands for. */
struct datasource {
    const struct data_config *config;
    uint64_t seed;
    struct experiment own;    /* the config that was named; own.config is NULL for a folder */
    struct data_config plain; /* for a folder */
    struct arena memory;
};

/* Opens the operand `path`. For a folder, its format is told by the files, and all else is taken
 * from `like` (the experiment a model was trained by; NULL: defaults), its normalisation resolved
 * first. Settings as --set are laid upon a config. ERR_INPUT where nothing known lies there. Freed with
 * datasource_free. */
MUST_USE enum status datasource_open(struct datasource *d, const char *path,
                                     const struct experiment *like, const char *const *settings,
                                     int count, struct error *err);
void datasource_free(struct datasource *d);

/* The part "train", "val" or "test" among those opened. */
const struct part *splits_part(const struct splits *s, const char *name);

#endif
