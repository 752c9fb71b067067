/* start.c - the start line. */
#include "cli/start.h"

#include <stdio.h>

#include "base/cpu.h"
#include "base/version.h"
#include "cli/output.h"
#include "kernels/kernels.h"

const char *start_precision(const struct experiment *x)
{
    if (sizeof(real) == sizeof(double))
        return "fp64";
    return x->train.precision == PRECISION_BF16 ? "bf16" : "fp32";
}

const char *start_line(char text[START_LINE_SIZE], const struct experiment *x, int threads)
{
    char cpu[128];
    int cores = cpu_cores();
    cpu_name(cpu, sizeof cpu);
    snprintf(text, START_LINE_SIZE, "attnbench %s, %s, %s, %s, %d thread%s on %d core%s, %s",
             ATTNBENCH_VERSION, cpu, kernels_isa(), kernels_blas(), threads, threads > 1 ? "s" : "",
             cores, cores > 1 ? "s" : "", start_precision(x));
    return text;
}

void start_warnings(int threads)
{
    int cores = cpu_cores();
    if (threads > cores)
        output_warning("--threads: %d threads on %d cores slow each other down", threads, cores);
    if (kernels_blas_note())
        output_warning("%s", kernels_blas_note());
}
