/* profile.c - times of nodes. The workers' parts lie a cache line apart. */
#include "graph/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/timer.h"

static size_t part_size(const struct profile *p)
{
    return ((size_t)p->nodes * PASSES + 7) / 8 * 8 + 8;
}

struct profile *profile_create(const struct graph *g, int workers)
{
    struct profile *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->nodes = g->node_count;
    p->workers = workers;
    p->seconds = calloc((size_t)workers * part_size(p), sizeof *p->seconds);
    if (!p->seconds) {
        free(p);
        return NULL;
    }
    return p;
}

void profile_destroy(struct profile *p)
{
    if (p)
        free(p->seconds);
    free(p);
}

void profile_clear(struct profile *p)
{
    memset(p->seconds, 0, (size_t)p->workers * part_size(p) * sizeof *p->seconds);
}

static double *cell(const struct profile *p, int worker, int node, enum pass pass)
{
    return &p->seconds[(size_t)worker * part_size(p) + (size_t)node * PASSES + pass];
}

double profile_seconds(const struct profile *p, int node, enum pass pass)
{
    double sum = 0;
    for (int worker = 0; worker < p->workers; worker++)
        sum += *cell(p, worker, node, pass);
    return sum;
}

void profile_add(struct profile *p, int worker, int node, enum pass pass, double *since)
{
    double now = timer_seconds();
    *cell(p, worker, node, pass) += now - *since;
    *since = now;
}

static double bytes_of(const struct tensor *t)
{
    return t ? (double)tensor_count(t) * (double)type_size(t->type) : 0;
}

double node_bytes(const struct node *n, enum pass pass)
{
    bool forward = pass == PASS_FORWARD;
    if (!forward && !n->runs_backward)
        return 0;
    double bytes = forward || n->op->backward_reads & READS_OUT ? bytes_of(n->out) : 0;
    if (!forward)
        bytes += bytes_of(n->out); /* its gradient */
    for (int i = 0; i < OP_MAX_SAVED; i++)
        bytes += bytes_of(n->saved[i]);
    for (int i = 0; i < n->inputs; i++) {
        const struct tensor *t = n->in[i];
        if (forward || n->op->backward_reads & READS_IN(i))
            bytes += bytes_of(t);
        if (!forward && t && t->needs_grad)
            bytes += bytes_of(t) * (n->beta[i] ? 2 : 1);
    }
    return bytes;
}
