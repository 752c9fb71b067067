/* test_config.c - files, "extends", --set: what is merged, where a value stands, what differs. */
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "sample.h"
#include "test.h"

static const char *write_file(const char *directory, const char *name, const char *text)
{
    struct error err = {0};
    const char *path = test_text("%s/%s", directory, name);
    CHECK_OK(file_write(path, text, strlen(text), &err), err);
    return path;
}

/* One-line JSON of the merged document, or the message. Valid until the exit. */
static const char *loaded(const char *path, const char *const *settings, int count)
{
    struct config *c = NULL;
    struct error err = {0};
    enum status status = config_load(&c, path, settings, count, &err);
    if (status) {
        CHECK_INT(status, ERR_INPUT);
        CHECK(c == NULL);
        return test_text("%s", err.text);
    }
    char *value = config_value(c, "");
    const char *text = test_text("%s", value);
    free(value);
    config_destroy(c);
    return text;
}

/* The message of loading and reading, "" where all is well. Valid until the exit. */
static const char *message_of(const char *path, const char *const *settings, int count)
{
    struct config *c = NULL;
    struct error err = {0};
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    enum status status = config_load(&c, path, settings, count, &err);
    if (!status)
        status = config_read(c, sample_fields, &s, &memory, &err);
    config_destroy(c);
    arena_free(&memory);
    return status ? test_text("%s", err.text) : "";
}

#define SETTINGS(...)                                                                              \
    (const char *const[]){__VA_ARGS__}, (int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *))

TEST(config_load__merges_what_it_extends)
{
    const char *d = test_directory();
    write_file(d, "base.json", "{\"seed\": 1, \"train\": {\"epochs\": 2, \"freeze\": [1, 2]}}");
    write_file(d, "mid.json", "{\"extends\": \"base.json\", \"train\": {\"freeze\": [3]}}");
    const char *top = write_file(d, "top.json",
                                 "\xef\xbb\xbf{\"train\": {\"ema\": {\"decay\": 0}},"
                                 "\"extends\": \"./mid.json\"}");
    CHECK_STR(loaded(top, NULL, 0),
              "{\"seed\":1,\"train\":{\"epochs\":2,\"freeze\":[3],\"ema\":{\"decay\":0}}}");
}

TEST(config_load__options_start_afresh_where_a_name_changes)
{
    static const struct {
        const char *base, *over, *merged;
    } cases[] = {
        {"{\"optimizer\":{\"name\":\"sgd\",\"momentum\":0.5}}",
         "{\"optimizer\":{\"name\":\"adamw\"}}", "{\"optimizer\":{\"name\":\"adamw\"}}"},
        {"{\"optimizer\":{\"name\":\"sgd\",\"momentum\":0.5}}",
         "{\"optimizer\":{\"name\":\"sgd\",\"lr\":1}}",
         "{\"optimizer\":{\"name\":\"sgd\",\"momentum\":0.5,\"lr\":1}}"},
        {"{\"optimizer\":{\"name\":\"sgd\",\"momentum\":0.5}}", "{\"optimizer\":{\"lr\":1}}",
         "{\"optimizer\":{\"name\":\"sgd\",\"momentum\":0.5,\"lr\":1}}"},
        {"{\"schedule\":{\"name\":\"cosine\",\"min_lr\":1}}", "{\"schedule\":\"step\"}",
         "{\"schedule\":{\"name\":\"step\"}}"},
        {"{\"schedule\":{\"name\":\"cosine\",\"min_lr\":1}}", "{\"schedule\":\"cosine\"}",
         "{\"schedule\":{\"name\":\"cosine\",\"min_lr\":1}}"},
        {"{\"model\":{\"attention\":\"super\"}}", "{\"model\":{\"attention\":{\"k\":3}}}",
         "{\"model\":{\"attention\":{\"name\":\"super\",\"k\":3}}}"},
        {"{\"model\":{\"attention\":\"super\"}}",
         "{\"model\":{\"attention\":{\"name\":\"x\",\"k\":3}}}",
         "{\"model\":{\"attention\":{\"name\":\"x\",\"k\":3}}}"},
        {"{\"model\":{\"attention\":{\"name\":\"super\",\"k\":3}}}",
         "{\"model\":{\"attention\":null}}", "{\"model\":{\"attention\":null}}"},
        {"{\"model\":{\"name\":\"vit\",\"depth\":3}}", "{\"model\":{\"name\":\"swin\"}}",
         "{\"model\":{\"name\":\"swin\",\"depth\":3}}"},
        {"{\"model\":\"vit\"}", "{\"model\":{\"depth\":3}}",
         "{\"model\":{\"name\":\"vit\",\"depth\":3}}"},
        {"{\"other\":{\"name\":\"a\",\"x\":1}}", "{\"other\":{\"name\":\"b\"}}",
         "{\"other\":{\"name\":\"b\",\"x\":1}}"},
        {"{\"other\":\"a\"}", "{\"other\":{\"x\":1}}", "{\"other\":{\"x\":1}}"},
    };
    const char *d = test_directory();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_about("%s + %s", cases[i].base, cases[i].over);
        write_file(d, "base.json", cases[i].base);
        const char *top = write_file(
            d, "top.json", test_text("{\"extends\": \"base.json\", %s", cases[i].over + 1));
        CHECK_STR(loaded(top, NULL, 0), cases[i].merged);
    }
}

