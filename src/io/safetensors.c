/* safetensors.c - reading: a header in JSON, then the data of the tensors without gaps. */
#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/json.h"
#include "io/safetensors_values.h"

enum { PREFIX_SIZE = 8, MAX_HEADER = 100 * 1000 * 1000 }; /* the limit of the reference reader */

struct st_file {
    const char *map; /* the whole file */
    size_t size;
    struct json_value *header; /* owns names and metadata */
    struct st_tensor *tensors; /* in the order of their data */
    const struct st_tensor **by_name;
    int count;
};

/* Text of a file that may hold anything, fit for one line of a message. */
struct shown {
    char text[100];
};

static struct shown show(const char *text)
{
    struct shown s;
    size_t i = 0;
    for (; text[i] && i < sizeof s.text - 1; i++)
        s.text[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    s.text[i] = 0;
    return s;
}

/* --- what is often found under the name of a safetensors file ----------------------------------
 */

/* Without the byte-order mark and white space that may come first. */
static const char *skip_space(const char *text)
{
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    return text + strspn(text, " \t\r\n");
}

static enum status not_safetensors(const char *path, const char *data, size_t size,
                                   struct error *err)
{
    char start[512];
    size_t length = size < sizeof start - 1 ? size : sizeof start - 1;
    memcpy(start, data, length);
    start[length] = 0;
    const char *text = skip_space(start);
    if (strncmp(text, "version https://git-lfs", 23) == 0) {
        const char *line = strstr(text, "\nsize ");
        unsigned long long real_size = line ? strtoull(line + 6, NULL, 10) : 0;
        return error_set(
            err, ERR_INPUT,
            "%s: is a Git LFS pointer of %zu bytes, not the file of %llu bytes that it "
            "stands for (`git lfs pull` fetches it)",
            path, size, real_size);
    }
    if (strncasecmp(text, "<!doctype", 9) == 0 || strncasecmp(text, "<html", 5) == 0)
        return error_set(err, ERR_INPUT,
                         "%s: is an HTML page of %zu bytes, not a safetensors file (the download "
                         "gave a web page instead)",
                         path, size);
    if (strncmp(start, "PK\3\4", 4) == 0)
        return error_set(err, ERR_INPUT,
                         "%s: is a zip archive of %zu bytes, not a safetensors file (PyTorch's "
                         "torch.save writes such; safetensors.torch.save_file writes what is read "
                         "here)",
                         path, size);
    if (start[0] == '\x80' && start[1] > 0 && start[1] <= 5)
        return error_set(err, ERR_INPUT,
                         "%s: is a Python pickle of %zu bytes, not a safetensors file "
                         "(safetensors.torch.save_file writes what is read here)",
                         path, size);
    if (size < PREFIX_SIZE)
        return error_set(err, ERR_INPUT,
                         "%s: has %zu bytes, too few for a safetensors file (cut short?)", path,
                         size);
    uint64_t header;
    memcpy(&header, data, sizeof header);
    if (header <= MAX_HEADER && header > size - PREFIX_SIZE)
        return error_set(
            err, ERR_INPUT,
            "%s: a header of %llu bytes does not fit into %zu bytes (cut short, or not a "
            "safetensors file)",
            path, (unsigned long long)header, size);
    return error_set(
        err, ERR_INPUT,
        "%s: is not a safetensors file (%zu bytes; the first eight, read as the length "
        "of the header, give %llu)",
        path, size, (unsigned long long)header);
}

/* --- reading ------------------------------------------------------------------------------------
 */

/* A whole number from 0 to 2^53, beyond which JSON numbers are not exact. */
static bool to_size(const struct json_value *v, uint64_t *out)
{
    if (!v || json_type(v) != JSON_NUMBER)
        return false;
    double number = json_to_number(v);
    if (!(number >= 0 && number <= 0x1p53))
        return false;
    *out = (uint64_t)number;
    return (double)*out == number;
}

/* A tensor with the part of the data that it claims. */
struct entry {
    struct st_tensor tensor;
    uint64_t begin, end;
    int place; /* in the header */
};

/* Reads one member of the header and checks it by itself. */
static enum status read_entry(struct entry *e, const struct json_value *entry, struct error *err)
{
    struct st_tensor *t = &e->tensor;
    t->name = json_key(entry);
    if (json_type(entry) != JSON_OBJECT)
        return error_set(err, ERR_INPUT, "is not an object");

