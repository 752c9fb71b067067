/* test_linformer.c - identities of linformer, and what becomes of regions. Layers whose parameters
 * have the same names and shapes have the same values. */
#include "attention/window.h"
#include "layer.h"
#include "nn/nn.h"
#include "ops/ops.h"

static void check_equal(struct layer *a, struct layer *b)
{
    rig_run(&a->rig);
    rig_run(&b->rig);
    CHECK(rig_norm(b->rig.y, b->rig.y_count) > 0.1);
    CHECK_NEAR(rig_distance(a->rig.y, b->rig.y, b->rig.y_count), 0, rig_rounding);
    CHECK_NEAR(rig_distance(a->rig.dx[0], b->rig.dx[0], b->rig.count[0]), 0, 3 * rig_rounding);
}

TEST(one_row_for_each_token__is_standard_attention) /* T-LIN-1 */
{
    static const char *const sharing[] = {"none", "headwise", "kv", "layer"};
    enum { N = 9 };
    for (int i = 0; i < 4; i++)
        for (int moved = 0; moved < 2; moved++) {
            struct layer a, b;
            test_about("%s, permutation %d", sharing[i], moved);
            const char *json =
                test_text("{\"name\": \"linformer\", \"k\": 9, \"sharing\": \"%s\"}", sharing[i]);
            layer_begin(&a, json, layer_map(2, 4, 1));
            layer_begin(&b, "\"standard\"", layer_map(2, 4, 1));
            for (int k = 0; k < (i < 2 ? 2 : 1); k++) {
                real *W = layer_value(&a, k ? "proj_v" : "proj_k");
                for (int t = 0; t < (i ? 1 : 2) * N * N; t++)
                    W[t] = (t / N + 4 * moved) % N == t % N;
            }
            check_equal(&a, &b);
            layer_end(&a);
            layer_end(&b);
        }
}

/* Blocks of one patch, and rows of their own for prefix tokens. */
TEST(blocks_of_one_patch__are_standard_attention)
{
    for (int prefix = 0; prefix < 3; prefix++) {
        struct layer a, b;
        layer_begin(&a, "{\"name\": \"linformer\", \"pool\": 1}", layer_map(2, 4, prefix));
        layer_begin(&b, "\"standard\"", layer_map(2, 4, prefix));
        check_equal(&a, &b);
        layer_end(&a);
        layer_end(&b);
    }
}

TEST(a_projection_of_all_layers__has_the_name_of_the_first)
{
    struct rig r;
    struct layer l;
    const struct attn_site s = layer_map(2, 4, 0);
    rig_begin(&l.rig, 1, false);
    layer_choose(&l, "{\"name\": \"linformer\", \"sharing\": \"layer\"}");
    rig_begin(&r, s.B, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(s.B, s.N, s.D), true);
    for (int i = 0; i < 3; i++) {
        graph_scope_push(r.graph, "blocks.%d", i);
        x = attn_build(r.graph, "attn", &l.attention, &s, x);
        graph_scope_pop(r.graph);
    }
    rig_ready(&r, x, s.B);
    CHECK_INT(r.params.count, 3 * 4 + 1);
    rig_randomize(&r, 1);
    rig_run(&r);
    CHECK(rig_norm(rig_grad(&r, "blocks.0.attn.proj_k"), 16) > 1e-3);
    rig_end(&r);
    layer_end(&l);
}

/* --- regions ---------------------------------------------------------------------------------- */

enum { REGIONS = 4, ROWS = 3 };

/* Windows of 4 x 4, shifted along both axes. */
static struct attn_site shifted_site(void)
{
    struct attn_site s = layer_map(8, 8, 0);
    s.window[0] = s.window[1] = 4;
    s.shift[0] = s.shift[1] = 2;
    return s;
}

/* The layer from plain products: for each region, its tokens alone are projected, and what comes of
 * it is kept for them alone. Inputs 1 .. hold 1 for the tokens of a region, else 0. */
