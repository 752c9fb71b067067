/* test_progress.c - the line shown while training, on terminals of any width and in logs. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#define _DEFAULT_SOURCE   /* TIOCSWINSZ */
#include "cli/progress.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/program.h"
#include "test.h"

static struct train_progress middle(void)
{
    return (struct train_progress){
        .epoch = 3, .epochs = 10, .step = 120, .steps = 469, .loss = 0.53124, .lr = 9.8e-4,
        .images_per_second = 1234.4, .eta_seconds = 185, .val_top1 = (double)NAN,
        .val_loss = (double)NAN, .train_top1 = (double)NAN,
    };
}

TEST(progress__a_line_tells_epoch_step_loss_rate_speed_and_time_left)
{
    char text[PROGRESS_LINE_SIZE];
    struct train_progress p = middle();
    CHECK_STR(progress_line(text, &p, 200),
              "epoch 3/10  step 120/469  loss 0.5312  lr 0.00098  1234 img/s  ETA 3:05");
    p.wait_share = 0.25;
    CHECK_CONTAINS(progress_line(text, &p, 200), "25 % waiting for data");
}

TEST(progress__no_line_is_wider_than_its_terminal)
{
    struct train_progress p = middle();
    for (int done = 0; done < 2; done++) {
        p.epoch_done = done;
        p.val_top1 = 86.5;
        p.val_loss = 0.41;
        for (int columns = 0; columns < 150; columns++) {
            char text[PROGRESS_LINE_SIZE];
            test_about("%d columns", columns);
            CHECK(strlen(progress_line(text, &p, columns)) <= (size_t)columns);
        }
    }
}

TEST(progress__fields_are_whole_or_absent)
{
    char text[PROGRESS_LINE_SIZE];
    struct train_progress p = middle();
    CHECK_STR(progress_line(text, &p, 39), "epoch 3/10  step 120/469  loss 0.5312");
    CHECK_STR(progress_line(text, &p, 36), "epoch 3/10  step 120/469");
}

TEST(progress__an_epoch_without_validation_shows_none)
{
    char text[PROGRESS_LINE_SIZE];
    struct train_progress p = middle();
    p.epoch_done = true;
    CHECK(!strstr(progress_line(text, &p, 200), "val"));
    CHECK(!strstr(text, "nan"));
}

/* Runs the arguments with stderr on a new terminal of `columns`, to end with `code`; what appeared
 * on the terminal. */
static const char *on_terminal(int columns, const char *arguments, int code)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master))
        SKIP("no pseudo-terminals");
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    CHECK(terminal >= 0);
    CHECK_INT(ioctl(terminal, TIOCSWINSZ, &size), 0);
    const char *line = test_text("exec '%s' %s >/dev/null", test_program(), arguments);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        if (dup2(terminal, STDERR_FILENO) < 0)
            _exit(126);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(126);
    }
    close(terminal);
    char text[65536];
    size_t at = 0;
    for (ssize_t got; at + 1 < sizeof text; at += (size_t)got)
        if ((got = read(master, text + at, sizeof text - 1 - at)) <= 0)
            break;
    text[at] = 0;
    close(master);
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
    return test_text("%s", text);
}

TEST(progress__a_narrow_terminal_shows_lines_that_do_not_wrap)
{
    const char *config = small_config("");
    const char *text =
        on_terminal(40, test_text("train %s --out %s/run", config, test_directory()), 0);
    int lines = 0;
    for (const char *at = text; (at = strstr(at, "\repoch ")); lines++) {
        size_t length = strcspn(++at, "\r\n\033");
        test_about("%.*s", (int)length, at);
        CHECK(length < 40);
    }
    CHECK(lines >= 2);
    CHECK_CONTAINS(text, "epoch 2/2");
}

TEST(progress__no_color_means_no_colour)
{
    CHECK_CONTAINS(on_terminal(80, "version x", 2), "\033[1;31merror:\033[0m x: ");
    CHECK_INT(setenv("NO_COLOR", "1", 1), 0);
    const char *text = on_terminal(80, "version x", 2);
    unsetenv("NO_COLOR");
    CHECK_CONTAINS(text, "attnbench: error: x: ");
    CHECK(!strchr(text, '\033'));
}

TEST(progress__a_log_gets_one_plain_line_an_epoch)
{
    struct said s = attnbench("train %s --set train.epochs=3 --out %s/run", small_config(""),
                              test_directory());
    CHECK_INT(s.code, 0);
    CHECK_INT(count_of(s.err, "\nepoch "), 3);
    CHECK(!strchr(s.err, '\r'));
    CHECK(!strchr(s.err, '\033'));
    CHECK(strncmp(strstr(s.err, "attnbench 0."), "attnbench 0.", 12) == 0);
}

TEST(progress__quiet_says_nothing)
{
    struct said s =
        attnbench("train %s --quiet --out %s/run", small_config(""), test_directory());
    CHECK_INT(s.code, 0);
    CHECK_STR(s.err, "");
}
