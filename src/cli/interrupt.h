/* interrupt.h - SIGINT and SIGTERM. They end a command at once, unless it watches for them: then
 * the first one only sets a flag, and the second one ends the program. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <signal.h>

/* Called once, at the start. */
void interrupt_install(void);

/* From here on the first signal sets the flag returned, and writes `notice` (NULL: nothing; not
 * copied) to stderr at once. */
volatile sig_atomic_t *interrupt_watch(const char *notice);

/* The signal that came, 0 without one. */
int interrupt_signal(void);

#endif
