/* splits.c - hold-out and limits. */
#include "data/splits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/normalize.h"

/* Records that a limit leaves of `count`. */
static enum status limit_records(size_t *out, const struct number_or_name *limit, const char *key,
                                 size_t count, struct error *err)
{
    *out = count;
    if (limit->name != -1)
        return OK;
    if (!(limit->number >= 1) || limit->number != floor(limit->number))
        return error_set(err, ERR_INPUT, "data.%s: %g is no whole number from 1 on", key,
                         limit->number);
    if (limit->number < (double)count)
        *out = (size_t)limit->number;
    return OK;
}

/* Records of a hold-out from a training set of `count`. */
static enum status holdout_records(size_t *out, const struct data_config *config, size_t count,
                                   struct error *err)
{
    const struct holdout_options *o = config->validation.options;
    double number = o->holdout.name == -1 ? o->holdout.number : 0;
    bool share = number < 1 || (number <= 1 && o->holdout.is_fraction);
    if (!(number > 0) || (!share && number != floor(number)))
        return error_set(err, ERR_INPUT,
                         "data.validation.holdout: %g is neither a share between 0 and 1 nor a "
                         "whole number of records",
                         number);
    double records = share ? floor(number * (double)count + 0.5) : number;
    if (records < 1 || records >= (double)count)
        return error_set(err, ERR_INPUT,
                         "data.validation.holdout: %.0f of %zu training records would be held out, "
                         "expected at least 1 and at most %zu",
                         records, count, count - 1);
    *out = (size_t)records;
    return OK;
}

static int compare_records(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static enum status part_fill(struct part *p, struct dataset *set, const size_t *order, size_t count,
                             struct error *err)
{
    p->records = malloc((count + 1) * sizeof *p->records);
    if (!p->records)
        return error_memory(err, (count + 1) * sizeof *p->records);
    memcpy(p->records, order, count * sizeof *order);
    qsort(p->records, count, sizeof *p->records, compare_records);
    p->set = set;
    p->count = count;
    return OK;
}

/* `part` = the first records of the balanced order behind `skip`, `head` = those before it. Either
 * may be NULL. */
static enum status split_set(struct part *head, size_t skip, struct part *part, struct dataset *set,
                             const struct number_or_name *limit, const char *key, uint64_t seed,
                             struct error *err)
{
    size_t n = dataset_count(set), count = 0;
    enum status status = limit_records(&count, limit, key, n - skip, err);
    if (status)
        return status;
    size_t *order = malloc(n * sizeof *order);
    if (!order)
        return error_memory(err, n * sizeof *order);
    status = dataset_balanced_order(set, seed, order, err);
    if (!status && head)
        status = part_fill(head, set, order, skip, err);
    if (!status && part)
        status = part_fill(part, set, order + skip, count, err);
    free(order);
    return status;
}

static enum status open_set(struct splits *s, enum split split, const struct data_config *config,
                            struct image_shape shape, int classes, uint64_t seed, struct error *err)
{
    enum status status = dataset_open(&s->sets[split], config, split, shape, classes, seed, err);
    if (!status && s->sets[split]) {
        const uint64_t one[] = {(uint64_t)split, dataset_fingerprint(s->sets[split])};
        s->fingerprint = hash_fnv(s->fingerprint, one, sizeof one);
    }
    return status;
}

static enum status fill_train(struct splits *s, const struct data_config *config, unsigned parts,
                              uint64_t seed, struct error *err)
{
    struct dataset *set = s->sets[SPLIT_TRAIN];
    if (!set)
        return error_set(err, ERR_INPUT, "data.format: %s has no training part",
                         dataset_format_names[config->format]);
    size_t skip = 0;
    if (s->validation == VALIDATION_HOLDOUT) {
        enum status status = holdout_records(&skip, config, dataset_count(set), err);
        if (status)
            return status;
    }
    return split_set(skip && parts & SPLITS_VAL ? &s->val : NULL, skip,
                     parts & SPLITS_TRAIN ? &s->train : NULL, set, &config->limit_train,
                     "limit_train", seed, err);
}

static enum status fill_rest(struct splits *s, const struct data_config *config, unsigned parts,
                             uint64_t seed, struct error *err)
{
    static const struct number_or_name all = {.name = -2};
    enum status status = OK;
    if (parts & SPLITS_TEST && s->sets[SPLIT_TEST])
        status = split_set(NULL, 0, &s->test, s->sets[SPLIT_TEST], &config->limit_test,
                           "limit_test", seed, err);
    if (status || !(parts & SPLITS_VAL))
        return status;
    if (s->validation == VALIDATION_TEST && s->sets[SPLIT_TEST])
        return split_set(NULL, 0, &s->val, s->sets[SPLIT_TEST], &config->limit_test, "limit_test",
                         seed, err);
    if (s->validation == VALIDATION_VAL && s->sets[SPLIT_VAL])
        return split_set(NULL, 0, &s->val, s->sets[SPLIT_VAL], &all, "validation", seed, err);
    if (s->validation == VALIDATION_TEST || s->validation == VALIDATION_VAL)
        return error_set(err, ERR_INPUT,
                         "data.validation: the %s format has no %s part (use {\"holdout\": N}%s)",
                         dataset_format_names[config->format],
                         s->validation == VALIDATION_TEST ? "test" : "val",
                         s->validation == VALIDATION_VAL ? " or \"test\"" : "");
    return OK;
}

enum status splits_open(struct splits *s, const struct data_config *config, unsigned parts,
                        struct image_shape shape, int classes, uint64_t seed, struct error *err)
{
    *s = (struct splits){.validation = data_validation(config), .fingerprint = HASH_START};
    bool wanted[3] = {[SPLIT_TRAIN] = parts & SPLITS_TRAIN, [SPLIT_TEST] = parts & SPLITS_TEST};
    if (parts & SPLITS_VAL) {
        wanted[SPLIT_TRAIN] |= s->validation == VALIDATION_HOLDOUT;
        wanted[SPLIT_TEST] |= s->validation == VALIDATION_TEST;
        wanted[SPLIT_VAL] = s->validation == VALIDATION_VAL;
    }

    /* What the config alone can get wrong is said before any file is read. */
    enum status status = OK;
    struct normalization normalization;
    if (shape.height)
        status = normalization_resolve(&normalization, config, shape.channels, err);
    for (int split = 0; split < 3 && !status; split++)
        if (wanted[split])
            status = open_set(s, (enum split)split, config, shape, classes, seed, err);
    if (!status && wanted[SPLIT_TRAIN])
        status = fill_train(s, config, parts, seed, err);
    if (!status)
        status = fill_rest(s, config, parts, seed, err);
    if (status)
        splits_close(s);
    return status;
}

void splits_close(struct splits *s)
{
    struct part *parts[] = {&s->train, &s->val, &s->test};
    for (int i = 0; i < 3; i++) {
        free(parts[i]->records);
        dataset_close(s->sets[i]);
    }
    *s = (struct splits){0};
}
