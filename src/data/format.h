/* format.h - what a dataset format supplies: a file of its own and a line in formats.def.
 *
 * Only the files of this room include it. */
#ifndef DATA_FORMAT_H
#define DATA_FORMAT_H

#include <stdbool.h>

#include "base/arena.h"
#include "data/dataset.h"
#include "data/fit.h"
#include "data/resize.h"

struct dataset_format;

/* One split. `open` of its format fills what is marked with *, or nothing where it has no such
 * split; the rest is done by dataset_open. */
struct dataset {
    const struct dataset_format *format;
    size_t count;              /* * records */
    int *labels;               /* * (count), malloc'd */
    uint8_t *pixels;           /* * (count, native), malloc'd; NULL with `draw` or `fetch` */
    struct image_shape native; /* * shape of the records in `pixels` or as `draw` makes them; height
                                  0 where each has its own */
    const char *where;         /* * file or folder that messages about the records' shape name */
    int named;                 /* * classes that the format's files name or imply */
    const char **names;        /* * (named) in `memory`, or NULL: their numbers */
    uint64_t fingerprint;      /* * */
    const char *note;          /* * in `memory`, or NULL */
    const char *empty_class;   /* * the first class without records where there must be some, or NULL */
    void *source;              /* * what `draw` and `fetch` read, in `memory` */
    struct image_shape shape;  /* as dataset_read gives them */
    struct resize *resize;     /* from native to shape; NULL where sizes are equal */
    struct fit_options fit;    /* where `fetch` gives the records: how they become `shape` */
    struct fit_pool *pool;     /* the same; else NULL */
    int classes;
    const char **class_names; /* (classes) */
    struct arena memory;
};

/* What is asked of a format. */
struct dataset_request {
    const struct data_config *config;
    enum split split;
    struct image_shape shape; /* height 0: any */
    int classes;              /* 0: any */
    uint64_t seed;
    const char *const *files; /* (file_count) pictures named one by one; NULL: those of the config */
    size_t file_count;
};

struct dataset_format {
    const char *name;
    const char *summary;
    double mean[3], std[3]; /* normalisation unless the config gives one; grey: the first entry */
    int channels;           /* entries of mean and std; 0: one value for any number of channels */
    bool needs_path;
    const char *hint;                 /* what to do where the path is missing */
    bool (*detect)(const char *path); /* do the format's files lie there? NULL: never */
    enum status (*open)(struct dataset *d, const struct dataset_request *r, struct error *err);
    bool (*has)(const struct data_config *config, enum split split); /* NULL: not known before */

    /* Instead of d->pixels: makes planes, or reads a picture at its own size. Both thread-safe. */
    void (*draw)(const struct dataset *d, size_t i, uint8_t *pixels);
    enum status (*fetch)(const struct dataset *d, size_t i, struct image *out, struct error *err);
    char *(*path)(const struct dataset *d, size_t i, struct arena *memory); /* with fetch: its file */
};

#define FORMAT(name) extern const struct dataset_format name##_format;
#include "data/formats.def"
#undef FORMAT

const struct dataset_format *dataset_format_at(int i);

/* Opens the split through the format; see dataset_open. */
MUST_USE enum status dataset_open_format(struct dataset **out, const struct dataset_format *format,
                                         const struct dataset_request *r, struct error *err);

/* Finds one of `names` (NULL-terminated) in the folder: its path in *path, owned by `memory`, or
 * NULL with OK where none is there. */
MUST_USE enum status format_find_file(const char **path, const char *folder, const char *prefix,
                                      const char *const *names, struct arena *memory,
                                      struct error *err);

/* Fills err for data files that are not there: folder, names looked for, the format's hint. */
enum status format_missing(const struct dataset_format *format, const char *folder,
                           const char *prefix, const char *const *names, struct error *err);

/* Whether a test set that is absent is an error: validation needs it. Elsewhere data without test
 * files have no test part. */
bool format_needs_test(const struct dataset_request *r);

/* Is one of the files in the folder? */
bool format_has_file(const char *folder, const char *const *names);

/* Checks that a label of record `record` (counted from 0 in `path`) is in 0..limit-1, where the
 * format itself has `limit` classes (0: no bound), and within the classes of the model (0: no
 * bound). */
MUST_USE enum status format_check_label(const char *path, size_t record, int label, int limit,
                                        int classes, struct error *err);

/* Reads `count` lines with a name each (blank lines apart) from a file below `folder`, if it is
 * there: d->names. Another number of names is an error. */
MUST_USE enum status format_read_names(struct dataset *d, const char *folder, const char *file,
                                       int count, struct error *err);

#endif
