/* test_config_read.c - field tables: values, defaults, messages, and the effective config. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/json.h"
#include "sample.h"
#include "test.h"

/* Reads the text into *out; the message, "" where all is well. Valid until the next call. */
static const char *read_into(struct sample *out, struct arena *memory, const char *text)
{
    static struct error err;
    struct config *c = NULL;
    err = (struct error){0};
    if (config_parse(&c, text, "a.json", &err))
        return err.text;
    enum status status = config_read(c, sample_fields, out, memory, &err);
    config_destroy(c);
    CHECK_INT(status, err.text[0] ? ERR_INPUT : OK);
    return err.text;
}

static const char *message_of(const char *text)
{
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    const char *message = read_into(&s, &memory, text);
    arena_free(&memory);
    return message;
}

/* The effective config of the text, malloc'd. */
static char *effective(const char *text)
{
    struct sample s = {0};
    struct arena memory;
    struct config *c = NULL;
    struct error err = {0};
    arena_init(&memory);
    CHECK_OK(config_parse(&c, text, "a.json", &err), err);
    CHECK_OK(config_read(c, sample_fields, &s, &memory, &err), err);
    char *out = config_text(c);
    config_destroy(c);
    arena_free(&memory);
    CHECK(out != NULL);
    return out;
}

static const struct sample_vit *vit_of(const struct sample *s)
{
    return s->model.options;
}

TEST(config_read__fills_every_default)
{
    struct sample s;
    struct arena memory;
    arena_init(&memory);
    memset(&s, 0x55, sizeof s);
    CHECK_STR(read_into(&s, &memory, "{}"), "");
    CHECK_INT(s.seed, 1);
    CHECK(s.data.path == NULL);
    CHECK(s.data.validation.kind == NULL);
    CHECK_INT(s.data.crop.name, 1);
    CHECK_INT(s.data.limit.name, -2);
    CHECK_STR(s.model.name, "vit");
    CHECK_STR(s.model.kind->name, "vit");
    CHECK_INT(vit_of(&s)->image_size[0], 28);
    CHECK_INT(vit_of(&s)->image_size[1], 28);
    CHECK_INT(vit_of(&s)->heads.count, 1);
    CHECK_INT(vit_of(&s)->heads.at[0], 4);
    CHECK(vit_of(&s)->cls_token);
    CHECK_INT(vit_of(&s)->layer_scale.name, -2);
    CHECK_STR(vit_of(&s)->attention.kind->name, "standard");
    CHECK(vit_of(&s)->attention.options == NULL);
    CHECK_INT(s.train.precision, 0);
    CHECK(s.train.ema == NULL);
    CHECK(s.train.schedule.kind == NULL);
    CHECK_INT(s.train.freeze.count, 0);
    const struct sample_adamw *adamw = s.train.optimizer.options;
    CHECK_INT(adamw->betas.count, 2);
    CHECK_NEAR(adamw->betas.at[1], 0.999, 0);
    CHECK_STR(s.output, "runs/x");

    struct sample defaults;
    struct error err = {0};
    CHECK_OK(config_defaults(sample_fields, &defaults, &memory, &err), err);
    CHECK_INT(defaults.train.epochs, 10);
    CHECK_STR(defaults.output, "runs/x");
    arena_free(&memory);
}

