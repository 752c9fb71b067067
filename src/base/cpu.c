/* cpu.c - affinity, quotas and CPUID. */
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include "base/cpu.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include "base/cgroup.h"

/* Cores that one directory of a hierarchy grants, 0 for no limit. */
static double quota_of(const char *directory, bool is_v2)
{
    long long number[2], period[2];
    if (is_v2) {
        cgroup_numbers(directory, "cpu.max", number);
    } else {
        cgroup_numbers(directory, "cpu.cfs_quota_us", number);
        cgroup_numbers(directory, "cpu.cfs_period_us", period);
        number[1] = period[0];
    }
    if (number[0] <= 0 || number[1] <= 0)
        return 0;
    long long cores = (number[0] - 1) / number[1] + 1;
    return cores < 1 << 20 ? (double)cores : 0;
}

int cpu_cgroup_cores(const char *root, const char *membership)
{
    return (int)cgroup_least(root, membership, "cpu", quota_of);
}

int cpu_cores(void)
{
    int cores = 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    else /* more CPUs than cpu_set_t has room for */
        cores = (int)sysconf(_SC_NPROCESSORS_ONLN);

    char membership[CGROUP_TEXT_SIZE];
    int quota = cpu_cgroup_cores(CGROUP_ROOT, cgroup_membership(membership));
    if (quota && quota < cores)
        cores = quota;
    return cores > 0 ? cores : 1;
}

#ifdef __x86_64__

/* The state that the operating system saves on a task switch: without it the instructions trap. */
static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool may_use_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* asm/prctl.h of Linux 5.16 and later */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

struct cpu_features cpu_features(void)
{
    struct cpu_features f = {false, false, false, false};
    unsigned eax, ebx, ecx, edx;
    const unsigned needed = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & needed) != needed)
        return f;
    uint64_t state = saved_state();
    const uint64_t avx = 0x6, avx512 = 0xe0, tiles = 0x60000;
    if ((state & avx) != avx || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return f;
    unsigned leaves = eax, features = ebx, more = edx;
    f.avx2 = (features & bit_AVX2) != 0;

    const unsigned wide = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    f.avx512 = f.avx2 && (features & wide) == wide && (state & avx512) == avx512;
    if (f.avx512 && leaves >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx))
        f.avx512_bf16 = (eax & 1u << 5) != 0;

    const unsigned amx = 1u << 22 | 1u << 24; /* AMX-BF16, AMX-TILE */
    f.amx_bf16 = f.avx512 && (more & amx) == amx && (state & tiles) == tiles && may_use_tiles();
    return f;
}

void cpu_name(char *text, int size)
{
    unsigned word[12];
    char brand[sizeof word + 1] = "";
    bool known = true;
    for (unsigned i = 0; i < 3 && known; i++) {
        unsigned *w = word + 4 * i;
        known = __get_cpuid(0x80000002u + i, &w[0], &w[1], &w[2], &w[3]);
    }
    if (known)
        memcpy(brand, word, sizeof word);
    const char *start = brand + strspn(brand, " ");
    size_t length = strlen(start);
    while (length > 0 && start[length - 1] == ' ')
        length--;
    if (length == 0)
        snprintf(text, (size_t)size, "unknown CPU");
    else
        snprintf(text, (size_t)size, "%.*s", (int)length, start);
}

#else

struct cpu_features cpu_features(void)
{
    return (struct cpu_features){false, false, false, false};
}

void cpu_name(char *text, int size)
{
    snprintf(text, (size_t)size, "unknown CPU");
}

#endif

const char *cpu_instruction_set(void)
{
    struct cpu_features f = cpu_features();
    return f.amx_bf16      ? "amx"
           : f.avx512_bf16 ? "avx512+bf16"
           : f.avx512      ? "avx512"
           : f.avx2        ? "avx2"
                           : "portable";
}
