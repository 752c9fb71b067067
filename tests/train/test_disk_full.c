/* A disk that is full from the second epoch on: a limit on the size of files has the same effect.
 */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "rig.h"

static const char *last; /* the checkpoint as it was before the disk filled up */
static int updates;

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void fill_disk(void)
{
    if (++updates != 8)
        return;
    struct error err;
    char *data = NULL;
    size_t size = 0;
    CHECK_OK(file_read(&data, &size, last, (size_t)1 << 24, &err), err);
    CHECK_OK(file_write(test_text("%s.kept", last), data, size, &err), err);
    free(data);
    limit_files(20000);
}

TEST(trainer__full_disk_keeps_the_last_good_files)
{
    struct experiment x;
    struct error err;
    const char *directory = test_text("%s/run", test_directory());
    last = test_text("%s/last.safetensors", directory);
    rig_load(&x, NULL);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before;
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);

    struct rig_run run = {.each = fill_disk};
    enum status status = rig_train(&x, directory, &run, &err);
    limit_files(before.rlim_cur);
    CHECK_INT(status, ERR_IO);
    CHECK_CONTAINS(err.text, directory);
    CHECK_CONTAINS(err.text, ".safetensors");
    CHECK_CONTAINS(err.text, "20000 of ");
    CHECK(rig_same_file(last, test_text("%s.kept", last)));
    CHECK(!file_exists(test_text("%s.tmp", last)));

    /* With room again the run goes on from there, and ends as one that never met the limit. */
    run = (struct rig_run){.resume = true};
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    const char *whole = test_text("%s/run", test_directory());
    run = (struct rig_run){.resume = false};
    CHECK_OK(rig_train(&x, whole, &run, &err), err);
    CHECK(rig_same_file(last, test_text("%s/last.safetensors", whole)));
    CHECK_STR(rig_metrics(directory), rig_metrics(whole));
    experiment_free(&x);
}