TEST(config_read__takes_each_type)
{
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    CHECK_STR(read_into(&s, &memory,
                        "{\"seed\": 9007199254740992, \"output\": \"\","
                        "\"data\": {\"path\": \"/x/./y\", \"validation\": {\"holdout\": 1.0},"
                        "  \"limit\": 500, \"crop\": 7},"
                        "\"model\": {\"image_size\": [32, 48], \"heads\": [1, 2], \"depth\": 1e1,"
                        "  \"cls_token\": false, \"layer_scale\": 1e-5,"
                        "  \"attention\": {\"name\": \"super\", \"wa_init\": \"xavier_uniform\"}},"
                        "\"train\": {\"ema\": {\"decay\": 0.5}, \"freeze\": [\"a\", \"b\"],"
                        "  \"schedule\": \"cosine\", \"precision\": \"bf16\","
                        "  \"optimizer\": {\"name\": \"sgd\", \"nesterov\": true}}}"),
              "");
    CHECK(s.seed == 9007199254740992u);
    CHECK_STR(s.output, "");
    CHECK_STR(s.data.path, "/x/y");
    CHECK_STR(s.data.validation.kind->name, "holdout");
    const struct sample_holdout *part = s.data.validation.options;
    CHECK_INT(part->holdout.name, -1);
    CHECK_NEAR(part->holdout.number, 1, 0);
    CHECK(part->holdout.is_fraction);
    CHECK_NEAR(s.data.limit.number, 500, 0);
    CHECK_NEAR(s.data.crop.number, 7, 0);
    CHECK(!s.data.crop.is_fraction);
    CHECK_INT(vit_of(&s)->image_size[0], 32);
    CHECK_INT(vit_of(&s)->image_size[1], 48);
    CHECK_INT(vit_of(&s)->heads.at[1], 2);
    CHECK_INT(vit_of(&s)->depth, 10);
    CHECK(!vit_of(&s)->cls_token);
    CHECK_NEAR(vit_of(&s)->layer_scale.number, 1e-5, 0);
    const struct sample_super *super = vit_of(&s)->attention.options;
    CHECK_INT(super->wa_init, 1);
    CHECK(super->base);
    CHECK_NEAR(s.train.ema->decay, 0.5, 0);
    CHECK_INT(s.train.ema->warmup, 2000);
    CHECK_STR(s.train.freeze.at[1], "b");
    CHECK_STR(s.train.schedule.kind->name, "cosine");
    CHECK_INT(s.train.precision, 1);
    CHECK(((const struct sample_sgd *)s.train.optimizer.options)->nesterov);
    arena_free(&memory);
}

