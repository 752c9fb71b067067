/* fuse.c - a pass over the recorded nodes in which ops absorb their only readers. */
#include "graph/graph.h"

/* The one node that reads from this root, -1 where there is none or more than one. */
static int only_reader(const struct graph *g, const struct tensor *root)
{
    int reader = -1;
    for (int i = 0; i < g->node_count; i++) {
        for (int k = 0; k < g->nodes[i]->inputs; k++) {
            const struct tensor *t = g->nodes[i]->in[k];
            if (!t || t->root != root)
                continue;
            if (reader >= 0)
                return -1;
            reader = i;
        }
    }
    return reader;
}

/* True where the reader's inputs are there when node `at` runs: its output alone comes from there. */
static bool inputs_are_early(const struct graph *g, int at, int reader)
{
    for (int i = at + 1; i < reader; i++)
        for (int k = 0; k < g->nodes[reader]->inputs; k++) {
            const struct tensor *t = g->nodes[reader]->in[k];
            if (t && t->root == g->nodes[i]->out->root)
                return false;
        }
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

static void remove_node(struct graph *g, int at)
{
    for (int i = at; i + 1 < g->node_count; i++)
        g->nodes[i] = g->nodes[i + 1];
    g->node_count--;
}

static void remove_outputs(struct graph *g, const struct tensor *root)
{
    int kept = 0;
    for (int i = 0; i < g->output_count; i++)
        if (g->outputs[i]->root != root)
            g->outputs[kept++] = g->outputs[i];
    g->output_count = kept;
}

void graph_fuse(struct graph *g)
{
    for (int i = 0; i < g->node_count && !g->error.status; i++) {
        struct node *n = g->nodes[i];
        struct tensor *root = n->out->root;
        int reader = n->op->absorb && !root->keep ? only_reader(g, root) : -1;
        if (reader <= i || n->out != root || !inputs_are_early(g, i, reader) ||
            !reads_whole(n, g->nodes[reader]) || !n->op->absorb(g, n, g->nodes[reader]))
            continue;
        n->out = g->nodes[reader]->out;
        remove_node(g, reader);
        remove_outputs(g, root);
        i--; /* n may absorb what reads its new output */
    }
}
