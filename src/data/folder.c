/* folder.c - image folders: train/, val/ and test/, each with a folder of pictures for each class,
 * decoded when they are read. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "data/format.h"
#include "data/label_file.h"
#include "data/listing.h"
#include "data/survey.h"
#include "io/decode.h"

enum { NOTED_FILES = 3 };

/* What folder_fetch reads. */
struct folder {
    const char *root;
    const struct listing_file *files;
    struct decode_options options;
};

static const char *const part_names[] = {
    [SPLIT_TRAIN] = "train", [SPLIT_TEST] = "test", [SPLIT_VAL] = "val"};

/* The folder of a part that the config names itself, or NULL. */
static const char *named_path(const struct data_config *config, enum split split)
{
    return split == SPLIT_TRAIN  ? config->train_path
           : split == SPLIT_TEST ? config->test_path
                                 : config->val_path;
}

/* The folder of a part, named or below data.path, whether it is there or not; NULL without either,
 * or without memory. */
static const char *part_path(const struct data_config *config, enum split split,
                             struct arena *memory)
{
    const char *named = named_path(config, split);
    if (named || !config->path)
        return named;
    return arena_printf(memory, "%s/%s", config->path, part_names[split]);
}

static bool folder_has(const struct data_config *config, enum split split)
{
    struct arena memory;
    arena_init(&memory);
    const char *path = part_path(config, split, &memory);
    bool has = path && file_is_directory(path);
    arena_free(&memory);
    return has;
}

static bool folder_detect(const char *path)
{
    const struct data_config config = {.path = path};
    return folder_has(&config, SPLIT_TRAIN) || folder_has(&config, SPLIT_VAL) ||
           folder_has(&config, SPLIT_TEST);
}

/* A part that is not there is an error where it is named, needed, or nothing else is there. */
static enum status folder_absent(const struct dataset_request *r, const char *path,
                                 struct error *err)
{
    const struct data_config *config = r->config;
    if (!path && !config->train_path && !config->val_path && !config->test_path)
        return error_set(err, ERR_INPUT, "data.path: is missing, and folder data lie in a folder "
                                         "(%s)", folder_format.hint);
    bool needed = r->split == SPLIT_TRAIN ||
                  (r->split == SPLIT_VAL && data_validation(config) == VALIDATION_VAL) ||
                  (r->split == SPLIT_TEST && format_needs_test(r));
    if (!path)
        return needed ? error_set(err, ERR_INPUT, "data.%s_path: is missing, and so is data.path",
                                  part_names[r->split])
                      : OK;
    if (file_exists(path))
        return error_set(err, ERR_INPUT, "%s: is a file, expected the folder with the %s pictures",
                         path, part_names[r->split]);
    if (!needed && !named_path(config, r->split))
        return OK;
    return error_set(err, ERR_INPUT, "%s: no such folder (%s)", path, folder_format.hint);
}

/* Names of `l` that `other` lacks, at most three, behind err's message. */
static void append_missing(struct error *err, const struct listing *l, const struct listing *other,
                           struct arena *memory)
{
    int found = 0;
    for (int i = 0, k = 0; i < l->class_count; i++) {
        int order = 1;
        while (k < other->class_count && (order = strcmp(other->classes[k], l->classes[i])) < 0)
            k++;
        if (k < other->class_count && order == 0)
            continue;
        const char *text = listing_text(l->classes[i], memory);
        if (++found <= NOTED_FILES)
            error_append(err, "%s%s", found > 1 ? ", " : "", text ? text : "?");
    }
    if (found > NOTED_FILES)
        error_append(err, " and %d more", found - NOTED_FILES);
    if (found == 0)
        error_append(err, "none");
}

