/* team.c - one parallel region for a kernel call. */
#include "kernels/team.h"

#include <omp.h>

#include "kernels/kernels.h"

/* Elements of a part: some microseconds of work for most kernels, several times what it costs to
 * hand it out. */
enum { PART_ELEMENTS = 4096, MOST_PARTS = 64 };

/* What kernels_team said to this thread. Members of a team are asked inside their region only. */
static _Thread_local int team = 1;

void kernels_team(int threads)
{
    team = threads > 1 ? threads : 1;
}

int team_threads(void)
{
    return team > 1 && !omp_in_parallel() ? team : 1;
}

void team_run(team_part *run, const void *job, int parts)
{
    int threads = parts > 1 ? team_threads() : 1;
    if (threads == 1) {
        for (int part = 0; part < parts; part++)
            run(job, part);
        return;
    }
    /* All of the team even for fewer parts: libgomp ends threads that a region leaves out. */
#pragma omp parallel num_threads(threads)
    {
        kernels_thread_init();
#pragma omp for schedule(dynamic, 1) nowait
        for (int part = 0; part < parts; part++)
            run(job, part);
    }
}

int team_row_parts(size_t rows, size_t cols)
{
    size_t parts = rows * cols / PART_ELEMENTS;
    parts = parts < rows ? parts : rows;
    return parts < 1 ? 1 : parts < MOST_PARTS ? (int)parts : MOST_PARTS;
}

struct team_rows team_rows_of(size_t rows, int parts, int part)
{
    size_t first = rows * (size_t)part / (size_t)parts;
    return (struct team_rows){first, rows * ((size_t)part + 1) / (size_t)parts - first};
}
