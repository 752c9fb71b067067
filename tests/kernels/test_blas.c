/* test_blas.c - notes on a BLAS that is not as it should be, played by this program: its functions
 * stand before the library's. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "kernels/blas.h"
#include "test.h"

static char core[] = "SkylakeX";
static int parallel = 1;

char *openblas_get_corename(void);
int openblas_get_parallel(void);

char *openblas_get_corename(void)
{
    return core;
}

int openblas_get_parallel(void)
{
    return parallel;
}

static const char *note_of(const char *name, int threads)
{
    struct error err;
    snprintf(core, sizeof core, "%s", name);
    parallel = threads;
    unsetenv("ATTNBENCH_ISA");
    CHECK_OK(kernels_init(&err), err);
    blas_init();
    return kernels_blas_note();
}

/* What there is to say differs in the double build, which has no BLAS, and on other CPUs. */
static bool has_avx2(void)
{
    return sizeof(real) == sizeof(float) && cpu_features().avx2;
}

TEST(blas__without_threads_is_not_called)
{
    const char *note = note_of("SkylakeX", 0);
    if (!has_avx2())
        return;
    CHECK(note);
    CHECK_CONTAINS(note, "without threads");
    CHECK_CONTAINS(note, "our own fp32 products replace it");
    CHECK(blas_is_behind());
}

TEST(blas__of_an_unknown_kernel_is_used_and_noted)
{
    const char *note = note_of("Nautilus", 1);
    if (!has_avx2())
        return;
    CHECK(note);
    CHECK_CONTAINS(note, "Nautilus is not known");
    CHECK_CONTAINS(note, "may not reach this CPU's speed");
    CHECK(!blas_is_behind());
}

TEST(blas__of_an_old_kernel_is_replaced)
{
    const char *note = note_of("Prescott", 1);
    if (!has_avx2())
        return;
    CHECK(note);
    CHECK_CONTAINS(note, "our own replace them");
    CHECK(blas_is_behind());
}

TEST(blas__that_knows_the_cpu_needs_no_note)
{
    const char *note = note_of("SkylakeX", 1);
    if (!has_avx2())
        return;
    CHECK(!note);
    CHECK(!blas_is_behind());
}
