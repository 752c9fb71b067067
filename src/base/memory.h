/* memory.h - how much memory the process may take. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

/* Bytes of the machine, or the limit of the process's control groups where that is less; 0 where
 * the system tells neither. */
double memory_limit_bytes(void);

/* Bytes by which the process may still grow: that limit less what is resident, or the limit of its
 * address space (ulimit -v) less what it has mapped and `reserved` where that is less. reserved:
 * bytes that it will map beside, of which it touches few. HUGE_VAL where nothing is known. */
double memory_room_bytes(double reserved);

/* Bytes by the limits of the groups that `membership` (the text of /proc/self/cgroup) names and of
 * those above them, whose files lie below `root`; 0 where none is set. */
double memory_cgroup_bytes(const char *root, const char *membership);

#endif
