/* run.c - binding a thread's nodes to a slice, and the two loops over nodes. */
#include "graph/run.h"

#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/block.h"
#include "base/timer.h"
#include "kernels/finite.h"
#include "kernels/kernels.h"

struct worker {
    struct tensor *tensors;
    struct node *nodes;
    struct tensor **outputs;
    unsigned char *block;
    void *staging[GRAPH_MAX_INPUTS]; /* inputs of a slice that the batch fills only in part */
    real *seed_staging;
    bool *is_set;    /* one a parameter: its gradient in this lane is this step's */
    struct run run;
    bool updates; /* of buffers, by this run */
    char *bad; /* where the first non-finite value is noted, NULL while nobody asks */
    struct profile *profile; /* NULL while nobody asks */
    int number;              /* of this worker */
};

struct runner {
    const struct graph *g;
    int workers, threads;
    struct worker *worker;
};

/* --- a thread's copy of the graph --------------------------------------------------------------- */

static struct tensor *moved(const struct worker *w, const struct tensor *t)
{
    return t ? &w->tensors[t->index] : NULL;
}

static bool worker_copy_nodes(struct worker *w, const struct graph *g)
{
    w->tensors = calloc((size_t)g->tensor_count + 1, sizeof *w->tensors);
    w->nodes = calloc((size_t)g->node_count + 1, sizeof *w->nodes);
    w->outputs = calloc((size_t)g->output_count + 1, sizeof *w->outputs);
    if (!w->tensors || !w->nodes || !w->outputs)
        return false;
    for (int i = 0; i < g->tensor_count; i++) {
        w->tensors[i] = *g->tensors[i];
        w->tensors[i].root = moved(w, g->tensors[i]->root);
    }
    for (int i = 0; i < g->node_count; i++) {
        struct node *n = &w->nodes[i];
        *n = *g->nodes[i];
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            n->in[k] = moved(w, n->in[k]);
        for (int k = 0; k < OP_MAX_SAVED; k++)
            n->saved[k] = moved(w, n->saved[k]);
        n->out = moved(w, n->out);
        n->scratch = moved(w, n->scratch);
        n->scratch_backward = moved(w, n->scratch_backward);
        n->run = &w->run;
    }
    for (int i = 0; i < g->output_count; i++)
        w->outputs[i] = moved(w, g->outputs[i]);
    return true;
}

static size_t sample_bytes(const struct tensor *t)
{
    return tensor_count(t) / (size_t)t->shape.dim[0] * type_size(t->type);
}

static enum status worker_create(struct worker *w, const struct graph *g, struct error *err)
{
    if (!worker_copy_nodes(w, g))
        return error_memory(err, (size_t)g->tensor_count * sizeof *w->tensors);
    if (!(w->block = block_create(g->block_bytes)))
        return error_memory(err, g->block_bytes);
    for (int i = 0; i < g->input_count; i++) {
        size_t bytes = sample_bytes(g->inputs[i]) * (size_t)g->options.batch;
        if (!(w->staging[i] = calloc(1, bytes)))
            return error_memory(err, bytes);
    }
    if (!(w->is_set = calloc((size_t)g->params->count + 1, sizeof *w->is_set)))
        return error_memory(err, (size_t)g->params->count);
    if (g->loss) {
        w->seed_staging = calloc(tensor_count(g->loss), sizeof(real));
        if (!w->seed_staging)
            return error_memory(err, tensor_count(g->loss) * sizeof(real));
    }
    return OK;
}

int runner_workers(int lanes, int threads)
{
    int workers = 2 * lanes <= threads ? 1 : lanes < threads ? lanes : threads;
    return workers > 1 ? workers : 1;
}

enum status runner_create(struct runner **out, const struct graph *g, int lanes, int threads,
                          struct error *err)
{
    int workers = runner_workers(lanes, threads);
    if (g->output_count > FEED_MAX_OUTPUTS)
        return error_set(err, ERR_SHAPE, "more than %d outputs", FEED_MAX_OUTPUTS);
    struct runner *r = calloc(1, sizeof *r);
    if (r) {
        r->g = g;
        r->threads = threads;
        r->worker = calloc((size_t)workers, sizeof *r->worker);
    }
    if (!r || !r->worker) {
        free(r);
        return error_memory(err, sizeof *r);
    }
    enum status status = OK;
    for (; r->workers < workers && !status; r->workers++)
        status = worker_create(&r->worker[r->workers], g, err);
    if (status) {
        runner_destroy(r);
        return status;
    }
    *out = r;
    return OK;
}

