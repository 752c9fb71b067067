/* survey.h - every picture of a dataset decoded once: which cannot be, how large they are, and how
 * their colours spread. */
#ifndef DATA_SURVEY_H
#define DATA_SURVEY_H

#include "data/dataset.h"

struct survey {
    size_t count; /* pictures that could be decoded */
    int least_width, least_height, most_width, most_height;
    double mean[3], std[3]; /* over all their pixels at their own size, scaled to 0..1 */
    struct survey_bad {
        size_t record;
        char *what; /* "PATH: WHAT" */
    } *bad;         /* (bad_count) in the order of the records */
    size_t bad_count;
};

/* Reads the listed records (NULL: the first `count`) by so many threads; the result does not depend
 * on their number. ERR_MEMORY alone: bad pictures are what it is about. Freed with survey_free. */
MUST_USE enum status survey_take(struct survey *s, const struct dataset *d, const size_t *records,
                                 size_t count, int threads, struct error *err);
void survey_free(struct survey *s);

#endif