TEST(config_read__refuses_wrong_types_and_ranges)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"train\": {\"epochs\": \"3\"}}",
         "a.json: train.epochs: expected a whole number, got the string \"3\""},
        {"{\"train\": {\"epochs\": 1.5}}",
         "a.json: train.epochs: expected a whole number, got the number 1.5"},
        {"{\"train\": {\"epochs\": 0}}", "a.json: train.epochs: 0 is not in 1..100000"},
        {"{\"train\": {\"epochs\": -3}}", "a.json: train.epochs: -3 is not in 1..100000"},
        {"{\"train\": {\"epochs\": 1e300}}", "a.json: train.epochs: 1e+300 is not in 1..100000"},
        {"{\"train\": {\"epochs\": null}}",
         "a.json: train.epochs: expected a whole number, got null"},
        {"{\"train\": {\"epochs\": [3]}}",
         "a.json: train.epochs: expected a whole number, got a list"},
        {"{\"train\": {\"batch_size\": 0}}", "a.json: train.batch_size: 0 is not in 1..1000000"},
        {"{\"train\": {\"optimizer\": {\"lr\": \"1e-5\"}}}",
         "a.json: train.optimizer.lr: expected a number, got the string \"1e-5\""},
        {"{\"train\": {\"optimizer\": {\"betas\": [0.9, 2]}}}",
         "a.json: train.optimizer.betas.1: 2 is not in 0..1"},
        {"{\"train\": {\"optimizer\": {\"betas\": \"x\"}}}",
         "a.json: train.optimizer.betas: expected a list of numbers, got the string \"x\""},
        {"{\"train\": {\"precision\": \"bf17\"}}",
         "a.json: train.precision: unknown name \"bf17\" (nearest: \"bf16\"; one of \"fp32\", "
         "\"bf16\")"},
        {"{\"train\": {\"precision\": 16}}",
         "a.json: train.precision: expected a name, got the number 16 (one of \"fp32\", \"bf16\")"},
        {"{\"train\": {\"freeze\": \"all\"}}",
         "a.json: train.freeze: expected a list of strings, got the string \"all\""},
        {"{\"train\": {\"freeze\": [1]}}",
         "a.json: train.freeze.0: expected a string, got the number 1"},
        {"{\"train\": {\"ema\": 0.9}}",
         "a.json: train.ema: expected an object or null, got the number 0.9"},
        {"{\"train\": []}", "a.json: train: expected an object, got a list"},
        {"{\"train\": {\"schedule\": {}}}",
         "a.json: train.schedule.name: is missing (one of \"constant\", \"cosine\")"},
        {"{\"train\": {\"optimizer\": null}}",
         "a.json: train.optimizer: expected a name or an object with a name, got null (one of"},
        {"{\"train\": {\"optimizer\": {\"name\": 3}}}",
         "a.json: train.optimizer.name: expected a name, got the number 3 (one of"},
        {"{\"model\": {\"cls_token\": \"False\"}}",
         "a.json: model.cls_token: expected true or false, got the string \"False\""},
        {"{\"model\": {\"cls_token\": 0}}",
         "a.json: model.cls_token: expected true or false, got the number 0"},
        {"{\"model\": {\"image_size\": [28]}}",
         "a.json: model.image_size: expected a whole number or [height, width], got a list"},
        {"{\"model\": {\"image_size\": [28, 0]}}",
         "a.json: model.image_size.1: 0 is not in 1..4096"},
        {"{\"model\": {\"image_size\": 5000}}", "a.json: model.image_size: 5000 is not in 1..4096"},
        {"{\"model\": {\"dim\": 4294967360}}", "a.json: model.dim: 4294967360 is not in 1..65536"},
        {"{\"model\": {\"attention\": {\"name\": \"super\", \"base\": \"on\"}}}",
         "a.json: model.attention.base: expected true or false, got the string \"on\""},
        {"{\"data\": {\"path\": \"\"}}",
         "a.json: data.path: expected a path or null, got the string"},
        {"{\"data\": {\"limit\": 0}}", "a.json: data.limit: 0 is not in 1..1000000000"},
        {"{\"data\": {\"crop\": -1}}", "a.json: data.crop: -1 is below 0"},
        {"{\"data\": {\"crop\": false}}", "a.json: data.crop: expected a number, a name or null, "
                                          "got false (one of \"test\", \"val\")"},
        {"{\"data\": {\"validation\": 5000}}",
         "a.json: data.validation: expected a name or an object with a name, got the number 5000 "
         "(one of \"holdout\", \"test\")"},
        {"{\"data\": {\"validation\": {\"holdout\": \"x\"}}}",
         "a.json: data.validation.holdout: expected a number or null, got the string \"x\""},
        {"{\"data\": {\"validation\": {\"hold\": 1}}}",
         "a.json: data.validation: an object without \"holdout\", expected {\"holdout\": VALUE} or "
         "a name (one of \"holdout\", \"test\")"},
        {"{\"data\": {\"validation\": {\"holdout\": 1, \"x\": 1}}}",
         "a.json: data.validation.x: unknown key (nearest known key: \"holdout\"; all: holdout)"},
        {"{\"data\": {\"validation\": \"train\"}}",
         "a.json: data.validation: unknown name \"train\" (one of \"holdout\", \"test\")"},
        {"{\"seed\": -1}", "a.json: seed: -1 is not in 0..9007199254740992"},
        {"{\"seed\": 0.5}", "a.json: seed: expected a whole number, got the number 0.5"},
        {"{\"output\": null}", "a.json: output: expected a string, got null"},
        {"[]", "a.json: expected an object {...} as the whole config"},
        {"{\"seed\": 1e400}", "a.json: line 1, column 10: the number 1e400 is too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_about("%s", cases[i].text);
        CHECK_CONTAINS(message_of(cases[i].text), cases[i].message);
    }
}