/* lr of the optimizer where the base gives 0.5 without a name, and `name` is laid upon it. */
static double lr_after(const char *name)
{
    const char *d = test_directory();
    const char *path = write_file(d, "a.json", "{\"train\": {\"optimizer\": {\"lr\": 0.5}}}");
    const char *setting = test_text("train.optimizer.name=%s", name);
    struct config *c = NULL;
    struct error err = {0};
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    CHECK_OK(config_load(&c, path, &setting, 1, &err), err);
    CHECK_OK(config_read(c, sample_fields, &s, &memory, &err), err);
    double lr = *(const double *)s.train.optimizer.options; /* the first member of both kinds */
    config_destroy(c);
    arena_free(&memory);
    return lr;
}

TEST(config_read__options_of_the_default_go_where_another_name_comes)
{
    CHECK_NEAR(lr_after("adamw"), 0.5, 0); /* the default */
    CHECK_NEAR(lr_after("sgd"), 0.1, 0);
}

TEST(config_load__applies_settings)
{
    const char *d = test_directory();
    const char *path = write_file(d, "a.json",
                                  "{\"model\": {\"depths\": [2, 6], \"attention\": "
                                  "{\"name\": \"super\", \"k\": 3}}}");
    CHECK_STR(loaded(path, SETTINGS("train.epochs=3", "train.lr=1e-3", "output=a=b", "x=", "y=null",
                                    "z=[1, 2]", "q=\"7\"", "w=False", "train.epochs=4")),
              "{\"model\":{\"depths\":[2,6],\"attention\":{\"name\":\"super\",\"k\":3}},"
              "\"train\":{\"epochs\":4,\"lr\":0.001},\"output\":\"a=b\",\"x\":\"\",\"y\":null,"
              "\"z\":[1,2],\"q\":\"7\",\"w\":\"False\"}");
    CHECK_STR(loaded(path, SETTINGS("model.depths.1=9", "model.attention.k=4")),
              "{\"model\":{\"depths\":[2,9],\"attention\":{\"name\":\"super\",\"k\":4}}}");
    CHECK_STR(loaded(path, SETTINGS("model.depths=5", "model.attention=efficient")),
              "{\"model\":{\"depths\":5,\"attention\":{\"name\":\"efficient\"}}}");
    CHECK_STR(loaded(path, SETTINGS("model.attention.name=super")),
              "{\"model\":{\"depths\":[2,6],\"attention\":{\"name\":\"super\",\"k\":3}}}");
    CHECK_STR(loaded(path, SETTINGS("model.attention.r=1", "model.attention.name=linformer")),
              "{\"model\":{\"depths\":[2,6],\"attention\":{\"name\":\"linformer\",\"r\":1}}}");
    CHECK_STR(loaded(path, SETTINGS("model.attention.r=1", "model.attention=linformer")),
              "{\"model\":{\"depths\":[2,6],\"attention\":{\"name\":\"linformer\",\"r\":1}}}");
}

