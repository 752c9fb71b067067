/* test_reference.c - one layer of each kind against reference values computed without this code:
 * tests/golden/cases/hosseini_6_1.json. */
#include <stdlib.h>

#include "base/file.h"
#include "config/json.h"
#include "layer.h"

enum { N = 3, D = 4, H = 2 };

static struct json_value *load(void)
{
    struct error error;
    struct json_value *root;
    char *text;
    size_t size;
    CHECK_OK(file_read(&text, &size, "tests/golden/cases/hosseini_6_1.json", 1 << 20, &error),
             error);
    CHECK_OK(json_parse(&root, text, size, &error), error);
    free(text);
    return root;
}

static double number(const struct json_value *object, const char *key)
{
    const struct json_value *v = json_member(object, key);
    if (!v)
        test_about("%s", key);
    CHECK(v && json_type(v) == JSON_NUMBER);
    return json_to_number(v);
}

/* Entry j of tensor number n. */
static real entry(const struct json_value *root, const char *tensor, int j)
{
    int n = (int)number(json_member(root, "numbers"), tensor);
    return (real)(((37 * j + 101 * n + 11) % 64 - 31.5) / 64);
}

/* Rows `first` .. first + D - 1 of a weight (out, in) from the tensor (in, out), and of its bias.
 */
static void fill(const struct json_value *root, struct layer *l, const char *name, int first,
                 const char *weight, const char *bias)
{
    real *W = layer_value(l, test_text("%s.weight", name)) + first * D;
    real *b = layer_value(l, test_text("%s.bias", name)) + first;
    for (int o = 0; o < D; o++) {
        b[o] = entry(root, bias, o);
        for (int i = 0; i < D; i++)
            W[o * D + i] = entry(root, weight, i * D + o);
    }
}

/* One of the projections: where it lies, and its names in the file. */
struct part {
    const char *name;
    int first;
    const char *weight, *bias;
};

static int parts_of(struct part parts[4], const struct layer *l)
{
    static const char *const inner[] = {"q", "qk", "qkv"};
    static const char *const letters[][2] = {{"W^Q", "b_Q"}, {"W^K", "b_K"}, {"W^V", "b_V"}};
    int projected = params_find(&l->rig.params, "attn.q.weight")    ? 1
                    : params_find(&l->rig.params, "attn.qk.weight") ? 2
                                                                    : 3;
    for (int i = 0; i < projected; i++)
        parts[i] = (struct part){inner[projected - 1], i * D, letters[i][0], letters[i][1]};
    parts[projected] = (struct part){"proj", 0, "W^O", "b_O"};
    return projected + 1;
}

static void check_norm2(const struct json_value *want, const char *name, const real *grad, size_t n)
{
    double norm2 = rig_dot(grad, grad, n);
    if (!json_member(want, name)) { /* the key bias */
        CHECK_NEAR(norm2, 0, rig_rounding * rig_rounding);
        return;
    }
    CHECK_NEAR(norm2, number(want, name), 10 * rig_rounding * number(want, name));
}

static void check_variant(const struct json_value *root, const struct json_value *variant)
{
    const struct json_value *attention = json_member(variant, "attention");
    const char *name = json_to_string(json_member(attention, "name"));
    bool wa_bias = json_member(attention, "wa_bias") != NULL;
    const struct json_value *full = json_member(variant, "full");
    const struct json_value *norm2 = json_member(full, "norm2");
    struct layer l;
    struct part parts[4];
    test_about("%s%s", name, wa_bias ? ", wa_bias" : "");
    layer_begin(&l, test_text("{\"name\": \"%s\"%s}", name, wa_bias ? ", \"wa_bias\": true" : ""),
                layer_site(1, N, D, H));
    int count = parts_of(parts, &l);
    for (int i = 0; i < count; i++)
        fill(root, &l, parts[i].name, parts[i].first, parts[i].weight, parts[i].bias);
    bool mixes = json_member(norm2, "W^A") != NULL;
    for (int j = 0; mixes && j < N * N; j++)
        layer_value(&l, "align.weight")[j] = entry(root, "W^A", j);
    for (int j = 0; wa_bias && j < N; j++)
        layer_value(&l, "align.bias")[j] = entry(root, "b_A", j);
    for (int j = 0; j < N * D; j++) {
        l.rig.x[0][j] = entry(root, "X", j);
        l.rig.dy[j] = entry(root, "G", j);
    }
    rig_run(&l.rig);

    CHECK_NEAR(rig_dot(l.rig.dy, l.rig.y, N * D), number(full, "L"), rig_rounding);
    const struct json_value *o = json_first(json_member(full, "O"));
    for (int j = 0; j < N * D; j++, o = json_next(o)) {
        CHECK(o != NULL);
        CHECK_NEAR(l.rig.y[j], json_to_number(o), rig_rounding / 10);
    }
    check_norm2(norm2, "X", l.rig.dx[0], N * D);
    for (int i = 0; i < count; i++) {
        const struct part *p = &parts[i];
        check_norm2(norm2, p->weight,
                    layer_grad(&l, test_text("%s.weight", p->name)) + p->first * D, D * D);
        check_norm2(norm2, p->bias, layer_grad(&l, test_text("%s.bias", p->name)) + p->first, D);
    }
    if (mixes)
        check_norm2(norm2, "W^A", layer_grad(&l, "align.weight"), N * N);
    if (wa_bias)
        check_norm2(norm2, "b_A", layer_grad(&l, "align.bias"), N);
    layer_end(&l);
}

TEST(layers__have_the_reference_values_and_gradients)
{
    struct json_value *root = load();
    CHECK_INT(number(root, "tokens"), N);
    CHECK_INT(number(root, "dim"), D);
    CHECK_INT(number(root, "heads"), H);
    int variants = 0;
    for (const struct json_value *v = json_first(json_member(root, "variants")); v;
         v = json_next(v), variants++)
        check_variant(root, v);
    CHECK_INT(variants, 5);
    json_free(root);
}
