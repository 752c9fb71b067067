/* test_loader.c - batches are a function of seed, epoch and position, whoever makes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/loader.h"
#include "data_files.h"
#include "test.h"

static const struct image_shape shape = {1, 6, 5};

enum { PIXELS = 30, COPIES = 64 };

static struct dataset *open_copies(struct data_config *config)
{
    const char *folder = test_directory();
    static uint8_t pixels[COPIES * PIXELS], labels[COPIES];
    for (int i = 0; i < COPIES * PIXELS; i++)
        pixels[i] = (uint8_t)(8 * (i % PIXELS) + 5);
    put_idx(folder, "train-images-idx3-ubyte", 3, (int[]){COPIES, 6, 5}, pixels, sizeof pixels,
            false);
    put_idx(folder, "train-labels-idx1-ubyte", 1, (int[]){COPIES}, labels, COPIES, false);
    *config = config_of("mnist", folder);
    config->augment = (struct augment){.random_crop_padding = 4, .hflip = 0.5};
    return open_dataset(config, SPLIT_TRAIN, shape, 1);
}

static struct loader *create(const struct dataset *d, const struct data_config *config,
                             size_t count, struct loader_options options)
{
    size_t *records = malloc((count + 1) * sizeof *records);
    CHECK(records != NULL);
    for (size_t i = 0; i < count; i++)
        records[i] = i;
    struct loader *l = NULL;
    struct error err;
    CHECK_OK(loader_create(&l, d, config, records, count, &options, &err), err);
    free(records);
    return l;
}

static const struct batch *next(struct loader *l)
{
    const struct batch *b;
    struct error err;
    CHECK_OK(loader_next(l, &b, &err), err);
    return b;
}

static void start(struct loader *l, int epoch, size_t first)
{
    struct error err;
    CHECK_OK(loader_start(l, epoch, first, &err), err);
}

/* The record and the hash of the pixels at each position of an epoch, from batch `first` on. */
struct epoch {
    size_t record[COPIES];
    uint64_t hash[COPIES];
    int count;
};

static struct epoch read_epoch(struct loader *l, int epoch, size_t first)
{
    struct epoch e = {.count = 0};
    start(l, epoch, first);
    for (const struct batch *b; (b = next(l));) {
        for (int i = 0; i < b->count; i++) {
            CHECK(e.count < COPIES);
            e.record[e.count] = b->index[i];
            e.hash[e.count++] = hash_fnv(HASH_START, b->images + i * PIXELS, PIXELS * sizeof(real));
        }
    }
    return e;
}

static int same_hashes(const struct epoch *a, const struct epoch *b)
{
    int same = 0;
    for (int i = 0; i < COPIES; i++)
        same += a->hash[i] == b->hash[i];
    return same;
}

TEST(loader__copies_of_an_image_differ_within_and_between_epochs)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    struct loader *l =
        create(d, &config, COPIES,
               (struct loader_options){
                   .batch_size = 8, .train = true, .seed = 3, .workers = 1, .ahead = 2});
    struct epoch first = read_epoch(l, 0, 0), second = read_epoch(l, 1, 0);
    CHECK_INT(first.count, COPIES);
    CHECK_INT(second.count, COPIES);
    int repeats = 0; /* of 162 possible changes */
    for (int i = 0; i < COPIES; i++)
        for (int k = 0; k < i; k++)
            repeats += first.hash[i] == first.hash[k];
    CHECK(repeats < 60);
    CHECK(same_hashes(&first, &second) < 8);
    CHECK(memcmp(first.record, second.record, sizeof first.record) != 0);
    loader_destroy(l);
    dataset_close(d);
}

TEST(loader__workers_and_their_number_change_nothing)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    struct epoch want[2];
    for (int workers = 0; workers <= 3; workers++) {
        for (int ahead = 1; ahead <= 5; ahead += 2) {
            test_about("%d workers, %d ahead", workers, ahead);
            struct loader *l = create(
                d, &config, COPIES,
                (struct loader_options){
                    .batch_size = 5, .train = true, .seed = 3, .workers = workers, .ahead = ahead});
            for (int epoch = 0; epoch < 2; epoch++) {
                struct epoch got = read_epoch(l, epoch, 0);
                if (workers == 0 && ahead == 1)
                    want[epoch] = got;
                CHECK(memcmp(&got, &want[epoch], sizeof got) == 0);
            }
            loader_destroy(l);
        }
    }
    dataset_close(d);
}

