/* metrics.c - ranks, probabilities, calibration. */
#include "train/metrics.h"

#include <math.h>

/* Whether class a comes before class b. */
static int is_before(const real *logits, int a, int b)
{
    double x = (double)logits[a], y = (double)logits[b];
    if (isnan(x) || isnan(y))
        return isnan(y) && (!isnan(x) || a < b);
    return x > y || (x == y && a < b);
}

int metrics_rank(const real *logits, int classes, int label)
{
    int rank = isnan((double)logits[label]) ? classes : 0; /* never a hit, even where all are NaN */
    for (int c = 0; c < classes; c++)
        rank += c != label && is_before(logits, c, label);
    return rank;
}

int metrics_prediction(const real *logits, int classes)
{
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (is_before(logits, c, best))
            best = c;
    return best;
}

void metrics_softmax(double *p, const real *logits, int classes)
{
    double most = (double)logits[metrics_prediction(logits, classes)], sum = 0;
    for (int c = 0; c < classes; c++)
        sum += p[c] = exp((double)logits[c] - most);
    for (int c = 0; c < classes; c++)
        p[c] /= sum;
}

void calibration_add(struct calibration *c, double confidence, int correct)
{
    if (!(confidence > 0)) /* NaN too */
        return;
    int bin = (int)ceil(confidence * ECE_BINS) - 1;
    bin = bin < 0 ? 0 : bin >= ECE_BINS ? ECE_BINS - 1 : bin;
    c->n[bin]++;
    c->correct[bin] += correct;
    c->confidence[bin] += confidence;
}

double calibration_error(const struct calibration *c)
{
    double gaps = 0;
    long long n = 0;
    for (int i = 0; i < ECE_BINS; i++) {
        gaps += fabs((double)c->correct[i] - c->confidence[i]);
        n += c->n[i];
    }
    return n ? gaps / (double)n : (double)NAN;
}
