/* test.h - the test harness: each tests/ROOM/test_NAME.c is a program linked with test.c, which has
 * main().
 *
 *     TEST(softmax__rows_sum_to_one)
 *     {
 *         CHECK_NEAR(sum, 1, 1e-6);
 *     }
 *
 * A program runs its tests in the order of the file; arguments select tests whose names contain one
 * of them. A check that fails prints file:line and both values and ends its test, from helper
 * functions too (by longjmp: never check inside a parallel region). The last two lines of output
 * are "N skipped" and "N passed, N failed"; the exit is 1 where a test failed or none ran. */
#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stddef.h>

/* The path of `below` under the root of the sample data, or NULL where there is no such file: then
 * SKIP. The root is $ATTNBENCH_TEST_DATA, or a default named in test.c. Valid until the exit. */
const char *test_data(const char *below);

/* The path of attnbench as built beside this test program. Valid until the exit. */
const char *test_program(void);

/* A fresh empty directory, another one at each call; removed at exit. Valid until then. */
const char *test_directory(void);

/* `format` filled in, as in test_text("%s/a.bin", test_directory()). Valid until the exit. */
const char *test_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says what the checks that follow in this test are about, such as the row of a table. */
void test_about(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    static struct test test_entry_##name = {#name, test_##name, NULL};                             \
    __attribute__((constructor)) static void test_register_##name(void)                            \
    {                                                                                              \
        test_register(&test_entry_##name);                                                         \
    }                                                                                              \
    static void test_##name(void)

/* Ends the test and counts it as skipped. */
#define SKIP(reason) test_skip(reason)

#define CHECK(condition) test_check(__FILE__, __LINE__, #condition, (condition) ? true : false)
#define CHECK_INT(got, want)                                                                       \
    test_check_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))
/* Either may be NULL, which equals nothing but NULL. */
#define CHECK_STR(got, want) test_check_str(__FILE__, __LINE__, #got, got, want)
#define CHECK_CONTAINS(text, part) test_check_contains(__FILE__, __LINE__, #text, text, part)
/* |got - want| <= tolerance, or both the same infinity. Fails on NaN. */
#define CHECK_NEAR(got, want, tolerance)                                                           \
    test_check_near(__FILE__, __LINE__, #got, (double)(got), (double)(want), (double)(tolerance))
/* The status is OK; else shows the text of the struct error (read only then). */
#define CHECK_OK(status, error)                                                                    \
    test_check_ok(__FILE__, __LINE__, #status, (int)(status), (error).text)

/* What the macros are made of. */
struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *test);
void test_skip(const char *reason) __attribute__((noreturn));
void test_check(const char *file, int line, const char *what, bool holds);
void test_check_int(const char *file, int line, const char *what, long long got, long long want);
void test_check_str(const char *file, int line, const char *what, const char *got,
                    const char *want);
void test_check_contains(const char *file, int line, const char *what, const char *text,
                         const char *part);
void test_check_near(const char *file, int line, const char *what, double got, double want,
                     double tolerance);
void test_check_ok(const char *file, int line, const char *what, int status, const char *text);

#endif
