/* fuse.c - a pass over the recorded nodes in which ops absorb their only readers. */
#include <string.h>

#include "graph/graph.h"

/* Inputs that come from each root, by the number of its tensor. */
static void count_reads(int *reads, const struct node *n, int each)
{
    for (int k = 0; k < n->inputs; k++)
        if (n->in[k])
            reads[n->in[k]->root->index] += each;
}

static bool reads_from(const struct node *n, const struct tensor *root)
{
    for (int k = 0; k < n->inputs; k++)
        if (n->in[k] && n->in[k]->root == root)
            return true;
    return false;
}

/* The one node behind `at` that reads from this root, and once; -1 where it is read more often or not
 * at all. */
static int only_reader(const struct graph *g, const int *reads, int at, const struct tensor *root)
{
    int reader = at + 1;
    if (reads[root->index] != 1)
        return -1;
    while (reader < g->node_count &&
           (!g->nodes[reader] || !reads_from(g->nodes[reader], root)))
        reader++;
    return reader < g->node_count ? reader : -1;
}

/* True where the reader's inputs are there when node `at` runs: its output alone comes from there. */
static bool inputs_are_early(const struct graph *g, int at, int reader)
{
    for (int i = at + 1; i < reader; i++)
        if (g->nodes[i] && reads_from(g->nodes[reader], g->nodes[i]->out->root))
            return false;
    return true;
}

/* The whole output as it lies in memory is what the reader takes. */
static bool reads_whole(const struct node *n, const struct node *reader)
{
    for (int k = 0; k < reader->inputs; k++) {
        const struct tensor *t = reader->in[k];
        if (t && t->root == n->out->root)
            return t->offset == 0 && tensor_is_contiguous(t) &&
                   tensor_count(t) == tensor_count(n->out->root);
    }
    return false;
}

/* Closes the gaps that absorbed nodes left. */
static void remove_gaps(struct graph *g)
{
    int kept = 0;
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i])
            g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
}

/* Moves the outputs that show this root behind those that stay. */
static void remove_outputs(struct graph *g, const struct tensor *root)
{
    int last = g->output_count + g->fused_outputs - 1;
    for (int i = 0; i < g->output_count;) {
        struct tensor *t = g->outputs[i];
        if (t->root != root) {
            i++;
            continue;
        }
        memmove(&g->outputs[i], &g->outputs[i + 1], (size_t)(last - i) * sizeof *g->outputs);
        g->outputs[last] = t;
        g->output_count--;
        g->fused_outputs++;
    }
}

/* Whether node `at` absorbed its only reader, which leaves a gap. */
static bool fuse_node(struct graph *g, int *reads, int at)
{
    struct node *n = g->nodes[at];
    struct tensor *root = n->out->root;
    int reader = n->op->absorb && !root->keep ? only_reader(g, reads, at, root) : -1;
    struct node *other = reader < 0 ? NULL : g->nodes[reader];
    if (!other || n->out != root || !inputs_are_early(g, at, reader) || !reads_whole(n, other))
        return false;
    count_reads(reads, n, -1);
    bool absorbed = n->op->absorb(g, n, other);
    count_reads(reads, n, 1);
    if (!absorbed)
        return false;
    count_reads(reads, other, -1);
    n->out = other->out;
    g->nodes[reader] = NULL;
    remove_outputs(g, root);
    return true;
}

void graph_fuse(struct graph *g)
{
    int *reads = g->error.status ? NULL
                                 : arena_alloc(&g->memory, (size_t)g->tensor_count * sizeof *reads);
    if (!reads) {
        if (!g->error.status)
            graph_fail(g, ERR_MEMORY, "out of memory for fusing nodes");
        return;
    }
    for (int i = 0; i < g->node_count; i++)
        count_reads(reads, g->nodes[i], 1);
    for (int i = 0; i < g->node_count && !g->error.status; i++)
        while (g->nodes[i] && fuse_node(g, reads, i))
            ; /* it may absorb what reads its new output */
    remove_gaps(g);
}
