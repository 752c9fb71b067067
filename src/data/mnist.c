/* mnist.c - MNIST, Fashion-MNIST and EMNIST: IDX files of unsigned bytes, plain or gzip.
 *
 * IDX: 0, 0, type (8: unsigned byte), number of dimensions; each dimension in 4 bytes, highest byte
 * first; then the values. http://yann.lecun.com/exdb/mnist/ */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/format.h"
#include "io/gzip.h"

/* Seven times the largest set of the family (EMNIST by class, 697,932 images of 28x28). */
#define IDX_MAX_BYTES (UINT64_C(1) << 32)

struct idx {
    int rank;
    size_t size[3]; /* of each dimension */
    size_t bytes;
    uint8_t *data; /* malloc'd */
};

static uint32_t idx_word(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads and checks the header; x->bytes is what has to follow. */
static enum status idx_read_header(struct idx *x, struct gzip_file *f, const char *path,
                                   struct error *err)
{
    uint8_t head[16];
    size_t want = 4 + 4 * (size_t)x->rank, got;
    enum status status = gzip_read(f, head, want, &got, err);
    if (status)
        return status;
    uint32_t magic = 0x800u + (uint32_t)x->rank, found = got >= 4 ? idx_word(head) : magic;
    if (found != magic)
        return error_set(err, ERR_INPUT,
                         "%s: starts with 0x%08x, expected 0x%08x (an IDX file with %s)", path,
                         (unsigned)found, (unsigned)magic, x->rank == 3 ? "images" : "labels");
    if (got < want)
        return error_set(err, ERR_INPUT, "%s: holds %zu bytes, expected an IDX header of %zu", path,
                         got, want);

    uint64_t bytes = 1;
    for (int i = 0; i < x->rank; i++) {
        x->size[i] = idx_word(head + 4 + 4 * i);
        bytes *= x->size[i];
        if (x->size[i] == 0 || (i > 0 && x->size[i] > RESIZE_MAX_SIDE))
            return error_set(err, ERR_INPUT,
                             "%s: header says %zu for dimension %d, expected 1 to %u", path,
                             x->size[i], i + 1, i > 0 ? (unsigned)RESIZE_MAX_SIDE : UINT32_MAX);
    }
    if (bytes > IDX_MAX_BYTES || bytes > SIZE_MAX)
        return error_set(err, ERR_INPUT, "%s: header says %llu bytes, at most %llu are read", path,
                         (unsigned long long)bytes, (unsigned long long)IDX_MAX_BYTES);
    x->bytes = (size_t)bytes;
    return OK;
}

/* Expected sizes count the header; `found` says what is there instead. */
static enum status idx_wrong_size(const struct idx *x, const char *path, const char *found,
                                  uint64_t bytes, struct error *err)
{
    error_set(err, ERR_INPUT, "%s: header says %zu ", path, x->size[0]);
    if (x->rank == 3)
        error_append(err, "images of %zux%zu", x->size[1], x->size[2]);
    else
        error_append(err, "labels");
    error_append(err, ", expected %llu bytes, found %s %llu (fetch the file again)",
                 (unsigned long long)x->bytes + 4 + 4 * (unsigned)x->rank, found,
                 (unsigned long long)bytes);
    return ERR_INPUT;
}

static enum status idx_read_values(struct idx *x, struct gzip_file *f, const char *path,
                                   struct error *err)
{
    uint64_t head = 4 + 4 * (uint64_t)x->rank, most = gzip_most_bytes(f);
    if (!gzip_is_compressed(f) && most != x->bytes + head)
        return idx_wrong_size(x, path, "a file of", most, err);
    if (most < x->bytes + head)
        return idx_wrong_size(x, path, "gzip data that can hold at most", most, err);

    /* One byte more makes gzip verify its checksum and shows what is too long. */
    x->data = malloc(x->bytes + 1);
    if (!x->data)
        return error_memory(err, x->bytes + 1);
    size_t got;
    enum status status = gzip_read(f, x->data, x->bytes + 1, &got, err);
    if (!status && got != x->bytes)
        status = idx_wrong_size(x, path, got < x->bytes ? "only" : "at least", got + head, err);
    return status;
}

static enum status idx_read(struct idx *x, const char *path, int rank, struct error *err)
{
    struct gzip_file *f;
    *x = (struct idx){.rank = rank};
    enum status status = gzip_open(&f, path, err);
    if (status)
        return status;
    status = idx_read_header(x, f, path, err);
    if (!status)
        status = idx_read_values(x, f, path, err);
    gzip_close(f);
    return status;
}

/* The names under which the files go, the official one first, for train and test. EMNIST calls its
 * test files "test-", and some copies write a dot before "idx". */
static const char *const image_names[2][9] = {
    {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte",
     "train-images.idx3-ubyte.gz", NULL},
    {"t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", "t10k-images.idx3-ubyte",
     "t10k-images.idx3-ubyte.gz", "test-images-idx3-ubyte", "test-images-idx3-ubyte.gz",
     "test-images.idx3-ubyte", "test-images.idx3-ubyte.gz", NULL},
};
static const char *const label_names[2][9] = {
    {"train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz", "train-labels.idx1-ubyte",
     "train-labels.idx1-ubyte.gz", NULL},
    {"t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz", "t10k-labels.idx1-ubyte",
     "t10k-labels.idx1-ubyte.gz", "test-labels-idx1-ubyte", "test-labels-idx1-ubyte.gz",
     "test-labels.idx1-ubyte", "test-labels.idx1-ubyte.gz", NULL},
};

static enum status mnist_find(const char **path, struct dataset *d, const struct dataset_request *r,
                              const char *const *names, struct error *err)
{
    const char *folder = r->config->path;
    const char *prefix = r->config->file_prefix ? r->config->file_prefix : "";
    enum status status = format_find_file(path, folder, prefix, names, &d->memory, err);
    if (!status && !*path)
        status = format_missing(d->format, folder, prefix, names, err);
    return status;
}

/* Labels as int, checked; d->named is one more than the largest, and 10 at least. */
static enum status mnist_take_labels(struct dataset *d, const struct idx *labels, const char *path,
                                     int classes, struct error *err)
{
    d->labels = malloc(labels->bytes * sizeof *d->labels);
    if (!d->labels)
        return error_memory(err, labels->bytes * sizeof *d->labels);
    d->named = 10;
    for (size_t i = 0; i < labels->bytes; i++) {
        int label = labels->data[i];
        enum status status = format_check_label(path, i, label, 0, classes, err);
        if (status)
            return status;
        d->labels[i] = label;
        d->named = label >= d->named ? label + 1 : d->named;
    }
    return OK;
}

/* Whether neither images nor labels of a test set are there: then the set has no such part. */
static enum status mnist_test_absent(bool *absent, struct dataset *d,
                                     const struct dataset_request *r, struct error *err)
{
    const char *prefix = r->config->file_prefix ? r->config->file_prefix : "";
    const char *images, *labels;
    enum status status =
        format_find_file(&images, r->config->path, prefix, image_names[1], &d->memory, err);
    if (!status)
        status = format_find_file(&labels, r->config->path, prefix, label_names[1], &d->memory,
                                  err);
    *absent = !status && !images && !labels;
    return status;
}

static enum status mnist_open(struct dataset *d, const struct dataset_request *r, struct error *err)
{
    if (r->split == SPLIT_VAL)
        return OK;
    int part = r->split == SPLIT_TEST;
    if (part && !format_needs_test(r)) {
        bool absent;
        enum status status = mnist_test_absent(&absent, d, r, err);
        if (status || absent)
            return status;
    }
    const char *label_path = NULL;
    struct idx images = {0}, labels = {0};
    enum status status = mnist_find(&d->where, d, r, image_names[part], err);
    if (!status)
        status = mnist_find(&label_path, d, r, label_names[part], err);
    if (!status)
        status = idx_read(&labels, label_path, 1, err);
    if (!status)
        status = mnist_take_labels(d, &labels, label_path, r->classes, err);
    if (!status)
        status = idx_read(&images, d->where, 3, err);
    if (!status && images.size[0] != labels.size[0])
        status = error_set(err, ERR_INPUT, "%s: holds %zu labels, but %s holds %zu images",
                           label_path, labels.size[0], d->where, images.size[0]);
    if (!status) {
        d->count = images.size[0];
        d->native = (struct image_shape){1, (int)images.size[1], (int)images.size[2]};
        d->fingerprint = hash_fnv(HASH_START, images.size, sizeof images.size);
        d->fingerprint = hash_fnv(d->fingerprint, images.data, images.bytes);
        d->fingerprint = hash_fnv(d->fingerprint, labels.data, labels.bytes);
        d->pixels = images.data;
        images.data = NULL;
    }
    free(images.data);
    free(labels.data);
    return status;
}

static bool mnist_detect(const char *path)
{
    return format_has_file(path, image_names[0]) || format_has_file(path, image_names[1]);
}

const struct dataset_format mnist_format = {
    .name = "mnist",
    .summary = "MNIST, Fashion-MNIST or EMNIST in IDX files, plain or gzip",
    .mean = {0.1307},
    .std = {0.3081},
    .channels = 1,
    .needs_path = true,
    .hint = "set data.path to the folder with the four IDX files; docs/data.md says where they "
            "come from",
    .detect = mnist_detect,
    .open = mnist_open,
};
