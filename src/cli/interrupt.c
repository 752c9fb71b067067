/* interrupt.c - handlers of SIGINT and SIGTERM. */
#include "cli/interrupt.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t watched, stop, received;
static const char *said; /* on the first signal */
static size_t said_size;

static void on_signal(int number)
{
    if (!watched || received)
        _exit(128 + number);
    received = number;
    stop = 1;
    int before = errno;
    ssize_t written = said ? write(STDERR_FILENO, said, said_size) : 0;
    (void)written; /* a notice that is lost harms nothing */
    errno = before;
}

void interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART; /* a write in progress goes on */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

volatile sig_atomic_t *interrupt_watch(const char *notice)
{
    said = notice;
    said_size = notice ? strlen(notice) : 0;
    watched = 1;
    return &stop;
}

int interrupt_signal(void)
{
    return received;
}