void runner_destroy(struct runner *r)
{
    for (int i = 0; r && i < r->workers; i++) {
        struct worker *w = &r->worker[i];
        free(w->tensors);
        free(w->nodes);
        free(w->outputs);
        free(w->block);
        for (int k = 0; k < GRAPH_MAX_INPUTS; k++)
            free(w->staging[k]);
        free(w->seed_staging);
        free(w->is_set);
    }
    if (r)
        free(r->worker);
    free(r);
}

size_t runner_bytes(const struct runner *r)
{
    return (size_t)r->workers * r->g->block_bytes;
}

/* --- one slice ---------------------------------------------------------------------------------- */

struct slice {
    int first, rows; /* samples of the batch in it; fewer than the graph's batch in the last one */
    int lane;
};

/* Where input i of the slice lies: in the batch, or copied behind zeroed rows where it is not whole. */
static const void *slice_input(struct worker *w, const struct graph *g, const struct feed *feed,
                               const struct slice *s, int i)
{
    size_t bytes = sample_bytes(g->inputs[i]);
    const unsigned char *from =
        (const unsigned char *)feed->input[i] + (size_t)s->first * bytes;
    if (s->rows == g->options.batch)
        return from;
    memset(w->staging[i], 0, bytes * (size_t)g->options.batch);
    memcpy(w->staging[i], from, bytes * (size_t)s->rows);
    return w->staging[i];
}

/* Address `elements` behind base. The engine writes through it only where it owns the memory: inputs,
 * constants and parameter values are never an op's output. */
static void *shifted(const void *base, ptrdiff_t elements, enum type type)
{
    return (void *)((uintptr_t)base + (uintptr_t)(elements * (ptrdiff_t)type_size(type)));
}

/* The gradient that the slice starts from: in the feed, or copied where rows are missing or the loss is
 * not stored as real. */
static const void *slice_seed(struct worker *w, const struct graph *g, const struct feed *feed,
                              const struct slice *s)
{
    size_t each = tensor_count(g->loss) / (size_t)g->options.batch;
    const real *from = feed->seed + (size_t)s->first * each;
    enum type type = g->loss->type;
    if (s->rows == g->options.batch && type == TYPE_REAL)
        return from;
    memset(w->seed_staging, 0, each * (size_t)g->options.batch * sizeof(real));
    struct vec seed = {shifted(from, 0, TYPE_REAL), TYPE_REAL, (ptrdiff_t)each};
    struct vec staged = {w->seed_staging, type, (ptrdiff_t)each};
    kernel_accumulate(staged, 0, seed, 1, (size_t)s->rows, each);
    return w->seed_staging;
}

static void worker_bind(struct worker *w, const struct graph *g, const struct feed *feed,
                        const struct slice *s)
{
    const struct params *p = g->params;
    const real *values = feed->values ? feed->values : p->values;
    for (int i = 0; i < g->tensor_count; i++) {
        struct tensor *t = &w->tensors[i], *root = t->root;
        const void *data = w->block + root->data_at, *grad = NULL;
        if (root->param) {
            data = values + root->param->at;
            if (root->needs_grad && feed->seed)
                grad = p->grads + (size_t)s->lane * p->trained + root->param->at;
        } else {
            if (root->constant)
                data = root->constant;
            if (root->input >= 0)
                data = root == t ? slice_input(w, g, feed, s, root->input) : root->data;
            if (root->needs_grad)
                grad = w->block + root->grad_at;
        }
        if (g->loss && root->index == g->loss->root->index && feed->seed)
            grad = slice_seed(w, g, feed, s);
        t->data = shifted(data, t->offset, t->type);
        t->grad = grad ? shifted(grad, t->offset, t->type) : NULL;
    }
    w->run.params = p;
    w->run.step = feed->step;
    w->run.progress = feed->progress;
    w->run.sample = feed->sample + (uint64_t)s->first;
    w->run.present = s->rows;
    w->run.batch = g->options.batch;
    w->updates = feed->updates;
}