TEST(loader__an_epoch_serves_every_record_once)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    struct loader *l =
        create(d, &config, COPIES - 1,
               (struct loader_options){
                   .batch_size = 10, .train = true, .seed = 1, .workers = 2, .ahead = 3});
    CHECK_INT(loader_batches(l), 7);
    CHECK_INT(loader_samples(l), 63);
    struct epoch e = read_epoch(l, 4, 0);
    CHECK_INT(e.count, 63);
    int seen[COPIES] = {0};
    for (int i = 0; i < e.count; i++)
        seen[e.record[i]]++;
    for (int i = 0; i < COPIES; i++)
        CHECK_INT(seen[i], i < 63);
    CHECK(next(l) == NULL);
    CHECK(loader_waited(l) >= 0);
    loader_destroy(l);
    dataset_close(d);
}

TEST(loader__an_epoch_can_be_joined_at_any_batch)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    for (int workers = 0; workers <= 2; workers++) {
        struct loader *l =
            create(d, &config, COPIES,
                   (struct loader_options){
                       .batch_size = 8, .train = true, .seed = 3, .workers = workers, .ahead = 2});
        struct epoch whole = read_epoch(l, 2, 0);
        for (size_t first = 0; first <= 8; first++) {
            struct epoch rest = read_epoch(l, 2, first);
            CHECK_INT(rest.count, COPIES - 8 * first);
            CHECK(memcmp(rest.hash, whole.hash + 8 * first,
                         (size_t)rest.count * sizeof *rest.hash) == 0);
        }
        struct error err;
        CHECK_INT(loader_start(l, 2, 9, &err), ERR_INPUT);

        start(l, 1, 0); /* left in the middle, with batches ahead */
        next(l);
        next(l);
        struct epoch again = read_epoch(l, 2, 0);
        CHECK(memcmp(&again, &whole, sizeof again) == 0);
        loader_destroy(l);
    }
    dataset_close(d);
}

TEST(loader__evaluation_is_plain_and_in_the_order_given)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    const size_t records[] = {40, 3, 3, 17};
    const double mean = 0.1307, std = 0.3081;
    const struct loader_options options = {.batch_size = 3, .seed = 1, .workers = 1, .ahead = 1};
    struct loader *l;
    struct error err;
    CHECK_OK(loader_create(&l, d, &config, records, 4, &options, &err), err);
    start(l, 0, 0);
    const struct batch *b = next(l);
    CHECK(b != NULL);
    CHECK_INT(b->count, 3);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(b->index[i], records[i]);
        CHECK_INT(b->labels[i], 0);
        for (int p = 0; p < PIXELS; p++)
            CHECK_NEAR(b->images[i * PIXELS + p], ((8 * p + 5) / 255.0 - mean) / std, 1e-6);
    }
    b = next(l);
    CHECK(b != NULL);
    CHECK_INT(b->count, 1);
    CHECK_INT(b->capacity, 3);
    CHECK_INT(b->index[0], 17);
    for (int i = 1; i < 3; i++) {
        CHECK_INT(b->labels[i], -1);
        for (int p = 0; p < PIXELS; p++)
            CHECK_NEAR(b->images[i * PIXELS + p], 0, 0);
    }
    CHECK(next(l) == NULL);
    loader_destroy(l);
    dataset_close(d);
}

TEST(loader__destroying_it_at_any_time_ends_its_threads)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    for (int i = 0; i < 40; i++) {
        struct loader *l = create(d, &config, COPIES,
                                  (struct loader_options){.batch_size = 4,
                                                          .train = true,
                                                          .seed = 3,
                                                          .workers = 1 + i % 3,
                                                          .ahead = 1 + i % 4});
        if (i % 5 > 0)
            start(l, i, 0);
        for (int k = 1; k < i % 5; k++)
            CHECK(next(l) != NULL);
        loader_destroy(l);
    }
    dataset_close(d);
}

TEST(loader__no_records_make_no_batches)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    struct loader *l =
        create(d, &config, 0, (struct loader_options){.batch_size = 4, .workers = 1, .ahead = 1});
    CHECK_INT(loader_batches(l), 0);
    start(l, 0, 0);
    CHECK(next(l) == NULL);
    loader_destroy(l);
    dataset_close(d);
}

