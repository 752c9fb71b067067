/* memory.c - physical memory and cgroup limits. */
#include "base/memory.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/timer.h"

/* Version 1 writes a number near 2^63 where there is no limit. */
static double limit_of(const char *directory, bool is_v2)
{
    long long number[2];
    cgroup_numbers(directory, is_v2 ? "memory.max" : "memory.limit_in_bytes", number);
    return number[0] > 0 && number[0] < 1LL << 60 ? (double)number[0] : 0;
}

double memory_cgroup_bytes(const char *root, const char *membership)
{
    return cgroup_least(root, membership, "memory", limit_of);
}

double memory_limit_bytes(void)
{
    char membership[CGROUP_TEXT_SIZE];
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double group = memory_cgroup_bytes(CGROUP_ROOT, cgroup_membership(membership));
    if (machine <= 0 || (group > 0 && group < machine))
        return group;
    return machine;
}

double memory_room_bytes(double reserved)
{
    struct rlimit space;
    double limit = memory_limit_bytes();
    double room = limit > 0 ? limit - (double)timer_rss_bytes() : HUGE_VAL;
    if (getrlimit(RLIMIT_AS, &space) || space.rlim_cur == RLIM_INFINITY)
        return room;
    double free = (double)space.rlim_cur - (double)timer_mapped_bytes() - reserved;
    return free < room ? free : room;
}
