/* Counts what malloc and its relatives are asked for: this program brings its own. */
#define _GNU_SOURCE /* dladdr */
#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "train/step.h"

#ifndef __SANITIZE_ADDRESS__ /* which brings its own too */

static volatile long allocations; /* of all threads; no exact count is needed, only zero or not */
static volatile bool watching;    /* the library's own allocations are told apart */

/* OpenBLAS's kernels for small products on AVX-512 allocate what they pack into. */
static bool is_of_blas(const void *caller)
{
    Dl_info info;
    return watching && dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "blas");
}

static void count_call(const void *caller)
{
    if (!is_of_blas(caller))
        allocations++;
}

/* The C library's own allocator, under the names that it keeps for this purpose. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_memalign(align, size);
}

TEST(step__allocates_nothing)
{
    enum { BATCH = 8, PIXELS = 12 * 8 };
    static real images[BATCH * PIXELS];
    static int labels[BATCH] = {0, 1, 2, 3, 4, 5, 0, 1};
    static size_t index[BATCH];
    const struct batch b = {
        .count = BATCH, .capacity = BATCH, .images = images, .labels = labels, .index = index};
    struct experiment x;
    struct network *n = NULL;
    struct step step;
    struct error err;
    for (size_t i = 0; i < BATCH * PIXELS; i++)
        images[i] = (real)(i % 17) / 17;
    rig_load(&x, NULL);
    CHECK_OK(network_create(&n, &x, NETWORK_TRAIN, BATCH, 2, &err), err);
    CHECK_OK(step_create(&step, n, BATCH, &err), err);
    long counted = 0;
    for (long long update = 0; update < 4; update++) {
        if (update == 2) { /* the first two updates start the threads */
            watching = true;
            counted = allocations;
        }
        CHECK_OK(step_batch(&step, &b, 2 * BATCH, update, &err), err);
        CHECK_OK(step_batch(&step, &b, 2 * BATCH, update, &err), err);
        CHECK_OK(step_update(&step, &b, 1e-3, update, &err), err);
    }
    CHECK(counted > 0);
    CHECK_INT(allocations - counted, 0);
    step_free(&step);
    network_destroy(n);
    experiment_free(&x);
}

#else

TEST(step__allocates_nothing)
{
    SKIP("the address sanitizer has its own malloc");
}

#endif
