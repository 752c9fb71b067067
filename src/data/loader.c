/* loader.c - a ring of batches that worker threads fill in order.
 *
 * Batch n of the epoch lies in slot n % slots. `held` is the first batch that the caller may still
 * read, `taken` the next one to hand out, `claimed` the next one to make: held <= taken <= claimed,
 * taken <= held + 1 and claimed <= held + slots, so a slot has one user at any time. Everything
 * that threads share, the contents of a claimed slot apart, is guarded by `mutex`. */
#include "data/loader.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/timer.h"
#include "data/mix.h"
#include "data/view.h"

struct slot {
    struct batch batch;
    bool ready;
    enum status status; /* of making it, with err */
    struct error err;
};

struct worker {
    struct loader *loader;
    pthread_t thread;
    struct view_scratch scratch;
};

struct loader {
    const struct dataset *dataset;
    struct view view;
    bool mixes;
    struct loader_options options;
    size_t *records, *order; /* (count): positions of the epoch give order, order gives records */
    size_t count, batches;
    size_t image_size; /* values in one image */
    uint64_t shuffle_stream, mix_stream;

    pthread_mutex_t mutex;
    pthread_cond_t work; /* a slot became free, or the end was called */
    pthread_cond_t done; /* a slot became ready, or a worker idle */
    struct slot *slots;
    size_t slot_count;
    size_t held, taken, claimed;
    uint64_t epoch;
    int busy; /* workers that are making a batch */
    bool quit;

    struct worker *workers; /* (worker_count); with no threads one for the caller's own use */
    int worker_count, threads;
    double waited;
};

/* The record at a position of the epoch. Copies follow each other, as in timm's sampler for one
 * process. */
static size_t record_at(const struct loader *l, size_t position)
{
    size_t repeated =
        l->options.train && l->view.augment.repeated > 1 ? (size_t)l->view.augment.repeated : 1;
    return l->records[l->order[position / repeated]];
}

static void mix_batch(const struct loader *l, struct batch *b, size_t number)
{
    struct mix mix = mix_draw(&l->view.augment, l->view.shape, l->mix_stream, l->epoch, number);
    mix_apply(&mix, l->view.shape, b->images, b->count);
    for (int i = 0; i < b->capacity; i++) {
        bool there = i < b->count;
        b->partners[i] = there ? b->labels[b->count - 1 - i] : -1;
        b->share[i] = there ? (real)mix.share : 0;
        b->rest[i] = there ? 1 - b->share[i] : 0;
    }
}

/* Batch `number` of the running epoch into the slot. */
static void loader_make(const struct loader *l, struct slot *s, size_t number,
                        struct view_scratch *scratch)
{
    struct batch *b = &s->batch;
    size_t first = number * (size_t)b->capacity, left = l->count - first;
    b->count = left < (size_t)b->capacity ? (int)left : b->capacity;
    s->status = OK;
    for (int i = 0; i < b->count && !s->status; i++) {
        size_t position = first + (size_t)i, record = record_at(l, position);
        s->status = view_make(&l->view, scratch, record, l->epoch, position,
                              b->images + (size_t)i * l->image_size, &s->err);
        b->labels[i] = dataset_label(l->dataset, record);
        b->index[i] = record;
    }
    size_t rest = (size_t)(b->capacity - b->count);
    memset(b->images + (size_t)b->count * l->image_size, 0, rest * l->image_size * sizeof(real));
    for (int i = b->count; i < b->capacity; i++) {
        b->labels[i] = -1;
        b->index[i] = 0;
    }
    if (l->mixes && !s->status)
        mix_batch(l, b, number);
}

