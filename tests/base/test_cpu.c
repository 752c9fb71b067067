/* test_cpu.c - quotas from made-up cgroup trees, and what holds on every machine. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "base/cpu.h"

#include <sched.h>
#include <string.h>

#include "base/file.h"
#include "test.h"

static void put(const char *root, const char *directory, const char *name, const char *text)
{
    struct error err;
    const char *below = test_text("%s/%s", root, directory);
    CHECK_OK(file_make_directory(below, &err), err);
    CHECK_OK(file_write(test_text("%s/%s", below, name), text, strlen(text), &err), err);
}

TEST(cpu_cgroup_cores__reads_version_2)
{
    const char *root = test_directory();
    put(root, "app", "cpu.max", "200000 100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/app\n"), 2);
    put(root, "app", "cpu.max", "200001 100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/app\n"), 3);
    put(root, "app", "cpu.max", "10000 100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/app\n"), 1);
    put(root, "app", "cpu.max", "max 100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/app\n"), 0);
}

TEST(cpu_cgroup_cores__takes_the_least_of_the_groups_above)
{
    const char *root = test_directory();
    put(root, "a/b", "cpu.max", "800000 100000\n");
    put(root, "a", "cpu.max", "300000 100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/a/b\n"), 3);
    CHECK_INT(cpu_cgroup_cores(root, "0::/a/b/not/seen/here\n"), 3);
    put(root, ".", "cpu.max", "50000 100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/a/b\n"), 1);
    CHECK_INT(cpu_cgroup_cores(root, "0::/\n"), 1);
}

TEST(cpu_cgroup_cores__reads_version_1)
{
    const char *root = test_directory();
    put(root, "cpu,cpuacct/job", "cpu.cfs_quota_us", "350000\n");
    put(root, "cpu,cpuacct/job", "cpu.cfs_period_us", "100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "9:memory:/job\n4:cpu,cpuacct:/job\n0::/\n"), 4);
    CHECK_INT(cpu_cgroup_cores(root, "4:cpuset:/job\n"), 0);
    put(root, "cpu,cpuacct/job", "cpu.cfs_quota_us", "-1\n");
    CHECK_INT(cpu_cgroup_cores(root, "4:cpu,cpuacct:/job\n"), 0);
    put(root, "cpu", "cpu.cfs_quota_us", "100000\n");
    put(root, "cpu", "cpu.cfs_period_us", "100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "4:cpu,cpuacct:/job\n"), 1);
}

TEST(cpu_cgroup_cores__ignores_what_it_cannot_read)
{
    const char *root = test_directory();
    CHECK_INT(cpu_cgroup_cores(root, ""), 0);
    CHECK_INT(cpu_cgroup_cores(root, "nonsense\n::\n0::\n"), 0);
    put(root, "x", "cpu.max", "");
    CHECK_INT(cpu_cgroup_cores(root, "0::/x\n"), 0);
    put(root, "x", "cpu.max", "100000 0\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/x\n"), 0);
    put(root, "x", "cpu.max", "-5 100000\n");
    CHECK_INT(cpu_cgroup_cores(root, "0::/x\n"), 0);
}

TEST(cpu_cores__follows_affinity)
{
    cpu_set_t before, one;
    if (sched_getaffinity(0, sizeof before, &before))
        SKIP("affinity cannot be read");
    int cores = cpu_cores();
    CHECK(cores >= 1);
    CHECK(cores <= CPU_COUNT(&before));
    int first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        SKIP("affinity cannot be set");
    cores = cpu_cores();
    sched_setaffinity(0, sizeof before, &before);
    CHECK_INT(cores, 1);
}

TEST(cpu_features__build_on_each_other)
{
    struct cpu_features f = cpu_features();
    CHECK(!f.avx512 || f.avx2);
    CHECK(!f.avx512_bf16 || f.avx512);
    CHECK(!f.amx_bf16 || f.avx512);
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    CHECK_INT(f.avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    CHECK_INT(f.avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl"));
#endif
    const char *set = cpu_instruction_set();
    CHECK_INT(strcmp(set, "portable") == 0, !f.avx2);
}

TEST(cpu_name__fits_and_is_trimmed)
{
    char name[64], little[4];
    cpu_name(name, sizeof name);
    CHECK(name[0] && name[0] != ' ' && name[strlen(name) - 1] != ' ');
    cpu_name(little, sizeof little);
    CHECK(strlen(little) <= 3);
}