TEST(config_load__refuses_bad_settings)
{
    const char *path = write_file(test_directory(), "a.json", "{\"model\": {\"depths\": [2, 6]}}");
    CHECK_STR(loaded(path, SETTINGS("train.epochs")),
              "--set: \"train.epochs\" is not PATH=VALUE (as in train.epochs=3)");
    CHECK_CONTAINS(loaded(path, SETTINGS("=3")), "is not PATH=VALUE");
    CHECK_CONTAINS(loaded(path, SETTINGS("a..b=3")), "is not PATH=VALUE");
    CHECK_CONTAINS(loaded(path, SETTINGS(".a=3")), "is not PATH=VALUE");
    CHECK_CONTAINS(loaded(path, SETTINGS("a.=3")), "is not PATH=VALUE");
    CHECK_STR(loaded(path, SETTINGS("model.depths.2=3")),
              "--set: model.depths.2: no such item (the list has 2)");
    CHECK_CONTAINS(loaded(path, SETTINGS("model.depths.-1=3")), "no such item");
    CHECK_CONTAINS(loaded(path, SETTINGS("model.depths.x=3")), "no such item");
    CHECK_STR(loaded(path, SETTINGS("a=\xff")), "--set: a: the value is not UTF-8");
}

TEST(config_load__a_setting_reaches_into_the_list_of_a_preset)
{
    const char *path = write_file(test_directory(), "a.json", "{\"model\": \"vit_tiny\"}");
    struct config *c = NULL;
    struct error err = {0};
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    CHECK_OK(config_load(&c, path, SETTINGS("model.heads.1=5"), &err), err);
    CHECK_OK(config_read(c, sample_fields, &s, &memory, &err), err);
    const struct sample_vit *vit = s.model.options;
    CHECK_INT(vit->heads.at[0], 3);
    CHECK_INT(vit->heads.at[1], 5);
    CHECK_INT(vit->heads.at[2], 12);
    config_destroy(c);
    arena_free(&memory);
}

/* A misspelt key, a key in the wrong section, a misspelt name: path, hint and list of names. */
TEST(config_load__case_b14)
{
    const char *d = test_directory();
    const char *path = write_file(d, "a.json", "{\"train\": {\"learning_rat\": 1e-3}}");
    CHECK_STR(message_of(path, NULL, 0),
              test_text("%s: train.learning_rat: unknown key (did you mean \"lr\" in "
                        "train.optimizer?)",
                        path));
    path = write_file(d, "b.json", "{\"train\": {\"lr\": 1e-3}}");
    CHECK_CONTAINS(message_of(path, NULL, 0),
                   "train.lr: unknown key (it belongs in train.optimizer)");
    path = write_file(d, "c.json", "{\"model\": {\"attention\": \"sper\"}}");
    CHECK_CONTAINS(message_of(path, NULL, 0),
                   "model.attention: unknown name \"sper\" (nearest: \"super\"; one of "
                   "\"standard\", \"super\", \"efficient\")");
}

/* No spelling of a boolean but true and false is taken, and none gives true by accident. */
TEST(config_load__case_b15)
{
    const char *path = write_file(test_directory(), "a.json", "{}");
    CHECK_STR(message_of(path, SETTINGS("model.cls_token=false")), "");
    CHECK_STR(message_of(path, SETTINGS("model.cls_token=False")),
              "--set: model.cls_token: expected true or false, got the string \"False\"");
    CHECK_STR(message_of(path, SETTINGS("model.cls_token=0")),
              "--set: model.cls_token: expected true or false, got the number 0");
    CHECK_STR(message_of(path, SETTINGS("model.cls_token=no")),
              "--set: model.cls_token: expected true or false, got the string \"no\"");
    CHECK_STR(message_of(path, SETTINGS("train.epochs=2.5")),
              "--set: train.epochs: expected a whole number, got the number 2.5");
    CHECK_STR(message_of(path, SETTINGS("train.optimizer.lr=\"1e-5\"")),
              "--set: train.optimizer.lr: expected a number, got the string \"1e-5\"");
    CHECK_STR(message_of(path, SETTINGS("train.optimizer.lr=1e400")),
              "--set: train.optimizer.lr: expected a number, got the string \"1e400\"");
    CHECK_STR(message_of(path, SETTINGS("train.batch_size=0")),
              "--set: train.batch_size: 0 is not in 1..1000000");
}

