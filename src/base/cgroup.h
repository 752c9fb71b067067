/* cgroup.h - limits that the control groups of this process set, versions 1 and 2. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>

#define CGROUP_ROOT "/sys/fs/cgroup"

enum { CGROUP_TEXT_SIZE = 8192 };

/* The text of /proc/self/cgroup, "" where it cannot be read. Returns text. */
const char *cgroup_membership(char text[CGROUP_TEXT_SIZE]);

/* Up to two numbers from the first line of a file, -1 for each that is not there ("max", no such
 * file). */
void cgroup_numbers(const char *directory, const char *name, long long number[2]);

/* What one group grants by the files of its directory; 0: no limit. */
typedef double cgroup_limit(const char *directory, bool is_v2);

/* The least limit of the groups that `membership` names for the controller and of those above them,
 * whose directories lie below `root`; 0 where none is set. */
double cgroup_least(const char *root, const char *membership, const char *controller,
                    cgroup_limit *limit);

#endif