TEST(config_read__hints_at_what_an_unknown_key_meant)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"train\": {\"learning_rat\": 1e-3}}",
         "a.json: train.learning_rat: unknown key (did you mean \"lr\" in train.optimizer?)"},
        {"{\"train\": {\"lr\": 1e-3}}",
         "a.json: train.lr: unknown key (it belongs in train.optimizer)"},
        {"{\"train\": {\"momentum\": 0.9}}",
         "a.json: train.momentum: unknown key (it belongs in train.optimizer to \"sgd\")"},
        {"{\"train\": {\"optimizer\": {\"momentum\": 0.9}}}",
         "a.json: train.optimizer.momentum: unknown key (it belongs to \"sgd\", and no \"name\" is "
         "given)"},
        {"{\"train\": {\"optimizer\": {\"name\": \"adamw\", \"momentum\": 0.9}}}",
         "a.json: train.optimizer.momentum: unknown key (it belongs to \"sgd\")"},
        {"{\"depth\": 3}", "a.json: depth: unknown key (it belongs in model)"},
        {"{\"model\": \"vit_tiny\", \"wa_init\": 1}",
         "a.json: wa_init: unknown key (it belongs in model.attention to \"super\")"},
        {"{\"train\": {\"seed\": 3}}",
         "a.json: train.seed: unknown key (it belongs at the top level of the file)"},
        {"{\"train\": {\"epoch\": 3}}",
         "a.json: train.epoch: unknown key (did you mean \"epochs\"?)"},
        {"{\"train\": {\"Batch_sise\": 3}}", "(did you mean \"batch_size\"?)"},
        {"{\"trian\": {}}", "a.json: trian: unknown key (did you mean \"train\"?)"},
        {"{\"qqqqqqqq\": {}}",
         "a.json: qqqqqqqq: unknown key (nearest known key: \"seed\"; all: seed,"
         " data, model, train, output)"},
        {"{\"model\": {\"attention\": \"supr\"}}",
         "a.json: model.attention: unknown name \"supr\" (nearest: \"super\"; one of \"standard\", "
         "\"super\", \"efficient\")"},
        {"{\"model\": {\"attention\": {\"name\": \"xyz\"}}}",
         "a.json: model.attention.name: unknown name \"xyz\" (one of \"standard\","},
        {"{\"model\": {\"attention\": {\"name\": \"standard\", \"k\": 1}}}",
         "a.json: model.attention.k: unknown key (it belongs to \"super\")"},
        {"{\"extends\": \"b.json\"}", "a.json: extends: unknown key"},
        {"{\"a\\nb\": 1}", "a.json: a?b: unknown key"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_about("%s", cases[i].text);
        CHECK_CONTAINS(message_of(cases[i].text), cases[i].message);
    }
}

TEST(config_read__presets_are_values_below_the_users)
{
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    CHECK_STR(read_into(&s, &memory,
                        "{\"model\": {\"name\": \"vit_tiny\", \"depth\": 3,"
                        "\"attention\": {\"base\": false}}}"),
              "");
    CHECK_STR(s.model.name, "vit_tiny");
    CHECK_STR(s.model.kind->name, "vit");
    CHECK_INT(vit_of(&s)->dim, 192);
    CHECK_INT(vit_of(&s)->depth, 3);
    CHECK_INT(vit_of(&s)->heads.count, 3);
    const struct sample_super *super = vit_of(&s)->attention.options;
    CHECK_INT(super->k, 5);
    CHECK(!super->base);

    CHECK_STR(read_into(&s, &memory,
                        "{\"model\": {\"name\": \"vit_tiny\", \"layer_scale\": null,"
                        "\"attention\": \"efficient\"}}"),
              "");
    CHECK_STR(vit_of(&s)->attention.kind->name, "efficient");
    CHECK_INT(vit_of(&s)->layer_scale.name, -2);
    CHECK_STR(read_into(&s, &memory, "{\"model\": \"vit_tiny\"}"), "");
    CHECK_NEAR(vit_of(&s)->layer_scale.number, 0.1, 0);
    arena_free(&memory);
}

