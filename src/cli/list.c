/* list.c - attnbench list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "cli/arguments.h"
#include "cli/output.h"
#include "config/config.h"
#include "data/dataset.h"
#include "models/model.h"
#include "optim/optimizer.h"

/* --- what can be listed: kinds, and datasets as kinds
 * -------------------------------------------- */

static const struct kind *dataset_kinds(int i)
{
    static struct kind kind;
    for (int k = 0; k <= i; k++)
        if (!dataset_format_names[k])
            return NULL;
    kind = (struct kind){.name = dataset_format_names[i], .summary = dataset_format_summary(i)};
    return &kind;
}

struct list {
    const char *name;
    kind_list *kinds;
    bool papers; /* kinds are attention variants */
};

static const struct list lists[] = {
    {"attention", attn_kinds, true},
    {"models", model_kinds, false},
    {"datasets", dataset_kinds, false},
    {"optimizers", optimizer_kinds, false},
};

enum { LISTS = sizeof lists / sizeof lists[0] };

/* --- JSON
 * --------------------------------------------------------------------------------------- */

static bool put_kind(struct json *j, const struct list *list, const struct kind *kind)
{
    json_object(j, NULL);
    json_string(j, "name", kind->name);
    json_string(j, "summary", kind->summary);
    if (list->papers) {
        const struct attn_variant *v = kind->impl;
        json_string(j, "paper", v->paper);
        json_string(j, "complexity", v->complexity);
    }
    if (kind->preset)
        json_raw(j, "preset", kind->preset);
    char *options = kind->fields ? config_describe(kind->fields) : NULL;
    json_raw(j, "options", options ? options : "[]");
    bool fine = options || !kind->fields;
    free(options);
    json_end(j);
    return fine;
}

static enum status list_json(const struct list *list, struct error *err)
{
    struct json *j = json_create();
    bool fine = j != NULL;
    if (fine) {
        json_object(j, NULL);
        json_array(j, list->name);
        for (int i = 0; fine && list->kinds(i); i++)
            fine = put_kind(j, list, list->kinds(i));
        json_end(j);
        json_end(j);
    }
    enum status status = fine ? output_json(j, err) : error_memory(err, 0);
    json_destroy(j);
    return status;
}

/* --- text
 * --------------------------------------------------------------------------------------- */

/* A default as the list shows it. */
static void show(char shown[64], const struct json_value *v)
{
    switch (v ? json_type(v) : JSON_NULL) {
    case JSON_STRING:
        snprintf(shown, 64, "%.60s", json_to_string(v));
        break;
    case JSON_NUMBER:
        snprintf(shown, 64, "%g", json_to_number(v));
        break;
    case JSON_BOOL:
        snprintf(shown, 64, "%s", json_to_bool(v) ? "true" : "false");
        break;
    case JSON_ARRAY:
        strcpy(shown, "[");
        for (const struct json_value *item = json_first(v); item; item = json_next(item)) {
            char one[64];
            size_t length = strlen(shown);
            show(one, item);
            snprintf(shown + length, 64 - length, "%s%.20s", length > 1 ? ", " : "", one);
        }
        strncat(shown, "]", 63 - strlen(shown));
        break;
    case JSON_OBJECT:
    case JSON_NULL:
        strcpy(shown, "null");
        break;
    }
}

/* Options from their JSON description, so that both forms of the list say the same. */
static enum status put_options(const struct field *fields, struct error *err)
{
    char *text = config_describe(fields);
    struct json_value *root = NULL;
    if (!text)
        return error_memory(err, 0);
    enum status status = json_parse(&root, text, strlen(text), err);
    free(text);
    for (const struct json_value *o = status ? NULL : json_first(root); o; o = json_next(o)) {
        char shown[64];
        show(shown, json_member(o, "default"));
        printf("    %-16s %s (default %s)\n", json_to_string(json_member(o, "name")),
               json_to_string(json_member(o, "help")), shown);
    }
    json_free(root);
    return status;
}

static enum status list_text(const struct list *list, struct error *err)
{
    enum status status = OK;
    for (int i = 0; !status && list->kinds(i); i++) {
        const struct kind *kind = list->kinds(i);
        printf("%-28s %s\n", kind->name, kind->summary ? kind->summary : "");
        if (list->papers) {
            const struct attn_variant *v = kind->impl;
            printf("    %s, %s\n", v->complexity, v->paper);
        }
        if (kind->fields)
            status = put_options(kind->fields, err);
    }
    return status;
}

static enum status run(const struct arguments *a, struct error *err)
{
    const char *names[LISTS + 1] = {NULL};
    for (int i = 0; i < LISTS; i++) {
        names[i] = lists[i].name;
        if (strcmp(a->operands[0], lists[i].name) == 0)
            return arguments_has(a, "--json") ? list_json(&lists[i], err)
                                              : list_text(&lists[i], err);
    }
    enum status status = error_set(err, ERR_INPUT, "%.60s: not a list", a->operands[0]);
    config_hint_name(err, a->operands[0], names);
    return status;
}

static const struct command_option options_of_list[] = {OPTION_JSON, OPTION_END};

const struct command list_command = {
    .name = "list", .summary = "attention variants, models, datasets or optimizers",
    .operands = "attention|models|datasets|optimizers", .least = 1, .most = 1,
    .options = options_of_list,
    .about = "Lists what a config can name, each with its options and their defaults.\n",
    .example = "  attnbench list attention\n"
               "  attnbench list attention --json\n",
    .run = run,
};
