/* test_trace.c - attnbench trace. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/real.h"
#include "cli/program.h"
#include "config/json.h"
#include "io/safetensors.h"

enum { BATCH = 3, PIXELS = 64, CLASSES = 4 };

/* The input of the small model, with what is not NULL; its path. */
static const char *input(const double *x, const int64_t *y, const double *dlogits)
{
    const char *path = test_text("%s/in.safetensors", test_directory());
    struct st_tensor tensors[3];
    struct error err;
    int count = 0;
    if (x)
        tensors[count++] =
            (struct st_tensor){"x", DTYPE_F64, 4, {BATCH, 1, 8, 8}, BATCH * PIXELS, x};
    if (y)
        tensors[count++] = (struct st_tensor){"y", DTYPE_I64, 1, {BATCH}, BATCH, y};
    if (dlogits)
        tensors[count++] =
            (struct st_tensor){"dlogits", DTYPE_F64, 2, {BATCH, CLASSES}, BATCH * CLASSES, dlogits};
    CHECK_OK(st_write(path, tensors, count, NULL, 0, &err), err);
    return path;
}

static const double *images(void)
{
    static double x[BATCH * PIXELS];
    for (int i = 0; i < BATCH * PIXELS; i++)
        x[i] = sin(i * 0.7) + 0.1 * i / PIXELS;
    return x;
}

static const int64_t labels[BATCH] = {0, 3, 1};

/* Runs trace and opens what it wrote. */
static struct st_file *traced(const char *config, const char *in, const char *options)
{
    const char *out = test_text("%s/out.safetensors", test_directory());
    struct st_file *file;
    struct error err;
    struct said s = attnbench("trace %s --input %s --output %s %s", config, in, out, options);
    test_about("%s", s.err);
    CHECK_INT(s.code, 0);
    CHECK_OK(st_open(&file, out, &err), err);
    return file;
}

static void values(struct st_file *f, const char *name, double *to, size_t count)
{
    struct error err;
    const struct st_tensor *t = st_find(f, name);
    test_about("%s", name);
    CHECK(t != NULL);
    CHECK_INT(t->count, count);
    CHECK_INT(t->dtype, sizeof(real) == sizeof(double) ? DTYPE_F64 : DTYPE_F32);
    CHECK_OK(st_to_double(to, t, &err), err);
}

TEST(trace__writes_every_named_output)
{
    struct st_file *f = traced(small_config(""), input(images(), labels, NULL), "");
    static const char *const names[] = {"patch_embed", "blocks.0.attn", "blocks.0", "blocks.1.attn",
                                        "blocks.1", "norm"};
    for (int i = 0; i < 6; i++) {
        test_about("%s", names[i]);
        const struct st_tensor *t = st_find(f, names[i]);
        CHECK(t != NULL);
        CHECK_INT(t->rank, 3);
        CHECK_INT(t->shape[0], BATCH);
        CHECK_INT(t->shape[1], i ? 5 : 4); /* the class token comes behind patch_embed */
        CHECK_INT(t->shape[2], 8);
    }
    CHECK_INT(st_count(f), 8); /* and logits, loss */
    st_close(f);
}

TEST(trace__says_what_a_fused_graph_leaves_out)
{
    const char *out = test_text("%s/out.safetensors", test_directory());
    struct st_file *f;
    struct error err;
    struct said s = attnbench("trace %s --input %s --output %s --fused", small_config(""),
                              input(images(), labels, NULL), out);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.err, "2 outputs are never stored where the graph is fused, and left out: "
                          "blocks.0.attn, blocks.1.attn\n");
    CHECK_OK(st_open(&f, out, &err), err);
    CHECK(st_find(f, "blocks.0.attn") == NULL && st_find(f, "blocks.1.attn") == NULL);
    CHECK(st_find(f, "blocks.0") != NULL && st_find(f, "logits") != NULL);
    CHECK_INT(st_count(f), 6);
    st_close(f);
    s = attnbench("trace %s --input %s --output %s", small_config(""), input(images(), labels, NULL),
                  out);
    CHECK_STR(s.err, "");
}

