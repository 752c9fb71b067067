/* team.h - the threads that share the work of one kernel call, where a run has fewer slices than
 * threads (kernels_team). The work is cut into parts that write different memory, and handed out
 * as threads get free; no number may depend on who does a part, or on how many threads there are.
 */
#ifndef KERNELS_TEAM_H
#define KERNELS_TEAM_H

#include <stddef.h>

/* Threads that a kernel may use now: 1 inside a parallel region. */
int team_threads(void);

/* Does part `part`; member: the thread's number in the team, below team_threads(). */
typedef void team_part(const void *job, int part, int member);

/* Runs parts 0 .. parts - 1 of the job, in any order, on the threads of the team. */
void team_run(team_part *run, const void *job, int parts);

/* The same for kernels with scratch for `most` threads: 1 thread where the team has more. */
int team_threads_of(int most);
void team_share(team_part *run, const void *job, int parts, int most);

/* Rows of one part. */
struct team_rows {
    size_t first, count;
};

/* How many parts `rows` rows of `cols` elements are cut into: a function of these alone. */
int team_row_parts(size_t rows, size_t cols);

/* The rows of part `part`: all parts are as equal as can be. */
struct team_rows team_rows_of(size_t rows, int parts, int part);

#endif
