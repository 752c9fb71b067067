/* plan.c - who writes and who reads last, and a place in one block for every value and gradient.
 *
 * Time is the position in the schedule: the nodes forward, then backward from the last to the first
 * (with segments run again in between, see recompute.c). A buffer lives from its first writer to its last reader;
 * buffers whose lives do not meet may share memory. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum { PLAN_ALIGN = 64 };

struct life {
    int start, end; /* -1: never */
    size_t bytes;
    int number; /* distinct, the same in every run */
    size_t *at;
};

/* A life that has its place; the times are copies, so that most can be passed over at a glance. */
struct placed {
    int start, end;
    struct life *life;
};

struct plan {
    struct graph *g;
    struct life *values, *grads; /* one a tensor; roots only are used */
    unsigned char **covered;     /* columns of a root's gradient that were written so far */
    struct placed *order;        /* by offset */
    int *forward_at, *backward_at; /* times of each node */
};

static void extend(struct life *life, int time)
{
    if (life->start < 0 || time < life->start)
        life->start = time;
    if (time > life->end)
        life->end = time;
}

/* True where all / any of the columns that t covers in its root's gradient are written. */
static void coverage(const struct plan *p, const struct tensor *t, bool *all, bool *any)
{
    const unsigned char *covered = p->covered[t->root->index];
    *all = true;
    *any = false;
    for (int c = t->column; c < t->column + t->columns; c++) {
        *all = *all && covered[c];
        *any = *any || covered[c];
    }
}

/* Every column of the root's gradient is written. */
static bool is_complete(const struct plan *p, const struct tensor *root)
{
    bool all, any;
    coverage(p, root, &all, &any);
    return all;
}

static bool has_planned_grad(const struct tensor *t)
{
    return t && t->root->needs_grad && !t->root->param;
}

/* The first writer of a gradient that later ones would leave holes in zeroes it whole; then all add. */
static void make_writers_add(struct plan *p, const struct tensor *root)
{
    bool first = true;
    for (int t = p->g->forward_steps; t < p->g->step_count; t++) {
        struct node *n = p->g->nodes[p->g->steps[t].node];
        bool writes = p->g->steps[t].backward && n->runs_backward;
        for (int k = 0; k < n->inputs && writes; k++) {
            if (!n->in[k] || n->in[k]->root != root)
                continue;
            n->clear[k] = first;
            n->beta[k] = 1;
            first = false;
        }
    }
}

/* Runs over backward: which nodes run, beta of every writer, lives of gradients. */
static void plan_backward(struct plan *p)
{
    struct graph *g = p->g;
    if (!g->options.gradients || !g->loss || !g->loss->root->needs_grad)
        return;
    memset(p->covered[g->loss->root->index], 1, (size_t)tensor_cols(g->loss->root));
    bool *holes = calloc((size_t)g->tensor_count, sizeof *holes);
    if (!holes) {
        graph_fail(g, ERR_MEMORY, "out of memory while planning");
        return;
    }
    for (int time = g->forward_steps; time < g->step_count; time++) {
        if (!g->steps[time].backward)
            continue;
        struct node *n = g->nodes[g->steps[time].node];
        bool all, any;
        struct tensor *out = n->out->root;
        coverage(p, out, &all, &any);
        n->runs_backward = any && out->needs_grad;
        if (!n->runs_backward)
            continue;
        holes[out->index] |= !all;
        if (out != g->loss->root)
            extend(&p->grads[out->index], time);
        for (int k = 0; k < n->inputs; k++) {
            struct tensor *t = n->in[k];
            if (!t || !t->root->needs_grad)
                continue;
            n->beta[k] = 1;
            if (t->root->param)
                continue;
            coverage(p, t, &all, &any);
            n->beta[k] = all;
            holes[t->root->index] |= any && !all;
            memset(p->covered[t->root->index] + t->column, 1, (size_t)t->columns);
            extend(&p->grads[t->root->index], time);
        }
    }
    for (int i = 0; i < g->tensor_count; i++) {
        struct tensor *t = g->tensors[i];
        if (t->root != t || !has_planned_grad(t) || t == g->loss->root)
            continue;
        t->keep_grad = t->keep_grad && p->grads[i].start >= 0; /* else the loss does not see it */
        if (t->keep_grad) {
            holes[i] |= !is_complete(p, t);
            extend(&p->grads[i], g->step_count);
        }
        if (holes[i])
            make_writers_add(p, t);
    }
    free(holes);
}

static void plan_values(struct plan *p)
{
    struct graph *g = p->g;
    for (int i = 0; i < g->node_count; i++) {
        const struct node *n = g->nodes[i];
        int at = p->forward_at[i], back = p->backward_at[i];
        extend(&p->values[n->out->root->index], at);
        if (n->runs_backward && (n->op->backward_reads & READS_OUT))
            extend(&p->values[n->out->root->index], back);
        for (int k = 0; k < n->inputs; k++) {
            if (!n->in[k])
                continue;
            extend(&p->values[n->in[k]->root->index], at);
            if (n->runs_backward && (n->op->backward_reads & READS_IN(k)))
                extend(&p->values[n->in[k]->root->index], back);
        }
        for (int k = 0; k < OP_MAX_SAVED; k++) {
            if (!n->saved[k])
                continue;
            extend(&p->values[n->saved[k]->index], at);
            if (n->runs_backward)
                extend(&p->values[n->saved[k]->index], back);
        }
        if (n->scratch)
            extend(&p->values[n->scratch->index], at);
        if (n->scratch_backward && n->runs_backward)
            extend(&p->values[n->scratch_backward->index], back);
    }
    for (int i = 0; i < g->output_count; i++)
        extend(&p->values[g->outputs[i]->root->index], g->step_count);
}

