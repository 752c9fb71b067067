/* test_choices.c - a choice for all, or a list with one for each: reading, settings, messages. */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"

struct linear {
    int k;
    bool shared;
};
struct staged {
    struct ints depths;
    struct choices attention;
};

static const struct field linear_fields[] = {
    FIELD_INT(struct linear, k, 3, 1, 64, "rows that are kept"),
    FIELD_BOOL(struct linear, shared, true, "one matrix for all heads"),
    FIELD_END,
};
static const struct kind kinds[] = {
    {.name = "plain"},
    {.name = "linear", .fields = linear_fields, .size = sizeof(struct linear)},
};

static const struct kind *kind_at(int i)
{
    return i >= 0 && i < 2 ? &kinds[i] : NULL;
}

static const struct field fields[] = {
    FIELD_INTS(struct staged, depths, "[2, 2]", 1, 9, "blocks of each stage"),
    FIELD_CHOICES(struct staged, attention, kind_at, "plain", "mixer of all stages or of each"),
    FIELD_END,
};

static const struct linear *options_of(const struct staged *s, int i)
{
    return s->attention.at[i].options;
}

/* Loads a file with this text and settings (up to NULL), and reads it. Returns the effective
 * document on one line, or the message. */
static const char *read_with(struct staged *s, struct arena *memory, const char *text,
                             const char *const *settings)
{
    struct config *c = NULL;
    struct error err = {0};
    const char *path = test_text("%s/a.json", test_directory());
    int count = 0;
    while (settings && settings[count])
        count++;
    CHECK_OK(file_write(path, text, strlen(text), &err), err);
    enum status status = config_load(&c, path, settings, count, &err);
    if (!status)
        status = config_read(c, fields, s, memory, &err);
    if (status) {
        CHECK_INT(status, ERR_INPUT);
        config_destroy(c);
        return test_text("%s", err.text);
    }
    char *value = config_value(c, "");
    const char *shown = test_text("%s", value);
    free(value);
    config_destroy(c);
    return shown;
}

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(choices__one_for_all_is_no_list)
{
    struct staged s;
    struct arena memory;
    arena_init(&memory);
    CHECK_STR(read_with(&s, &memory, "{}", NULL),
              "{\"depths\":[2,2],\"attention\":{\"name\":\"plain\"}}");
    CHECK_INT(s.attention.count, 1);
    CHECK_STR(s.attention.at[0].name, "plain");
    CHECK_STR(read_with(&s, &memory, "{\"attention\": {\"name\": \"linear\", \"k\": 5}}", NULL),
              "{\"depths\":[2,2],\"attention\":{\"name\":\"linear\",\"k\":5,\"shared\":true}}");
    CHECK_INT(options_of(&s, 0)->k, 5);
    arena_free(&memory);
}

TEST(choices__a_list_has_one_for_each_and_reads_back)
{
    const char *want = "{\"depths\":[2,2],\"attention\":[{\"name\":\"linear\",\"k\":3,\"shared\":true"
                       "},{\"name\":\"plain\"},{\"name\":\"linear\",\"k\":7,\"shared\":false}]}";
    struct staged s;
    struct arena memory;
    arena_init(&memory);
    const char *text = read_with(&s, &memory,
                                 "{\"attention\": [\"linear\", \"plain\", {\"name\": \"linear\", "
                                 "\"k\": 7, \"shared\": false}]}",
                                 NULL);
    CHECK_STR(text, want);
    CHECK_INT(s.attention.count, 3);
    CHECK(s.attention.at[1].kind == &kinds[0]);
    CHECK_INT(options_of(&s, 0)->k, 3);
    CHECK_INT(options_of(&s, 2)->k, 7);
    CHECK_STR(read_with(&s, &memory, text, NULL), want);
    arena_free(&memory);
}

