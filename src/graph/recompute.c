/* recompute.c - activation recomputation: all segments but the first and the last are run a second time
 * before their backward pass, instead of keeping their values (Chen et al., arXiv:1604.06174).
 *
 * The nodes of such a segment are copied, with outputs and saved values of their own. The originals
 * run in forward alone, so that their values die with the last reader in forward; the copies run
 * before backward, and backward is theirs. What other segments read stays one tensor, kept until its
 * segment has run again: its gradient comes from there. The values are the same bits: random masks are
 * drawn from the same numbers again. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* For each root, whether another segment reads it, or the caller does. */
static bool *find_shared(const struct graph *g)
{
    bool *shared = calloc((size_t)g->tensor_count + 1, sizeof *shared);
    int *home = calloc((size_t)g->tensor_count + 1, sizeof *home);
    for (int i = 0; i < g->node_count && shared && home; i++) {
        const struct node *n = g->nodes[i];
        home[n->out->root->index] = n->segment;
        for (int k = 0; k < n->inputs; k++)
            if (n->in[k] && home[n->in[k]->root->index] != n->segment)
                shared[n->in[k]->root->index] = true;
    }
    for (int i = 0; i < g->output_count && shared; i++)
        shared[g->outputs[i]->root->index] = true;
    if (!home) {
        free(shared);
        shared = NULL;
    }
    free(home);
    return shared;
}

/* The copy of a tensor that the segment makes again, or the tensor itself. */
static struct tensor *again(struct tensor *const *copies, struct tensor *t)
{
    return t && copies[t->index] ? copies[t->index] : t;
}

/* Copies a tensor that the segment writes; a view's root before the view. */
static struct tensor *copy_tensor(struct graph *g, struct tensor **copies, const bool *shared,
                                  struct tensor *t)
{
    if (!t || shared[t->root->index])
        return t;
    if (copies[t->index])
        return copies[t->index];
    struct tensor *root = t->root == t ? NULL : copy_tensor(g, copies, shared, t->root);
    struct tensor *copy = graph_tensor_copy(g, t);
    if (copy == g->inert)
        return copy;
    copy->root = root ? root : copy;
    copies[t->index] = copy;
    return copy;
}

static bool is_view_of_copied(struct tensor *const *copies, const struct tensor *t)
{
    return t->root != t && copies[t->root->index];
}

static struct node *copy_node(struct graph *g, struct tensor **copies, const bool *shared,
                              const struct node *from)
{
    struct node *n = graph_copy(g, from, sizeof *from);
    if (!n)
        return NULL;
    for (int k = 0; k < n->inputs; k++) {
        if (n->in[k] && is_view_of_copied(copies, n->in[k]))
            copy_tensor(g, copies, shared, n->in[k]);
        n->in[k] = again(copies, n->in[k]);
    }
    n->out = copy_tensor(g, copies, shared, n->out);
    for (int k = 0; k < OP_MAX_SAVED; k++)
        n->saved[k] = copy_tensor(g, copies, shared, n->saved[k]);
    n->scratch = copy_tensor(g, copies, shared, n->scratch);
    return n;
}

void graph_recompute(struct graph *g)
{
    int count = g->node_count, tensors = g->tensor_count;
    if (g->error.status || !g->options.gradients)
        return;
    struct tensor **copies = calloc((size_t)tensors + 1, sizeof *copies);
    bool *shared = find_shared(g);
    if (!copies || !shared) {
        graph_fail(g, ERR_MEMORY, "out of memory while recording");
        count = 0;
    }
    for (int i = 0; i < count && !g->error.status; i++) {
        struct node *n = g->nodes[i];
        if (n->segment == 0 || n->segment == g->segment)
            continue;
        if (i == 0 || g->nodes[i - 1]->segment != n->segment)
            memset(copies, 0, (size_t)tensors * sizeof *copies);
        struct node *copy = copy_node(g, copies, shared, n);
        if (!copy)
            break;
        n->once = true;
        copy->again = true;
        graph_append(g, copy);
    }
    free(copies);
    free(shared);
}

/* Order of the copies of a segment, and of what else is to run backward. */
static void append(struct graph *g, int node, bool backward)
{
    g->steps[g->step_count++] = (struct graph_step){node, backward};
}

bool graph_schedule(struct graph *g)
{
    free(g->steps);
    g->step_count = 0;
    g->steps = calloc(3 * (size_t)g->node_count + 1, sizeof *g->steps);
    if (!g->steps)
        return false;
    int count = 0;
    while (count < g->node_count && !g->nodes[count]->again)
        count++;
    for (int i = 0; i < count; i++)
        append(g, i, false);
    g->forward_steps = g->step_count;
    /* Copies stand behind the originals, in the same order: the last one belongs to the last
     * original that runs once. */
    int copy = g->node_count;
    for (int i = count; i-- > 0 && g->options.gradients;) {
        if (!g->nodes[i]->once) {
            append(g, i, true);
            continue;
        }
        int last = copy, segment = g->nodes[i]->segment;
        while (copy > count && g->nodes[copy - 1]->segment == segment)
            copy--;
        for (int k = copy; k < last; k++)
            append(g, k, false);
        for (int k = last; k-- > copy;)
            append(g, k, true);
        i -= last - copy - 1;
    }
    return true;
}
