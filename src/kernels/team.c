/* team.c - one parallel region for a kernel call. */
#include "kernels/team.h"

#include <omp.h>

#include "kernels/kernels.h"

/* Elements of a part: some microseconds of work for most kernels, several times what it costs to
 * hand it out. */
enum { PART_ELEMENTS = 4096, MOST_PARTS = 64 };

enum { MOST_THREADS = 256 };

/* What kernels_team said to this thread. Members of a team are asked inside their region only. */
static _Thread_local int team = 1;

void kernels_team(int threads)
{
    team = threads < 1 ? 1 : threads < MOST_THREADS ? threads : MOST_THREADS;
}

int team_threads(void)
{
    return team > 1 && !omp_in_parallel() ? team : 1;
}

/* The first part of a member's own. */
static int begin(int parts, int threads, int member)
{
    return (int)((long long)parts * member / threads);
}

static int take(int *next)
{
    int part;
#pragma omp atomic capture
    part = (*next)++;
    return part;
}

/* Each member begins with its own parts, the same ones in each call, which work on what its cache
 * holds since the last call; then it helps the others. */
void team_run(team_part *run, const void *job, int parts)
{
    int threads = parts > 1 ? team_threads() : 1;
    if (threads == 1) {
        for (int part = 0; part < parts; part++)
            run(job, part, 0);
        return;
    }
    int next[MOST_THREADS];
    for (int i = 0; i < threads; i++)
        next[i] = begin(parts, threads, i);
    /* All of the team even for fewer parts: libgomp ends threads that a region leaves out. */
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        kernels_thread_init();
        for (int i = 0; i < threads; i++) {
            int whose = (me + i) % threads, part;
            while ((part = take(&next[whose])) < begin(parts, threads, whose + 1))
                run(job, part, me);
        }
    }
}

int team_threads_of(int most)
{
    int threads = team_threads();
    return threads <= most ? threads : 1;
}

void team_share(team_part *run, const void *job, int parts, int most)
{
    if (team_threads_of(most) > 1) {
        team_run(run, job, parts);
        return;
    }
    for (int part = 0; part < parts; part++)
        run(job, part, 0);
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
