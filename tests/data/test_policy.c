/* test_policy.c - policy strings, and what is drawn from them. */
#include "data/policy.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "test.h"

static struct policy parse(const char *text)
{
    struct policy p;
    struct error err;
    CHECK_OK(policy_parse(&p, text, &err), err);
    return p;
}

static const char *parse_error(const char *text)
{
    static struct error err;
    struct policy p;
    CHECK_INT(policy_parse(&p, text, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "data.augment.auto_augment: ");
    return err.text;
}

TEST(policy__strings_are_read_as_timm_reads_them)
{
    struct policy p = parse("rand-m9-mstd0.5-inc1");
    CHECK_INT(p.kind, POLICY_RAND);
    CHECK_INT(p.ops, 2);
    CHECK_NEAR(p.magnitude, 9, 0);
    CHECK_NEAR(p.deviation, 0.5, 0);
    CHECK_NEAR(p.most, 10, 0);
    CHECK(p.increasing);
    CHECK_NEAR(p.probability, 0.5, 0);
    p = parse("rand");
    CHECK(p.ops == 2 && !p.increasing);
    CHECK_NEAR(p.magnitude, 10, 0);
    CHECK_NEAR(p.deviation, 0, 0);
    p = parse("rand-n3-p0.25-mmax12-m15-mstd101-inc0");
    CHECK(p.ops == 3 && !p.increasing && isinf(p.deviation));
    CHECK_NEAR(p.probability, 0.25, 0);
    CHECK_NEAR(p.most, 12, 0);
    CHECK_INT(parse("3a").kind, POLICY_THREE);
    CHECK_INT(parse(NULL).kind, POLICY_NONE);
}

TEST(policy__what_is_not_known_is_named)
{
    CHECK_CONTAINS(parse_error("rand-m9-x5"),
                   "\"x5\" in \"rand-m9-x5\" is no section that is known");
    CHECK_CONTAINS(parse_error("rand-m9.5"),
                   "\"m9.5\" in \"rand-m9.5\" needs a whole number in 0..100");
    CHECK_CONTAINS(parse_error("rand-p2"), "needs a number in 0..1");
    CHECK_CONTAINS(parse_error("rand-m9-m8"), "\"m8\" in \"rand-m9-m8\" comes a second time");
    CHECK_CONTAINS(parse_error("rand-n0"), "\"n0\"");
    CHECK_CONTAINS(parse_error("rand-"), "\"\" in \"rand-\"");
    CHECK_CONTAINS(parse_error("rand-mnan"), "\"mnan\"");
    CHECK_CONTAINS(parse_error("randm9"), "\"randm9\" is no policy");
    CHECK_CONTAINS(parse_error(""), "is no policy");
}

enum { SIDE = 20, BYTES = 3 * SIDE * SIDE };

static uint8_t plain[BYTES], pixels[BYTES], room[BYTES];

static void apply(const struct policy *p, uint64_t position)
{
    for (int i = 0; i < BYTES; i++)
        pixels[i] = plain[i] = (uint8_t)(20 + 3 * i % 200);
    struct image image = {SIDE, SIDE, pixels, BYTES}, spare = {SIDE, SIDE, room, BYTES};
    const struct augment_move move = {RESIZE_ERROR, {124, 116, 104}};
    const struct policy_draw draw = {rng_stream(1, "policy"), 0, position};
    policy_apply(p, &draw, &move, &image, &spare);
}

static int share_changed(const struct policy *p, int images)
{
    int changed = 0;
    for (int i = 0; i < images; i++) {
        apply(p, (uint64_t)i);
        changed += memcmp(pixels, plain, BYTES) != 0;
    }
    return changed;
}

TEST(policy__ops_are_applied_with_their_probability)
{
    struct policy p = parse("rand-m9-mstd0.5-inc1");
    /* Of one op 1 - p: two ops leave a quarter untouched. */
    CHECK_NEAR(share_changed(&p, 4000), 3000, 140);
    p = parse("rand-m9-p0");
    CHECK_INT(share_changed(&p, 100), 0);
    p = parse("rand-m9-p1-n1-inc1");
    CHECK_NEAR(share_changed(&p, 1000), 1000, 10);
}

TEST(policy__increasing_ops_do_nothing_at_magnitude_0)
{
    struct policy p = parse("rand-m0-inc1-p1-n1");
    int changed = share_changed(&p, 3000);
    /* contrast stretched, equalised, inverted, and 4 of 8 bits taken off */
    CHECK_NEAR(changed, 3000 * 4 / 15, 120);
}

TEST(policy__large_magnitudes_stay_defined)
{
    struct policy p = parse("rand-m90-mmax100-mstd30-p1-n3"), q = parse("rand-m90-mmax100-inc1-p1");
    share_changed(&p, 500);
    share_changed(&q, 500);
}

TEST(policy__three_augment_greys_solarises_or_blurs)
{
    struct policy p = parse("3a");
    int grey = 0, solarised = 0, blurred = 0;
    for (uint64_t k = 0; k < 3000; k++) {
        apply(&p, k);
        bool even = true, turned = true;
        for (int i = 0; i < BYTES; i++) {
            even = even && pixels[i] == pixels[i - i % 3];
            turned = turned && pixels[i] == (plain[i] < 128 ? plain[i] : 255 - plain[i]);
        }
        grey += even;
        solarised += turned;
        blurred += !even && !turned;
    }
    CHECK_NEAR(grey, 1000, 130);
    CHECK_NEAR(solarised, 1000, 130);
    CHECK_NEAR(blurred, 1000, 130);
}