/* All parts have the same classes: those of the first one that is there. */
static enum status compare_classes(struct dataset *d, const struct dataset_request *r,
                                   const struct listing *l, const char *path, struct error *err)
{
    static const enum split order[] = {SPLIT_TRAIN, SPLIT_VAL, SPLIT_TEST};
    struct listing first = {0};
    for (int i = 0; i < 3; i++) {
        bool flat = order[i] == SPLIT_VAL && r->config->val_labels;
        if (flat || !folder_has(r->config, order[i]))
            continue;
        if (order[i] == r->split)
            return OK;
        const char *other = part_path(r->config, order[i], &d->memory);
        if (!other)
            return error_memory(err, PATH_MAX);
        enum status status = listing_read_classes(&first, other, &d->memory, err);
        if (status)
            return status;
        bool same = first.class_count == l->class_count;
        for (int c = 0; same && c < l->class_count; c++)
            same = strcmp(first.classes[c], l->classes[c]) == 0;
        if (same)
            return OK;
        error_set(err, ERR_INPUT, "%s: has other classes than %s; missing: ", path, other);
        append_missing(err, &first, l, &d->memory);
        error_append(err, "; unknown: ");
        append_missing(err, l, &first, &d->memory);
        return ERR_INPUT;
    }
    return OK;
}

/* Pictures of all classes in one folder, which are those of the training part. */
static enum status read_flat(struct listing *l, const struct dataset_request *r, const char *path,
                             struct arena *memory, struct error *err)
{
    struct listing classes;
    const char *labels = r->config->val_labels, *train = part_path(r->config, SPLIT_TRAIN, memory);
    if (!train || !file_is_directory(train))
        return error_set(err, ERR_INPUT,
                         "data.val_labels: the classes are those of the training part, which is not "
                         "there: %s", train ? train : "data.train_path is missing");
    enum status status = listing_read_classes(&classes, train, memory, err);
    if (!status)
        status = listing_read_flat(l, path, memory, err);
    if (!status)
        status = label_file_read(l, &classes, labels, err);
    if (status)
        return status;
    l->classes = classes.classes;
    l->class_count = classes.class_count;
    for (size_t i = 0; i < l->count; i++)
        l->fingerprint = hash_fnv(l->fingerprint, &l->files[i].label, sizeof l->files[i].label);
    return OK;
}

static enum status check_classes(const struct dataset_request *r, const struct listing *l,
                                 const char *path, struct error *err)
{
    if (l->class_count < 2)
        return error_set(err, ERR_INPUT,
                         "%s: holds %s, expected a folder of pictures for each class, two at least",
                         path, l->class_count ? "one class folder alone" : "no class folders");
    if (l->class_count > MAX_CLASSES)
        return error_set(err, ERR_INPUT, "%s: holds %d class folders, more than %d", path,
                         l->class_count, MAX_CLASSES);
    if (r->classes && r->classes != l->class_count)
        return error_set(err, ERR_INPUT,
                         "%s: holds %d class folders, the model has %d classes (set model.classes "
                         "to %d)",
                         path, l->class_count, r->classes, l->class_count);
    return OK;
}

static enum status folder_describe(struct dataset *d, const struct listing *l, const char *path,
                                   const struct data_config *config, struct error *err)
{
    struct folder *f = arena_alloc(&d->memory, sizeof *f);
    d->names = arena_alloc(&d->memory, (size_t)l->class_count * sizeof *d->names);
    d->labels = malloc((l->count + 1) * sizeof *d->labels);
    if (!f || !d->names || !d->labels)
        return error_memory(err, l->count * sizeof *d->labels);
    for (int c = 0; c < l->class_count; c++)
        if (!(d->names[c] = listing_text(l->classes[c], &d->memory)))
            return error_memory(err, strlen(l->classes[c]));
    for (size_t i = 0; i < l->count; i++)
        d->labels[i] = l->files[i].label;
    *f = (struct folder){path, l->files,
                         {.exif = config->exif, .max_pixels = config->max_pixels}};
    d->source = f;
    d->where = path;
    d->count = l->count;
    d->named = l->class_count;
    d->native = (struct image_shape){3, 0, 0};
    d->fingerprint = l->fingerprint;
    return OK;
}

