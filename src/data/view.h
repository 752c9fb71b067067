/* view.h - from a record to what the model reads: decoded, cut, augmented, normalised. */
#ifndef DATA_VIEW_H
#define DATA_VIEW_H

#include "base/real.h"
#include "data/dataset.h"
#include "data/normalize.h"
#include "data/policy.h"
#include "data/resample.h"

/* What all images of a loader share; read-only once made. */
struct view {
    const struct dataset *dataset;
    bool augmented; /* else the plain images of an evaluation */
    struct augment augment;
    struct image_shape shape;
    struct policy policy;
    struct augment_move move;
    bool whole;  /* images are changed in colour before they are normalised */
    real *table; /* (channels, 256), see normalization_table; owned */
    uint64_t stream, crop_stream, policy_stream, jitter_stream, erase_stream;
};

/* The dataset is borrowed, and so are lists and options behind pointers of the config. ERR_INPUT
 * for a data.normalize that does not fit the channels, and for what augment_check refuses. */
MUST_USE enum status view_init(struct view *v, const struct dataset *d,
                               const struct data_config *config, bool augmented, uint64_t seed,
                               struct error *err);
void view_free(struct view *v);

/* Memory of one thread. */
struct view_scratch {
    uint8_t *pixels; /* (channels, height, width) */
    struct image record, image, spare;
    struct resampler resampler;
};

MUST_USE enum status view_scratch_init(struct view_scratch *s, const struct view *v,
                                       struct error *err);
void view_scratch_free(struct view_scratch *s);

/* out, (channels, height, width), = the record as the model reads it at this position of the epoch.
 * In the order of timm: crop, flips, policy, colour jitter, normalisation, erasing. Allocates only
 * where a record is larger than those before. */
MUST_USE enum status view_make(const struct view *v, struct view_scratch *s, size_t record,
                               uint64_t epoch, uint64_t position, real *out, struct error *err);

#endif
