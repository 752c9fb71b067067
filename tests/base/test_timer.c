/* test_timer.c - the clock runs on, and memory that is touched is counted. */
#include "base/timer.h"

#include <stdlib.h>

#include "test.h"

TEST(timer_seconds__never_goes_back)
{
    double last = timer_seconds();
    for (int i = 0; i < 1000; i++) {
        double now = timer_seconds();
        CHECK(now >= last);
        last = now;
    }
}

TEST(timer_rss_bytes__counts_touched_memory)
{
    const size_t size = (size_t)32 << 20;
    int64_t before = timer_rss_bytes();
    if (before == 0)
        SKIP("the system does not tell");
    char *block = malloc(size);
    CHECK(block);
    volatile char *touched = block; /* or the stores would be optimised away */
    for (size_t i = 0; i < size; i += 512)
        touched[i] = 1;
    int64_t during = timer_rss_bytes();
    free(block);
    CHECK(during - before > (int64_t)size / 2);
    /* The kernel's counters are exact only to some pages, hence half. */
    CHECK(timer_peak_rss_bytes() - before > (int64_t)size / 2);
}
