/* splits.h - the records that an experiment trains, validates and tests on. */
#ifndef DATA_SPLITS_H
#define DATA_SPLITS_H

#include "data/dataset.h"

/* Parts to open, added up. */
enum { SPLITS_TRAIN = 1, SPLITS_VAL = 2, SPLITS_TEST = 4, SPLITS_ALL = 7 };

enum { SPLITS_COUNT = 3 }; /* of enum split */

/* A part's records in the order of its files: numbers in `set`, which is NULL where the part does
 * not exist or was not asked for. */
struct part {
    struct dataset *set; /* owned by the struct splits; two parts may share one */
    size_t *records;
    size_t count;
};

struct splits {
    struct part train, val, test;
    enum validation validation; /* where val comes from */
    uint64_t fingerprint;       /* of all sets that were opened */
    struct dataset *sets[SPLITS_COUNT]; /* by enum split, owned */
};

/* Opens the wanted parts as the config says:
 * A hold-out is the first part of a class-balanced order of the whole training set, drawn from the
 * seed; limit_train then takes the first records of what remains, so that it never changes the
 * hold-out. Validation "test" is the test part, limit_test and all. Limits larger than the set take
 * all of it.
 * ERR_INPUT where a hold-out leaves nothing, where the format has no part that validation names,
 * and for all that dataset_open refuses. A format without a test set leaves test empty. */
MUST_USE enum status splits_open(struct splits *s, const struct data_config *config, unsigned parts,
                                 struct image_shape shape, int classes, uint64_t seed,
                                 struct error *err);
void splits_close(struct splits *s);

#endif