    const struct json_value *dtype = json_member(entry, "dtype");
    const char *dtype_name = dtype ? json_to_string(dtype) : NULL;
    const struct st_dtype *info = dtype_name ? st_dtype_of_name(dtype_name) : NULL;
    if (!dtype_name)
        return error_set(err, ERR_INPUT, "has no dtype");
    if (!info)
        return error_set(err, ERR_INPUT, "dtype \"%s\" is not known", show(dtype_name).text);
    t->dtype = info->dtype;

    const struct json_value *shape = json_member(entry, "shape");
    if (!shape || json_type(shape) != JSON_ARRAY)
        return error_set(err, ERR_INPUT, "has no shape");
    size_t most = SIZE_MAX / 16, product = 1;
    bool is_empty = false;
    for (const struct json_value *v = json_first(shape); v; v = json_next(v)) {
        uint64_t dim;
        if (t->rank == SAFETENSORS_MAX_RANK)
            return error_set(err, ERR_INPUT, "has more than %d dimensions", SAFETENSORS_MAX_RANK);
        if (!to_size(v, &dim))
            return error_set(err, ERR_INPUT, "shape: dimension %d is no size", t->rank);
        if (dim > 0 && product > most / dim)
            return error_set(err, ERR_INPUT, "shape: more elements than memory can hold");
        t->shape[t->rank++] = (int64_t)dim;
        if (dim > 0)
            product *= dim;
        else
            is_empty = true;
    }
    t->count = is_empty ? 0 : product;

    const struct json_value *offsets = json_member(entry, "data_offsets");
    const struct json_value *first =
        offsets && json_type(offsets) == JSON_ARRAY ? json_first(offsets) : NULL;
    const struct json_value *second = first ? json_next(first) : NULL;
    if (!to_size(first, &e->begin) || !to_size(second, &e->end) || json_next(second) ||
        e->end < e->begin)
        return error_set(err, ERR_INPUT, "data_offsets are not [begin, end]");
    if (e->end - e->begin != t->count * info->size)
        return error_set(
            err, ERR_INPUT, "data_offsets give %llu bytes, %zu elements of %s need %zu",
            (unsigned long long)(e->end - e->begin), t->count, info->name, t->count * info->size);
    return OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;
    if (p->begin != q->begin)
        return p->begin < q->begin ? -1 : 1;
    if (p->end != q->end) /* empty tensors come before the one that begins there */
        return p->end < q->end ? -1 : 1;
    return p->place - q->place;
}

static int compare_names(const void *a, const void *b)
{
    const struct st_tensor *const *p = a, *const *q = b;
    return strcmp((*p)->name, (*q)->name);
}

static enum status read_metadata(const struct json_value *metadata, struct error *err)
{
    if (json_type(metadata) != JSON_OBJECT)
        return error_set(err, ERR_INPUT, "__metadata__ is not an object");
    for (const struct json_value *v = json_first(metadata); v; v = json_next(v)) {
        if (json_type(v) != JSON_STRING)
            return error_set(err, ERR_INPUT, "__metadata__: \"%s\" is not text",
                             show(json_key(v)).text);
    }
    return OK;
}

static enum status read_entries(struct entry *entries, const struct json_value *header,
                                struct error *err)
{
    int n = 0;
    for (const struct json_value *v = json_first(header); v; v = json_next(v)) {
        if (strcmp(json_key(v), "__metadata__") == 0) {
            enum status status = read_metadata(v, err);
            if (status)
                return status;
            continue;
        }
        struct entry *e = &entries[n];
        enum status status = read_entry(e, v, err);
        if (status) {
            error_prefix(err, "tensor \"%s\": ", show(json_key(v)).text);
            return status;
        }
        e->place = n++;
    }
    return OK;
}

/* The tensors must lie one behind the other, without gap, up to the end of the file. */
static enum status check_places(const struct entry *entries, int count, uint64_t available,
                                struct error *err)
{
    uint64_t end = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i].begin != end)
            return error_set(
                err, ERR_INPUT,
                "tensor \"%s\": data begins at byte %llu, %s byte %llu, where the data "
                "before it ends",
                show(entries[i].tensor.name).text, (unsigned long long)entries[i].begin,
                entries[i].begin < end ? "an overlap: not at" : "a hole: not at",
                (unsigned long long)end);
        end = entries[i].end;
    }
    if (end > available)
        return error_set(err, ERR_INPUT,
                         "is cut short: the header describes %llu bytes of data, %llu are there",
                         (unsigned long long)end, (unsigned long long)available);
    if (end < available)
        return error_set(err, ERR_INPUT,
                         "%llu bytes of data are there, the header describes only %llu",
                         (unsigned long long)available, (unsigned long long)end);
    return OK;
}