TEST(trace__loss_is_the_mean_cross_entropy_of_the_logits)
{
    struct st_file *f = traced(small_config("\"label_smoothing\": 0.2"),
                               input(images(), labels, NULL), "");
    double logits[BATCH * CLASSES], loss, want = 0;
    values(f, "logits", logits, BATCH * CLASSES);
    values(f, "loss", &loss, 1);
    CHECK_INT(st_find(f, "loss")->rank, 0);
    st_close(f);
    for (int b = 0; b < BATCH; b++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += exp(logits[b * CLASSES + c]);
        want += (log(sum) - logits[b * CLASSES + labels[b]]) / BATCH;
    }
    CHECK_NEAR(loss, want, 1e-6);
}

TEST(trace__gradients_are_written_for_x_and_every_parameter)
{
    const char *config = small_config("");
    struct st_file *f = traced(config, input(images(), labels, NULL), "--grad");
    struct json_value *root;
    struct error err;
    const char *info = attnbench("info %s --json", config).out;
    CHECK_OK(json_parse(&root, info, strlen(info), &err), err);
    const struct json_value *v = json_first(json_member(root, "parameters"));
    int count = 0;
    for (; v; v = json_next(v), count++) {
        const struct st_tensor *t =
            st_find(f, test_text("grad.%s", json_to_string(json_member(v, "name"))));
        test_about("%s", json_to_string(json_member(v, "name")));
        CHECK(t != NULL);
        const struct json_value *dim = json_first(json_member(v, "shape"));
        for (int i = 0; i < t->rank; i++, dim = json_next(dim))
            CHECK_INT(t->shape[i], json_to_number(dim));
        CHECK(dim == NULL);
    }
    json_free(root);
    CHECK(count > 20);
    CHECK_INT(st_count(f), count + 9); /* grad.x and the outputs */
    double x[BATCH * PIXELS], square = 0;
    values(f, "grad.x", x, BATCH * PIXELS);
    for (int i = 0; i < BATCH * PIXELS; i++)
        square += x[i] * x[i];
    CHECK(square > 0);
    st_close(f);
}

TEST(trace__gradients_start_from_dlogits_where_they_are_given)
{
    /* dlogits = (softmax - onehot) / B is the gradient of the mean cross entropy. */
    const char *config = small_config("");
    double logits[BATCH * CLASSES], dlogits[BATCH * CLASSES];
    double a[BATCH * PIXELS], b[BATCH * PIXELS];
    struct st_file *f = traced(config, input(images(), labels, NULL), "--grad");
    values(f, "logits", logits, BATCH * CLASSES);
    values(f, "grad.x", a, BATCH * PIXELS);
    st_close(f);
    for (int i = 0; i < BATCH; i++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += exp(logits[i * CLASSES + c]);
        for (int c = 0; c < CLASSES; c++)
            dlogits[i * CLASSES + c] =
                (exp(logits[i * CLASSES + c]) / sum - (c == labels[i])) / BATCH;
    }
    f = traced(config, input(images(), NULL, dlogits), "--grad --fused");
    values(f, "grad.x", b, BATCH * PIXELS);
    CHECK(st_find(f, "loss") == NULL);
    st_close(f);
    for (int i = 0; i < BATCH * PIXELS; i++)
        CHECK_NEAR(b[i], a[i], 1e-6);
}

