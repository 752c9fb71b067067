/* test.c - runs the tests of one program and prints what failed. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "test.h"

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/kernels.h"

/* Sample data that is too large for the project, relative to its root, where the tests run. */
#define DATA_ROOT "../shared/data"

enum outcome { PASSED, FAILED, SKIPPED };

struct kept_text {
    struct kept_text *next;
    char text[];
};

static struct {
    struct test *first, **end;
    const char *name; /* of the test that runs */
    char about[256];  /* what its checks are about, "" if nothing was said */
    jmp_buf leave;    /* ends it with an outcome */
    struct kept_text *kept;
    char directory[256]; /* holds the directories handed out, "" before the first */
    int directories;
    pid_t owner; /* children that tests fork must not remove the directory */
} tests;

void test_register(struct test *test)
{
    if (!tests.end)
        tests.end = &tests.first;
    *tests.end = test;
    tests.end = &test->next;
}

void test_skip(const char *reason)
{
    printf("skipped %s: %s\n", tests.name, reason);
    longjmp(tests.leave, SKIPPED);
}

__attribute__((format(printf, 3, 4), noreturn)) static void fail(const char *file, int line,
                                                                 const char *format, ...)
{
    printf("%s:%d: %s", file, line, tests.name);
    if (tests.about[0])
        printf(" [%s]", tests.about);
    printf(": ");
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    longjmp(tests.leave, FAILED);
}

void test_check(const char *file, int line, const char *what, bool holds)
{
    if (!holds)
        fail(file, line, "%s does not hold", what);
}

void test_check_int(const char *file, int line, const char *what, long long got, long long want)
{
    if (got != want)
        fail(file, line, "%s is %lld, want %lld", what, got, want);
}

void test_check_str(const char *file, int line, const char *what, const char *got, const char *want)
{
    if (got && want ? strcmp(got, want) != 0 : got != want)
        fail(file, line, "%s is \"%s\", want \"%s\"", what, got ? got : "(NULL)",
             want ? want : "(NULL)");
}

void test_check_contains(const char *file, int line, const char *what, const char *text,
                         const char *part)
{
    if (!text || !strstr(text, part))
        fail(file, line, "%s is \"%s\", want \"%s\" in it", what, text ? text : "(NULL)", part);
}

void test_check_near(const char *file, int line, const char *what, double got, double want,
                     double tolerance)
{
    /* The comparison is false for NaN; the equality lets infinities match. */
    if (!(fabs(got - want) <= tolerance || got == want))
        fail(file, line, "%s is %.17g, want %.17g within %g (off by %g)", what, got, want,
             tolerance, got - want);
}

void test_check_ok(const char *file, int line, const char *what, int status, const char *text)
{
    if (status)
        fail(file, line, "%s gave status %d: %s", what, status, text);
}

void test_about(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(tests.about, sizeof tests.about, format, args);
    va_end(args);
}

const char *test_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    struct kept_text *k = length < 0 ? NULL : malloc(sizeof *k + (size_t)length + 1);
    if (!k) {
        fprintf(stderr, "test_text: out of memory\n");
        exit(1);
    }
    va_start(args, format);
    vsnprintf(k->text, (size_t)length + 1, format, args);
    va_end(args);
    k->next = tests.kept;
    tests.kept = k;
    return k->text;
}

const char *test_data(const char *below)
{
    const char *root = getenv("ATTNBENCH_TEST_DATA");
    const char *path = test_text("%s/%s", root && *root ? root : DATA_ROOT, below);
    struct stat info;
    return stat(path, &info) == 0 ? path : NULL;
}

const char *test_program(void)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    for (int levels = 0; levels < 2 && length > 0; levels++) { /* build/BUILD/tests/ROOM_NAME */
        while (length > 0 && self[--length] != '/')
            ;
    }
    return test_text("%.*s/attnbench", length > 0 ? (int)length : 0, self);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void clean_up(void)
{
    if (tests.directory[0] && getpid() == tests.owner)
        nftw(tests.directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    while (tests.kept) {
        struct kept_text *next = tests.kept->next;
        free(tests.kept);
        tests.kept = next;
    }
}

const char *test_directory(void)
{
    if (!tests.directory[0]) {
        const char *root = getenv("TMPDIR");
        int length = snprintf(tests.directory, sizeof tests.directory, "%s/attnbench-test-XXXXXX",
                              root && *root ? root : "/tmp");
        if (length < 0 || (size_t)length >= sizeof tests.directory || !mkdtemp(tests.directory)) {
            perror(tests.directory);
            tests.directory[0] = 0;
            exit(1);
        }
    }
    const char *path = test_text("%s/%d", tests.directory, ++tests.directories);
    if (mkdir(path, 0700)) {
        perror(path);
        exit(1);
    }
    return path;
}

static bool is_wanted(const struct test *test, char **names)
{
    if (!*names)
        return true;
    for (; *names; names++) {
        if (strstr(test->name, *names))
            return true;
    }
    return false;
}

static enum outcome run(const struct test *test)
{
    tests.name = test->name;
    tests.about[0] = 0;
    int left = setjmp(tests.leave);
    if (left == FAILED)
        return FAILED;
    if (left == SKIPPED)
        return SKIPPED;
    test->run();
    return PASSED;
}

int main(int argc, char **argv)
{
    (void)argc;
    int count[3] = {0, 0, 0};
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed before a crash is seen */
    struct error err = {0};
    if (kernels_init(&err)) { /* the level that was asked for is not there */
        printf("skipped: %s\n1 skipped\n0 passed, 0 failed\n", err.text);
        return 0;
    }
    tests.owner = getpid();
    atexit(clean_up);
    for (const struct test *t = tests.first; t; t = t->next) {
        if (is_wanted(t, argv + 1))
            count[run(t)]++;
    }
    printf("%d skipped\n%d passed, %d failed\n", count[SKIPPED], count[PASSED], count[FAILED]);
    return count[FAILED] || count[PASSED] + count[SKIPPED] == 0;
}
