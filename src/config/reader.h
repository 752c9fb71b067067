/* reader.h - one run of config_read over a document, shared by the files that read values. */
#ifndef CONFIG_READER_H
#define CONFIG_READER_H

#include "config/document.h"

struct reader {
    const struct config *config; /* NULL for defaults alone */
    const struct field *root;
    struct arena *memory;
    struct error *err;
    char path[CONFIG_PATH_SIZE]; /* of the value that is being read */
};

/* Reads value `v` of field `f` to `out` and makes *effective, the value as the effective config
 * shows it. A NULL *effective with OK means no memory: the caller reports it. */
typedef enum status value_reader(struct reader *r, const struct field *f,
                                 const struct json_value *v, void *out,
                                 struct json_value **effective);

value_reader config_read_int, config_read_seed, config_read_real, config_read_bool,
    config_read_string, config_read_path, config_read_enum, config_read_pair, config_read_reals,
    config_read_ints, config_read_strings, config_read_range;

/* Lengthens the path by a step; reader_pop takes what reader_push returned. */
size_t reader_push(struct reader *r, const char *step);
size_t reader_push_index(struct reader *r, int i);
void reader_pop(struct reader *r, size_t length);

/* ERR_INPUT "FILE: json.path: WHAT" for the value that is being read. */
enum status reader_fail(struct reader *r, const char *format, ...) PRINTF_LIKE(2, 3);

/* "expected WHAT, got the string "3"". */
enum status reader_fail_type(struct reader *r, const char *expected, const struct json_value *v);

enum status reader_no_memory(struct reader *r);

#endif
