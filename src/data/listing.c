/* listing.c - one pass over the directories, a stat for each entry, a sort at the end. */
#include "data/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "config/json_scan.h"

enum { MAX_DEPTH = 100 }; /* of folders in folders */

/* The folders from the one being read up to the first. */
struct above {
    dev_t device;
    ino_t inode;
    int depth;
    const struct above *up;
};

struct walk {
    struct listing *listing;
    const char *folder; /* as it was named, for messages */
    struct arena *memory;
    size_t room; /* for files */
    int class_room;
    int label;
    bool flat; /* what lies in the folder itself are pictures, not classes */
    struct error *err;
};

static enum status read_directory(struct walk *w, int parent, const char *name, const char *path,
                                  const struct above *up);

static enum status cannot_read(const struct walk *w, const char *path, int code)
{
    return error_set(w->err, ERR_INPUT, "%s%s%s: the folder cannot be read: %s", w->folder,
                     *path ? "/" : "", path, strerror(code));
}

static bool has_picture_ending(const char *name)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg"};
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < 3; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

/* "PATH/NAME", or NAME alone below the folder itself. */
static char *path_below(const struct walk *w, const char *path, const char *name)
{
    size_t above = strlen(path), length = strlen(name);
    char *joined = arena_alloc(w->memory, above + length + 2);
    if (!joined)
        return NULL;
    memcpy(joined, path, above);
    if (above)
        joined[above++] = '/';
    memcpy(joined + above, name, length);
    return joined;
}

static enum status add_file(struct walk *w, const char *path, const char *name, int64_t size)
{
    struct listing *l = w->listing;
    if (l->count == w->room) {
        size_t room = w->room ? 2 * w->room : 1024;
        struct listing_file *grown = realloc(l->files, room * sizeof *grown);
        if (!grown)
            return error_memory(w->err, room * sizeof *grown);
        l->files = grown;
        w->room = room;
    }
    char *joined = path_below(w, path, name);
    if (!joined)
        return error_memory(w->err, strlen(path) + strlen(name));
    l->files[l->count++] = (struct listing_file){joined, w->label, (unsigned)strlen(path), size};
    return OK;
}

static enum status add_class(struct walk *w, const char *name)
{
    struct listing *l = w->listing;
    if (l->class_count == w->class_room) {
        int room = w->class_room ? 2 * w->class_room : 64;
        const char **grown = arena_alloc(w->memory, (size_t)room * sizeof *grown);
        if (!grown)
            return error_memory(w->err, (size_t)room * sizeof *grown);
        if (l->class_count)
            memcpy(grown, l->classes, (size_t)l->class_count * sizeof *grown);
        l->classes = grown;
        w->class_room = room;
    }
    char *copy = arena_strdup(w->memory, name);
    if (!copy)
        return error_memory(w->err, strlen(name));
    l->classes[l->class_count++] = copy;
    return OK;
}

static enum status take_entry(struct walk *w, int directory, const char *path, const char *name,
                              const struct above *here)
{
    struct stat info;
    bool first_level = here->up == NULL && !w->flat;
    bool there = fstatat(directory, name, &info, 0) == 0;
    if (there && S_ISDIR(info.st_mode)) {
        if (first_level)
            return add_class(w, name);
        char *below = path_below(w, path, name);
        return below ? read_directory(w, directory, name, below, here)
                     : error_memory(w->err, strlen(path) + strlen(name));
    }
    if (first_level || !has_picture_ending(name) || (there && !S_ISREG(info.st_mode)))
        return OK;
    return add_file(w, path, name, there ? (int64_t)info.st_size : -1);
}

static enum status read_entries(struct walk *w, DIR *directory, const char *path,
                                const struct above *here)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry)
            return errno ? cannot_read(w, path, errno) : OK;
        if (entry->d_name[0] == '.')
            continue;
        enum status status = take_entry(w, dirfd(directory), path, entry->d_name, here);
        if (status)
            return status;
    }
}

