/* label_file.c - reading lines of labels. */
#include "data/label_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/name_index.h"

enum { MAX_BYTES = 1 << 28 };

struct label_file {
    struct listing *listing;
    const char *path;
    struct name_index classes, files;
    int class_count;
    char *text;  /* the words of its lines are cut out in place */
    size_t line; /* from 1 */
    size_t given; /* labels so far */
    bool by_name, by_order;
    struct error *err;
};

/* Up to two words of a line; their number. */
static int split_line(char *line, char *words[2])
{
    static const char between[] = " \t,\r";
    int count = 0;
    while (count < 2) {
        line += strspn(line, between);
        if (!*line)
            break;
        words[count++] = line;
        line += strcspn(line, between);
        if (*line)
            *line++ = 0;
    }
    return count;
}

/* The class that a word names or numbers, or -1. */
static int class_of(const struct label_file *f, const char *word)
{
    int found = name_index_find(&f->classes, word, strlen(word));
    if (found >= 0)
        return found;
    if (strspn(word, "0123456789") != strlen(word) || strlen(word) > 9)
        return -1;
    int number = atoi(word);
    return number < f->class_count ? number : -1;
}

static enum status wrong_line(const struct label_file *f, const char *what, const char *word)
{
    return error_set(f->err, ERR_INPUT, "%s: line %zu: %s \"%.60s\"", f->path, f->line, what, word);
}

static enum status take_label(struct label_file *f, int file, int label)
{
    struct listing_file *at = &f->listing->files[file];
    if (at->label >= 0)
        return wrong_line(f, "a second label for", at->path);
    at->label = label;
    f->given++;
    return OK;
}

static enum status take_line(struct label_file *f, char *line)
{
    char *words[2];
    int count = split_line(line, words);
    if (count == 0)
        return OK;
    int label = class_of(f, words[count - 1]);
    bool heading = f->line == 1 && count == 2 &&
                   name_index_find(&f->files, words[0], strlen(words[0])) < 0;
    if (heading && label < 0)
        return OK;
    if (label < 0)
        return wrong_line(f, "no class is called", words[count - 1]);
    f->by_name = f->by_name || count == 2;
    f->by_order = f->by_order || count == 1;
    if (f->by_name && f->by_order)
        return wrong_line(f, "some lines have the name of a file, others a label alone:", words[0]);
    if (count == 2) {
        int file = name_index_find(&f->files, words[0], strlen(words[0]));
        return file < 0 ? wrong_line(f, "there is no picture", words[0]) : take_label(f, file, label);
    }
    if (f->given >= f->listing->count)
        return error_set(f->err, ERR_INPUT, "%s: line %zu: more labels than the %zu pictures",
                         f->path, f->line, f->listing->count);
    return take_label(f, (int)f->given, label);
}

static enum status take_lines(struct label_file *f)
{
    enum status status = OK;
    for (char *line = f->text; line && *line && !status;) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        f->line++;
        status = take_line(f, line);
        line = end;
    }
    for (size_t i = 0; i < f->listing->count && !status; i++)
        if (f->listing->files[i].label < 0)
            status = error_set(f->err, ERR_INPUT,
                               "%s: has %zu labels for %zu pictures; the first without is %s",
                               f->path, f->given, f->listing->count, f->listing->files[i].path);
    return status;
}

/* Classes by their names; files by theirs below the folder, and those without their endings. */
static enum status fill_indices(struct label_file *f, const struct listing *classes,
                                struct arena *memory)
{
    bool fine = f->listing->count <= INT_MAX;
    for (int c = 0; c < classes->class_count && fine; c++)
        fine = name_index_add(&f->classes, classes->classes[c], c);
    for (size_t i = 0; i < f->listing->count && fine; i++) {
        const char *path = f->listing->files[i].path;
        size_t stem = (size_t)(strrchr(path, '.') - path);
        f->listing->files[i].label = -1;
        fine = name_index_add(&f->files, path, (int)i);
        if (fine && name_index_find(&f->files, path, stem) < 0) {
            char *copy = arena_alloc(memory, stem + 1);
            if (copy)
                memcpy(copy, path, stem);
            fine = copy && name_index_add(&f->files, copy, (int)i);
        }
    }
    return fine ? OK : error_memory(f->err, f->listing->count * sizeof(struct name_entry));
}

enum status label_file_read(struct listing *l, const struct listing *classes, const char *path,
                            struct error *err)
{
    struct label_file f = {
        .listing = l, .path = path, .class_count = classes->class_count, .err = err};
    struct arena memory;
    size_t size;
    arena_init(&memory);
    enum status status = file_read(&f.text, &size, path, MAX_BYTES, err);
    if (!status)
        status = fill_indices(&f, classes, &memory);
    if (!status)
        status = take_lines(&f);
    name_index_free(&f.classes);
    name_index_free(&f.files);
    free(f.text);
    arena_free(&memory);
    return status;
}
