/* bench.c - attnbench bench. */
#include "study/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/source.h"
#include "cli/start.h"
#include "kernels/kernels.h"
#include "study/ceiling.h"

/* --- what is asked for ------------------------------------------------------------------------ */

static enum status read_mode(enum network_mode *mode, const struct arguments *a, struct error *err)
{
    const char *text = arguments_value(a, "--mode");
    *mode = text && strcmp(text, "infer") == 0 ? NETWORK_INFER : NETWORK_TRAIN;
    if (text && strcmp(text, "infer") != 0 && strcmp(text, "train") != 0)
        return error_set(err, ERR_INPUT, "--mode: \"%.60s\" is not a mode (train or infer)", text);
    return OK;
}

static enum status read_seconds(double *seconds, const struct arguments *a, struct error *err)
{
    const char *text = arguments_value(a, "--seconds");
    if (!text)
        return OK;
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno || !(value >= 0.01 && value <= 3600))
        return error_set(err, ERR_INPUT, "--seconds: \"%.60s\" is not a time (0.01 to 3600)", text);
    *seconds = value;
    return OK;
}

static enum status read_options(struct bench_options *o, const struct arguments *a,
                                const struct experiment *x, struct error *err)
{
    enum status status = read_mode(&o->mode, a, err);
    o->batch = x->train.batch_size;
    o->seconds = 5;
    o->profile = arguments_has(a, "--profile");
    if (!status)
        status = arguments_int(a, "--batch", 1, 65536, &o->batch, err);
    if (!status)
        status = read_seconds(&o->seconds, a, err);
    if (!status)
        status = source_threads(&o->threads, a, err);
    if (!status && o->profile && arguments_has(a, "--ceiling"))
        status = error_set(err, ERR_INPUT, "--profile: not with --ceiling");
    return status;
}

/* --- answers ---------------------------------------------------------------------------------- */

static const char *mode_name(enum network_mode mode)
{
    return mode == NETWORK_TRAIN ? "train" : "infer";
}

/* precision: NULL where the answer holds several. */
static void put_head(struct json *j, const struct bench_options *o, const char *precision)
{
    json_object(j, NULL);
    json_string(j, "mode", mode_name(o->mode));
    json_int(j, "batch", o->batch);
    json_int(j, "threads", o->threads);
    if (precision)
        json_string(j, "precision", precision);
    json_string(j, "isa", kernels_isa());
    json_string(j, "blas", kernels_blas());
}

static enum status put_end(struct json *j, struct error *err)
{
    json_end(j);
    enum status status = output_json(j, err);
    json_destroy(j);
    return status;
}

static void put_passes(struct json *j, const char *key, const double values[PASSES])
{
    json_array(j, key);
    for (enum pass pass = PASS_FORWARD; pass < PASSES; pass++)
        json_number(j, NULL, values[pass]);
    json_end(j);
}

/* Fills and ends the object that is open. */
static void put_op(struct json *j, const struct bench_op *op)
{
    json_int(j, "nodes", op->nodes);
    put_passes(j, "seconds", op->seconds);
    put_passes(j, "flops", op->flops);
    put_passes(j, "bytes", op->bytes);
    json_end(j);
}

static void profile_json(struct json *j, const struct bench *b)
{
    json_object(j, "profile");
    json_number(j, "step_seconds", b->step.mean);
    json_number(j, "update_seconds", b->update_seconds);
    json_number(j, "update_bytes", b->update_bytes);
    json_number(j, "rest_seconds", b->rest_seconds);
    json_array(j, "ops");
    for (int i = 0; i < b->op_count; i++) {
        json_object(j, NULL);
        json_string(j, "op", b->ops[i].name);
        put_op(j, &b->ops[i]);
    }
    json_end(j);
    json_object(j, "mixing");
    put_op(j, &b->mixing);
    json_end(j);
}

static enum status bench_json(const struct bench *b, const struct bench_options *o,
                              const struct experiment *x, struct error *err)
{
    struct json *j = json_create();
    if (!j)
        return error_memory(err, 0);
    put_head(j, o, precision_name(x));
    json_number(j, "img_per_sec", b->batch / b->step.median);
    json_number(j, "img_per_sec_best", b->batch / b->step.best);
    json_object(j, "step_ms");
    json_number(j, "median", 1e3 * b->step.median);
    json_number(j, "p10", 1e3 * b->step.p10);
    json_number(j, "p90", 1e3 * b->step.p90);
    json_end(j);
    json_number(j, "gflops_per_sec", 1e-9 * b->flops / b->step.median);
    json_int(j, "peak_rss_bytes", b->peak_rss_bytes);
    json_number(j, "block_bytes", b->block_bytes);
    json_int(j, "steps", b->steps);
    json_int(j, "slice", b->slice);
    json_int(j, "lanes", b->lanes);
    json_int(j, "params", (long long)b->params);
    json_number(j, "macs", b->macs);
    if (b->ops)
        profile_json(j, b);
    return put_end(j, err);
}

