/* listing.h - the pictures below a folder of class folders.
 *
 * Each folder directly below is a class, in plain byte order of the names, as torchvision has it;
 * files at any depth below belong to it. Names that start with a dot are left out, and so are files
 * that do not end in .png, .jpg or .jpeg (in any case): what they hold is not looked at. Symbolic
 * links are followed, but not into a folder that holds them. */
#ifndef DATA_LISTING_H
#define DATA_LISTING_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct listing_file {
    const char *path; /* below the folder */
    int label;
    unsigned directory; /* length of the part of the path before its last slash */
    int64_t size;       /* bytes; -1 for a link that leads nowhere */
};

struct listing {
    const char **classes; /* (class_count) names of the class folders, as they are */
    int class_count;
    struct listing_file *files; /* (count) by class, then folder, then name */
    size_t count;
    uint64_t fingerprint; /* of paths and sizes, in that order */
};

/* Lists the folder; all that is listed lives in `memory`. ERR_INPUT for a folder that cannot be
 * read, with its path. */
MUST_USE enum status listing_read(struct listing *l, const char *folder, struct arena *memory,
                                  struct error *err);

/* The same where the pictures of all classes lie in the folder itself (and below it): no classes, and
 * label 0 for every file. */
MUST_USE enum status listing_read_flat(struct listing *l, const char *folder, struct arena *memory,
                                       struct error *err);

/* The names of the classes alone. */
MUST_USE enum status listing_read_classes(struct listing *l, const char *folder,
                                          struct arena *memory, struct error *err);

/* The name as text for messages and JSON: what is not printable UTF-8 is written \xNN. In `memory`,
 * NULL where there is none. */
const char *listing_text(const char *name, struct arena *memory);

#endif
