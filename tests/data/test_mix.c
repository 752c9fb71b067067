/* test_mix.c - shares, rectangles and pairs of mixup and cutmix. */
#include "data/mix.h"

#include <math.h>

#include "base/rng.h"
#include "test.h"

static const struct image_shape shape = {2, 6, 7};

enum { SIZE = 2 * 6 * 7, DRAWS = 4000 };

static struct mix draw(const struct augment *o, uint64_t batch)
{
    return mix_draw(o, shape, rng_stream(1, "mix"), 0, batch);
}

TEST(mix__shares_follow_the_beta_distribution)
{
    const double alphas[] = {0.1, 0.8, 1, 3};
    for (int k = 0; k < 4; k++) {
        double a = alphas[k], sum = 0, squares = 0;
        test_about("alpha %g", a);
        const struct augment o = {.mixup = a, .mix_probability = 1};
        for (uint64_t i = 0; i < DRAWS; i++) {
            struct mix m = draw(&o, i);
            CHECK(!m.cutmix && m.share >= 0 && m.share <= 1);
            sum += m.share;
            squares += (m.share - 0.5) * (m.share - 0.5);
        }
        double variance = 1 / (4 * (2 * a + 1));
        CHECK_NEAR(sum / DRAWS, 0.5, 5 * sqrt(variance / DRAWS));
        CHECK_NEAR(squares / DRAWS, variance, 0.08 * variance);
    }
    const struct augment tiny = {.mixup = 1e-3, .mix_probability = 1};
    for (uint64_t i = 0; i < 100; i++)
        CHECK(isfinite(draw(&tiny, i).share));
}

TEST(mix__both_take_turns_and_the_gate_is_kept)
{
    const struct augment o = {
        .mixup = 0.8, .cutmix = 1, .mix_probability = 0.75, .mix_switch = 0.25};
    int mixed = 0, cut = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct mix m = draw(&o, i);
        mixed += m.share < 1 || m.cutmix;
        cut += m.cutmix;
    }
    CHECK_NEAR(mixed, 0.75 * DRAWS, 140);
    CHECK_NEAR(cut, 0.75 * 0.25 * DRAWS, 125);
}

TEST(mix__the_share_is_what_the_rectangle_leaves)
{
    const struct augment o = {.cutmix = 1, .mix_probability = 1};
    int clipped = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct mix m = draw(&o, i);
        CHECK(m.cutmix && m.top >= 0 && m.bottom <= 6 && m.left >= 0 && m.right <= 7);
        CHECK_NEAR(m.share, 1 - (m.bottom - m.top) * (m.right - m.left) / 42.0, 1e-12);
        clipped += (m.bottom - m.top) % 2;
    }
    CHECK(clipped > 0);
}

static void fill(real *images, int count)
{
    for (int i = 0; i < count * SIZE; i++)
        images[i] = (real)(i / SIZE * 1000 + i % SIZE);
}

TEST(mix__pairs_are_blended_and_the_middle_one_is_left)
{
    static real images[5 * SIZE];
    fill(images, 5);
    mix_apply(&(struct mix){.share = 0.75}, shape, images, 5);
    for (int i = 0; i < 5 * SIZE; i++) {
        int image = i / SIZE;
        double own = image * 1000, other = (4 - image) * 1000;
        CHECK_NEAR(images[i], 0.75 * own + 0.25 * other + i % SIZE, 1e-3);
    }
}

TEST(mix__pairs_exchange_a_rectangle)
{
    static real images[4 * SIZE];
    fill(images, 4);
    const struct mix m = {
        .share = 0.8, .cutmix = true, .top = 1, .bottom = 4, .left = 2, .right = 7};
    mix_apply(&m, shape, images, 4);
    for (int i = 0; i < 4 * SIZE; i++) {
        int image = i / SIZE, y = i % 42 / 7, x = i % 7;
        bool inside = y >= 1 && y < 4 && x >= 2;
        CHECK_NEAR(images[i], (inside ? 3 - image : image) * 1000 + i % SIZE, 0);
    }
}