/* One line of the profile; rates only where there is something to rate. */
static void put_row(const char *name, int nodes, double seconds, double step, double flops,
                    double bytes)
{
    char count[16] = "", rate[OUTPUT_NUMBER_SIZE + 8] = "", traffic[OUTPUT_NUMBER_SIZE + 8] = "";
    char amount[OUTPUT_NUMBER_SIZE];
    if (nodes)
        snprintf(count, sizeof count, "%d", nodes);
    if (flops > 0 && seconds > 0)
        snprintf(rate, sizeof rate, "%sFLOP/s", output_amount(amount, flops / seconds));
    if (bytes > 0 && seconds > 0)
        snprintf(traffic, sizeof traffic, "%sB/s", output_amount(amount, bytes / seconds));
    printf("%-24s %5s %10.2f ms %5.1f %% %14s %12s\n", name, count, 1e3 * seconds,
           100 * seconds / step, rate, traffic);
}

static void put_op_rows(const char *name, const struct bench_op *op, const struct bench *b,
                        const struct bench_options *o)
{
    put_row(name, op->nodes, op->seconds[PASS_FORWARD], b->step.mean, op->flops[PASS_FORWARD],
            op->bytes[PASS_FORWARD]);
    if (o->mode == NETWORK_TRAIN)
        put_row("  backward", 0, op->seconds[PASS_BACKWARD], b->step.mean,
                op->flops[PASS_BACKWARD], op->bytes[PASS_BACKWARD]);
}

static void profile_text(const struct bench *b, const struct bench_options *o)
{
    printf("\n%-24s %5s %13s %7s %14s %12s\n", "op", "nodes", "a step", "share", "", "");
    for (int i = 0; i < b->op_count; i++)
        put_op_rows(b->ops[i].name, &b->ops[i], b, o);
    if (o->mode == NETWORK_TRAIN)
        put_row("update", 0, b->update_seconds, b->step.mean, 0, b->update_bytes);
    put_row("binding and waiting", 0, b->rest_seconds, b->step.mean, 0, 0);
    put_row("step (mean)", 0, b->step.mean, b->step.mean, b->flops, 0);
    if (b->mixing.nodes) {
        printf("\nof it attention, without its linear projections\n");
        put_op_rows("mixing", &b->mixing, b, o);
    }
}

static void bench_text(const struct bench *b, const struct bench_options *o)
{
    char a[OUTPUT_NUMBER_SIZE];
    printf("%s, batch %d: %.1f img/s (best %.1f)\n", mode_name(o->mode), b->batch,
           b->batch / b->step.median, b->batch / b->step.best);
    printf("step        %.2f ms (p10 %.2f, p90 %.2f; %d steps)\n", 1e3 * b->step.median,
           1e3 * b->step.p10, 1e3 * b->step.p90, b->steps);
    printf("products    %sFLOP/s (%d x MACs an image)\n",
           output_amount(a, b->flops / b->step.median), o->mode == NETWORK_TRAIN ? 6 : 2);
    printf("memory      %sB at most resident", output_amount(a, (double)b->peak_rss_bytes));
    printf(", step blocks of %sB\n", output_amount(a, b->block_bytes));
    printf("slices      of %d image%s", b->slice, b->slice > 1 ? "s" : "");
    if (b->lanes)
        printf(", %d lane%s", b->lanes, b->lanes > 1 ? "s" : "");
    putchar('\n');
    if (b->ops)
        profile_text(b, o);
}

