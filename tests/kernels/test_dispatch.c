/* test_dispatch.c - the choice of the instruction set and what is said about BLAS. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "test.h"

TEST(dispatch__takes_the_level_that_is_asked_for)
{
    struct error err;
    setenv("ATTNBENCH_ISA", "portable", 1);
    CHECK_OK(kernels_init(&err), err);
    CHECK_STR(kernels_isa(), "portable");
    unsetenv("ATTNBENCH_ISA");
    CHECK_OK(kernels_init(&err), err);
    CHECK(!kernels_isa_note());
    if (sizeof(real) == sizeof(float))
        CHECK_STR(kernels_isa(), cpu_instruction_set());
}

TEST(dispatch__refuses_what_is_unknown)
{
    struct error err;
    setenv("ATTNBENCH_ISA", "avx1024", 1);
    CHECK_INT(kernels_init(&err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "ATTNBENCH_ISA");
    CHECK_CONTAINS(err.text, "avx1024");
    unsetenv("ATTNBENCH_ISA");
}

TEST(dispatch__refuses_what_the_cpu_or_the_build_lacks)
{
    struct error err;
    if (sizeof(real) == sizeof(float) && cpu_features().amx_bf16)
        SKIP("this CPU has every level");
    setenv("ATTNBENCH_ISA", "amx", 1);
    CHECK_INT(kernels_init(&err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "amx");
    unsetenv("ATTNBENCH_ISA");
}

TEST(blas__is_named_and_judged)
{
    struct error err;
    CHECK_OK(kernels_init(&err), err);
    CHECK(strlen(kernels_blas()) > 0);
    const char *type = getenv("OPENBLAS_CORETYPE"), *note = kernels_blas_note();
    if (sizeof(real) == sizeof(double) || !type || strcmp(type, "Haswell"))
        return;
    CHECK_STR(kernels_blas() + strlen(kernels_blas()) - strlen("Haswell"), "Haswell");
    if (cpu_features().avx512) {
        CHECK(note);
        CHECK_CONTAINS(note, "OPENBLAS_CORETYPE=Haswell");
        CHECK_CONTAINS(note, "half");
    } else {
        CHECK(!note);
    }
}

TEST(blas__keeps_the_kernel_that_the_user_set)
{
    char name[] = "again", *arguments[] = {name, NULL};
    if (!getenv("OPENBLAS_CORETYPE"))
        setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    setenv("OPENBLAS_L2_SIZE", "512", 1);
    kernels_blas_fix(arguments);
    CHECK(!getenv("ATTNBENCH_REEXEC"));
}
