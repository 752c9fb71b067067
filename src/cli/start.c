/* start.c - the start line. */
#include "cli/start.h"

#include <stdio.h>

#include "base/cpu.h"
#include "base/version.h"
#include "cli/arguments.h"
#include "cli/output.h"
#include "kernels/kernels.h"

void start_fill(struct start *s, const struct experiment *x, int threads,
                const struct arguments *a)
{
    char cpu[128];
    int cores = cpu_cores();
    cpu_name(cpu, sizeof cpu);
    snprintf(s->line, sizeof s->line, "attnbench %s, %s, %s, %s, %d thread%s on %d core%s, %s",
             ATTNBENCH_VERSION, cpu, kernels_isa(), kernels_blas(), threads, threads > 1 ? "s" : "",
             cores, cores > 1 ? "s" : "", precision_name(x));
    snprintf(s->crowded, sizeof s->crowded,
             "%s: %d threads on %d core%s slow each other down",
             arguments_has(a, "--threads") ? "--threads" : "OMP_NUM_THREADS", threads, cores,
             cores > 1 ? "s" : "");
    s->notes[0] = kernels_isa_note();
    s->notes[1] = kernels_blas_note();
    s->notes[2] = threads > cores ? s->crowded : NULL;
}

void start_say(const struct start *s)
{
    output_note("%s", s->line);
    for (int i = 0; i < START_NOTES; i++)
        if (s->notes[i])
            output_warning("%s", s->notes[i]);
}
