/* test_interrupt.c - what SIGINT and SIGTERM do: at once, or after a flag. */
#include "cli/interrupt.h"

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* The exit code of a child that raises `count` signals, watching for them or not; 7 where it
 * lives. */
static int code_of(bool watches, const int *signals, int count)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        interrupt_install();
        volatile sig_atomic_t *stop = watches ? interrupt_watch(NULL) : NULL;
        for (int i = 0; i < count; i++)
            raise(signals[i]);
        _exit(stop && (*stop != (count > 0) || interrupt_signal() != (count ? signals[0] : 0)) ? 8
                                                                                             : 7);
    }
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(interrupt__ends_a_command_that_does_not_watch)
{
    CHECK_INT(code_of(false, (const int[]){SIGINT}, 1), 130);
    CHECK_INT(code_of(false, (const int[]){SIGTERM}, 1), 143);
}

TEST(interrupt__the_first_signal_sets_the_flag_and_the_second_ends_the_program)
{
    CHECK_INT(code_of(true, NULL, 0), 7);
    CHECK_INT(code_of(true, (const int[]){SIGTERM}, 1), 7);
    CHECK_INT(code_of(true, (const int[]){SIGINT, SIGTERM}, 2), 143);
    CHECK_INT(code_of(true, (const int[]){SIGINT, SIGINT}, 2), 130);
}

TEST(interrupt__the_first_signal_is_answered_at_once)
{
    static const char notice[] = "saving\n";
    char text[32] = "";
    int ends[2], status;
    CHECK_INT(pipe(ends), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        interrupt_install();
        interrupt_watch(notice);
        raise(SIGTERM);
        _exit(7);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(read(ends[0], text, sizeof text - 1), sizeof notice - 1);
    CHECK_STR(text, notice);
}
