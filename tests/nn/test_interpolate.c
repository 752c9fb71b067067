/* test_interpolate.c - grids of learned values are resampled as PyTorch resamples them. */
#include "nn/interpolate.h"

#include <stdlib.h>

#include "golden.h"
#include "test.h"

enum { ROOM = 1024 };

static void read_pair(int pair[2], const struct json_value *list)
{
    pair[0] = (int)json_to_number(json_first(list));
    pair[1] = (int)json_to_number(json_next(json_first(list)));
}

static void check_case(const struct json_value *c)
{
    int from[2], to[2], C = (int)json_to_number(golden_member(c, "channels"));
    bool antialias = json_to_bool(golden_member(c, "antialias"));
    read_pair(from, golden_member(c, "from"));
    read_pair(to, golden_member(c, "to"));
    real in[ROOM], out[ROOM];
    const struct shape shape = SHAPE(from[0], from[1], C);
    struct error err;
    test_about("%d x %d to %d x %d, antialias %d", from[0], from[1], to[0], to[1], antialias);
    CHECK(from[0] * from[1] * C <= ROOM && to[0] * to[1] * C <= ROOM);
    golden_fill(in, "pos_embed", &shape);
    CHECK_OK(nn_interpolate(out, to, in, from, C,
                            antialias ? INTERPOLATE_ANTIALIAS : INTERPOLATE_PLAIN, &err),
             err);
    const struct json_value *want = json_first(golden_member(c, "values"));
    for (int i = 0; i < to[0] * to[1] * C; i++, want = json_next(want))
        CHECK_NEAR(out[i], json_to_number(want), sizeof(real) == sizeof(double) ? 1e-14 : 1e-7);
    CHECK(!want);
}

TEST(interpolate__equals_pytorch_with_antialias_and_without)
{
    struct json_value *root = golden_load("tests/golden/cases/interpolate.json");
    int cases = 0;
    for (const struct json_value *c = json_first(golden_member(root, "cases")); c; c = json_next(c))
        check_case(c), cases++;
    CHECK_INT(cases, 14);
    json_free(root);
}

TEST(interpolate__an_equal_grid_is_a_copy_and_a_constant_stays)
{
    static const int grids[][2] = {{3, 5}, {8, 2}, {1, 1}};
    real in[15], out[16];
    struct error err;
    for (int i = 0; i < 15; i++)
        in[i] = (real)(i * i) / 7;
    CHECK_OK(nn_interpolate(out, grids[0], in, grids[0], 1, INTERPOLATE_PLAIN, &err), err);
    for (int i = 0; i < 15; i++)
        CHECK(out[i] == in[i]);
    for (int i = 0; i < 15; i++)
        in[i] = (real)0.75;
    for (int g = 1; g < 3; g++)
        for (int how = 0; how < 2; how++) {
            CHECK_OK(nn_interpolate(out, grids[g], in, grids[0], 1, (enum grid_filter)how, &err),
                     err);
            for (int i = 0; i < grids[g][0] * grids[g][1]; i++)
                CHECK_NEAR(out[i], 0.75, sizeof(real) == sizeof(double) ? 1e-15 : 1e-7);
        }
}
