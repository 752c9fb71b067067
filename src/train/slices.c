/* slices.c - how a batch is cut: a function of model and batch alone, so that the bits of a run do
 * not depend on the machine. */
#include <float.h>
#include <math.h>

#include "train/experiment.h"

enum {
    MOST_LANES = 8,
    SLICE_ROWS = 400, /* of tokens in one slice: activations of small models then stay in L2 */
};

/* Time of one batch in slices of `size` images, 1 being all its images on threads that never wait:
 * the mean over 2, 4 and 8 threads. The last slice is padded, and the fullest thread is waited for.
 */
static double spread_cost(int batch, int size)
{
    int slices = (batch + size - 1) / size;
    double cost = 0;
    for (int threads = 2; threads <= MOST_LANES; threads *= 2) {
        int each = (slices + threads - 1) / threads;
        cost += (double)each * threads * size / batch / 3;
    }
    return cost;
}

int experiment_slice(const struct experiment *x, int batch)
{
    struct model_shape shape = model_of(&x->model)->shape(x->model.options);
    double wanted = (double)SLICE_ROWS / (shape.tokens > 0 ? shape.tokens : 1);
    wanted = wanted < 1 ? 1 : wanted > batch ? batch : wanted;

    int best = 1;
    double least = DBL_MAX;
    for (int size = 1; size <= batch && size <= 2 * wanted; size++) {
        double cost = spread_cost(batch, size) * (1 + 0.25 * fabs(log2(size / wanted)));
        if (cost < least) {
            least = cost;
            best = size;
        }
    }
    return best;
}

int experiment_lanes(const struct experiment *x, int batch, size_t parameters)
{
    int size = experiment_slice(x, batch);
    int slices = (batch + size - 1) / size;
    int lanes = parameters > 20000000 ? 2 : parameters > 2000000 ? 4 : MOST_LANES;
    return lanes < slices ? lanes : slices;
}