TEST(config_text__is_complete_in_table_order_and_reads_back)
{
    char *text =
        effective("{\"train\": {\"optimizer\": {\"weight_decay\": 0.1, \"name\": \"adamw\"}},"
                  "\"model\": \"vit_tiny\", \"data\": {\"validation\": {\"holdout\": 1.0},"
                  "\"crop\": 3, \"path\": \"/d\"}, \"seed\": 3}");
    CHECK_STR(text, "{\n"
                    "  \"seed\": 3,\n"
                    "  \"data\": {\n"
                    "    \"path\": \"/d\",\n"
                    "    \"validation\": {\n"
                    "      \"holdout\": 1.0\n"
                    "    },\n"
                    "    \"crop\": 3,\n"
                    "    \"limit\": null\n"
                    "  },\n"
                    "  \"model\": {\n"
                    "    \"name\": \"vit_tiny\",\n"
                    "    \"image_size\": 28,\n"
                    "    \"depth\": 12,\n"
                    "    \"dim\": 192,\n"
                    "    \"heads\": [3, 6, 12],\n"
                    "    \"cls_token\": true,\n"
                    "    \"layer_scale\": 0.1,\n"
                    "    \"attention\": {\n"
                    "      \"name\": \"super\",\n"
                    "      \"wa_init\": \"identity\",\n"
                    "      \"k\": 5,\n"
                    "      \"base\": true\n"
                    "    }\n"
                    "  },\n"
                    "  \"train\": {\n"
                    "    \"epochs\": 10,\n"
                    "    \"batch_size\": 128,\n"
                    "    \"precision\": \"fp32\",\n"
                    "    \"smoothing\": 0.1,\n"
                    "    \"optimizer\": {\n"
                    "      \"name\": \"adamw\",\n"
                    "      \"lr\": 0.001,\n"
                    "      \"weight_decay\": 0.1,\n"
                    "      \"betas\": [0.9, 0.999]\n"
                    "    },\n"
                    "    \"schedule\": null,\n"
                    "    \"ema\": null,\n"
                    "    \"freeze\": []\n"
                    "  },\n"
                    "  \"output\": \"runs/x\"\n"
                    "}\n");
    char *again = effective(text);
    CHECK_STR(again, text);
    free(again);
    free(text);
}

TEST(config_text__is_a_fixed_point)
{
    static const char *const texts[] = {
        "{}",
        "{\"model\": {\"name\": \"vit_tiny\", \"layer_scale\": null, \"heads\": 2,"
        " \"attention\": \"standard\", \"image_size\": [3, 4]}}",
        "{\"train\": {\"ema\": {}, \"optimizer\": \"sgd\", \"schedule\": {\"name\": \"cosine\"},"
        " \"smoothing\": 0.30000000000000004, \"freeze\": [\"\\u00e9\\n\\\"\"]}}",
        "{\"data\": {\"validation\": {\"holdout\": 1}, \"crop\": 1.0}}",
        "{\"data\": {\"validation\": {\"name\": \"holdout\"}}}",
        "{\"data\": {\"validation\": \"test\", \"crop\": null, \"path\": \"relative\"}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_about("%s", texts[i]);
        char *once = effective(texts[i]), *twice = effective(once);
        CHECK_STR(twice, once);
        free(once);
        free(twice);
    }
}

TEST(config_text__keeps_whole_and_fraction_apart)
{
    char *text = effective("{\"data\": {\"validation\": {\"holdout\": 1}, \"crop\": 1.0}}");
    CHECK_CONTAINS(text, "\"holdout\": 1\n");
    CHECK_CONTAINS(text, "\"crop\": 1.0,\n");
    free(text);
}

