/* environment.c - GOMP_SPINCOUNT. */
#include "base/environment.h"

#include <stdlib.h>
#include <unistd.h>

bool environment_limit_spinning(void)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return false;
    return setenv("GOMP_SPINCOUNT", "10000", 1) == 0; /* about half a millisecond */
}

void environment_run_again(char **argv)
{
    execv("/proc/self/exe", argv);
}
