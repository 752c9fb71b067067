/* test_name_index.c - names by hash. */
#include "base/name_index.h"

#include <string.h>

#include "test.h"

enum { COUNT = 3000 };

static const char *name_of(int i)
{
    return test_text("blocks.%d.attn.%s", i / 3, i % 3 ? i % 3 == 1 ? "qkv" : "qkv.weight" : "proj");
}

TEST(name_index__finds_every_name_that_was_added)
{
    struct name_index x = {.entries = NULL};
    CHECK_INT(name_index_find(&x, "blocks", 6), -1);
    for (int i = 0; i < COUNT; i++) {
        const char *name = name_of(i);
        CHECK_INT(name_index_find(&x, name, strlen(name)), -1);
        CHECK(name_index_add(&x, name, 7 * i));
    }
    CHECK_INT((int)x.used, COUNT);
    CHECK(2 * x.used <= x.size);
    for (int i = 0; i < COUNT; i++) {
        const char *name = name_of(i);
        CHECK_INT(name_index_find(&x, name, strlen(name)), 7 * i);
    }
    name_index_free(&x);
    CHECK_INT(name_index_find(&x, "blocks", 6), -1);
}

/* The name need not end where its part does. */
TEST(name_index__takes_the_first_characters_alone)
{
    struct name_index x = {.entries = NULL};
    CHECK(name_index_add(&x, "attn.qkv", 1));
    CHECK_INT(name_index_find(&x, "attn.qkv.weight", 8), 1);
    CHECK_INT(name_index_find(&x, "attn.qkv.weight", 7), -1);
    CHECK_INT(name_index_find(&x, "attn.qkv.weight", 15), -1);
    CHECK_INT(name_index_find(&x, "", 0), -1);
    name_index_free(&x);
}
