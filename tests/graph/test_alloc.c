/* test_alloc.c - a step allocates nothing: the C library's allocator is counted from here. */
#include <stdlib.h>

#include "graph/rig.h"
#include "nn/nn.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define COUNTED 1

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static int allocations;

static void count_one(void)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes)
{
    count_one();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    count_one();
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    count_one();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    count_one();
    return __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    count_one();
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : 12;
}
#else
#define COUNTED 0
static const int allocations;
#endif

/* Large enough for products by BLAS. */
static struct tensor *block(struct graph *g)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(4, 9, 64), true);
    struct qkv t = nn_qkv(g, "qkv", nn_layer_norm(g, "norm", x, 1e-6), 4, true);
    struct tensor *h = op_merge_heads(g, op_sdpa(g, t.q, t.k, t.v, 0.25));
    struct tensor *W = graph_param(g, "align", SHAPE(9, 9), INIT_XAVIER_UNIFORM);
    h = op_drop_path(g, op_token_mix(g, h, W, NULL), 0.3);
    x = op_add(g, x, h);
    return nn_linear(g, "fc2", op_dropout(g, op_gelu(g, nn_linear(g, "fc1", x, 256)), 0.1), 64);
}

TEST(runner_run__allocates_nothing)
{
    if (!COUNTED)
        SKIP("the allocator cannot be counted here");
    for (int threads = 1; threads <= 2; threads++) {
        struct rig r;
        test_about("%d threads", threads);
        int before = allocations;
        rig_begin(&r, 4, true);
        r.lanes = 4;
        r.threads = threads;
        rig_ready(&r, block(r.graph), 15);
        CHECK(allocations > before); /* it does count */
        rig_run(&r);                 /* OpenMP makes its threads now */
        before = allocations;
        for (int step = 0; step < 3; step++)
            rig_run(&r);
        CHECK_INT(allocations - before, 0);
        rig_end(&r);
    }
}
