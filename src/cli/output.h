/* output.h - what people and programs read: results on stdout, everything else on stderr. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>

#include "base/status.h"
#include "config/json.h"

/* "attnbench: error: TEXT" on stderr, control characters made visible. */
void output_error(const struct error *err);

/* "attnbench: warning: TEXT", and a plain line, on stderr. */
void output_warning(const char *format, ...) PRINTF_LIKE(1, 2);
void output_note(const char *format, ...) PRINTF_LIKE(1, 2);

/* The JSON text and a newline on stdout. */
MUST_USE enum status output_json(const struct json *j, struct error *err);

/* Whether a file can be written at the path that `option` gave, told before the work is done;
 * nothing is written. ERR_INPUT for a directory, where the directory above is none, and where
 * writing is not allowed. */
MUST_USE enum status output_check_path(const char *option, const char *path, struct error *err);

/* ERR_INPUT where that path is the file `input` (NULL: none), by whatever name. */
MUST_USE enum status output_check_apart(const char *option, const char *path, const char *input,
                                        struct error *err);

/* Flushes stdout. ERR_IO where anything written to it since the start was lost. */
MUST_USE enum status output_finish(struct error *err);

/* "5,717,416"; "1.25 G"; "0.67 GB"; "3:05" (minutes and seconds), in a buffer of the caller. */
enum { OUTPUT_NUMBER_SIZE = 32 };
const char *output_count(char text[OUTPUT_NUMBER_SIZE], long long count);
const char *output_amount(char text[OUTPUT_NUMBER_SIZE], double amount);
const char *output_duration(char text[OUTPUT_NUMBER_SIZE], double seconds);

/* True where stderr is a terminal that can redraw a line. */
bool output_is_terminal(void);

/* Columns of the terminal on stderr. */
int output_columns(void);

#endif