static int by_size(const void *a, const void *b)
{
    const struct life *x = *(struct life *const *)a, *y = *(struct life *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->start != y->start)
        return x->start - y->start;
    return x->number - y->number;
}

/* The lowest offset at which nothing that lives at the same time is in the way. */
static size_t free_offset(const struct placed *order, int count, const struct life *life)
{
    size_t at = 0;
    for (int k = 0; k < count; k++) {
        if (order[k].start > life->end || order[k].end < life->start)
            continue;
        const struct life *other = order[k].life;
        if (*other->at >= at + life->bytes)
            break;
        if (*other->at + other->bytes > at)
            at = *other->at + other->bytes;
    }
    return at;
}

/* How many of those placed begin at `at` or before. */
static int count_up_to(const struct placed *order, int count, size_t at)
{
    int low = 0;
    while (low < count) {
        int middle = low + (count - low) / 2;
        if (*order[middle].life->at <= at)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Places each buffer, the largest first. */
static void place(struct plan *p, struct life **wanted, int count)
{
    struct graph *g = p->g;
    qsort(wanted, (size_t)count, sizeof *wanted, by_size);
    for (int i = 0; i < count; i++) {
        struct life *life = wanted[i];
        size_t at = free_offset(p->order, i, life);
        int slot = count_up_to(p->order, i, at);
        memmove(p->order + slot + 1, p->order + slot, (size_t)(i - slot) * sizeof *p->order);
        p->order[slot] = (struct placed){life->start, life->end, life};
        *life->at = at;
        g->value_bytes += life->bytes;
        if (at + life->bytes > g->block_bytes)
            g->block_bytes = at + life->bytes;
    }
}

static size_t padded_bytes(const struct tensor *t)
{
    size_t bytes = tensor_count(t) * type_size(t->type);
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static bool plan_allocate(struct plan *p, unsigned char **columns)
{
    struct graph *g = p->g;
    size_t count = (size_t)g->tensor_count + 1, all = 1;
    for (int i = 0; i < g->tensor_count; i++)
        if (g->tensors[i]->root == g->tensors[i])
            all += (size_t)tensor_cols(g->tensors[i]);
    p->values = calloc(count, sizeof *p->values);
    p->grads = calloc(count, sizeof *p->grads);
    p->covered = calloc(count, sizeof *p->covered);
    p->order = calloc(2 * count, sizeof *p->order);
    p->forward_at = calloc((size_t)g->node_count + 1, sizeof *p->forward_at);
    p->backward_at = calloc((size_t)g->node_count + 1, sizeof *p->backward_at);
    *columns = calloc(all, 1);
    if (!p->values || !p->grads || !p->covered || !p->order || !p->forward_at ||
        !p->backward_at || !*columns || !graph_schedule(g))
        return false;
    for (int t = 0; t < g->step_count; t++)
        (g->steps[t].backward ? p->backward_at : p->forward_at)[g->steps[t].node] = t;
    unsigned char *next = *columns;
    for (int i = 0; i < g->tensor_count; i++) {
        struct tensor *t = g->tensors[i];
        p->values[i] = (struct life){-1, -1, padded_bytes(t), 2 * i, &t->data_at};
        p->grads[i] = (struct life){-1, -1, padded_bytes(t), 2 * i + 1, &t->grad_at};
        if (t->root == t) {
            p->covered[i] = next;
            next += tensor_cols(t);
        }
    }
    return true;
}

enum status graph_plan(struct graph *g, struct error *err)
{
    struct plan p = {.g = g};
    unsigned char *columns = NULL;
    struct life **wanted = NULL;
    if (g->error.status)
        goto out;
    if (!plan_allocate(&p, &columns) ||
        !(wanted = calloc(2 * (size_t)g->tensor_count + 1, sizeof *wanted))) {
        graph_fail(g, ERR_MEMORY, "out of memory while planning");
        goto out;
    }
    plan_backward(&p);
    plan_values(&p);
    int count = 0;
    g->block_bytes = g->value_bytes = 0;
    for (int i = 0; i < g->tensor_count; i++) {
        const struct tensor *t = g->tensors[i];
        if (t->root != t || t->param || t->constant)
            continue;
        if (t->input < 0 && p.values[i].start >= 0)
            wanted[count++] = &p.values[i];
        if (p.grads[i].start >= 0)
            wanted[count++] = &p.grads[i];
    }
    place(&p, wanted, count);
out:
    free(wanted);
    free(p.values);
    free(p.grads);
    free(p.covered);
    free(p.order);
    free(p.forward_at);
    free(p.backward_at);
    free(columns);
    if (g->error.status)
        return error_set(err, g->error.status, "%s", g->error.text);
    return OK;
}