/* One member for each precision, named after it. */
static void ceiling_json(struct json *j, const struct ceiling *c, const char *precision)
{
    json_object(j, precision);
    json_number(j, "gflops_per_sec", 1e-9 * c->flops_per_second);
    json_number(j, "gflops_per_sec_one_thread", 1e-9 * c->flops_per_second_alone);
    json_number(j, "share_of_macs", c->share);
    json_array(j, "products");
    for (int i = 0; i < c->count; i++) {
        const struct ceiling_product *p = &c->products[i];
        json_object(j, NULL);
        json_int(j, "m", p->m);
        json_int(j, "n", p->n);
        json_int(j, "k", p->k);
        json_number(j, "count", p->count);
        json_number(j, "gflops_per_sec", 1e-9 * p->flops_per_second);
        json_number(j, "gflops_per_sec_one_thread", 1e-9 * p->flops_per_second_alone);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

static void ceiling_text(const struct ceiling *c, const char *precision, int threads)
{
    char all[OUTPUT_NUMBER_SIZE], alone[OUTPUT_NUMBER_SIZE];
    printf("%s\n%5s %5s %5s %10s %16s %16s\n", precision, "m", "n", "k", "a step", "all threads",
           "one thread");
    for (int i = 0; i < c->count; i++) {
        const struct ceiling_product *p = &c->products[i];
        printf("%5d %5d %5d %10.0f %10sFLOP/s %10sFLOP/s\n", p->m, p->n, p->k, p->count,
               output_amount(all, p->flops_per_second),
               output_amount(alone, p->flops_per_second_alone));
    }
    printf("weighted by FLOPs: %sFLOP/s on %d thread%s, %sFLOP/s on one\n",
           output_amount(all, c->flops_per_second), threads, threads > 1 ? "s" : "",
           output_amount(alone, c->flops_per_second_alone));
}

/* --- the command ------------------------------------------------------------------------------ */

static enum status run_bench(const struct arguments *a, const struct bench_options *o,
                             const struct experiment *x, struct error *err)
{
    struct bench b;
    enum status status = bench_run(&b, x, o, err);
    if (status)
        return status;
    if (arguments_has(a, "--json"))
        status = bench_json(&b, o, x, err);
    else
        bench_text(&b, o);
    bench_free(&b);
    return status;
}

/* In one precision; j is NULL for text. */
static enum status measure_ceiling(struct json *j, const struct bench_options *o,
                                   const struct experiment *x, double seconds, struct error *err)
{
    struct ceiling c;
    enum status status = ceiling_list(&c, x, o->mode, o->batch, err);
    if (status)
        return status;
    status = ceiling_measure(&c, o->batch, o->threads, seconds, err);
    if (!status && j)
        ceiling_json(j, &c, precision_name(x));
    else if (!status)
        ceiling_text(&c, precision_name(x), o->threads);
    ceiling_free(&c);
    return status;
}

/* In fp32 and bf16, whatever the config says: what one gains over the other is of interest too. */
static enum status run_ceiling(const struct arguments *a, const struct bench_options *o,
                               const struct experiment *x, struct error *err)
{
    int precisions = sizeof(real) == sizeof(float) ? 2 : 1;
    struct json *j = arguments_has(a, "--json") ? json_create() : NULL;
    if (arguments_has(a, "--json") && !j)
        return error_memory(err, 0);
    if (j)
        put_head(j, o, NULL);
    enum status status = OK;
    for (int i = 0; i < precisions && !status; i++) {
        struct experiment in = *x; /* borrows all that x owns */
        in.train.precision = i ? PRECISION_BF16 : PRECISION_FP32;
        status = measure_ceiling(j, o, &in, o->seconds / precisions, err);
    }
    if (j && !status)
        return put_end(j, err);
    json_destroy(j);
    return status;
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct experiment x;
    struct bench_options o = {0};
    enum source kind;
    struct start start;
    enum status status = source_kind(&kind, a->operands[0], err);
    if (!status)
        status = source_load(&x, kind, a, NULL, err);
    if (status)
        return status;
    status = read_options(&o, a, &x, err);
    if (!status) {
        o.weights = kind == SOURCE_CHECKPOINT ? a->operands[0] : NULL;
        start_fill(&start, &x, o.threads, a);
        start_say(&start);
        status =
            arguments_has(a, "--ceiling") ? run_ceiling(a, &o, &x, err) : run_bench(a, &o, &x, err);
    }
    experiment_free(&x);
    return status;
}

static const struct command_option options_of_bench[] = {
    {"--mode", "MODE", false, "train (the default: whole updates) or infer"},
    {"--batch", "N", false, "images in a step (default: the config's batch size)"},
    {"--seconds", "S", false, "how long to measure, after a warm-up (default: 5)"},
    OPTION_THREADS,
    {"--profile", NULL, false, "also time, FLOP/s and bytes/s of every kind of op"},
    {"--ceiling", NULL, false, "measure the model's matrix products alone, in fp32 and bf16"},
    OPTION_SET,
    OPTION_JSON,
    OPTION_END,
};

const struct command bench_command = {
    .name = "bench",
    .summary = "images a second on this machine, and where the time goes",
    .operands = "CONFIG|CHECKPOINT",
    .least = 1,
    .most = 1,
    .options = options_of_bench,
    .computes = true,
    .about = "Measures steps on random images that are already in memory: medians after a\n"
             "warm-up. In training a step is a whole update with clipping and optimizer. Data is\n"
             "not read. FLOP/s count 6 x MACs of an image in training, 2 x MACs in inference;\n"
             "bytes are those that an op must read and write at the least.\n",
    .example = "  attnbench bench configs/bench/vit_tiny_224.json --seconds 10 --profile\n"
               "  attnbench bench configs/bench/vit_tiny_224.json --mode infer --batch 1 --json\n",
    .run = run,
};
