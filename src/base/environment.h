/* environment.h - variables that libraries read when they are loaded: too early for main to set
 * them, but for the next start of the program. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stdbool.h>

/* Sets GOMP_SPINCOUNT to a moderate value, unless the user said how threads shall wait
 * (GOMP_SPINCOUNT or OMP_WAIT_POLICY): libgomp's own one lets threads that wait take the cores from
 * those that work, wherever programs share them. True where it was set now. */
bool environment_limit_spinning(void);

/* Runs the program again with the same arguments. Returns where that is impossible. */
void environment_run_again(char **argv);

#endif