static enum status read_directory(struct walk *w, int parent, const char *name, const char *path,
                                  const struct above *up)
{
    struct stat info;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 && fstat(fd, &info) == 0 ? fdopendir(fd) : NULL;
    if (!directory) {
        int code = errno;
        if (fd >= 0)
            close(fd);
        return cannot_read(w, path, code);
    }
    struct above here = {info.st_dev, info.st_ino, up ? up->depth + 1 : 0, up};
    bool loops = false;
    for (const struct above *a = up; a; a = a->up)
        loops = loops || (a->device == here.device && a->inode == here.inode);
    enum status status = OK;
    if (here.depth > MAX_DEPTH)
        status = error_set(w->err, ERR_INPUT, "%s/%s: folders lie more than %d deep", w->folder,
                           path, MAX_DEPTH);
    else if (!loops)
        status = read_entries(w, directory, path, &here);
    closedir(directory);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* As torchvision: the folders of a class by their whole paths, the files of each by their names. */
static int compare_files(const void *a, const void *b)
{
    const struct listing_file *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    unsigned shorter = x->directory < y->directory ? x->directory : y->directory;
    int order = memcmp(x->path, y->path, shorter);
    if (order == 0 && x->directory != y->directory)
        return x->directory < y->directory ? -1 : 1;
    return order ? order : strcmp(x->path + x->directory, y->path + y->directory);
}

/* Reads the folders of all classes into l->files, malloc'd. */
static enum status read_classes(struct walk *w)
{
    int root = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat info;
    if (root < 0 || fstat(root, &info) != 0) {
        int code = errno;
        if (root >= 0)
            close(root);
        return cannot_read(w, "", code);
    }
    const struct above top = {info.st_dev, info.st_ino, 0, NULL};
    enum status status = OK;
    for (w->label = 0; w->label < w->listing->class_count && !status; w->label++) {
        const char *name = w->listing->classes[w->label];
        status = read_directory(w, root, name, name, &top);
    }
    close(root);
    return status;
}

static uint64_t fingerprint_of(const struct listing *l)
{
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < l->count; i++) {
        hash = hash_fnv(hash, l->files[i].path, strlen(l->files[i].path) + 1);
        hash = hash_fnv(hash, &l->files[i].size, sizeof l->files[i].size);
    }
    return hash;
}

enum status listing_read_classes(struct listing *l, const char *folder, struct arena *memory,
                                 struct error *err)
{
    *l = (struct listing){0};
    struct walk w = {.listing = l, .folder = folder, .memory = memory, .err = err};
    enum status status = read_directory(&w, AT_FDCWD, folder, "", NULL);
    if (!status && l->class_count)
        qsort(l->classes, (size_t)l->class_count, sizeof *l->classes, compare_names);
    return status;
}

/* Sorts what a walk with that status has found, and moves it from the heap to the arena. */
static enum status finish(struct walk *w, enum status status)
{
    struct listing *l = w->listing;
    struct listing_file *kept = NULL;
    if (!status && l->count) {
        qsort(l->files, l->count, sizeof *l->files, compare_files);
        kept = arena_alloc(w->memory, l->count * sizeof *kept);
        if (kept)
            memcpy(kept, l->files, l->count * sizeof *kept);
        else
            status = error_memory(w->err, l->count * sizeof *kept);
    }
    free(l->files);
    l->files = kept;
    if (!status)
        l->fingerprint = fingerprint_of(l);
    return status;
}

enum status listing_read(struct listing *l, const char *folder, struct arena *memory,
                         struct error *err)
{
    enum status status = listing_read_classes(l, folder, memory, err);
    struct walk w = {.listing = l, .folder = folder, .memory = memory, .err = err};
    return finish(&w, status ? status : read_classes(&w));
}

enum status listing_read_flat(struct listing *l, const char *folder, struct arena *memory,
                              struct error *err)
{
    *l = (struct listing){0};
    struct walk w = {
        .listing = l, .folder = folder, .memory = memory, .flat = true, .err = err};
    return finish(&w, read_directory(&w, AT_FDCWD, folder, "", NULL));
}

const char *listing_text(const char *name, struct arena *memory)
{
    static const char digits[] = "0123456789abcdef";
    size_t length = strlen(name);
    char *text = arena_alloc(memory, 4 * length + 1), *to = text;
    if (!text)
        return NULL;
    for (size_t at = 0; at < length;) {
        unsigned char c = (unsigned char)name[at];
        int bytes = utf8_length(name + at, length - at);
        if (bytes == 0 || c < 0x20 || c == 0x7f) {
            *to++ = '\\';
            *to++ = 'x';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
            at++;
            continue;
        }
        memcpy(to, name + at, (size_t)bytes);
        to += bytes;
        at += (size_t)bytes;
    }
    return text;
}
