/* status.h - what a function that can fail returns, and the text that goes with it.
 *
 * A function that fails returns a status other than OK and has filled the caller's struct error;
 * each level may put what it knows in front with error_prefix. On success *err is untouched. Only
 * cli/ turns a status into a message and an exit code. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

enum status {
    OK = 0,
    ERR_INPUT,       /* wrong usage, config or input file: exit 2 */
    ERR_SHAPE,       /* tensors or sizes that do not fit together: exit 2 */
    ERR_IO,          /* a file could not be written or read while running: exit 1 */
    ERR_MEMORY,      /* no memory: exit 1 */
    ERR_NUMERIC,     /* a value that is not finite, or a check that failed: exit 1 */
    ERR_INTERRUPTED, /* SIGINT or SIGTERM; what had to be saved was saved: exit 130 or 143 */
};

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

struct error {
    enum status status;
    char text[2048]; /* "WHERE: WHAT (HINT)", without the program's name, one line */
};

/* Fills *err (which may be NULL) and returns `status`. */
enum status error_set(struct error *err, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Puts text in front of the message of *err, as in error_prefix(err, "%s: ", path). */
void error_prefix(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* Adds text behind the message of *err, as in error_append(err, " (%s)", hint). */
void error_append(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* "out of memory" with the number of bytes asked for. Returns ERR_MEMORY. */
enum status error_memory(struct error *err, unsigned long long bytes);

#endif