TEST(choices__settings_reach_into_the_list)
{
    static const char list[] =
        "{\"depths\": [1], \"attention\": [{\"name\": \"linear\", \"k\": 9}, \"plain\"]}";
    static const struct {
        const char *settings[4], *text;
    } rows[] = {
        {{"attention.0.k=4"},
         "{\"name\":\"linear\",\"k\":4,\"shared\":true},{\"name\":\"plain\"}"},
        {{"attention.1.name=linear", "attention.1.k=2"},
         "{\"name\":\"linear\",\"k\":9,\"shared\":true},{\"name\":\"linear\",\"k\":2,"
         "\"shared\":true}"},
        {{"attention.1.k=2", "attention.1.name=linear"},
         "{\"name\":\"linear\",\"k\":9,\"shared\":true},{\"name\":\"linear\",\"k\":2,"
         "\"shared\":true}"},
        {{"attention.0.name=plain"}, "{\"name\":\"plain\"},{\"name\":\"plain\"}"},
        {{"attention.0=plain", "attention.1=linear"},
         "{\"name\":\"plain\"},{\"name\":\"linear\",\"k\":3,\"shared\":true}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct staged s;
        struct arena memory;
        arena_init(&memory);
        test_about("%s", rows[i].settings[0]);
        CHECK_STR(read_with(&s, &memory, list, rows[i].settings),
                  test_text("{\"depths\":[1],\"attention\":[%s]}", rows[i].text));
        arena_free(&memory);
    }
}

TEST(choices__a_name_replaces_the_list_and_a_list_the_name)
{
    struct staged s;
    struct arena memory;
    arena_init(&memory);
    CHECK_STR(read_with(&s, &memory, "{\"attention\": [\"linear\", \"plain\"]}",
                        SETTINGS("attention=linear", "attention.k=8")),
              "{\"depths\":[2,2],\"attention\":{\"name\":\"linear\",\"k\":8,\"shared\":true}}");
    CHECK_STR(read_with(&s, &memory, "{\"attention\": {\"name\": \"linear\", \"k\": 8}}",
                        SETTINGS("attention=[\"plain\", \"linear\"]")),
              "{\"depths\":[2,2],\"attention\":[{\"name\":\"plain\"},{\"name\":\"linear\",\"k\":3,"
              "\"shared\":true}]}");
    arena_free(&memory);
}

TEST(choices__messages_name_the_item)
{
    static const struct {
        const char *text, *setting, *want;
    } rows[] = {
        {"{\"attention\": []}", NULL, "a.json: attention: is an empty list"},
        {"{\"attention\": 3}", NULL, "attention: expected a name or an object with a name"},
        {"{\"attention\": [\"plain\", \"linaer\"]}", NULL,
         "a.json: attention.1: unknown name \"linaer\" (nearest: \"linear\""},
        {"{\"attention\": [\"plain\", {\"name\": \"lin\"}]}", NULL,
         "attention.1.name: unknown name \"lin\""},
        {"{\"attention\": [\"plain\", {\"name\": \"linear\", \"k\": 65}]}", NULL,
         "a.json: attention.1.k: 65 is not in 1..64"},
        {"{\"attention\": [{\"name\": \"linear\", \"share\": true}]}", NULL,
         "attention.0.share: unknown key (did you mean \"shared\"?)"},
        {"{\"attention\": [\"plain\", {\"k\": 5}]}", NULL,
         "a.json: attention.1.k: unknown key (it belongs to \"linear\", and no \"name\" is given)"},
        {"{\"attention\": [{\"k\": 5}, \"linear\"]}", NULL,
         "attention.0.k: unknown key (it belongs to \"linear\", and no \"name\" is given)"},
        {"{\"attention\": [\"plain\", {\"name\": \"plain\", \"k\": 5}]}", NULL,
         "attention.1.k: unknown key (it belongs to \"linear\")"},
        {"{\"k\": 3, \"attention\": [\"plain\", \"linear\"]}", NULL,
         "k: unknown key (it belongs in attention.1)"},
        {"{\"attention\": [[\"plain\"]]}", NULL, "attention.0: expected a name or an object"},
        {"{\"attention\": [\"plain\", \"plain\"]}", "attention.2=linear",
         "--set: attention.2: no such item (the list has 2)"},
        {"{\"attention\": \"plain\"}", "attention.1.name=linear",
         "attention: is no list that has an item 1 (give the whole list)"},
        {"{}", "attention.0=linear", "attention: is no list that has an item 0"},
        {"{\"attention\": [\"plain\", \"linear\"]}", "attention.1.k=0",
         "--set: attention.1.k: 0 is not in 1..64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct staged s;
        struct arena memory;
        arena_init(&memory);
        test_about("%s %s", rows[i].text, rows[i].setting ? rows[i].setting : "");
        CHECK_CONTAINS(read_with(&s, &memory, rows[i].text, SETTINGS(rows[i].setting)),
                       rows[i].want);
        arena_free(&memory);
    }
}

/* A struct that was copied shares its lists: setting those of the copy leaves the original alone. */
TEST(config_set_choice__gives_a_list_of_its_own)
{
    struct staged s, copy;
    struct arena memory;
    struct error err = {0};
    int count = 0;
    arena_init(&memory);
    read_with(&s, &memory, "{\"attention\": [\"plain\", \"linear\"]}", NULL);
    copy = s;
    CHECK_OK(config_set_choice(fields, &copy, kind_at, kind_at(1), &memory, &count, &err), err);
    CHECK_INT(count, 1);
    CHECK_INT(copy.attention.count, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_STR(copy.attention.at[i].name, "linear");
        CHECK_INT(options_of(&copy, i)->k, 3);
    }
    CHECK_STR(s.attention.at[0].name, "plain");
    arena_free(&memory);
}

TEST(config_describe__says_that_a_list_may_be_given)
{
    char *text = config_describe(fields);
    CHECK_CONTAINS(text, "\"name\":\"attention\",\"type\":\"choice or list\",\"default\":\"plain\"");
    CHECK_CONTAINS(text, "\"values\":[\"plain\",\"linear\"]");
    free(text);
}
