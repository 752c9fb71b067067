/* config_needs.c - options that have no effect beside the values of others. */
#include <string.h>

#include "config/document.h"

static const struct field *field_of(const struct field *fields, const char *name)
{
    while (strcmp(fields->name, name) != 0)
        fields++;
    return fields;
}

static double value_of(const struct field *f, const void *options)
{
    const void *at = (const char *)options + f->offset;
    switch (f->type) {
    case FIELD_TYPE_BOOL:
        return *(const bool *)at;
    case FIELD_TYPE_REAL:
        return *(const double *)at;
    default:
        return *(const int *)at;
    }
}

/* Which bit of struct field_need stands for a value. */
static int bit_of(const struct field *f, double value)
{
    return f->type == FIELD_TYPE_ENUM ? (int)value : value != 0;
}

static void append_value(struct error *err, const struct field *f, double value)
{
    char number[JSON_NUMBER_SIZE];
    if (f->type == FIELD_TYPE_ENUM) {
        error_append(err, "\"%s\"", f->names[(int)value]);
    } else if (f->type == FIELD_TYPE_BOOL) {
        error_append(err, value != 0 ? "true" : "false");
    } else {
        json_format_number(number, value);
        error_append(err, "%s", number);
    }
}

/* "NAME to VALUE or VALUE" */
static void append_values(struct error *err, const struct field *f, unsigned values)
{
    error_append(err, "%s to ", f->name);
    if (f->type == FIELD_TYPE_ENUM) {
        const char *between = "";
        for (int i = 0; f->names[i]; i++) {
            if (!(values >> i & 1))
                continue;
            error_append(err, "%s\"%s\"", between, f->names[i]);
            between = " or ";
        }
    } else if (f->type == FIELD_TYPE_BOOL) {
        error_append(err, values & NEED_TRUE ? "true" : "false");
    } else {
        error_append(err, values & NEED_OTHER ? "another number" : "0");
    }
}

static bool is_met(const struct field_need *need, const struct field *other, const void *options)
{
    return need->values >> bit_of(other, value_of(other, options)) & 1;
}

enum status config_check_needs(const struct field *fields, const struct field_need *needs,
                               const void *options, struct error *err)
{
    for (const struct field_need *n = needs; n && n->name; n++) {
        const struct field *f = field_of(fields, n->name), *other = field_of(fields, n->other);
        double value = value_of(f, options);
        if (value == f->number || is_met(n, other, options))
            continue;
        error_set(err, ERR_INPUT, "%s: ", n->name);
        append_value(err, f, value);
        error_append(err, " has no effect with %s ", n->other);
        append_value(err, other, value_of(other, options));
        error_append(err, " (leave it out, or set ");
        append_values(err, other, n->values);
        error_append(err, ")");
        return ERR_INPUT;
    }
    return OK;
}

static void set_value(const struct field *f, void *options, int value)
{
    void *at = (char *)options + f->offset;
    if (f->type == FIELD_TYPE_BOOL)
        *(bool *)at = value;
    else if (f->type == FIELD_TYPE_REAL)
        *(double *)at = value;
    else
        *(int *)at = value;
}

void config_meet_needs(const struct field *fields, const struct field_need *needs, const char *name,
                       void *options)
{
    for (const struct field_need *n = needs; n && n->name; n++) {
        const struct field *other = field_of(fields, n->other);
        if (strcmp(n->name, name) != 0 || is_met(n, other, options))
            continue;
        int value = 0;
        while (!(n->values >> value & 1))
            value++;
        set_value(other, options, value);
    }
}
