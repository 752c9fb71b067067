/* updates.c - the samples, and a step over some of them. */
#include "updates.h"

#include "base/rng.h"
#include "test.h"

enum { PIXELS = 12 * 8 };

void updates_begin(struct updates *u, const char *const *settings, int batch, int threads)
{
    struct error err;
    rig_load(&u->x, settings);
    CHECK_OK(network_create(&u->n, &u->x, NETWORK_TRAIN, batch, threads, &err), err);
    CHECK_OK(step_create(&u->step, u->n, batch, &err), err);
}

void updates_end(struct updates *u)
{
    step_free(&u->step);
    network_destroy(u->n);
    experiment_free(&u->x);
}

struct batch updates_batch(int first, int count)
{
    static real images[SAMPLES * PIXELS];
    static int labels[SAMPLES];
    static size_t index[SAMPLES];
    for (size_t i = 0; i < SAMPLES * PIXELS; i++)
        images[i] = (real)rng_normal(rng_stream(1, "images"), 0, 0, i);
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = (7 * i + 3) % CLASSES;
    return (struct batch){
        .count = count,
        .capacity = count,
        .images = images + (size_t)first * PIXELS,
        .labels = labels + first,
        .index = index + first,
    };
}

void updates_run(struct updates *u, int first, int total, int size, double lr, long long update)
{
    struct batch b = {0};
    struct error err;
    for (int done = 0; done < total; done += size) {
        b = updates_batch(first + done, total - done < size ? total - done : size);
        CHECK_OK(step_batch(&u->step, &b, total, update, &err), err);
    }
    CHECK_OK(step_update(&u->step, &b, lr, update, &err), err);
}
