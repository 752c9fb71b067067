/* network_memory.c - what a network takes, and whether the machine has it. */
#include "base/memory.h"
#include "train/network.h"
#include "train/teacher.h"

/* Address space of a thread that is hardly touched: its stack, and what malloc keeps for it. */
enum { THREAD_MAPPED = (8 + 64) << 20 };

/* Elements of all parameters and buffers, and of the trained ones. */
static void count_params(const struct network *n, double *total, double *trained)
{
    *total = *trained = 0;
    for (int i = 0; i < n->params.count; i++) {
        const struct param *param = n->params.list[i];
        *total += (double)param->count;
        if (!(param->flags & (PARAM_FROZEN | PARAM_BUFFER)))
            *trained += (double)param->count;
    }
}

static double params_bytes(const struct network *n)
{
    double total, trained;
    count_params(n, &total, &trained);
    bool average = n->train && n->experiment->train.ema;
    return (total * (average ? 2 : 1) + trained * (n->lanes + n->moments)) * sizeof(real) +
           (double)params_packed_bytes(&n->params);
}

/* Of all workers of one graph: their blocks, and room for a slice that is not whole. */
static double workers_bytes(const struct graph *g, int workers)
{
    double bytes = (double)g->block_bytes;
    for (int i = 0; i < g->input_count; i++)
        bytes += (double)tensor_count(g->inputs[i]) * (double)type_size(g->inputs[i]->type);
    return workers * bytes;
}

static int slots_of(const struct network *n, bool train)
{
    const struct loader_options options = experiment_loader(n->experiment, train);
    return loader_slots(&options);
}

/* Images and labels in the loaders of a run, and what comes out for one batch. */
static double batches_bytes(const struct network *n)
{
    const struct model_shape *s = &n->shape;
    double image = (double)s->channels * s->height * s->width * sizeof(real);
    double slots = slots_of(n, false), outputs = 1;
    if (n->train) {
        bool validates = data_validation(&n->experiment->data) != VALIDATION_NONE;
        slots = slots_of(n, true) + slots * (validates ? 2 : 1);
        outputs = 2;
    }
    return n->batch * (slots * (image + sizeof(int) + sizeof(size_t)) +
                       outputs * (s->classes + 2.0) * sizeof(real));
}

double network_bytes(const struct network *n)
{
    double total, trained, bytes = params_bytes(n) + batches_bytes(n);
    bytes += workers_bytes(n->infer, n->infer_workers);
    if (n->teacher)
        bytes += teacher_bytes(n->teacher);
    if (n->train)
        return bytes + workers_bytes(n->train, n->train_workers);
    /* Before an evaluation the weights are there twice: as a file, and as they are used. */
    count_params(n, &total, &trained);
    double loading = total * (sizeof(float) + sizeof(real));
    return bytes > loading ? bytes : loading;
}

/* The largest batch below the network's own that takes at most `room` bytes, 0 without one. */
static int largest_batch(const struct network *n, double room)
{
    int fits = 0, too_large = n->batch;
    for (int batch = 1; too_large - fits > 1; batch = fits + (too_large - fits) / 2) {
        struct network *smaller;
        struct error unseen;
        if (network_plan(&smaller, n->experiment, n->train ? NETWORK_TRAIN : NETWORK_INFER, batch,
                         n->threads, &unseen))
            return fits;
        if (network_bytes(smaller) <= room)
            fits = batch;
        else
            too_large = batch;
        network_destroy(smaller);
    }
    return fits;
}

/* Memory is touched only as a run goes on, and a system that promised too much ends the process
 * then. */
enum status network_check_memory(const struct network *n, struct error *err)
{
    const struct config *config = n->experiment->config;
    double reserved = kernels_blas_mapped_bytes(n->threads) + (double)n->threads * THREAD_MAPPED;
    double room = memory_room_bytes(reserved), bytes = network_bytes(n);
    if (bytes <= room)
        return OK;
    room = room > 0 ? room : 0;
    int batch = largest_batch(n, room);
    if (batch)
        return config_error(config, err, "train.batch_size",
                            "batches of %d need %.2f GB of memory, there are %.2f GB (the largest "
                            "batch that fits is %d)",
                            n->batch, bytes / 1e9, room / 1e9, batch);
    return config_error(config, err, "model",
                        "needs %.2f GB of memory, there are %.2f GB, too few even for a batch of 1 "
                        "(use a smaller model, smaller images or fewer threads)",
                        bytes / 1e9, room / 1e9);
}