TEST(config_text__keeps_the_short_form)
{
    char *text = effective("{\"data\": {\"validation\": {\"name\": \"test\"}}}");
    CHECK_CONTAINS(text, "    \"validation\": \"test\",\n");
    free(text);
    text = effective("{\"data\": {\"validation\": \"holdout\"}}");
    CHECK_CONTAINS(text, "    \"validation\": {\n      \"holdout\": 0.1\n    },\n");
    free(text);
    text = effective("{\"model\": {\"attention\": \"efficient\"}}");
    CHECK_CONTAINS(text, "    \"attention\": {\n      \"name\": \"efficient\"\n    }\n");
    free(text);
}

TEST(config_read__leaves_the_document_after_an_error)
{
    struct config *c = NULL;
    struct error err = {0};
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    CHECK_OK(config_parse(&c, "{\"train\": {\"epochs\": 0}}", "a.json", &err), err);
    CHECK_INT(config_read(c, sample_fields, &s, &memory, &err), ERR_INPUT);
    char *text = config_value(c, "");
    CHECK_STR(text, "{\"train\":{\"epochs\":0}}");
    free(text);
    config_destroy(c);
    arena_free(&memory);
}

TEST(config_describe__lists_every_option)
{
    struct sample s = {0};
    struct arena memory;
    arena_init(&memory);
    CHECK_STR(read_into(&s, &memory, "{\"model\": {\"attention\": \"super\"}}"), "");
    char *text = config_describe(vit_of(&s)->attention.kind->fields);
    CHECK_STR(text,
              "[{\"name\":\"wa_init\",\"type\":\"name\",\"default\":\"identity\",\"min\":null,"
              "\"max\":null,\"help\":\"start of the alignment\","
              "\"values\":[\"identity\",\"xavier_uniform\"]},"
              "{\"name\":\"k\",\"type\":\"int\",\"default\":0,\"min\":0,\"max\":4096,"
              "\"help\":\"rows\"},"
              "{\"name\":\"base\",\"type\":\"bool\",\"default\":true,\"min\":null,\"max\":null,"
              "\"help\":\"with the base\"}]");
    free(text);
    text = config_describe(NULL);
    CHECK_STR(text, "[]");
    free(text);
    text = config_describe(sample_fields);
    struct json_value *v = NULL;
    struct error err = {0};
    CHECK_OK(json_parse(&v, text, strlen(text), &err), err);
    CHECK_CONTAINS(text, "\"name\":\"ema\",\"type\":\"object\",\"default\":null");
    json_free(v);
    free(text);
    arena_free(&memory);
}

static const struct field *field_of(const struct field *fields, const char *name)
{
    while (fields->type != FIELD_TYPE_END && strcmp(fields->name, name) != 0)
        fields++;
    CHECK(fields->type != FIELD_TYPE_END);
    return fields;
}

TEST(config_set_choice__sets_all_choices_of_a_list_and_no_other)
{
    struct sample s = {0};
    struct arena memory;
    struct error err = {0};
    int count = 0;
    arena_init(&memory);
    CHECK_STR(read_into(&s, &memory, "{\"train\": {\"optimizer\": \"sgd\"}}"), "");
    kind_list *kinds = field_of(field_of(sample_fields, "train")->fields, "optimizer")->kinds;
    CHECK_OK(config_set_choice(sample_fields, &s, kinds, kinds(0), &memory, &count, &err), err);
    CHECK_INT(count, 1);
    CHECK_STR(s.train.optimizer.name, "adamw");
    CHECK(s.train.optimizer.kind == kinds(0));
    const struct sample_adamw *adamw = s.train.optimizer.options;
    CHECK_NEAR(adamw->weight_decay, 0.05, 0);
    CHECK_INT(adamw->betas.count, 2);
    CHECK_STR(s.model.name, "vit");
    CHECK_INT(s.train.epochs, 10);
    arena_free(&memory);
}
