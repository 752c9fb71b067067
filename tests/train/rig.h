/* rig.h - a tiny experiment on drawn patterns, and runs of it. */
#ifndef TRAIN_RIG_H
#define TRAIN_RIG_H

#include "train/checkpoint.h"
#include "train/trainer.h"

/* Reads the tiny config (ViT with D 24 and two blocks on 12 x 8 images, 90 training records, batch
 * 8, accumulate 2, dropout, drop path, augmentation, EMA, hold-out) with settings "PATH=VALUE", the
 * list ended by NULL. Checks that it can be read. */
void rig_load(struct experiment *x, const char *const *settings);

/* The same, expecting a refusal: returns the status, with err filled. */
enum status rig_refused(const char *const *settings, struct error *err);

/* How a run goes. */
struct rig_run {
    bool resume;
    int threads;        /* 0: 1 */
    int stop_after;     /* updates of this process; 0: never */
    void (*each)(void); /* called after every update, or NULL */
    char said[2048];    /* notes, one a line */
    struct train_result result;
};

enum status rig_train(const struct experiment *x, const char *directory, struct rig_run *run,
                      struct error *err);

/* checkpoint_init, with all that it reports as one text; *said may be NULL. */
enum status rig_init(struct params *p, const struct choice *model, const char *path,
                     const char **said, struct error *err);

/* Whether two files hold the same bytes; both must be there. */
bool rig_same_file(const char *a, const char *b);

/* The lines of a metrics.jsonl that a repeated run repeats: no start and resume events, and none of
 * the values that measure time or memory. Valid until the program ends. */
const char *rig_metrics(const char *directory);

/* Whole text of a file, or NULL; valid until the program ends. */
const char *rig_text(const char *path);

#endif