TEST(config_load__messages_name_the_file_in_which_a_value_stands)
{
    const char *d = test_directory();
    const char *base = write_file(d, "base.json", "{\"train\": {\"epochs\": 0, \"smoothing\": 9}}");
    const char *top = write_file(d, "top.json",
                                 "{\"extends\": \"base.json\", \"train\": "
                                 "{\"batch_size\": 0, \"smoothing\": 0}}");
    CHECK_STR(message_of(top, NULL, 0), test_text("%s: train.epochs: 0 is not in 1..100000", base));
    CHECK_STR(message_of(top, SETTINGS("train.epochs=1")),
              test_text("%s: train.batch_size: 0 is not in 1..1000000", top));
    CHECK_STR(message_of(top, SETTINGS("train.epochs=1", "train.batch_size=-7")),
              "--set: train.batch_size: -7 is not in 1..1000000");
    CHECK_STR(message_of(top, SETTINGS("train.epochs=1", "train.batch_size=7")), "");
}

TEST(config_read__paths_are_relative_to_their_file)
{
    const char *d = test_directory();
    struct error err = {0};
    CHECK_OK(file_make_directory(test_text("%s/sub", d), &err), err);
    CHECK_OK(file_make_directory(test_text("%s/base", d), &err), err);
    write_file(d, "base/b.json", "{\"data\": {\"path\": \"../sets/./x\"}}");
    const char *top = write_file(d, "sub/top.json", "{\"extends\": \"../base/b.json\"}");
    char here[4096];
    CHECK(getcwd(here, sizeof here) != NULL);
    const char *const setting = "data.path=y";
    for (int set = 0; set < 2; set++) {
        struct config *c = NULL;
        struct sample s = {0};
        struct arena memory;
        arena_init(&memory);
        CHECK_OK(config_load(&c, top, &setting, set, &err), err);
        CHECK_OK(config_read(c, sample_fields, &s, &memory, &err), err);
        const char *want = set ? test_text("%s/y", here) : test_text("%s/sets/x", d);
        CHECK_STR(s.data.path, want);
        char *value = config_value(c, "data.path");
        CHECK_STR(value, test_text("\"%s\"", want));
        free(value);
        config_destroy(c);
        arena_free(&memory);
    }
}

TEST(config_load__refuses_bad_files)
{
    const char *d = test_directory();
    const char *path = test_text("%s/none.json", d);
    CHECK_CONTAINS(loaded(path, NULL, 0), test_text("%s: ", path));
    CHECK_CONTAINS(loaded(d, NULL, 0), test_text("%s: ", d));
    path = write_file(d, "empty.json", "");
    CHECK_STR(loaded(path, NULL, 0),
              test_text("%s: line 1, column 1: expected a value, got the end of the text", path));
    path = write_file(d, "syntax.json", "{\"seed\": 1,\n  \"train\" {}}");
    CHECK_STR(loaded(path, NULL, 0),
              test_text("%s: line 2, column 11: expected a colon after the key, got {", path));
    path = write_file(d, "repeat.json", "{\"a\": 1, \"a\": 1}");
    CHECK_STR(loaded(path, NULL, 0),
              test_text("%s: line 1, column 10: the key \"a\" is repeated", path));
    path = write_file(d, "list.json", "[1]");
    CHECK_CONTAINS(loaded(path, NULL, 0), "expected an object {...} as the whole config");
    path = write_file(d, "number.json", "{\"extends\": 3}");
    CHECK_CONTAINS(loaded(path, NULL, 0), "extends: expected the path of a config file");
    path = write_file(d, "gone.json", "{\"extends\": \"none.json\"}");
    CHECK_CONTAINS(loaded(path, NULL, 0), test_text("%s: extends: %s/none.json: ", path, d));
}