/* Fills f->tensors and f->by_name from the header. */
static enum status read_header(struct st_file *f, size_t header_size, struct error *err)
{
    enum status status = json_parse(&f->header, f->map + PREFIX_SIZE, header_size, err);
    if (status) {
        error_prefix(err, "header: ");
        return status;
    }
    if (json_type(f->header) != JSON_OBJECT)
        return error_set(err, ERR_INPUT, "header: is not a JSON object");
    size_t members = 0; /* fewer than its bytes, which are limited */
    for (const struct json_value *v = json_first(f->header); v; v = json_next(v))
        members++;
    size_t count = members - (json_member(f->header, "__metadata__") != NULL);

    struct entry *entries = calloc(count + 1, sizeof *entries);
    f->tensors = calloc(count + 1, sizeof *f->tensors);
    f->by_name = calloc(count + 1, sizeof(*f->by_name));
    if (!entries || !f->tensors || !f->by_name) {
        status = error_memory(err, (count + 1) * (sizeof *entries + sizeof *f->tensors));
        goto out;
    }
    status = read_entries(entries, f->header, err);
    if (status)
        goto out;
    qsort(entries, count, sizeof *entries, compare_entries);
    status = check_places(entries, (int)count, f->size - PREFIX_SIZE - header_size, err);
    if (status)
        goto out;
    const char *data = f->map + PREFIX_SIZE + header_size;
    for (size_t i = 0; i < count; i++) {
        f->tensors[i] = entries[i].tensor;
        f->tensors[i].data = data + entries[i].begin;
        f->by_name[i] = &f->tensors[i];
    }
    qsort(f->by_name, count, sizeof(*f->by_name), compare_names);
    f->count = (int)count;
out:
    free(entries);
    return status;
}

/* Maps the file. An empty one has no map. */
static enum status map_file(struct st_file *f, const char *path, struct error *err)
{
    enum status status = OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    struct stat info;
    if (fd < 0 || fstat(fd, &info)) {
        status = error_set(err, ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = error_set(err, ERR_INPUT, "%s: is %s, not a safetensors file", path,
                           S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
    } else if (info.st_size > 0) {
        f->size = (size_t)info.st_size;
        void *map = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            status = error_set(err, ERR_IO, "%s: %zu bytes cannot be mapped: %s", path, f->size,
                               strerror(errno));
        else
            f->map = map;
    }
    if (fd >= 0)
        close(fd);
    return status;
}

enum status st_open(struct st_file **out, const char *path, struct error *err)
{
    struct st_file *f = calloc(1, sizeof *f);
    if (!f)
        return error_memory(err, sizeof *f);
    enum status status = map_file(f, path, err);
    if (status)
        goto out;

    uint64_t header_size = 0;
    if (f->size > PREFIX_SIZE)
        memcpy(&header_size, f->map, sizeof header_size);
    if (header_size == 0 || header_size > MAX_HEADER || header_size > f->size - PREFIX_SIZE ||
        f->map[PREFIX_SIZE] != '{') {
        status = not_safetensors(path, f->map ? f->map : "", f->size, err);
        goto out;
    }
    status = read_header(f, (size_t)header_size, err);
    if (status) {
        error_prefix(err, "%s: ", path);
        error_append(err, " (the file has %zu bytes)", f->size);
    }
out:
    if (status)
        st_close(f);
    else
        *out = f;
    return status;
}

void st_close(struct st_file *f)
{
    if (!f)
        return;
    if (f->map)
        munmap((void *)(uintptr_t)f->map, f->size);
    if (f->header)
        json_free(f->header);
    free(f->tensors);
    free(f->by_name);
    free(f);
}

int st_count(const struct st_file *f)
{
    return f->count;
}

const struct st_tensor *st_at(const struct st_file *f, int i)
{
    return &f->tensors[i];
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    int low = 0, high = f->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(f->by_name[middle]->name, name);
        if (order == 0)
            return f->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *st_metadata(const struct st_file *f, const char *key)
{
    const struct json_value *metadata = json_member(f->header, "__metadata__");
    const struct json_value *value = metadata ? json_member(metadata, key) : NULL;
    return value ? json_to_string(value) : NULL;
}