/* "2 of 880 pictures are left out: PATH: WHAT; PATH: WHAT" */
static enum status note_bad(struct dataset *d, const struct survey *s, struct error *err)
{
    const char *note = arena_printf(&d->memory, "%s: %zu of %zu pictures are left out", d->where,
                                    s->bad_count, d->count);
    for (size_t i = 0; note && i < s->bad_count && i < NOTED_FILES; i++)
        note = arena_printf(&d->memory, "%s; %s", note, s->bad[i].what);
    if (note && s->bad_count > NOTED_FILES)
        note = arena_printf(&d->memory, "%s; and %zu more", note, s->bad_count - NOTED_FILES);
    d->note = note ? listing_text(note, &d->memory) : NULL;
    return d->note ? OK : error_memory(err, 256);
}

/* Leaves out what cannot be decoded, in one pass over all pictures. */
static enum status skip_bad(struct dataset *d, const struct dataset_request *r,
                            struct listing_file *files, struct error *err)
{
    struct survey s;
    int threads = r->config->workers > 1 ? r->config->workers : 1;
    enum status status = survey_take(&s, d, NULL, d->count, threads, err);
    if (!status && s.bad_count) {
        status = note_bad(d, &s, err);
        size_t kept = 0;
        for (size_t i = 0, b = 0; i < d->count; i++) {
            if (b < s.bad_count && s.bad[b].record == i) {
                b++;
                continue;
            }
            files[kept] = files[i];
            d->labels[kept++] = d->labels[i];
        }
        d->count = kept;
    }
    survey_free(&s);
    return status;
}

/* Of a part with class folders. */
static void find_empty_class(struct dataset *d)
{
    int next = 0; /* the files are in the order of their classes */
    for (size_t i = 0; i < d->count && d->labels[i] <= next; i++)
        next = d->labels[i] + 1;
    if (next < d->named)
        d->empty_class = d->names[next];
}

static enum status folder_open(struct dataset *d, const struct dataset_request *r,
                               struct error *err)
{
    struct listing l;
    const char *path = part_path(r->config, r->split, &d->memory);
    if (!path || !file_is_directory(path))
        return folder_absent(r, path, err);
    bool flat = r->split == SPLIT_VAL && r->config->val_labels;
    enum status status = flat ? read_flat(&l, r, path, &d->memory, err)
                              : listing_read(&l, path, &d->memory, err);
    if (!status && !flat)
        status = compare_classes(d, r, &l, path, err);
    if (!status)
        status = check_classes(r, &l, path, err);
    if (!status && l.count == 0)
        status = error_set(err, ERR_INPUT, "%s: no .png, .jpg or .jpeg files in its %d folders",
                           path, l.class_count);
    if (!status)
        status = folder_describe(d, &l, path, r->config, err);
    if (!status && r->config->on_error == ON_ERROR_SKIP)
        status = skip_bad(d, r, l.files, err);
    if (!status && d->count == 0)
        status = error_set(err, ERR_INPUT, "%s: none of its pictures can be decoded", path);
    if (!status && !flat)
        find_empty_class(d);
    return status;
}

static enum status folder_fetch(const struct dataset *d, size_t i, struct image *out,
                                struct error *err)
{
    const struct folder *f = d->source;
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", f->root, f->files[i].path);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(err, ERR_INPUT, "%s: the path of a picture is too long", f->root);
    return image_decode_file(out, path, &f->options, NULL, err);
}

static char *folder_path(const struct dataset *d, size_t i, struct arena *memory)
{
    const struct folder *f = d->source;
    return arena_printf(memory, "%s/%s", f->root, f->files[i].path);
}

const struct dataset_format folder_format = {
    .name = "folder",
    .summary = "PNG and JPEG pictures: train/CLASS/, and val/CLASS/ or test/CLASS/",
    .mean = {0.485, 0.456, 0.406},
    .std = {0.229, 0.224, 0.225},
    .channels = 3,
    .hint = "set data.path to the folder that holds train/, and val/ or test/, each with a folder "
            "for each class",
    .detect = folder_detect,
    .has = folder_has,
    .open = folder_open,
    .fetch = folder_fetch,
    .path = folder_path,
};
