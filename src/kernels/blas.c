/* blas.c - OpenBLAS, or another library with the CBLAS interface, and the choice of its kernel. */
#include "kernels/blas.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/cpu.h"

#ifdef ATTNBENCH_DOUBLE

/* Double is for checks: our own loop, whose order of sums does not depend on the library. */
void blas_init(void)
{
}

bool blas_is_behind(void)
{
    return true;
}

bool blas_gemm(struct vec c, int beta, double alpha, enum trans ta, struct vec a, enum trans tb,
               struct vec b, int m, int n, int k)
{
    (void)c, (void)beta, (void)alpha, (void)ta, (void)a, (void)tb, (void)b;
    (void)m, (void)n, (void)k;
    return false;
}

const char *kernels_blas(void)
{
    return "portable loop";
}

const char *kernels_blas_note(void)
{
    return NULL;
}

void kernels_blas_fix(char **argv)
{
    (void)argv;
}

double kernels_blas_mapped_bytes(int threads)
{
    (void)threads;
    return 0;
}

#else

#include <cblas.h>

/* NULL where the library behind cblas.h is not OpenBLAS. */
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern int openblas_get_parallel(void) __attribute__((weak));
extern void openblas_set_num_threads(int threads) __attribute__((weak));

#define CORETYPE "OPENBLAS_CORETYPE"
#define L2_SIZE "OPENBLAS_L2_SIZE"
#define REEXEC "ATTNBENCH_REEXEC" /* set in the second run: the kernel of the first */

/* What a kernel makes use of. */
enum strength { UNKNOWN, SSE, AVX2, AVX512 };

static const struct {
    const char *name;
    enum strength strength;
} cores[] = {
    {"Prescott", SSE},    {"Core2", SSE},         {"Katmai", SSE},
    {"Coppermine", SSE},  {"Northwood", SSE},     {"Banias", SSE},
    {"Penryn", SSE},      {"Dunnington", SSE},    {"Nehalem", SSE},
    {"Sandybridge", SSE}, {"Atom", SSE},          {"Athlon", SSE},
    {"Opteron", SSE},     {"Opteron_SSE3", SSE},  {"Barcelona", SSE},
    {"Bobcat", SSE},      {"Bulldozer", SSE},     {"Piledriver", SSE},
    {"Steamroller", SSE}, {"Nano", SSE},          {"generic", SSE},
    {"Excavator", AVX2},  {"Haswell", AVX2},      {"Zen", AVX2},
    {"SkylakeX", AVX512}, {"Cooperlake", AVX512}, {"SapphireRapids", AVX512},
};

static enum strength core_strength(const char *name)
{
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (!strcmp(cores[i].name, name))
            return cores[i].strength;
    return UNKNOWN;
}

/* What the CPU has; UNKNOWN where OpenBLAS's names are not those of x86. */
static enum strength cpu_strength(void)
{
#ifdef __x86_64__
    struct cpu_features cpu = cpu_features();
    return cpu.avx512 && cpu.avx2 ? AVX512 : cpu.avx2 ? AVX2 : SSE;
#else
    return UNKNOWN;
#endif
}

/* Some virtual CPUs do not tell the size of their L2 cache; OpenBLAS then divides by it. */
static bool l2_is_hidden(void)
{
#ifdef __x86_64__
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(0x80000006u, &eax, &ebx, &ecx, &edx) && ecx >> 16 == 0;
#else
    return false;
#endif
}

static bool is_openblas(void)
{
    return openblas_get_config && openblas_get_corename && openblas_get_parallel;
}

/* A build without threads may keep its buffers in one place for all callers: whether it locks them
 * cannot be asked. */
static bool is_unsafe(void)
{
    return is_openblas() && !openblas_get_parallel();
}

/* Set once, before the threads start. */
static bool behind;

void blas_init(void)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    enum strength has = is_openblas() ? core_strength(openblas_get_corename()) : UNKNOWN;
    const char *isa = kernels_isa();
    enum strength ours = !strcmp(isa, "portable") ? SSE : !strcmp(isa, "avx2") ? AVX2 : AVX512;
    bool slower = has != UNKNOWN && cpu_strength() != UNKNOWN && has < ours;
    bool stranger = !is_openblas() && ours > SSE;
    behind = slower || stranger || is_unsafe();
}