TEST(trace__noise_is_off_without_train)
{
    const char *config = text_file("c.json",
        "{\"model\": {\"image_size\": 8, \"classes\": 4, \"dim\": 8, \"heads\": 2, \"depth\": 2, "
        "\"dropout\": 0.5}}");
    const char *in = input(images(), NULL, NULL);
    double plain[BATCH * CLASSES], again[BATCH * CLASSES], noisy[BATCH * CLASSES];
    struct st_file *f = traced(config, in, "");
    values(f, "logits", plain, BATCH * CLASSES);
    st_close(f);
    f = traced(text_file("c.json",
        "{\"model\": {\"image_size\": 8, \"classes\": 4, \"dim\": 8, \"heads\": 2, \"depth\": 2}}"),
        in, "--train");
    values(f, "logits", again, BATCH * CLASSES);
    st_close(f);
    f = traced(config, in, "--train");
    values(f, "logits", noisy, BATCH * CLASSES);
    st_close(f);
    CHECK(memcmp(plain, again, sizeof plain) == 0);
    CHECK(memcmp(plain, noisy, sizeof plain) != 0);
}

TEST(trace__weights_come_from_checkpoint_or_file)
{
    const char *config = small_config(""), *directory = test_directory();
    CHECK_INT(attnbench("train %s --quiet --out %s/run", config, directory).code, 0);
    const char *weights = test_text("%s/run/last.safetensors", directory);
    const char *in = input(images(), labels, NULL);
    double initial[BATCH * CLASSES], own[BATCH * CLASSES], given[BATCH * CLASSES];
    struct st_file *f = traced(config, in, "");
    values(f, "logits", initial, BATCH * CLASSES);
    st_close(f);
    f = traced(weights, in, "");
    values(f, "logits", own, BATCH * CLASSES);
    st_close(f);
    f = traced(config, in, test_text("--weights %s", weights));
    values(f, "logits", given, BATCH * CLASSES);
    st_close(f);
    CHECK(memcmp(own, given, sizeof own) == 0);
    CHECK(memcmp(own, initial, sizeof own) != 0);
}

static void check_refused(const char *in, const char *options, const char *what)
{
    const char *out = test_text("%s/out", test_directory());
    struct said s =
        attnbench("trace %s --input %s --output %s %s", small_config(""), in, out, options);
    test_about("%s", what);
    CHECK_INT(s.code, 2);
    CHECK_INT(count_of(s.err, "\n"), 1);
    CHECK_CONTAINS(s.err, what);
    CHECK(!path_exists(out));
}

TEST(trace__input_that_does_not_fit_is_refused)
{
    static const double dlogits[BATCH * CLASSES];
    static const int64_t high[BATCH] = {0, 4, 1}, low[BATCH] = {-1, 0, 0};
    check_refused(input(NULL, labels, NULL), "", "in.safetensors: has no tensor x");
    check_refused(input(images(), NULL, NULL), "--grad", "need labels y");
    check_refused(input(images(), labels, dlogits), "--grad", "both y and dlogits");
    check_refused(input(images(), high, NULL), "", "label 4 of image 1");
    check_refused(input(images(), low, NULL), "", "label -1 of image 0");
    check_refused(text_file("x", "nonsense"), "", "safetensors");
    const struct st_tensor flat = {"x", DTYPE_F64, 2, {BATCH, PIXELS}, BATCH * PIXELS, images()};
    const char *path = test_text("%s/flat.safetensors", test_directory());
    struct error err;
    CHECK_OK(st_write(path, &flat, 1, NULL, 0, &err), err);
    check_refused(path, "", "x: its shape is (3, 64), this model takes (3, 1, 8, 8)");
}

TEST(trace__never_writes_over_what_it_reads)
{
    const char *in = input(images(), NULL, NULL), *config = small_config("");
    const char *const outputs[] = {in, config, test_directory(), test_text("%s/x", in),
                                   test_text("%s/none/x", test_directory())};
    const char *const what[] = {"would overwrite", "would overwrite", "is a directory",
                                "not a directory", "none"};
    for (int i = 0; i < 5; i++) {
        struct said s = attnbench("trace %s --input %s --output %s", config, in, outputs[i]);
        test_about("%s", s.err);
        CHECK_INT(s.code, 2);
        CHECK_CONTAINS(s.err, what[i]);
    }
}
