/* cgroup.c - walking up the groups of /proc/self/cgroup. */
#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096 };

const char *cgroup_membership(char text[CGROUP_TEXT_SIZE])
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    size_t length = file ? fread(text, 1, CGROUP_TEXT_SIZE - 1, file) : 0;
    text[length] = 0;
    if (file)
        fclose(file);
    return text;
}

void cgroup_numbers(const char *directory, const char *name, long long number[2])
{
    number[0] = number[1] = -1;
    char path[PATH_SIZE];
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return;
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    char line[128];
    if (fgets(line, sizeof line, file)) {
        char *rest = line;
        for (int i = 0; i < 2; i++) {
            char *end;
            long long value = strtoll(rest, &end, 10);
            if (end == rest)
                break;
            number[i] = value;
            rest = end;
        }
    }
    fclose(file);
}

static double lesser(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* The least limit of ROOT/GROUP and the groups above it: each of them binds. In a container the
 * path may be the host's, of which only the upper end is to be seen. */
static double least_above(const char *root, const char *group, bool is_v2, cgroup_limit *limit)
{
    char path[PATH_SIZE];
    int length = snprintf(path, sizeof path, "%s%s", root, group);
    if (length < 0 || (size_t)length >= sizeof path)
        return 0;
    double least = 0;
    size_t end = strlen(root);
    for (;;) {
        least = lesser(limit(path, is_v2), least);
        char *slash = strrchr(path + end, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static bool is_listed(const char *controllers, const char *wanted)
{
    for (const char *at = controllers; *at;) {
        size_t length = strcspn(at, ",");
        if (length == strlen(wanted) && strncmp(at, wanted, length) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/* One line "NUMBER:CONTROLLERS:GROUP"; version 2 has the number 0 and no controllers. */
static double limit_of_line(const char *root, char *line, const char *controller,
                            cgroup_limit *limit)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    *controllers++ = 0;
    *group++ = 0;
    if (strcmp(line, "0") == 0 && !*controllers)
        return least_above(root, group, true, limit);
    if (!is_listed(controllers, controller))
        return 0;
    /* Controllers that are mounted together, as "cpu,cpuacct", have links of their own names, or
     * one of these names alone. */
    const char *const names[] = {controllers, controller};
    double least = 0;
    for (int i = 0; i < 2 && !(least > 0); i++) {
        char hierarchy[PATH_SIZE];
        int length = snprintf(hierarchy, sizeof hierarchy, "%s/%s", root, names[i]);
        if (length > 0 && (size_t)length < sizeof hierarchy)
            least = least_above(hierarchy, group, false, limit);
    }
    return least;
}

double cgroup_least(const char *root, const char *membership, const char *controller,
                    cgroup_limit *limit)
{
    double least = 0;
    while (*membership) {
        size_t length = strcspn(membership, "\n");
        char line[PATH_SIZE];
        if (length < sizeof line) {
            memcpy(line, membership, length);
            line[length] = 0;
            least = lesser(limit_of_line(root, line, controller, limit), least);
        }
        membership += length + (membership[length] == '\n');
    }
    return least;
}
