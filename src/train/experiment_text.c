/* experiment_text.c - the effective config as text, for the run's config.json and for checkpoints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"
#include "train/experiment.h"

/* Values that mean something on one machine only. */
static const char *const path_keys[] = {"data.path", "train.init_from", "output", NULL};

static bool is_path(const char *key)
{
    for (int i = 0; path_keys[i]; i++)
        if (strcmp(path_keys[i], key) == 0)
            return true;
    return false;
}

static bool is_section(const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; path_keys[i]; i++)
        if (strncmp(path_keys[i], key, length) == 0 && path_keys[i][length] == '.')
            return true;
    return false;
}

/* Writes the value at `path` under its key; false without memory. */
static bool write_value(struct json *j, const struct config *c, const char *path, const char *key)
{
    if (is_path(path)) {
        json_null(j, key);
        return true;
    }
    char *text = config_value(c, path);
    if (!text)
        return false;
    json_raw(j, key, text);
    free(text);
    return true;
}

static bool write_section(struct json *j, const struct config *c, const struct json_value *section)
{
    const char *key = json_key(section);
    bool fine = true;
    json_object(j, key);
    for (const struct json_value *v = json_first(section); v && fine; v = json_next(v)) {
        char path[256];
        snprintf(path, sizeof path, "%s.%s", key, json_key(v));
        fine = write_value(j, c, path, json_key(v));
    }
    json_end(j);
    return fine;
}

char *experiment_text(const struct experiment *x)
{
    return config_text(x->config);
}

char *experiment_text_without_paths(const struct experiment *x)
{
    char *whole = config_text(x->config), *text = NULL;
    struct json_value *root = NULL;
    struct json *j = json_create();
    bool fine = whole && j && json_parse(&root, whole, strlen(whole), NULL) == OK;
    if (fine)
        json_object(j, NULL);
    for (const struct json_value *v = fine ? json_first(root) : NULL; v && fine; v = json_next(v))
        fine = is_section(json_key(v)) ? write_section(j, x->config, v)
                                       : write_value(j, x->config, json_key(v), json_key(v));
    if (fine) {
        json_end(j);
        text = json_text(j) ? strdup(json_text(j)) : NULL;
    }
    json_destroy(j);
    json_free(root);
    free(whole);
    return text;
}

char *experiment_text_with_output(const struct experiment *x, const char *output)
{
    char *whole = config_text(x->config), *text = NULL;
    struct json_value *root = NULL;
    struct config *changed = NULL;
    struct json *j = json_create();
    bool fine = whole && j && json_parse(&root, whole, strlen(whole), NULL) == OK;
    if (fine)
        json_object(j, NULL);
    for (const struct json_value *v = fine ? json_first(root) : NULL; v && fine; v = json_next(v)) {
        const char *key = json_key(v);
        char *value = strcmp(key, "output") == 0 ? NULL : config_value(x->config, key);
        if (value)
            json_raw(j, key, value);
        else if ((fine = strcmp(key, "output") == 0))
            json_string(j, key, output);
        free(value);
    }
    if (fine) {
        json_end(j);
        /* Read again for the layout of a config. */
        if (json_text(j) && config_parse(&changed, json_text(j), "config", NULL) == OK)
            text = config_text(changed);
    }
    config_destroy(changed);
    json_destroy(j);
    json_free(root);
    free(whole);
    return text;
}
