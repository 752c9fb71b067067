/* difference.c - in what two models of one kind differ. */
#include <stdio.h>
#include <string.h>

#include "models/model.h"

/* Models that differ in these have the same tensors, up to attention and classifier. */
static bool leaves_tensors(const char *name)
{
    static const char *const names[] = {"attention", "classes", "drop_path", "dropout"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void put_ints(char text[64], const int *at, int count)
{
    size_t end = (size_t)snprintf(text, 64, "[");
    for (int i = 0; i < count && end < 48; i++)
        end += (size_t)snprintf(text + end, 64 - end, "%s%d", i ? ", " : "", at[i]);
    snprintf(text + end, 64 - end, "]");
}

/* Writes the value of a field; false for kinds of fields that are not compared. */
static bool put_value(char text[64], const struct field *f, const void *options)
{
    const void *at = (const char *)options + f->offset;
    switch (f->type) {
    case FIELD_TYPE_INT:
        snprintf(text, 64, "%d", *(const int *)at);
        return true;
    case FIELD_TYPE_REAL:
        snprintf(text, 64, "%g", *(const double *)at);
        return true;
    case FIELD_TYPE_BOOL:
        snprintf(text, 64, "%s", *(const bool *)at ? "true" : "false");
        return true;
    case FIELD_TYPE_ENUM:
        snprintf(text, 64, "%.40s", f->names[*(const int *)at]);
        return true;
    case FIELD_TYPE_PAIR:
        put_ints(text, at, 2);
        return true;
    case FIELD_TYPE_INTS:
        put_ints(text, ((const struct ints *)at)->at, ((const struct ints *)at)->count);
        return true;
    default:
        return false;
    }
}

int model_differences(const struct model *m, const void *ours, const void *theirs,
                      char text[MODEL_HINT_SIZE])
{
    int count = 0;
    size_t end = 0;
    text[0] = 0;
    for (const struct field *f = m->fields; f->type != FIELD_TYPE_END; f++) {
        char a[64], b[64];
        if (leaves_tensors(f->name) || !put_value(a, f, ours) || !put_value(b, f, theirs) ||
            strcmp(a, b) == 0)
            continue;
        int more = snprintf(text + end, MODEL_HINT_SIZE - end, "%smodel.%s is %s, the checkpoint's %s",
                            count ? "; " : "", f->name, a, b);
        count++;
        if (more < 0 || (size_t)more >= MODEL_HINT_SIZE - end)
            text[end] = 0; /* what does not fit is left out */
        else
            end += (size_t)more;
    }
    return count;
}

bool model_same_attention(const struct model *m, const void *ours, const void *theirs,
                          char text[MODEL_HINT_SIZE])
{
    struct model_layer a, b;
    for (int i = 0; m->layer(ours, i, &a) && m->layer(theirs, i, &b); i++) {
        const struct choice *x = a.attention, *y = b.attention;
        if (x->kind->impl != y->kind->impl) {
            snprintf(text, MODEL_HINT_SIZE, "model.attention is %s, the checkpoint's %s",
                     x->kind->name, y->kind->name);
            return false;
        }
        if (x->kind->size && memcmp(x->options, y->options, x->kind->size) != 0) {
            snprintf(text, MODEL_HINT_SIZE, "model.attention has other options than the checkpoint's");
            return false;
        }
    }
    return true;
}

bool model_patches_misfit(const char *name, const int has[4], const struct shape *theirs,
                          char hint[MODEL_HINT_SIZE])
{
    static const char *const keys[] = {"dim", "channels", "patch_size", "patch_size"};
    size_t end = 0;
    if (strcmp(name, "patch_embed.proj.weight") != 0 || theirs->rank != 4)
        return false;
    for (int i = 0; i < 4 && end < MODEL_HINT_SIZE - 64; i++)
        if (has[i] != theirs->dim[i])
            end += (size_t)snprintf(hint + end, MODEL_HINT_SIZE - end,
                                    "%smodel.%s is %d, the checkpoint's %d", end ? "; " : "", keys[i],
                                    has[i], theirs->dim[i]);
    return end > 0;
}