static bool is_finite(const struct tensor *t, const void *data)
{
    struct vec v = {shifted(data, 0, t->type), t->type, tensor_cols(t)};
    return kernel_all_finite(v, tensor_rows(t), (size_t)tensor_cols(t));
}

static void note_bad(struct worker *w, const struct node *n, const char *what, const char *name)
{
    snprintf(w->bad, 256, "%s%s%s %s", n->scope, n->scope[0] ? ": " : "", what, name);
}

static void node_forward(struct worker *w, const struct node *n)
{
    n->op->forward(n);
    if (w->updates && n->op->update && !n->again)
        n->op->update(n);
    if (w->bad && !w->bad[0] && !is_finite(n->out->root, n->out->root->data))
        note_bad(w, n, "output of", n->op->name);
}

/* Zeroes what backward adds to. A lane's gradient of a parameter is zeroed by its first writer, which
 * then finds it in cache. */
static void clear_grads(struct worker *w, const struct node *n)
{
    for (int k = 0; k < n->inputs; k++) {
        const struct tensor *root = n->in[k] ? n->in[k]->root : NULL;
        bool *is_set = root && root->param ? &w->is_set[root->param->number] : NULL;
        if (!root || !root->grad || !(is_set ? !*is_set : n->clear[k]))
            continue;
        memset(root->grad, 0, tensor_count(root) * type_size(root->type));
        if (is_set)
            *is_set = true;
    }
}

static void node_backward(struct worker *w, const struct node *n)
{
    clear_grads(w, n);
    n->op->backward(n);
    for (int k = 0; k < n->inputs && w->bad && !w->bad[0]; k++) {
        const struct tensor *t = n->in[k];
        if (t && t->grad && t->root == t && !is_finite(t, t->grad))
            note_bad(w, n, "gradient of", t->param ? t->param->name : n->op->name);
    }
}

/* Steps first .. last - 1 of the schedule. */
static void run_steps(struct worker *w, const struct graph *g, int first, int last)
{
    double since = w->profile ? timer_seconds() : 0;
    for (int i = first; i < last; i++) {
        struct graph_step step = g->steps[i];
        const struct node *n = &w->nodes[step.node];
        if (step.backward && !n->runs_backward)
            continue;
        if (step.backward)
            node_backward(w, n);
        else
            node_forward(w, n);
        if (w->profile)
            profile_add(w->profile, w->number, step.node,
                        step.backward ? PASS_BACKWARD : PASS_FORWARD, &since);
    }
}

/* Copies the first `rows` of a tensor's value or gradient to contiguous reals. */
static void copy_out(real *to, const struct tensor *t, const void *data, int rows)
{
    size_t cols = (size_t)tensor_cols(t);
    size_t lines = tensor_rows(t) / (size_t)t->shape.dim[0];
    int rank = t->shape.rank;
    if (rank == 1) {
        lines = 1;
        cols = (size_t)rows;
        rows = 1;
    }
    for (int b = 0; b < rows; b++) {
        for (size_t line = 0; line < lines; line++) {
            ptrdiff_t offset = rank > 1 ? b * t->stride[0] : 0;
            size_t rest = line;
            for (int axis = rank - 2; axis > 0; axis--) {
                offset += (ptrdiff_t)(rest % (size_t)t->shape.dim[axis]) * t->stride[axis];
                rest /= (size_t)t->shape.dim[axis];
            }
            struct vec from = {shifted(data, offset, t->type), t->type, (ptrdiff_t)cols};
            struct vec into = {to, TYPE_REAL, (ptrdiff_t)cols};
            kernel_accumulate(into, 0, from, 1, 1, cols);
            to += cols;
        }
    }
}

static void slice_run(struct worker *w, const struct graph *g, const struct feed *feed,
                      const struct slice *s)
{
    worker_bind(w, g, feed, s);
    run_steps(w, g, 0, g->forward_steps);
    for (int i = 0; i < g->output_count; i++) {
        const struct tensor *t = w->outputs[i];
        size_t each = tensor_count(t) / (size_t)g->options.batch; /* of a sample */
        if (feed->output[i])
            copy_out(feed->output[i] + (size_t)s->first * each, t, t->data,
                     s->rows * (t->shape.dim[0] / g->options.batch));
    }
    if (!feed->seed)
        return;
    run_steps(w, g, g->forward_steps, g->step_count);
    for (int i = 0; i < g->input_count; i++) {
        const struct tensor *t = &w->tensors[g->inputs[i]->index];
        size_t each = tensor_count(t) / (size_t)t->shape.dim[0];
        if (!feed->input_grad[i] || !t->grad)
            continue;
        real *to = feed->input_grad[i] + (size_t)s->first * each;
        if (t->keep_grad)
            copy_out(to, t, t->grad, s->rows);
        else
            memset(to, 0, (size_t)s->rows * each * sizeof *to);
    }
}

