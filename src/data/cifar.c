/* cifar.c - CIFAR-10 and CIFAR-100 in the binary version: records of label bytes and 3072 pixels,
 * the red, green and blue planes of 32x32. https://www.cs.toronto.edu/~kriz/cifar.html */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/format.h"
#include "io/gzip.h"

enum {
    CIFAR_SIDE = 32,
    CIFAR_PIXELS = 3 * CIFAR_SIDE * CIFAR_SIDE,
    CIFAR_MAX_RECORDS = 100000, /* of one file: twice the largest official one */
    CIFAR10_BATCHES = 5,
};

/* How a record is laid out. */
struct cifar_record {
    int label_bytes;
    int classes[2]; /* of each label byte */
    int label_at;   /* the byte that counts */
};

/* Adds the records of one file's content to d. */
static enum status cifar_take(struct dataset *d, const struct cifar_record *record,
                              const uint8_t *data, size_t count, const char *path, int classes,
                              struct error *err)
{
    size_t total = d->count + count;
    uint8_t *pixels = realloc(d->pixels, total * CIFAR_PIXELS);
    if (pixels)
        d->pixels = pixels;
    int *labels = realloc(d->labels, total * sizeof *labels);
    if (labels)
        d->labels = labels;
    if (!pixels || !labels)
        return error_memory(err, total * (CIFAR_PIXELS + sizeof *labels));

    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < record->label_bytes; k++) {
            enum status status = format_check_label(path, i, data[k], record->classes[k],
                                                    k == record->label_at ? classes : 0, err);
            if (status)
                return status;
        }
        d->labels[d->count] = data[record->label_at];
        memcpy(d->pixels + d->count * CIFAR_PIXELS, data + record->label_bytes, CIFAR_PIXELS);
        data += record->label_bytes + CIFAR_PIXELS;
        d->count++;
    }
    return OK;
}

static enum status cifar_add_file(struct dataset *d, const struct cifar_record *record,
                                  const char *path, int classes, struct error *err)
{
    size_t bytes = (size_t)record->label_bytes + CIFAR_PIXELS, size;
    uint8_t *data;
    enum status status = gzip_read_file(&data, &size, path, CIFAR_MAX_RECORDS * bytes, err);
    if (status)
        return status;
    if (size == 0)
        status =
            error_set(err, ERR_INPUT, "%s: is empty, expected records of %zu bytes", path, bytes);
    else if (size % bytes)
        status = error_set(err, ERR_INPUT,
                           "%s: record %zu bytes, file holds %zu whole records and a remainder of "
                           "%zu bytes (fetch the file again)",
                           path, bytes, size / bytes, size % bytes);
    else
        status = cifar_take(d, record, data, size / bytes, path, classes, err);
    d->fingerprint = hash_fnv(d->fingerprint ? d->fingerprint : HASH_START, data, size);
    free(data);
    return status;
}

static void cifar_describe(struct dataset *d, const char *where, int classes)
{
    d->native = (struct image_shape){3, CIFAR_SIDE, CIFAR_SIDE};
    d->where = where;
    d->named = classes;
}

static const char *const cifar10_train_names[] = {
    "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
    "data_batch_4.bin", "data_batch_5.bin", NULL,
};
static const char *const cifar10_test_names[] = {"test_batch.bin", NULL};

/* "1 of 5 CIFAR-10 batches (data_batch_1.bin)" where not all are there. */
static enum status cifar10_write_note(struct dataset *d, int files, const char *found,
                                      struct error *err)
{
    if (files == CIFAR10_BATCHES)
        return OK;
    d->note =
        arena_printf(&d->memory, "%d of %d CIFAR-10 batches (%s)", files, CIFAR10_BATCHES, found);
    return d->note ? OK : error_memory(err, strlen(found) + 64);
}

static enum status cifar10_open(struct dataset *d, const struct dataset_request *r,
                                struct error *err)
{
    static const struct cifar_record record = {.label_bytes = 1, .classes = {10}};
    int classes = record.classes[0];
    if (r->split == SPLIT_VAL)
        return OK;
    const char *folder = r->config->path;
    const char *const *names = r->split == SPLIT_TEST ? cifar10_test_names : cifar10_train_names;
    const char *found = "";
    int files = 0;
    for (int i = 0; names[i]; i++) {
        const char *const one[] = {names[i], NULL};
        const char *path;
        enum status status = format_find_file(&path, folder, "", one, &d->memory, err);
        if (!status && path) {
            found = arena_printf(&d->memory, "%s%s%s", found, files++ ? ", " : "", names[i]);
            status =
                found ? cifar_add_file(d, &record, path, r->classes, err) : error_memory(err, 128);
            cifar_describe(d, path, classes);
        }
        if (status)
            return status;
    }
    if (files == 0 && r->split == SPLIT_TEST && !format_needs_test(r))
        return OK;
    if (files == 0)
        return format_missing(d->format, folder, "", names, err);
    enum status status = format_read_names(d, folder, "batches.meta.txt", classes, err);
    if (!status && r->split == SPLIT_TRAIN)
        status = cifar10_write_note(d, files, found, err);
    return status;
}

static enum status cifar100_open(struct dataset *d, const struct dataset_request *r,
                                 struct error *err)
{
    if (r->split == SPLIT_VAL)
        return OK;
    bool fine = r->config->labels == 0;
    const struct cifar_record record = {
        .label_bytes = 2,
        .classes = {20, 100},
        .label_at = fine ? 1 : 0,
    };
    int classes = record.classes[record.label_at];
    const char *folder = r->config->path, *path;
    const char *const names[] = {r->split == SPLIT_TEST ? "test.bin" : "train.bin", NULL};
    enum status status = format_find_file(&path, folder, "", names, &d->memory, err);
    if (!status && !path && r->split == SPLIT_TEST && !format_needs_test(r))
        return OK;
    if (!status && !path)
        status = format_missing(d->format, folder, "", names, err);
    if (!status)
        status = cifar_add_file(d, &record, path, r->classes, err);
    if (status)
        return status;
    cifar_describe(d, path, classes);
    const char *file = fine ? "fine_label_names.txt" : "coarse_label_names.txt";
    return format_read_names(d, folder, file, classes, err);
}

static bool cifar10_detect(const char *path)
{
    return format_has_file(path, cifar10_train_names) || format_has_file(path, cifar10_test_names);
}

static bool cifar100_detect(const char *path)
{
    static const char *const names[] = {"train.bin", "test.bin", NULL};
    return format_has_file(path, names);
}

const struct dataset_format cifar10_format = {
    .name = "cifar10",
    .summary = "CIFAR-10, binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin",
    .mean = {0.4914, 0.4822, 0.4465},
    .std = {0.2470, 0.2435, 0.2616},
    .channels = 3,
    .needs_path = true,
    .hint = "set data.path to the folder cifar-10-batches-bin of the binary version",
    .detect = cifar10_detect,
    .open = cifar10_open,
};

const struct dataset_format cifar100_format = {
    .name = "cifar100",
    .summary = "CIFAR-100, binary version: train.bin and test.bin, fine or coarse labels",
    .mean = {0.5071, 0.4865, 0.4409},
    .std = {0.2673, 0.2564, 0.2762},
    .channels = 3,
    .needs_path = true,
    .hint = "set data.path to the folder cifar-100-binary of the binary version",
    .detect = cifar100_detect,
    .open = cifar100_open,
};