static struct tensor *by_regions(struct graph *g, const struct attn_site *s, struct tensor *x)
{
    graph_scope_push(g, "attn");
    const struct attn_site inside = window_site(s);
    struct qkv t = nn_qkv(g, "qkv", window_cut(g, s, x), s->H, true);
    struct tensor *E = graph_param(g, "proj_k", SHAPE(inside.N, ROWS), INIT_NORMAL(1));
    struct tensor *F = graph_param(g, "proj_v", SHAPE(inside.N, ROWS), INIT_NORMAL(1));
    struct tensor *y = NULL;
    for (int r = 0; r < REGIONS; r++) {
        struct shape shape = SHAPE(inside.B, s->H, inside.N, s->D / s->H);
        struct tensor *own = graph_input(g, "region", TYPE_REAL, shape, false);
        struct tensor *k = op_matmul_tn(g, E, op_multiply(g, graph_op_copy(g, t.k), own));
        struct tensor *v = op_matmul_tn(g, F, op_multiply(g, graph_op_copy(g, t.v), own));
        struct tensor *of_region = graph_op_copy(g, op_sdpa(g, t.q, k, v, attn_scale(s)));
        of_region = op_multiply(g, of_region, own);
        y = y ? op_add(g, y, of_region) : of_region;
    }
    y = window_join(g, s, nn_linear(g, "proj", op_merge_heads(g, y), s->D));
    graph_scope_pop(g);
    return y;
}

static void fill_regions(struct rig *r, const struct attn_site *s)
{
    struct graph scratch = {.memory = r->memory};
    const struct attn_site inside = window_site_regions(&scratch, s);
    r->memory = scratch.memory;
    const size_t d = (size_t)(s->D / s->H);
    for (int region = 0; region < REGIONS; region++)
        for (size_t i = 0; i < r->count[1]; i++) {
            int token = (int)(i / d) % inside.N, b = (int)(i / d) / inside.N / s->H;
            int at = b % inside.regions->windows * inside.N + token;
            r->x[1 + region][i] = inside.regions->id[at] == region;
        }
}

TEST(regions__are_projected_and_seen_by_themselves) /* T-ALL-6 */
{
    const struct attn_site s = shifted_site();
    struct layer a;
    struct rig b;
    layer_begin(&a, test_text("{\"name\": \"linformer\", \"k\": %d}", ROWS), s);
    rig_begin(&b, s.B, false);
    struct tensor *x = graph_input(b.graph, "x", TYPE_REAL, SHAPE(s.B, s.N, s.D), true);
    rig_ready(&b, by_regions(b.graph, &s, x), s.B);
    rig_randomize(&b, 1);
    fill_regions(&b, &s);
    rig_run(&a.rig);
    rig_run(&b);
    CHECK_NEAR(rig_distance(a.rig.y, b.y, b.y_count), 0, rig_rounding);
    CHECK_NEAR(rig_distance(a.rig.dx[0], b.dx[0], b.count[0]), 0, 3 * rig_rounding);
    for (int i = 0; i < b.params.count; i++) {
        const struct param *p = b.params.list[i];
        CHECK_NEAR(rig_distance(rig_grad(&a.rig, p->name), rig_grad(&b, p->name), p->count), 0,
                   3 * rig_rounding);
    }
    rig_end(&b);
    layer_end(&a);
}

TEST(options__that_do_not_fit_are_named_with_what_would)
{
    static const struct {
        const char *options, *text;
    } wrong[] = {
        {"\"k\": 18", "k: 18 rows are more than the tokens (17 at most)"},
        {"\"k\": 1", "k: one row for 17 tokens"},
        {"\"k\": 4, \"pool\": 2",
         "k: 4 has no effect with pool 2 (leave it out, or set pool to 0)"},
        {"\"pool\": 3", "pool: 3 does not divide a map of 4 x 4"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        layer_check_refused(test_text("{\"name\": \"linformer\", %s}", wrong[i].options),
                            layer_map(4, 4, 1), wrong[i].text);
}
