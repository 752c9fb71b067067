/* timer.c - the monotonic clock and /proc/self/status. */
#include "base/timer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

double timer_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The value of a line "KEY:  1234 kB". */
static int64_t status_bytes(const char *key)
{
    FILE *file = fopen("/proc/self/status", "re");
    if (!file)
        return 0;
    size_t length = strlen(key);
    long long kib = 0;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) == 0 && sscanf(line + length, ": %lld kB", &kib) == 1)
            break;
    }
    fclose(file);
    return (int64_t)kib * 1024;
}

int64_t timer_rss_bytes(void)
{
    return status_bytes("VmRSS");
}

int64_t timer_mapped_bytes(void)
{
    return status_bytes("VmSize");
}

int64_t timer_peak_rss_bytes(void)
{
    return status_bytes("VmHWM");
}
