/* status.c - messages of struct error. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status error_set(struct error *err, enum status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->status = status;
    }
    return status;
}

void error_prefix(struct error *err, const char *format, ...)
{
    if (!err)
        return;
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        return;
    if ((size_t)length < sizeof text)
        snprintf(text + length, sizeof text - (size_t)length, "%s", err->text);
    memcpy(err->text, text, sizeof text);
}

void error_append(struct error *err, const char *format, ...)
{
    if (!err)
        return;
    size_t length = strlen(err->text);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text + length, sizeof err->text - length, format, args);
    va_end(args);
}

enum status error_memory(struct error *err, unsigned long long bytes)
{
    return error_set(err, ERR_MEMORY, "out of memory: %llu bytes could not be had", bytes);
}