bool blas_is_behind(void)
{
    return behind;
}

double kernels_blas_mapped_bytes(int threads)
{
    enum { BUFFER = 128 << 20 };
    return is_openblas() ? (double)threads * BUFFER : 0;
}

bool blas_gemm(struct vec c, int beta, double alpha, enum trans ta, struct vec a, enum trans tb,
               struct vec b, int m, int n, int k)
{
    if (a.stride > INT_MAX || b.stride > INT_MAX || c.stride > INT_MAX)
        return false;
    cblas_sgemm(CblasRowMajor, ta == PLAIN ? CblasNoTrans : CblasTrans,
                tb == PLAIN ? CblasNoTrans : CblasTrans, m, n, k, (float)alpha, a.data,
                (int)a.stride, b.data, (int)b.stride, beta ? 1.0f : 0.0f, c.data, (int)c.stride);
    return true;
}

const char *kernels_blas(void)
{
    static char text[96];
    if (!is_openblas())
        return "a BLAS that is not OpenBLAS";
    char config[64];
    snprintf(config, sizeof config, "%s", openblas_get_config());
    char *end = strchr(config, ' '); /* after the name, then after the version */
    end = end ? strchr(end + 1, ' ') : NULL;
    if (end)
        *end = '\0';
    snprintf(text, sizeof text, "%s %s", config, openblas_get_corename());
    return text;
}

const char *kernels_blas_note(void)
{
    static char text[256];
    if (!is_openblas())
        return behind ? "the BLAS is not OpenBLAS: our own fp32 products replace it"
                      : "the BLAS is not OpenBLAS: fp32 products may be several times slower, and "
                        "threads of its own may disturb ours";
    if (is_unsafe())
        return "OpenBLAS was built without threads, and may not be called from several: our own "
               "fp32 products replace it";
    const char *core = openblas_get_corename();
    enum strength has = core_strength(core), could = cpu_strength();
    if (could != UNKNOWN && has == UNKNOWN) {
        snprintf(text, sizeof text,
                 "OpenBLAS's kernel %s is not known: fp32 products may not reach this CPU's speed",
                 core);
        return text;
    }
    if (has < could) {
        const char *share = has == AVX2 ? "half" : could == AVX2 ? "a third" : "a fifth";
        const char *set = getenv(CORETYPE);
        if (set)
            snprintf(text, sizeof text, "%s=%.32s is set", CORETYPE, set);
        else
            snprintf(text, sizeof text, "OpenBLAS uses its %s kernel", core);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used,
                 ": BLAS's fp32 products run at about %s of this CPU's speed%s", share,
                 behind ? "; our own replace them" : "");
        return text;
    }
    return NULL;
}

/* Runs the program again. Returns where that is impossible: the first run then goes on. */
static void run_again(char **argv)
{
    execv("/proc/self/exe", argv);
}

void kernels_blas_fix(char **argv)
{
    if (!openblas_get_corename)
        return;
    const char *core = openblas_get_corename(), *before = getenv(REEXEC);
    enum strength has = core_strength(core), could = cpu_strength();
    if (before) {
        /* This build of OpenBLAS lacks the better kernel and took its worst: back to the first. */
        if (*before && has < core_strength(before) && !setenv(CORETYPE, before, 1) &&
            !setenv(REEXEC, "", 1))
            run_again(argv);
        return;
    }
    bool weak = has != UNKNOWN && has < could && !getenv(CORETYPE);
    bool blind = (weak ? could : has) == AVX512 && l2_is_hidden() && !getenv(L2_SIZE);
    if (!weak && !blind)
        return;
    if (weak && setenv(CORETYPE, could == AVX512 ? "SkylakeX" : "Haswell", 1))
        return;
    if (blind && setenv(L2_SIZE, "512", 1))
        return;
    if (!setenv(REEXEC, core, 1))
        run_again(argv);
}

#endif
