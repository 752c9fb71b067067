/* test_needs.c - options that have an effect beside some values of others alone. */
#include "config/config.h"

#include <string.h>

#include "test.h"

enum { WAY_FLAT, WAY_ROUND, WAY_DEEP };

struct shape {
    int way;
    bool hollow;
    double wall;
    int pieces, depth;
};

static const char *const way_names[] = {"flat", "round", "deep", NULL};

static const struct field fields[] = {
    FIELD_ENUM(struct shape, way, WAY_FLAT, way_names, ""),
    FIELD_BOOL(struct shape, hollow, false, ""),
    FIELD_REAL(struct shape, wall, 0.5, 0, 1, ""),
    FIELD_INT(struct shape, pieces, 0, 0, 9, ""),
    FIELD_INT(struct shape, depth, 3, 1, 9, ""),
    FIELD_END,
};

static const struct field_need needs[] = {
    {"wall", "hollow", NEED_TRUE},
    {"hollow", "way", 1u << WAY_ROUND | 1u << WAY_DEEP},
    {"depth", "way", 1u << WAY_DEEP},
    {"depth", "pieces", NEED_ZERO},
    NEED_END,
};

TEST(needs__an_option_without_effect_is_refused_with_what_would_give_it_one)
{
    static const struct {
        struct shape shape;
        const char *text;
    } rows[] = {
        {{WAY_FLAT, false, 0.5, 0, 3}, NULL},
        {{WAY_DEEP, true, 0.25, 0, 4}, NULL},
        {{WAY_FLAT, false, 0.5, 4, 3}, NULL},
        {{WAY_FLAT, false, 0.25, 0, 3},
         "wall: 0.25 has no effect with hollow false (leave it out, or set hollow to true)"},
        {{WAY_FLAT, true, 0.5, 0, 3},
         "hollow: true has no effect with way \"flat\" (leave it out, or set way to \"round\" or \"deep\")"},
        {{WAY_ROUND, false, 0.5, 0, 4},
         "depth: 4 has no effect with way \"round\" (leave it out, or set way to \"deep\")"},
        {{WAY_DEEP, false, 0.5, 2, 4},
         "depth: 4 has no effect with pieces 2 (leave it out, or set pieces to 0)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err = {0};
        enum status status = config_check_needs(fields, needs, &rows[i].shape, &err);
        test_about("row %d", (int)i);
        CHECK_INT(status, rows[i].text ? ERR_INPUT : OK);
        CHECK_STR(err.text, rows[i].text ? rows[i].text : "");
    }
    struct error err = {0};
    CHECK_INT(config_check_needs(fields, NULL, &rows[3].shape, &err), OK);
}

TEST(needs__are_met_by_the_first_value_that_will_do)
{
    struct error err = {0};
    struct shape s = {WAY_FLAT, true, 0.5, 0, 3};
    config_meet_needs(fields, needs, "hollow", &s);
    CHECK_INT(s.way, WAY_ROUND);
    s = (struct shape){WAY_DEEP, false, 0.5, 2, 4};
    config_meet_needs(fields, needs, "depth", &s);
    CHECK_INT(s.way, WAY_DEEP);
    CHECK_INT(s.pieces, 0);
    CHECK_OK(config_check_needs(fields, needs, &s, &err), err);
    s = (struct shape){WAY_DEEP, false, 0.25, 0, 3};
    config_meet_needs(fields, needs, "wall", &s);
    CHECK(s.hollow);
}
