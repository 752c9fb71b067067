#include <math.h>

#include "study/statistics.h"
#include "test.h"

TEST(statistics_sort__orders_upwards)
{
    double x[] = {3, -1, 2, -1, 10, 0};
    const double want[] = {-1, -1, 0, 2, 3, 10};
    statistics_sort(x, 6);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(x[i], want[i], 0);
}

TEST(statistics_sort__takes_no_number_at_all)
{
    double x[] = {7};
    statistics_sort(x, 0);
    CHECK_NEAR(x[0], 7, 0);
}

TEST(statistics_quantile__median_of_odd_and_even_numbers)
{
    const double odd[] = {1, 5, 100}, even[] = {1, 2, 4, 100};
    CHECK_NEAR(statistics_quantile(odd, 3, 0.5), 5, 0);
    CHECK_NEAR(statistics_quantile(even, 4, 0.5), 3, 0);
}

TEST(statistics_quantile__lies_on_the_line_between_neighbours)
{
    const double x[] = {0, 10, 20, 30, 100}; /* numpy.quantile gives the same */
    CHECK_NEAR(statistics_quantile(x, 5, 0.1), 4, 1e-12);
    CHECK_NEAR(statistics_quantile(x, 5, 0.25), 10, 1e-12);
    CHECK_NEAR(statistics_quantile(x, 5, 0.9), 72, 1e-12);
}

TEST(statistics_quantile__ends_are_least_and_largest)
{
    const double x[] = {-3, 1, 8};
    CHECK_NEAR(statistics_quantile(x, 3, 0), -3, 0);
    CHECK_NEAR(statistics_quantile(x, 3, 1), 8, 0);
    CHECK_NEAR(statistics_quantile(x, 1, 0.9), -3, 0);
}

TEST(statistics_quantile__of_nothing_is_no_number)
{
    CHECK(isnan(statistics_quantile(NULL, 0, 0.5)));
}
