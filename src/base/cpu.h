/* cpu.h - how many cores the process may use, and what they can do. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>

/* Cores that the process may use: its affinity, or the quota of its cgroups (v1 and v2, rounded up)
 * where that is less; at least 1. */
int cpu_cores(void);

/* What the CPU has and the operating system has switched on. All false but on x86-64. */
struct cpu_features {
    bool avx2;        /* with FMA and F16C */
    bool avx512;      /* F, BW, DQ and VL */
    bool avx512_bf16; /* with all of avx512 */
    bool amx_bf16;    /* tiles too; the process has asked for the permission to use them */
};

/* Asks the kernel for the permission to use AMX tiles, which then holds for all threads. */
struct cpu_features cpu_features(void);

/* The widest of "portable", "avx2", "avx512", "avx512+bf16", "amx". */
const char *cpu_instruction_set(void);

/* Into text: the name the CPU gives itself ("AMD EPYC 7763"), or "unknown CPU". */
void cpu_name(char *text, int size);

/* Cores by the quotas of the cgroups that `membership` (the text of /proc/self/cgroup) names and of
 * those above them, whose files lie below `root` (/sys/fs/cgroup); 0 where no quota is set. */
int cpu_cgroup_cores(const char *root, const char *membership);

#endif
