/* format.c - what the formats share: finding files, names of classes, ranges of labels. */
#include "data/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { NAMES_MAX_BYTES = 1 << 16 };

enum status format_find_file(const char **path, const char *folder, const char *prefix,
                             const char *const *names, struct arena *memory, struct error *err)
{
    *path = NULL;
    for (; *names; names++) {
        char *candidate = arena_printf(memory, "%s/%s%s", folder, prefix, *names);
        if (!candidate)
            return error_memory(err, strlen(folder) + strlen(prefix) + strlen(*names) + 2);
        if (file_exists(candidate)) {
            *path = candidate;
            return OK;
        }
    }
    return OK;
}

enum status format_missing(const struct dataset_format *format, const char *folder,
                           const char *prefix, const char *const *names, struct error *err)
{
    error_set(err, ERR_INPUT, "%s: data files are missing: looked there for ", folder);
    for (int i = 0; names[i]; i++)
        error_append(err, "%s%s%s", i == 0 ? "" : names[i + 1] ? ", " : " and ", prefix, names[i]);
    error_append(err, " (%s)", format->hint);
    return ERR_INPUT;
}

bool format_needs_test(const struct dataset_request *r)
{
    return data_validation(r->config) == VALIDATION_TEST;
}

bool format_has_file(const char *folder, const char *const *names)
{
    struct arena memory;
    arena_init(&memory);
    const char *path = NULL;
    enum status status = format_find_file(&path, folder, "", names, &memory, NULL);
    bool found = !status && path;
    arena_free(&memory);
    return found;
}

enum status format_check_label(const char *path, size_t record, int label, int limit, int classes,
                               struct error *err)
{
    if (limit > 0 && label >= limit)
        return error_set(err, ERR_INPUT,
                         "%s: record %zu has label %d, but the format's labels are 0 to %d (the "
                         "file is damaged or of another format)",
                         path, record, label, limit - 1);
    if (classes > 0 && label >= classes)
        return error_set(err, ERR_INPUT,
                         "%s: record %zu has label %d, but the model's labels are 0 to %d (set "
                         "model.classes to the number of classes in the data)",
                         path, record, label, classes - 1);
    return OK;
}

/* Cuts one line off *text and returns it without white space around it; NULL at the end. */
static char *next_line(char **text)
{
    char *line = *text;
    if (!*line)
        return NULL;
    size_t length = strcspn(line, "\r\n");
    *text = line + length + (line[length] != 0);
    line[length] = 0;
    line += strspn(line, " \t");
    for (length = strlen(line); length > 0 && strchr(" \t", line[length - 1]); length--)
        line[length - 1] = 0;
    return line;
}

enum status format_read_names(struct dataset *d, const char *folder, const char *file, int count,
                              struct error *err)
{
    const char *path;
    const char *const candidates[] = {file, NULL};
    enum status status = format_find_file(&path, folder, "", candidates, &d->memory, err);
    if (status || !path)
        return status;

    char *text;
    size_t size;
    status = file_read(&text, &size, path, NAMES_MAX_BYTES, err);
    if (status)
        return status;
    const char **names = arena_alloc(&d->memory, (size_t)count * sizeof *names);
    char *copy = arena_strdup(&d->memory, text);
    free(text);
    if (!names || !copy)
        return error_memory(err, size + (size_t)count * sizeof *names);

    int found = 0;
    for (char *line; (line = next_line(&copy));) {
        if (*line && found < count)
            names[found] = line;
        found += *line != 0;
    }
    if (found != count)
        return error_set(err, ERR_INPUT, "%s: holds %d class names, expected %d", path, found,
                         count);
    d->names = names;
    return OK;
}
