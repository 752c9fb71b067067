/* test_file.c - whole files, paths, and what happens where writing fails. */
#define _XOPEN_SOURCE 700
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static void check_content(const char *path, const char *want)
{
    struct error err;
    char *data = NULL;
    size_t size = 0;
    CHECK_OK(file_read(&data, &size, path, 1000, &err), err);
    const char *copy = test_text("%s", data);
    free(data);
    CHECK_STR(copy, want);
    CHECK_INT(size, strlen(want));
}

TEST(file_write__replaces_the_whole_file)
{
    struct error err;
    const char *path = test_text("%s/a", test_directory());
    CHECK(!file_exists(path));
    CHECK_INT(file_size(path), -1);
    CHECK_OK(file_write(path, "first text", 10, &err), err);
    check_content(path, "first text");
    CHECK_OK(file_write(path, "new", 3, &err), err);
    check_content(path, "new");
    CHECK_INT(file_size(path), 3);
    CHECK(!file_exists(test_text("%s.tmp", path)));
    CHECK_OK(file_write(path, "", 0, &err), err);
    check_content(path, "");
}

TEST(file_write__replaces_a_leftover)
{
    struct error err;
    const char *path = test_text("%s/a", test_directory());
    CHECK_OK(file_write(test_text("%s.tmp", path), "left by a kill", 14, &err), err);
    CHECK_OK(file_write(path, "good", 4, &err), err);
    check_content(path, "good");
    CHECK(!file_exists(test_text("%s.tmp", path)));
}

TEST(file_write__keeps_links)
{
    struct error err;
    const char *directory = test_directory();
    const char *target = test_text("%s/target", directory);
    const char *link = test_text("%s/link", directory);
    CHECK_OK(file_write(target, "old", 3, &err), err);
    CHECK(symlink("target", link) == 0);
    CHECK_OK(file_write(link, "new", 3, &err), err);
    check_content(target, "new");
    struct stat info;
    CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
}

TEST(file_write__leaves_devices_what_they_are)
{
    struct error err;
    CHECK_OK(file_write("/dev/null", "x", 1, &err), err);
    struct stat info;
    CHECK(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
}

TEST(file_write_parts__joins_them)
{
    struct error err;
    const char *path = test_text("%s/a", test_directory());
    struct file_part parts[] = {{"ab", 2}, {"", 0}, {"cd", 2}};
    CHECK_OK(file_write_parts(path, parts, 3, &err), err);
    check_content(path, "abcd");
}

TEST(file_write__says_where_it_cannot)
{
    struct error err;
    const char *directory = test_directory();
    CHECK_INT(file_write(test_text("%s/no/file", directory), "x", 1, &err), ERR_IO);
    CHECK_CONTAINS(err.text, "/no/file: cannot be written: No such file or directory");
    CHECK_INT(file_write(directory, "x", 1, &err), ERR_IO);
    CHECK_CONTAINS(err.text, "Is a directory");
}

/* A limit on file sizes stands for the full disk. */
static enum status with_limit(rlim_t bytes, bool append, const char *path, struct error *err)
{
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = bytes;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    enum status status =
        append ? file_append(path, "0123456789", 10, err) : file_write(path, "0123456789", 10, err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    return status;
}

TEST(file_write__keeps_the_old_file_where_the_disk_is_full)
{
    struct error err;
    const char *path = test_text("%s/a", test_directory());
    CHECK_OK(file_write(path, "old", 3, &err), err);
    CHECK_INT(with_limit(4, false, path, &err), ERR_IO);
    CHECK_CONTAINS(err.text, "only 4 of 10 bytes could be written");
    check_content(path, "old");
    CHECK(!file_exists(test_text("%s.tmp", path)));
}

TEST(file_append__adds_all_or_nothing)
{
    struct error err;
    const char *path = test_text("%s/a", test_directory());
    CHECK_OK(file_append(path, "one\n", 4, &err), err);
    CHECK_OK(file_append(path, "two\n", 4, &err), err);
    check_content(path, "one\ntwo\n");
    CHECK_INT(with_limit(12, true, path, &err), ERR_IO);
    CHECK_CONTAINS(err.text, "only 4 of 10 bytes");
    check_content(path, "one\ntwo\n");
}

TEST(file_truncate__cuts_and_never_grows)
{
    struct error err;
    const char *path = test_text("%s/a", test_directory());
    CHECK_OK(file_write(path, "123456", 6, &err), err);
    CHECK_OK(file_truncate(path, 4, &err), err);
    check_content(path, "1234");
    CHECK_INT(file_truncate(path, 5, &err), ERR_INPUT);
    CHECK_INT(file_truncate(path, -1, &err), ERR_INPUT);
    check_content(path, "1234");
    CHECK_INT(file_truncate(test_text("%s.no", path), 0, &err), ERR_IO);
}

TEST(file_read__refuses_what_is_no_plain_file)
{
    struct error err;
    char *data = NULL;
    size_t size;
    const char *directory = test_directory();
    CHECK_INT(file_read(&data, &size, test_text("%s/no", directory), 9, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "/no: cannot be opened: No such file or directory");
    CHECK_INT(file_read(&data, &size, directory, 9, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "is a directory");
    const char *pipe = test_text("%s/pipe", directory);
    CHECK(mkfifo(pipe, 0600) == 0);
    CHECK_INT(file_read(&data, &size, pipe, 9, &err), ERR_INPUT);
    const char *path = test_text("%s/a", directory);
    CHECK_OK(file_write(path, "0123456789", 10, &err), err);
    CHECK_INT(file_read(&data, &size, path, 9, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "has 10 bytes, more than the 9");
    CHECK(!data);
}

TEST(file_make_directory__makes_all_above)
{
    struct error err;
    const char *root = test_directory();
    const char *deep = test_text("%s/a//b/c/", root);
    CHECK_OK(file_make_directory(deep, &err), err);
    CHECK(file_is_directory(deep));
    CHECK_OK(file_make_directory(deep, &err), err);
    const char *file = test_text("%s/file", root);
    CHECK_OK(file_write(file, "", 0, &err), err);
    CHECK(!file_is_directory(file));
    CHECK_INT(file_make_directory(file, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "a file of that name is there");
    CHECK_INT(file_make_directory(test_text("%s/below", file), &err), ERR_INPUT);
}

static void check_text(char *got, const char *want)
{
    const char *copy = got ? test_text("%s", got) : NULL;
    free(got);
    CHECK_STR(copy, want);
}

TEST(file_join__keeps_absolute_paths)
{
    check_text(file_join("/a", "b"), "/a/b");
    check_text(file_join("/a/", "b"), "/a/b");
    check_text(file_join("a", "/b"), "/b");
    check_text(file_join(".", "b/c"), "b/c");
}

TEST(file_directory__is_what_dirname_gives)
{
    check_text(file_directory("a/b"), "a");
    check_text(file_directory("a//b"), "a");
    check_text(file_directory("/a"), "/");
    check_text(file_directory("/"), "/");
    check_text(file_directory("a"), ".");
    check_text(file_directory("a/"), ".");
    check_text(file_directory("a/b/"), "a");
    check_text(file_directory(""), ".");
}

TEST(file_absolute__undoes_dots)
{
    check_text(file_absolute("/a/./b//../c/"), "/a/c");
    check_text(file_absolute("/.."), "/");
    check_text(file_absolute("/../../a"), "/a");
    check_text(file_absolute("/a..b/...c/.d"), "/a..b/...c/.d");
    char here[4096];
    CHECK(getcwd(here, sizeof here));
    check_text(file_absolute("x/../y"), test_text("%s/y", here));
    check_text(file_absolute("."), here);
}