TEST(config_load__refuses_loops_of_extends)
{
    const char *d = test_directory();
    const char *self = write_file(d, "self.json", "{\"extends\": \"self.json\"}");
    CHECK_CONTAINS(loaded(self, NULL, 0), "leads back to itself");
    write_file(d, "a.json", "{\"extends\": \"b.json\"}");
    const char *b = write_file(d, "b.json", "{\"extends\": \"./a.json\"}");
    const char *other = write_file(d, "c.json", test_text("{\"extends\": \"%s/./a.json\"}", d));
    CHECK_CONTAINS(loaded(b, NULL, 0), "leads back to itself");
    CHECK_CONTAINS(loaded(other, NULL, 0), "leads back to itself");
    for (int i = 0; i < 40; i++)
        write_file(d, test_text("n%d.json", i), test_text("{\"extends\": \"n%d.json\"}", i + 1));
    write_file(d, "n40.json", "{}");
    CHECK_STR(loaded(test_text("%s/n9.json", d), NULL, 0), "{}");
    CHECK_CONTAINS(loaded(test_text("%s/n0.json", d), NULL, 0), "more than 32 files in a chain");
}

TEST(config_load__huge_and_deep_files_end_at_once)
{
    const char *d = test_directory();
    size_t n = (4u << 20) + 1;
    char *text = malloc(n + 1);
    CHECK(text != NULL);
    memset(text, ' ', n);
    text[n] = 0;
    memcpy(text, "{}", 2);
    const char *path = write_file(d, "huge.json", text);
    CHECK_CONTAINS(loaded(path, NULL, 0), test_text("%s: ", path));
    text[n - 1] = 0;
    CHECK_STR(loaded(write_file(d, "fits.json", text), NULL, 0), "{}");
    memset(text, '[', 100000);
    text[100000] = 0;
    path = write_file(d, "deep.json", text);
    CHECK_STR(loaded(path, NULL, 0),
              test_text("%s: line 1, column 65: more than 64 levels of nesting", path));
    free(text);
}

TEST(config_error__names_where_the_value_stands)
{
    const char *d = test_directory();
    const char *base = write_file(d, "base.json", "{\"model\": {\"dim\": 65}}");
    const char *top = write_file(d, "top.json", "{\"extends\": \"base.json\", \"seed\": 3}");
    struct config *c = NULL;
    struct error err = {0};
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    CHECK_OK(config_load(&c, top, SETTINGS("train.epochs=5"), &err), err);
    CHECK_OK(config_read(c, sample_fields, &s, &memory, &err), err);
    CHECK_INT(config_error(c, &err, "model.dim", "%d is not a multiple of %d", 65, 4), ERR_INPUT);
    CHECK_STR(err.text, test_text("%s: model.dim: 65 is not a multiple of 4", base));
    config_error(c, &err, "model.heads", "x"); /* a default: where the object around it stands */
    CHECK_STR(err.text, test_text("%s: model.heads: x", base));
    config_error(c, &err, "data.path", "is missing");
    CHECK_STR(err.text, test_text("%s: data.path: is missing", top));
    config_error(c, &err, "train.epochs", "x");
    CHECK_STR(err.text, "--set: train.epochs: x");
    CHECK_INT(err.status, ERR_INPUT);
    config_destroy(c);
    arena_free(&memory);
}

TEST(config_difference__lists_paths_with_both_values)
{
    struct config *a = NULL, *b = NULL;
    struct error err = {0};
    CHECK_OK(config_parse(&a,
                          "{\"seed\":1,\"t\":{\"x\":[1,2],\"y\":\"s\",\"gone\":{}},\"out\":\"p\"}",
                          "a", &err),
             err);
    CHECK_OK(config_parse(&b,
                          "{\"out\":\"q\",\"outer\":1,\"t\":{\"y\":\"s\",\"x\":[1,3]},\"seed\":1}",
                          "b", &err),
             err);
    const char *const ignore[] = {"out", NULL};
    char *text = config_difference(a, b, ignore);
    CHECK_STR(text, "t.x: [1,2] -> [1,3]; t.gone: {} -> absent; outer: absent -> 1");
    free(text);
    text = config_difference(a, a, NULL);
    CHECK_STR(text, "");
    free(text);
    text = config_value(a, "t.x.1");
    CHECK_STR(text, "2");
    free(text);
    CHECK(config_value(a, "t.z") == NULL);
    config_destroy(a);
    config_destroy(b);
}
