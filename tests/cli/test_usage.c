/* test_usage.c - commands, options, help, and what is written where. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "cli/program.h"

static const char *const commands[] = {"train", "eval",      "predict", "info",   "trace",  "data",
                                       "list",  "gradcheck", "help",    "config", "version"};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

TEST(usage__without_arguments_help_is_short_and_the_exit_is_2)
{
    struct said s = attnbench(" ");
    CHECK_INT(s.code, 2);
    CHECK_STR(s.out, "");
    CHECK_CONTAINS(s.err, "usage: attnbench");
}

TEST(usage__help_lists_every_command_and_no_later_one)
{
    struct said s = attnbench("help");
    CHECK_INT(s.code, 0);
    CHECK_STR(s.err, "");
    for (int i = 0; i < COMMANDS; i++)
        CHECK_CONTAINS(s.out, test_text("\n  %s ", commands[i]));
    CHECK_STR(attnbench("--help").out, s.out);
    static const char *const later[] = {"sweep", "attnmap", "report"};
    for (int i = 0; i < 3; i++) {
        test_about("%s", later[i]);
        CHECK(!strstr(s.out, test_text("\n  %s ", later[i])));
        CHECK_INT(attnbench("%s x", later[i]).code, 2);
    }
}

TEST(usage__each_command_has_help_with_an_example)
{
    for (int i = 0; i < COMMANDS; i++) {
        test_about("%s", commands[i]);
        struct said s = attnbench("%s --help", commands[i]);
        CHECK_INT(s.code, 0);
        CHECK_CONTAINS(s.out, test_text("usage: attnbench %s", commands[i]));
        CHECK_CONTAINS(s.out, test_text("example:\n  attnbench %s", commands[i]));
        CHECK_STR(s.err, "");
        CHECK_STR(attnbench("help %s", commands[i]).out, s.out);
        CHECK_STR(attnbench("%s --nonsense -h", commands[i]).out, s.out);
    }
}

TEST(usage__help_lines_fit_a_terminal)
{
    for (int i = 0; i < COMMANDS; i++) {
        const char *line = attnbench("%s --help", commands[i]).out;
        for (size_t length; *line; line += length + (line[length] != 0)) {
            length = strcspn(line, "\n");
            test_about("%s: %.*s", commands[i], (int)length, line);
            CHECK(length <= 100);
        }
    }
}

struct mistake {
    const char *arguments, *where, *hint;
};

static const struct mistake mistakes[] = {
    {"tarin x", "tarin: ", "\"train\""},
    {"--quiet train x", "--quiet: ", "behind a command"},
    {"train", "CONFIG|RUN_DIR", "missing"},
    {"train a b", "b: ", "nothing beside"},
    {"train a --thread 2", "--thread: ", "\"--threads\""},
    {"train a --threads", "--threads: ", "missing"},
    {"train a --threads --quiet", "--threads: ", "missing"},
    {"train a --threads=", "--threads: ", "empty"},
    {"train a --threads 0", "--threads: ", "1..1024"},
    {"train a --threads two", "--threads: ", "\"two\""},
    {"train a --threads ' 2'", "--threads: ", "1..1024"},
    {"train a --threads 2x", "--threads: ", "1..1024"},
    {"train a --threads 99999999999999999999", "--threads: ", "1..1024"},
    {"train a --threads 2 --threads 3", "--threads: ", "more than once"},
    {"train a --quiet=yes", "--quiet: ", "no value"},
    {"train nothing-here.json", "nothing-here.json: ", "no such file"},
    {"info nothing-here.safetensors", "nothing-here.safetensors: ", "no such file"},
    {"version x", "x: ", "no operands"},
    {"help tarin", "tarin: ", "\"train\""},
    {"list atention", "atention: ", "\"attention\""},
    {"gradcheck sofmax", "sofmax: ", "\"softmax\""},
    {"trace a --output b", "--input: ", "IN.safetensors"},
    {"eval a --split tets", "a: ", "no such file"},
};

TEST(usage__a_mistake_gives_one_line_that_names_it_and_2)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const struct mistake *m = &mistakes[i];
        test_about("attnbench %s", m->arguments);
        struct said s = attnbench("%s", m->arguments);
        CHECK_INT(s.code, 2);
        CHECK_STR(s.out, "");
        CHECK_INT(count_of(s.err, "\n"), 1);
        CHECK(strncmp(s.err, "attnbench: error: ", 18) == 0);
        CHECK_CONTAINS(s.err, m->where);
        CHECK_CONTAINS(s.err, m->hint);
    }
}

TEST(usage__both_spellings_of_an_option_work_and_two_dashes_end_them)
{
    const char *config = small_config("");
    CHECK_CONTAINS(attnbench("config %s --set train.epochs=7", config).out, "\"epochs\": 7");
    CHECK_CONTAINS(attnbench("config --set=train.epochs=7 -- %s", config).out, "\"epochs\": 7");
    CHECK_CONTAINS(attnbench("config -- --set").err, "--set: no such file");
}

/* libgomp, asked to, tells at each start how it will wait. */
TEST(usage__waiting_threads_spin_moderately_unless_the_user_says_how)
{
    CHECK_INT(setenv("OMP_DISPLAY_ENV", "verbose", 1), 0);
    const char *said = attnbench("version").err;
    CHECK_INT(setenv("OMP_WAIT_POLICY", "active", 1), 0);
    const char *active = attnbench("version").err;
    unsetenv("OMP_WAIT_POLICY");
    CHECK_INT(setenv("GOMP_SPINCOUNT", "77", 1), 0);
    const char *own = attnbench("version").err;
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_DISPLAY_ENV");
    if (!strstr(said, "GOMP_SPINCOUNT"))
        SKIP("not libgomp");
    CHECK_INT(count_of(said, "GOMP_SPINCOUNT = '10000'"), 1);
    CHECK(!strstr(active, "'10000'"));
    CHECK(strstr(own, "'77'") && !strstr(own, "'10000'"));
    CHECK(count_of(said, "GOMP_SPINCOUNT") <= 3); /* the program starts over once, or twice */
}

TEST(usage__version_is_one_line)
{
    struct said s = attnbench("version");
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "attnbench 0.");
    CHECK_INT(count_of(s.out, "\n"), 1);
    CHECK_STR(attnbench("--version").out, s.out);
}

TEST(usage__output_that_is_lost_is_an_error)
{
    if (!path_exists("/dev/full"))
        SKIP("no /dev/full");
    struct said s = attnbench("list attention > /dev/full");
    CHECK_INT(s.code, 1);
    CHECK_CONTAINS(s.err, "attnbench: error: standard output: ");
    s = attnbench("help >&-");
    CHECK_INT(s.code, 1);
    CHECK_CONTAINS(s.err, "attnbench: error: standard output: ");
}

TEST(usage__an_unknown_instruction_set_is_refused)
{
    CHECK_INT(setenv("ATTNBENCH_ISA", "sse9", 1), 0);
    struct said s = attnbench("gradcheck add");
    unsetenv("ATTNBENCH_ISA");
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "sse9");
    CHECK_INT(attnbench("gradcheck add").code, 0);
}

TEST(usage__messages_pass_no_terminal_commands_on)
{
    struct said s = attnbench("\"$(printf 'a\\033[2Jb')\"");
    CHECK_INT(s.code, 2);
    CHECK(!strchr(s.err, '\033'));
}