static void *worker_run(void *argument)
{
    struct worker *w = argument;
    struct loader *l = w->loader;
    pthread_mutex_lock(&l->mutex);
    while (!l->quit) {
        if (l->claimed >= l->batches || l->claimed >= l->held + l->slot_count) {
            pthread_cond_wait(&l->work, &l->mutex);
            continue;
        }
        size_t number = l->claimed++;
        struct slot *s = &l->slots[number % l->slot_count];
        l->busy++;
        pthread_mutex_unlock(&l->mutex);
        loader_make(l, s, number, &w->scratch);
        pthread_mutex_lock(&l->mutex);
        s->ready = true;
        l->busy--;
        pthread_cond_broadcast(&l->done);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

int loader_slots(const struct loader_options *options)
{
    return options->workers ? options->ahead + 1 : 1;
}

static enum status slot_init(struct slot *s, int capacity, size_t image_size, bool mixes,
                             struct error *err)
{
    size_t rows = (size_t)capacity;
    if (rows > SIZE_MAX / sizeof(real) / image_size)
        return error_set(err, ERR_INPUT,
                         "train.batch_size: %d images are more than memory can hold", capacity);
    s->batch.capacity = capacity;
    s->batch.images = malloc(rows * image_size * sizeof(real));
    s->batch.labels = malloc(rows * sizeof *s->batch.labels);
    s->batch.index = malloc(rows * sizeof *s->batch.index);
    if (mixes) {
        s->batch.partners = malloc(rows * sizeof *s->batch.partners);
        s->batch.share = malloc(rows * sizeof *s->batch.share);
        s->batch.rest = malloc(rows * sizeof *s->batch.rest);
    }
    bool mixed = s->batch.partners && s->batch.share && s->batch.rest;
    if (!s->batch.images || !s->batch.labels || !s->batch.index || mixed != mixes)
        return error_memory(err, rows * (image_size * sizeof(real) + sizeof(int) + sizeof(size_t)));
    return OK;
}

static enum status loader_allocate(struct loader *l, const size_t *records, struct error *err)
{
    struct image_shape shape = l->view.shape;
    l->image_size = (size_t)shape.channels * (size_t)shape.height * (size_t)shape.width;
    l->slot_count = (size_t)loader_slots(&l->options);
    l->worker_count = l->options.workers ? l->options.workers : 1;
    l->records = malloc((l->count + 1) * sizeof *l->records);
    l->order = malloc((l->count + 1) * sizeof *l->order);
    l->slots = calloc(l->slot_count, sizeof *l->slots);
    l->workers = calloc((size_t)l->worker_count, sizeof *l->workers);
    if (!l->records || !l->order || !l->slots || !l->workers)
        return error_memory(err, 2 * l->count * sizeof *l->records);
    memcpy(l->records, records, l->count * sizeof *records);
    enum status status = OK;
    for (int i = 0; i < l->worker_count && !status; i++) {
        l->workers[i].loader = l;
        status = view_scratch_init(&l->workers[i].scratch, &l->view, err);
    }
    for (size_t i = 0; i < l->slot_count && !status; i++)
        status = slot_init(&l->slots[i], l->options.batch_size, l->image_size, l->mixes, err);
    return status;
}

/* Signals are for the main thread: the workers start with all of them blocked. */
static enum status loader_start_threads(struct loader *l, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    while (l->threads < l->options.workers && !failure) {
        struct worker *w = &l->workers[l->threads];
        failure = pthread_create(&w->thread, NULL, worker_run, w);
        l->threads += !failure;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure)
        return error_set(err, ERR_IO,
                         "data.workers: thread %d of %d cannot be started: %s (set fewer workers)",
                         l->threads + 1, l->options.workers, strerror(failure));
    return OK;
}

enum status loader_create(struct loader **out, const struct dataset *d,
                          const struct data_config *config, const size_t *records, size_t count,
                          const struct loader_options *options, struct error *err)
{
    assert(options->batch_size >= 1 && options->ahead >= 1 && options->workers >= 0);
    for (size_t i = 0; i < count; i++)
        assert(records[i] < dataset_count(d));
    struct loader *l = calloc(1, sizeof *l);
    if (!l)
        return error_memory(err, sizeof *l);
    l->dataset = d;
    l->mixes = options->train && augment_mixes(&config->augment);
    l->options = *options;
    l->count = count;
    l->batches = count / (size_t)options->batch_size + (count % (size_t)options->batch_size != 0);
    l->held = l->taken = l->claimed = l->batches;
    l->shuffle_stream = rng_stream(options->seed, "shuffle");
    l->mix_stream = rng_stream(options->seed, "mix");
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    enum status status = view_init(&l->view, d, config, options->train, options->seed, err);
    if (!status)
        status = loader_allocate(l, records, err);
    if (!status)
        status = loader_start_threads(l, err);
    if (status)
        loader_destroy(l);
    else
        *out = l;
    return status;
}

void loader_destroy(struct loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->mutex);
    l->quit = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < l->threads; i++)
        pthread_join(l->workers[i].thread, NULL);
    pthread_cond_destroy(&l->done);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->mutex);
    for (int i = 0; l->workers && i < l->worker_count; i++)
        view_scratch_free(&l->workers[i].scratch);
    for (size_t i = 0; l->slots && i < l->slot_count; i++) {
        free(l->slots[i].batch.images);
        free(l->slots[i].batch.labels);
        free(l->slots[i].batch.index);
        free(l->slots[i].batch.partners);
        free(l->slots[i].batch.share);
        free(l->slots[i].batch.rest);
    }
    free(l->workers);
    free(l->slots);
    view_free(&l->view);
    free(l->order);
    free(l->records);
    free(l);
}

size_t loader_batches(const struct loader *l)
{
    return l->batches;
}

size_t loader_samples(const struct loader *l)
{
    return l->count;
}

enum status loader_start(struct loader *l, int epoch, size_t first, struct error *err)
{
    if (first > l->batches)
        return error_set(err, ERR_INPUT, "an epoch has %zu batches, so none can start at %zu",
                         l->batches, first);
    /* Nothing more is claimed, and what is being made runs to its end, before the order changes. */
    pthread_mutex_lock(&l->mutex);
    l->claimed = l->batches;
    while (l->busy > 0)
        pthread_cond_wait(&l->done, &l->mutex);
    for (size_t i = 0; i < l->slot_count; i++)
        l->slots[i].ready = false;
    l->epoch = (uint64_t)epoch;
    if (l->options.train)
        rng_permutation(l->order, l->count, l->shuffle_stream, l->epoch);
    else
        for (size_t i = 0; i < l->count; i++)
            l->order[i] = i;
    l->held = l->taken = l->claimed = first;
    l->waited = 0;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    return OK;
}

enum status loader_next(struct loader *l, const struct batch **out, struct error *err)
{
    *out = NULL;
    double start = timer_seconds();
    enum status status = OK;
    pthread_mutex_lock(&l->mutex);
    if (l->held < l->taken) { /* the batch of the last call is given back */
        l->slots[l->held % l->slot_count].ready = false;
        l->held = l->taken;
        pthread_cond_broadcast(&l->work);
    }
    if (l->taken < l->batches) {
        struct slot *s = &l->slots[l->taken % l->slot_count];
        if (l->threads == 0 && !s->ready) {
            loader_make(l, s, l->taken, &l->workers[0].scratch);
            s->ready = true;
        }
        while (!s->ready)
            pthread_cond_wait(&l->done, &l->mutex);
        status = s->status;
        if (status == OK) {
            *out = &s->batch;
            l->taken++;
        } else if (err) {
            *err = s->err;
        }
    }
    pthread_mutex_unlock(&l->mutex);
    l->waited += timer_seconds() - start;
    return status;
}

double loader_waited(const struct loader *l)
{
    return l->waited;
}
