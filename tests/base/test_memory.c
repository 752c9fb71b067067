/* test_memory.c - limits from made-up cgroup trees, and what holds on every machine. */
#include "base/memory.h"

#include <string.h>

#include "base/file.h"
#include "base/timer.h"
#include "test.h"

static void put(const char *root, const char *directory, const char *name, const char *text)
{
    struct error err;
    const char *below = test_text("%s/%s", root, directory);
    CHECK_OK(file_make_directory(below, &err), err);
    CHECK_OK(file_write(test_text("%s/%s", below, name), text, strlen(text), &err), err);
}

TEST(memory_cgroup_bytes__takes_the_least_of_version_2)
{
    const char *root = test_directory();
    put(root, "a/b", "memory.max", "max\n");
    CHECK_NEAR(memory_cgroup_bytes(root, "0::/a/b\n"), 0, 0);
    put(root, "a", "memory.max", "3000000000\n");
    CHECK_NEAR(memory_cgroup_bytes(root, "0::/a/b\n"), 3e9, 0);
    put(root, "a/b", "memory.max", "1000000000\n");
    CHECK_NEAR(memory_cgroup_bytes(root, "0::/a/b\n"), 1e9, 0);
    CHECK_NEAR(memory_cgroup_bytes(root, "0::/a\n"), 3e9, 0);
}

TEST(memory_cgroup_bytes__reads_version_1)
{
    const char *root = test_directory(), *membership = "9:memory:/job\n4:cpu,cpuacct:/job\n0::/\n";
    put(root, "memory/job", "memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_NEAR(memory_cgroup_bytes(root, membership), 0, 0);
    put(root, "memory/job", "memory.limit_in_bytes", "536870912\n");
    CHECK_NEAR(memory_cgroup_bytes(root, membership), 536870912, 0);
    CHECK_NEAR(memory_cgroup_bytes(root, "4:cpu,cpuacct:/job\n"), 0, 0);
}

TEST(memory_limit_bytes__is_more_than_this_process_holds)
{
    CHECK(memory_limit_bytes() > (double)timer_rss_bytes());
    CHECK(timer_rss_bytes() > 0);
}
