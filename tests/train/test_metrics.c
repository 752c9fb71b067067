#include "test.h"

#include <math.h>

#include "train/metrics.h"

static int hits(const real *logits, int classes, int label, int k)
{
    return metrics_rank(logits, classes, label) < k;
}

TEST(metrics_rank__counts_the_classes_that_are_more_likely)
{
    const real logits[] = {0, 3, -1, 2, 5, 1, 4};
    const int want[] = {5, 2, 6, 3, 0, 4, 1};
    for (int label = 0; label < 7; label++)
        CHECK_INT(metrics_rank(logits, 7, label), want[label]);
    CHECK(hits(logits, 7, 5, 5) && !hits(logits, 7, 0, 5) && hits(logits, 7, 4, 1));
}

TEST(metrics_rank__breaks_ties_by_index)
{
    const real equal[] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int label = 0; label < 8; label++) {
        CHECK_INT(metrics_rank(equal, 8, label), label);
        CHECK_INT(hits(equal, 8, label, 1), label == 0);
        CHECK_INT(hits(equal, 8, label, 5), label < 5);
    }
    CHECK_INT(metrics_prediction(equal, 8), 0);
}

TEST(metrics_rank__never_counts_nan_as_right)
{
    const real nan = (real)NAN;
    const real some[] = {nan, 1, -2}, all[] = {nan, nan, nan};
    CHECK_INT(metrics_prediction(some, 3), 1);
    CHECK_INT(metrics_rank(some, 3, 1), 0);
    CHECK(metrics_rank(some, 3, 0) >= 3);
    for (int label = 0; label < 3; label++)
        CHECK(metrics_rank(all, 3, label) >= 3);
}

TEST(metrics_prediction__agrees_with_rank_zero)
{
    const real logits[] = {-4, 2, 2, -7, (real)INFINITY, 1};
    CHECK_INT(metrics_prediction(logits, 6), 4);
    CHECK_INT(metrics_rank(logits, 6, 4), 0);
    CHECK_INT(metrics_prediction(logits, 4), 1);
    CHECK_INT(metrics_rank(logits, 4, 2), 1);
}

TEST(metrics_softmax__is_exact_for_large_logits)
{
    const real logits[] = {1000, 1001, 999};
    double p[3], sum = exp(-1) + 1 + exp(-2);
    metrics_softmax(p, logits, 3);
    CHECK_NEAR(p[0], exp(-1) / sum, 1e-15);
    CHECK_NEAR(p[1], 1 / sum, 1e-15);
    CHECK_NEAR(p[2], exp(-2) / sum, 1e-15);
}

TEST(calibration_error__is_the_weighted_gap_of_each_bin)
{
    /* Bin 13 is (13/15, 14/15]: two samples, one right, mean confidence 0.905. Bin 7 is (7/15,
     * 8/15]: three samples, all right, mean 0.5. */
    struct calibration c = {.n = {0}};
    calibration_add(&c, 0.90, 1);
    calibration_add(&c, 0.91, 0);
    calibration_add(&c, 0.50, 1);
    calibration_add(&c, 0.48, 1);
    calibration_add(&c, 0.52, 1);
    CHECK_NEAR(calibration_error(&c), (2 * fabs(0.5 - 0.905) + 3 * fabs(1 - 0.5)) / 5, 1e-15);
}

TEST(calibration_error__takes_the_upper_edge_into_a_bin)
{
    /* 1/3 and 0.3 share the bin (4/15, 5/15]; in different bins the gaps would not cancel. */
    struct calibration c = {.n = {0}};
    calibration_add(&c, 5.0 / 15, 0);
    calibration_add(&c, 0.3, 1);
    CHECK_NEAR(calibration_error(&c), fabs(1 - 5.0 / 15 - 0.3) / 2, 1e-15);
    calibration_add(&c, 1.0, 1);
    CHECK_INT(c.n[ECE_BINS - 1], 1);
}

TEST(calibration_error__of_nothing_is_not_a_number)
{
    struct calibration c = {.n = {0}};
    CHECK(isnan(calibration_error(&c)));
    calibration_add(&c, (double)NAN, 0);
    CHECK(isnan(calibration_error(&c)));
}
