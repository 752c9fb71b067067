/* test_train.c - attnbench train from start to end: files, signals, resuming. */
#include "test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/real.h"
#include "cli/program.h"

static bool same_file(const char *a, const char *b)
{
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    bool same = x && y;
    for (int c = 0; same && c != EOF;)
        same = (c = fgetc(x)) == fgetc(y);
    if (x)
        fclose(x);
    if (y)
        fclose(y);
    return same;
}

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK(in && out);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    CHECK_INT(fclose(out), 0);
}

TEST(train__a_run_leaves_its_files_and_prints_its_result)
{
    const char *run = test_text("%s/run", test_directory());
    struct said s = attnbench("train %s --out %s", small_config(""), run);
    CHECK_INT(s.code, 0);
    static const char *const files[] = {"config.json",         "metrics.jsonl",
                                        "last.safetensors",    "best.safetensors",
                                        "summary.json",        "last.state.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        test_about("%s", files[i]);
        CHECK(path_exists(test_text("%s/%s", run, files[i])));
    }
    const char *metrics = file_text(test_text("%s/metrics.jsonl", run));
    CHECK(strncmp(metrics, "{\"event\":\"start\"", 16) == 0);
    CHECK_INT(count_of(metrics, "\"event\":\"epoch\""), 2);
    CHECK_INT(count_of(metrics, "\"event\":\"test\""), 2);
    CHECK_CONTAINS(s.out, "last: validation top-1 ");
    CHECK_CONTAINS(s.out, "best: ");
    CHECK_CONTAINS(s.out, "test top-1 ");
    const char *summary = file_text(test_text("%s/summary.json", run));
    CHECK_INT(json_value_of(summary, "epochs"), 2);
}

TEST(train__the_start_line_names_version_cpu_kernels_threads_and_precision)
{
    struct said s =
        attnbench("train %s --threads 1 --out %s/run", small_config(""), test_directory());
    const char *line = strstr(s.err, "attnbench 0.");
    CHECK(line != NULL);
    CHECK_CONTAINS(line, ", 1 thread on ");
    CHECK_CONTAINS(line, sizeof(real) == sizeof(double) ? ", fp64\n" : ", fp32\n");
}

TEST(train__more_threads_than_cores_are_warned_of_once)
{
    struct said s =
        attnbench("train %s --threads 1024 --out %s/run", small_config(""), test_directory());
    CHECK_INT(s.code, 0);
    CHECK_INT(count_of(s.err, "1024 threads on "), 2); /* start line and warning */
    CHECK_INT(count_of(s.err, "warning: --threads: "), 1);
    s = attnbench("train %s --threads 1 --out %s/run", small_config(""), test_directory());
    CHECK(!strstr(s.err, "--threads: "));
}

TEST(train__omp_num_threads_is_the_default)
{
    const char *config = small_config("");
    CHECK_INT(setenv("OMP_NUM_THREADS", "3", 1), 0);
    struct said s = attnbench("train %s --out %s/run", config, test_directory());
    struct said t = attnbench("train %s --threads 1 --out %s/run", config, test_directory());
    unsetenv("OMP_NUM_THREADS");
    CHECK_CONTAINS(s.err, ", 3 threads on ");
    CHECK(!strstr(s.err, "--threads: ")); /* nobody gave that */
    CHECK_CONTAINS(t.err, ", 1 thread on ");
}

TEST(train__the_bits_do_not_depend_on_the_threads)
{
    const char *config = small_config(""), *directory = test_directory();
    for (int threads = 1; threads <= 3; threads++)
        CHECK_INT(attnbench("train %s --quiet --threads %d --out %s/%d", config, threads, directory,
                            threads).code, 0);
    const char *one = test_text("%s/1/last.safetensors", directory);
    CHECK(same_file(one, test_text("%s/2/last.safetensors", directory)));
    CHECK(same_file(one, test_text("%s/3/last.safetensors", directory)));
}

/* Sends `number` in the middle of a long run; the run's exit code is `code`, and it was saved. */
static void interrupt(const char *config, const char *run, int number, int code)
{
    struct running r = attnbench_start("train %s --out %s", config, run);
    CHECK(attnbench_says(r, "\nepoch 2/"));
    CHECK_INT(kill(r.pid, number), 0);
    struct said s = attnbench_wait(r);
    CHECK_INT(s.code, code);
    CHECK_CONTAINS(s.err, "interrupted");
    CHECK(!strstr(s.err, "error"));
    CHECK(path_exists(test_text("%s/last.state.safetensors", run)));
    CHECK(!path_exists(test_text("%s/summary.json", run)));
}