/* --- all slices --------------------------------------------------------------------------------- */

static struct slice slice_at(const struct graph *g, const struct feed *feed, int index, int lane)
{
    int first = index * g->options.batch;
    int rows = feed->rows - first < g->options.batch ? feed->rows - first : g->options.batch;
    return (struct slice){first, rows, lane};
}

static void lane_run(struct worker *w, const struct graph *g, const struct feed *feed, int lane,
                     int lanes, int slices)
{
    const struct params *p = g->params;
    memset(w->is_set, feed->keep_grads, (size_t)p->count * sizeof *w->is_set);
    int last = (int)((long long)(lane + 1) * slices / lanes);
    for (int i = (int)((long long)lane * slices / lanes); i < last; i++) {
        struct slice s = slice_at(g, feed, i, lane);
        slice_run(w, g, feed, &s);
    }
    for (int i = 0; i < p->count && feed->seed; i++)
        if (p->list[i]->at < p->trained && !w->is_set[i])
            memset(p->grads + (size_t)lane * p->trained + p->list[i]->at, 0,
                   p->list[i]->count * sizeof(real));
}

/* All threads on one lane after another. */
static void run_as_team(struct runner *r, const struct feed *feed, int lanes, int slices)
{
    kernels_thread_init();
    kernels_team(r->threads);
    for (int lane = 0; lane < lanes; lane++)
        lane_run(&r->worker[0], r->g, feed, lane, lanes, slices);
    kernels_team(1);
}

void runner_run(struct runner *r, const struct feed *feed)
{
    const struct graph *g = r->g;
    int slices = (feed->rows + g->options.batch - 1) / g->options.batch;
    int lanes = feed->seed ? g->params->lanes : slices;
    assert(!g->whole_batch || slices == 1);
    int workers = runner_workers(lanes, r->threads);
    workers = workers < r->workers ? workers : r->workers;
    if (g->params->packed && !feed->same_values)
        params_pack(g->params, feed->values ? feed->values : g->params->values,
                    workers > 1 ? workers : r->threads);
    if (workers == 1) {
        run_as_team(r, feed, lanes, slices);
        return;
    }
#pragma omp parallel num_threads(workers)
    {
        kernels_thread_init();
#pragma omp for schedule(dynamic, 1)
        for (int lane = 0; lane < lanes; lane++)
            lane_run(&r->worker[omp_get_thread_num()], g, feed, lane, lanes, slices);
    }
}

void runner_find_bad(struct runner *r, const struct feed *feed, char text[256])
{
    const struct graph *g = r->g;
    int slices = (feed->rows + g->options.batch - 1) / g->options.batch;
    int lanes = feed->seed ? g->params->lanes : slices;
    text[0] = 0;
    r->worker[0].bad = text;
    for (int lane = 0; lane < lanes && !text[0]; lane++)
        lane_run(&r->worker[0], g, feed, lane, lanes, slices);
    r->worker[0].bad = NULL;
}

void runner_profile(struct runner *r, struct profile *p)
{
    for (int i = 0; i < r->workers; i++) {
        r->worker[i].profile = p;
        r->worker[i].number = i;
    }
}

void graph_reduce(struct params *p, int threads)
{
    size_t chunk = (size_t)1 << 14;
    long long chunks = (long long)((p->trained + chunk - 1) / chunk);
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads)
    for (long long c = 0; c < chunks; c++) {
        size_t first = (size_t)c * chunk;
        size_t count = p->trained - first < chunk ? p->trained - first : chunk;
        for (int lane = 1; lane < p->lanes; lane++)
            kernel_sum_into(p->grads + first, p->grads + (size_t)lane * p->trained + first, count);
    }
}