TEST(loader__repeated_images_follow_each_other_and_differ)
{
    struct data_config config;
    struct dataset *d = open_copies(&config);
    config.augment.repeated = 3;
    struct loader *l =
        create(d, &config, COPIES,
               (struct loader_options){
                   .batch_size = 8, .train = true, .seed = 3, .workers = 1, .ahead = 2});
    CHECK_INT(loader_samples(l), COPIES);
    struct epoch e = read_epoch(l, 0, 0);
    CHECK_INT(e.count, COPIES);
    int seen[COPIES] = {0}, changed = 0;
    for (int i = 0; i < COPIES; i++) {
        seen[e.record[i]]++;
        CHECK_INT(e.record[i], e.record[i - i % 3]);
        changed += e.hash[i] != e.hash[i - i % 3];
    }
    int images = 0;
    for (int i = 0; i < COPIES; i++) {
        CHECK(seen[i] <= 3);
        images += seen[i] > 0;
    }
    CHECK_INT(images, 22);
    CHECK(changed > 30);
    struct epoch rest = read_epoch(l, 0, 3);
    CHECK(memcmp(rest.hash, e.hash + 24, (size_t)rest.count * sizeof *rest.hash) == 0);
    loader_destroy(l);
    dataset_close(d);
}

/* Batches with the values k of their records' labels, so that mixtures can be told. */
static struct dataset *open_labelled(struct data_config *config)
{
    const char *folder = test_directory();
    put_mnist(folder, 13, 6, 5, 7);
    *config = config_of("mnist", folder);
    return open_dataset(config, SPLIT_TRAIN, shape, 7);
}

TEST(loader__mixed_batches_tell_partners_and_shares)
{
    struct data_config config;
    struct dataset *d = open_labelled(&config);
    const struct loader_options options = {
        .batch_size = 5, .train = true, .seed = 3, .workers = 2, .ahead = 2};
    struct loader *plain = create(d, &config, 13, options);
    config.augment =
        (struct augment){.mixup = 0.8, .cutmix = 1, .mix_probability = 1, .mix_switch = 0.5};
    struct loader *l = create(d, &config, 13, options);
    int blended = 0;
    for (int epoch = 0; epoch < 10; epoch++) {
        start(plain, epoch, 0);
        start(l, epoch, 0);
        for (const struct batch *b; (b = next(l));) {
            const struct batch *p = next(plain);
            CHECK(!p->partners && b->partners);
            for (int i = 0; i < b->count; i++) {
                int other = b->count - 1 - i;
                CHECK_INT(b->labels[i], p->labels[i]);
                CHECK_INT(b->partners[i], p->labels[other]);
                CHECK_NEAR(b->share[i] + b->rest[i], 1, 1e-6);
                double own = 0, mixed = 0, all = 0; /* along the line from partner to image */
                for (int k = 0; k < PIXELS; k++) {
                    double far = (double)p->images[other * PIXELS + k];
                    double part = (double)p->images[i * PIXELS + k] - far;
                    own += part * part;
                    mixed += part * ((double)b->images[i * PIXELS + k] - far);
                }
                all = own > 0 ? mixed / own : (double)b->share[i];
                blended += fabs(all - (double)b->share[i]) < 1e-4;
            }
            for (int i = b->count; i < b->capacity; i++) {
                CHECK_INT(b->partners[i], -1);
                CHECK_NEAR(b->share[i] + b->rest[i], 0, 0);
            }
        }
    }
    CHECK(blended > 100); /* of 130: cutmix by pixels of unequal contrast apart */
    struct loader *alone =
        create(d, &config, 13,
               (struct loader_options){.batch_size = 5, .train = true, .seed = 3, .ahead = 1});
    start(alone, 4, 2);
    start(l, 4, 0);
    next(l), next(l);
    const struct batch *a = next(l), *b = next(alone);
    CHECK_INT(a->count, 3);
    CHECK(memcmp(a->images, b->images, 3 * PIXELS * sizeof(real)) == 0);
    CHECK(memcmp(a->share, b->share, 3 * sizeof(real)) == 0);
    loader_destroy(alone);
    loader_destroy(plain);
    loader_destroy(l);
    dataset_close(d);
}