TEST(train__interrupted_runs_go_on_to_the_same_bits)
{
    const char *config = small_config(""), *directory = test_directory();
    const char *longer = test_text("%s/longer.json", directory);
    CHECK_INT(attnbench("config %s --set train.epochs=40 > %s", config, longer).code, 0);
    const char *whole = test_text("%s/whole", directory), *cut = test_text("%s/cut", directory);
    CHECK_INT(attnbench("train %s --quiet --out %s", longer, whole).code, 0);
    interrupt(longer, cut, SIGINT, 130);
    CHECK_INT(attnbench("train %s --quiet", cut).code, 0);
    CHECK(same_file(test_text("%s/last.safetensors", whole),
                    test_text("%s/last.safetensors", cut)));
    CHECK(same_file(test_text("%s/best.safetensors", whole),
                    test_text("%s/best.safetensors", cut)));
    CHECK_INT(count_of(file_text(test_text("%s/metrics.jsonl", cut)), "\"event\":\"epoch\""), 40);
}

TEST(train__sigterm_saves_and_exits_with_143)
{
    const char *config = small_config(""), *directory = test_directory();
    const char *longer = test_text("%s/longer.json", directory);
    CHECK_INT(attnbench("config %s --set train.epochs=100000 > %s", config, longer).code, 0);
    interrupt(longer, test_text("%s/run", directory), SIGTERM, 143);
}

TEST(train__a_finished_run_is_left_alone)
{
    const char *run = test_text("%s/run", test_directory());
    CHECK_INT(attnbench("train %s --quiet --out %s", small_config(""), run).code, 0);
    const char *before = file_text(test_text("%s/metrics.jsonl", run));
    CHECK_INT(attnbench("train %s --quiet", run).code, 0);
    CHECK_STR(file_text(test_text("%s/metrics.jsonl", run)), before);
}

TEST(train__out_is_against_the_working_directory)
{
    const char *directory = test_directory(), *config = small_config("");
    char *here = getcwd(NULL, 0);
    CHECK(here != NULL);
    CHECK_INT(chdir(directory), 0);
    struct said s = attnbench("train %s --quiet --out here/run", config);
    CHECK_INT(chdir(here), 0);
    free(here);
    CHECK_INT(s.code, 0);
    CHECK(path_exists(test_text("%s/here/run/summary.json", directory)));
}

TEST(train__goes_on_when_the_reader_of_its_log_has_gone)
{
    const char *run = test_text("%s/run", test_directory());
    struct said s = attnbench("train %s --set train.epochs=5 --out %s 2>&1 | head -n 1",
                              small_config(""), run);
    CHECK_CONTAINS(s.out, "attnbench 0.");
    const struct timespec pause = {0, 10 * 1000 * 1000};
    const char *summary = test_text("%s/summary.json", run);
    for (int i = 0; i < 3000 && !path_exists(summary); i++)
        nanosleep(&pause, NULL);
    CHECK(path_exists(summary));
}

/* A limit on the size of files stands for a full disk: writing fails in the same place. */
TEST(train__a_full_disk_keeps_the_last_good_files)
{
    const char *config = small_config(""), *run = test_text("%s/run", test_directory());
    const char *longer = test_text("%s/longer.json", test_directory());
    CHECK_INT(attnbench("config %s --set train.epochs=40 > %s", config, longer).code, 0);
    interrupt(longer, run, SIGINT, 130);
    const char *state = test_text("%s/last.state.safetensors", run);
    const char *copy = test_text("%s/copy", test_directory());
    copy_file(state, copy);
    struct rlimit usual, small;
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = usual;
    small.rlim_cur = 4096;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct said s = attnbench("train %s", run);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &usual), 0);
    CHECK_INT(s.code, 1);
    CHECK_CONTAINS(s.err, "attnbench: error: ");
    CHECK_CONTAINS(s.err, " bytes could be written");
    CHECK(same_file(state, copy));
    CHECK_INT(attnbench("train %s --quiet", run).code, 0);
}
