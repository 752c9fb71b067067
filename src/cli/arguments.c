/* arguments.c - options and operands. */
#include "cli/arguments.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static const struct command_option *find_option(const struct command *command, const char *word,
                                                size_t length)
{
    for (const struct command_option *o = command->options; o->name; o++)
        if (strlen(o->name) == length && strncmp(o->name, word, length) == 0)
            return o;
    return NULL;
}

static enum status unknown_option(const struct command *command, const char *word, size_t length,
                                  struct error *err)
{
    enum { MOST = 32 };
    const char *names[MOST];
    int count = 0;
    for (const struct command_option *o = command->options; o->name && count < MOST - 2; o++)
        names[count++] = o->name;
    names[count++] = "--help";
    names[count] = NULL;
    char name[64];
    if (length >= sizeof name)
        length = sizeof name - 1;
    memcpy(name, word, length);
    name[length] = 0;
    enum status status = error_set(err, ERR_INPUT, "%s: no such option of attnbench %s", name,
                                   command->name);
    config_hint_name(err, name, names);
    return status;
}

/* Takes the option at words[*at], and its value. */
static enum status take_option(struct arguments *a, const struct command *command, char **words,
                               int *at, struct error *err)
{
    const char *word = words[*at];
    size_t length = strcspn(word, "=");
    const struct command_option *option = find_option(command, word, length);
    if (!option)
        return unknown_option(command, word, length, err);
    const char *value = word[length] ? word + length + 1 : NULL;
    if (!option->value && value)
        return error_set(err, ERR_INPUT, "%s: takes no value", option->name);
    if (option->value && !value) {
        value = words[*at + 1];
        if (!value || strncmp(value, "--", 2) == 0)
            return error_set(err, ERR_INPUT, "%s: a value is missing (%s %s)", option->name,
                             option->name, option->value);
        ++*at;
    }
    if (option->value && !*value)
        return error_set(err, ERR_INPUT, "%s: its value is empty (%s %s)", option->name,
                         option->name, option->value);
    if (option->value && !option->repeats && arguments_has(a, option->name))
        return error_set(err, ERR_INPUT, "%s: given more than once", option->name);
    a->given[a->given_count++] = (struct given_option){option, value};
    return OK;
}

static enum status check_count(const struct arguments *a, const struct command *command,
                               struct error *err)
{
    if (a->count < command->least)
        return error_set(err, ERR_INPUT,
                         "attnbench %s: %s is missing (attnbench help %s shows an example)",
                         command->name, command->operands, command->name);
    if (command->most >= 0 && a->count > command->most)
        return error_set(err, ERR_INPUT, "%s: attnbench %s takes %s%s", a->operands[command->most],
                         command->name, command->most ? "nothing beside " : "no operands",
                         command->operands);
    return OK;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

enum status arguments_parse(struct arguments *a, const struct command *command, char **argv,
                            struct error *err)
{
    memset(a, 0, sizeof *a);
    a->words = argv;
    int words = 0;
    while (argv[words])
        words++;
    a->operands = calloc((size_t)words + 1, sizeof *a->operands);
    a->given = calloc((size_t)words + 1, sizeof *a->given);
    if (!a->operands || !a->given)
        return error_memory(err, (size_t)words * sizeof *a->given);
    for (int i = 2; i < words && strcmp(argv[i], "--") != 0; i++)
        a->help |= is_help(argv[i]);
    if (a->help)
        return OK;
    bool options = true;
    for (int i = 2; i < words; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            enum status status = take_option(a, command, argv, &i, err);
            if (status)
                return status;
        } else {
            a->operands[a->count++] = argv[i];
        }
    }
    return check_count(a, command, err);
}

void arguments_free(struct arguments *a)
{
    free(a->operands);
    free(a->given);
    memset(a, 0, sizeof *a);
}

bool arguments_has(const struct arguments *a, const char *name)
{
    for (int i = 0; i < a->given_count; i++)
        if (strcmp(a->given[i].option->name, name) == 0)
            return true;
    return false;
}

const char *arguments_value(const struct arguments *a, const char *name)
{
    const char *value = NULL;
    return arguments_values(a, name, &value, 1) ? value : NULL;
}

int arguments_values(const struct arguments *a, const char *name, const char **list, int room)
{
    int count = 0;
    for (int i = 0; i < a->given_count; i++) {
        if (strcmp(a->given[i].option->name, name) != 0)
            continue;
        if (count < room)
            list[count] = a->given[i].value;
        count++;
    }
    return count;
}

enum status arguments_int(const struct arguments *a, const char *name, int least, int most,
                          int *out, struct error *err)
{
    const char *text = arguments_value(a, name);
    if (!text)
        return OK;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || isspace((unsigned char)*text) || value < least ||
        value > most)
        return error_set(err, ERR_INPUT, "%s: \"%.40s\" is no whole number in %d..%d", name, text,
                         least, most);
    *out = (int)value;
    return OK;
}

static bool needs_quotes(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=./:,@%";
    return !*word || word[strspn(word, plain)];
}

char *arguments_line(const struct arguments *a)
{
    size_t size = 1;
    for (char **word = a->words; *word; word++)
        size += 4 * strlen(*word) + 3;
    char *line = malloc(size), *to = line;
    for (char **word = a->words; line && *word; word++) {
        bool quoted = needs_quotes(*word);
        if (word != a->words)
            *to++ = ' ';
        if (quoted)
            *to++ = '\'';
        for (const char *from = *word; *from; from++) {
            if (*from == '\'') {
                memcpy(to, "'\\''", 4);
                to += 4;
            } else {
                *to++ = *from;
            }
        }
        if (quoted)
            *to++ = '\'';
    }
    if (line)
        *to = 0;
    return line;
}
