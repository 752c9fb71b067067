/* graph.c - recording nodes. */
#include "graph/graph.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/copy.h"

struct graph *graph_create(struct params *params, const struct graph_options *options)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->options = *options;
    if (!g->options.type)
        g->options.type = TYPE_REAL;
    g->params = params;
    arena_init(&g->memory);
    g->inert = arena_alloc(&g->memory, sizeof *g->inert);
    if (!g->inert) {
        graph_free(g);
        return NULL;
    }
    g->inert->root = g->inert;
    g->inert->name = "";
    g->inert->input = -1;
    return g;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    free(g->nodes);
    free(g->tensors);
    free(g->outputs);
    free(g->steps);
    arena_free(&g->memory);
    free(g);
}

enum { SCOPE_DEPTH = sizeof((struct graph *)0)->scope_marks / sizeof(size_t) };

void graph_scope_push(struct graph *g, const char *format, ...)
{
    size_t length = strlen(g->scope);
    if (g->scope_depth++ >= SCOPE_DEPTH) {
        graph_fail(g, ERR_SHAPE, "scopes are too deep");
        return;
    }
    g->scope_marks[g->scope_depth - 1] = length;
    if (length && length + 1 < sizeof g->scope)
        g->scope[length++] = '.';
    va_list args;
    va_start(args, format);
    int added = vsnprintf(g->scope + length, sizeof g->scope - length, format, args);
    va_end(args);
    if (added < 0 || (size_t)added >= sizeof g->scope - length)
        graph_fail(g, ERR_SHAPE, "scope names are too long");
}

void graph_scope_pop(struct graph *g)
{
    if (--g->scope_depth < SCOPE_DEPTH)
        g->scope[g->scope_marks[g->scope_depth]] = 0;
}

struct tensor *graph_fail(struct graph *g, enum status status, const char *format, ...)
{
    if (g->error.status == OK) {
        char text[1024];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        error_set(&g->error, status, "%s%s%s", g->scope, g->scope[0] ? ": " : "", text);
    }
    return g->inert;
}

static bool fail_memory(struct graph *g)
{
    graph_fail(g, ERR_MEMORY, "out of memory while recording");
    return false;
}

/* Makes room for one more pointer in a growing list. */
static bool grow(struct graph *g, void *list, int count, int *capacity)
{
    if (count < *capacity)
        return true;
    void **at = list;
    int wanted = *capacity ? 2 * *capacity : 64;
    void *larger = realloc(*at, (size_t)wanted * sizeof(void *));
    if (!larger)
        return fail_memory(g);
    *at = larger;
    *capacity = wanted;
    return true;
}

static const char *scoped(struct graph *g, const char *name)
{
    if (!g->scope[0])
        return arena_strdup(&g->memory, name);
    if (!name[0])
        return arena_strdup(&g->memory, g->scope);
    return arena_printf(&g->memory, "%s.%s", g->scope, name);
}

/* A new contiguous root tensor, or the inert one. */
static struct tensor *tensor_add(struct graph *g, const char *name, enum type type,
                                 struct shape shape)
{
    if (g->error.status || !grow(g, &g->tensors, g->tensor_count, &g->tensor_capacity))
        return g->inert;
    struct tensor *t = arena_alloc(&g->memory, sizeof *t);
    if (!t || !(t->name = scoped(g, name))) {
        fail_memory(g);
        return g->inert;
    }
    double elements = 1;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dim[i] < 1)
            return graph_fail(g, ERR_SHAPE, "%s: axis %d has length %d", name, i, shape.dim[i]);
        elements *= shape.dim[i];
    }
    if (elements > 0x1p40)
        return graph_fail(g, ERR_SHAPE, "%s: %.3g elements are too many", name, elements);
    t->type = type;
    t->shape = shape;
    ptrdiff_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; i--) {
        t->stride[i] = stride;
        stride *= shape.dim[i];
    }
    t->root = t;
    t->columns = tensor_cols(t);
    t->input = -1;
    t->index = g->tensor_count;
    g->tensors[g->tensor_count++] = t;
    return t;
}

struct tensor *graph_input(struct graph *g, const char *name, enum type type, struct shape shape,
                           bool needs_grad)
{
    if (g->input_count == GRAPH_MAX_INPUTS)
        return graph_fail(g, ERR_SHAPE, "more than %d graph inputs", GRAPH_MAX_INPUTS);
    struct tensor *t = tensor_add(g, name, type, shape);
    if (t == g->inert)
        return t;
    t->needs_grad = t->keep_grad = needs_grad && g->options.gradients;
    t->input = g->input_count;
    g->inputs[g->input_count++] = t;
    return t;
}

/* A tensor for the parameter of t's name, which is made if it is new. */
static struct tensor *param_bind(struct graph *g, struct tensor *t, struct shape shape,
                                 struct init init, unsigned flags)
{
    struct param *param = params_find(g->params, t->name);
    if (!param) {
        if (!(param = params_add(g->params, t->name, shape, init, flags))) {
            fail_memory(g);
            return g->inert;
        }
    } else if (!shape_equal(&param->shape, &shape)) {
        char was[64], is[64];
        return graph_fail(g, ERR_SHAPE, "parameter %s has shape %s and is now asked for as %s",
                          t->name, shape_text(was, &param->shape), shape_text(is, &shape));
    }
    t->param = param;
    t->needs_grad = g->options.gradients && !(param->flags & (PARAM_FROZEN | PARAM_BUFFER));
    return t;
}

struct tensor *graph_param_flags(struct graph *g, const char *name, struct shape shape,
                                 struct init init, unsigned flags)
{
    struct tensor *t = tensor_add(g, name, TYPE_REAL, shape);
    if (t == g->inert)
        return t;
    return param_bind(g, t, shape, init, flags);
}

struct tensor *graph_param(struct graph *g, const char *name, struct shape shape, struct init init)
{
    return graph_param_flags(g, name, shape, init, shape.rank > 1 ? PARAM_DECAY : 0);
}

struct tensor *graph_param_renewed(struct graph *g, const char *name, struct shape shape,
                                   struct init init, int interval)
{
    struct tensor *t = graph_param_flags(g, name, shape, init, PARAM_BUFFER);
    if (t != g->inert)
        t->param->interval = interval;
    return t;
}

struct tensor *graph_constant(struct graph *g, struct shape shape, const real *values)
{
    struct tensor *t = tensor_add(g, "constant", TYPE_REAL, shape);
    if (t == g->inert)
        return t;
    t->constant = graph_copy(g, values, tensor_count(t) * sizeof *values);
    return g->error.status ? g->inert : t;
}

struct tensor *graph_param_shared(struct graph *g, const char *name, struct shape shape,
                                  struct init init)
{
    unsigned flags = shape.rank > 1 ? PARAM_DECAY : 0;
    struct tensor *t = tensor_add(g, name, TYPE_REAL, shape);
    if (t == g->inert)
        return t;
    for (int i = 0; i < g->params->count; i++) {
        const struct param *p = g->params->list[i];
        size_t length = strlen(p->name), rest = strlen(name);
        bool named = length > rest && p->name[length - rest - 1] == '.' &&
                     strcmp(p->name + length - rest, name) == 0;
        if (named && shape_equal(&p->shape, &shape)) {
            t->name = p->name;
            break;
        }
    }
    return param_bind(g, t, shape, init, flags);
}

struct tensor *graph_record(struct graph *g, const struct op *op, const void *options,
                            struct tensor **in, int inputs)
{
    assert(inputs <= OP_MAX_INPUTS);
    if (g->error.status)
        return g->inert;
    struct node *n = arena_alloc(&g->memory, sizeof *n);
    if (!n || !(n->scope = arena_strdup(&g->memory, g->scope))) {
        fail_memory(g);
        return g->inert;
    }
    n->op = op;
    n->options = options;
    n->inputs = inputs;
    for (int i = 0; i < inputs; i++) {
        n->in[i] = in[i];
        if (!in[i] || in[i]->type == TYPE_INT)
            continue;
        if (!(op->takes & in[i]->type))
            return graph_fail(g, ERR_SHAPE, "%s cannot take %s", op->name,
                              in[i]->type == TYPE_BF16
                                  ? "bf16 values (\"precision\": \"fp32\" works)"
                                  : "real values");
        bool suits = op->takes & TAKES_HEADS  ? true
                     : op->takes & TAKES_ROWS ? tensor_has_rows(in[i])
                                              : tensor_is_contiguous(in[i]);
        if (!suits)
            n->in[i] = graph_op_copy(g, in[i]);
    }
    op->infer(g, n);
    n->segment = g->segment;
    if (g->error.status)
        return g->inert;
    for (int i = 0; i < inputs; i++)
        if (n->in[i] && n->in[i]->root->needs_grad)
            n->out->root->needs_grad = true;
    n->out->needs_grad = n->out->root->needs_grad;
    graph_append(g, n);
    return g->error.status ? g->inert : n->out;
}

void graph_append(struct graph *g, struct node *n)
{
    if (grow(g, &g->nodes, g->node_count, &g->node_capacity))
        g->nodes[g->node_count++] = n;
}

void graph_segment(struct graph *g)
{
    g->segment++;
}

void *graph_copy(struct graph *g, const void *options, size_t size)
{
    void *copy = arena_alloc(&g->memory, size);
    if (copy)
        memcpy(copy, options, size);
    else
        fail_memory(g);
    return copy;
}

void graph_out(struct graph *g, struct node *n, enum type type, struct shape shape)
{
    n->out = tensor_add(g, n->op->name, type, shape);
}

void graph_saved(struct graph *g, struct node *n, int i, enum type type, size_t count)
{
    int limit = 1 << 30;
    struct shape shape = count <= (size_t)limit ? SHAPE((int)count)
                                                : SHAPE((int)(count / 1024 + 1), 1024);
    n->saved[i] = tensor_add(g, n->op->name, type, shape);
}

void graph_scratch(struct graph *g, struct node *n, size_t forward, size_t backward)
{
    if (forward)
        n->scratch = tensor_add(g, n->op->name, TYPE_REAL, SHAPE((int)((forward + 15) / 16), 16));
    if (backward && g->options.gradients)
        n->scratch_backward =
            tensor_add(g, n->op->name, TYPE_REAL, SHAPE((int)((backward + 15) / 16), 16));
}

static void output_add(struct graph *g, struct tensor *t)
{
    char text[64];
    if (!g->error.status && t->shape.dim[0] % g->options.batch)
        graph_fail(g, ERR_SHAPE, "%s %s cannot be an output: its first axis does not count the %d "
                   "samples of a slice", t->name, shape_text(text, &t->shape), g->options.batch);
    if (!g->error.status && grow(g, &g->outputs, g->output_count, &g->output_capacity))
        g->outputs[g->output_count++] = t;
}

void graph_output(struct graph *g, struct tensor *t)
{
    t->keep = t->root->keep = true;
    output_add(g, t);
}

void graph_trace(struct graph *g, struct tensor *t)
{
    if (!g->options.trace || g->error.status)
        return;
    struct tensor *view = graph_columns(g, t, 0, tensor_cols(t));
    view->name = scoped(g, "");
    view->traced = true;
    if (!view->name)
        fail_memory(g);
    else
        output_add(g, view);
}

void graph_set_loss(struct graph *g, struct tensor *t)
{
    g->loss = t;
}

static void add_macs(const struct product *p, void *context)
{
    *(double *)context += (double)p->m * p->n * p->k * p->count;
}

double node_macs(const struct node *n)
{
    double macs = 0;
    if (n->op->macs)
        return n->op->macs(n);
    if (n->op->products)
        n->op->products(n, add_macs, &macs);
    return macs;
}

double graph_macs(const struct graph *g)
{
    double macs = 0;
    for (int i = 0; i < g->node_count; i++)
        macs += g->nodes[i]->again ? 0 : node_macs(g->nodes[i]);
    return macs;
}

/* --- views -------------------------------------------------------------------------------------- */

struct tensor *graph_tensor_copy(struct graph *g, const struct tensor *t)
{
    struct tensor *copy = tensor_add(g, "", t->type, t->shape);
    if (copy == g->inert)
        return copy;
    int index = copy->index;
    *copy = *t;
    copy->index = index;
    copy->keep = copy->keep_grad = copy->traced = false;
    copy->input = -1;
    return copy;
}

struct tensor *graph_columns(struct graph *g, struct tensor *x, int first, int count)
{
    if (g->error.status)
        return g->inert;
    int last = x->shape.rank - 1;
    if (first < 0 || count < 1 || first + count > x->shape.dim[last])
        return graph_fail(g, ERR_SHAPE, "columns %d..%d of %d", first, first + count - 1,
                          x->shape.dim[last]);
    struct tensor *t = graph_tensor_copy(g, x);
    if (t == g->inert)
        return t;
    if (count != x->shape.dim[last]) {
        if (x->columns != x->shape.dim[last])
            return graph_fail(g, ERR_SHAPE, "columns of a view that is not made of columns");
        t->column = x->column + first;
        t->columns = count;
    }
    t->offset += first;
    t->shape.dim[last] = count;
    return t;
}

struct tensor *graph_split_heads(struct graph *g, struct tensor *x, int H)
{
    if (g->error.status)
        return g->inert;
    if (x->shape.rank != 3 || H < 1 || x->shape.dim[2] % H)
        return graph_fail(g, ERR_SHAPE, "width %d cannot be split into %d heads", tensor_cols(x), H);
    struct tensor *t = graph_tensor_copy(g, x);
    if (t == g->inert)
        return t;
    int d = x->shape.dim[2] / H;
    t->shape = SHAPE(x->shape.dim[0], H, x->shape.dim[1], d);
    t->stride[0] = x->stride[0];
    t->stride[1] = d;
    t->stride[2] = x->stride[1];
    t->stride[3] = 1;
    return t;
}

struct tensor *graph_merge_heads(struct graph *g, struct tensor *x)
{
    if (g->error.status)
        return g->inert;
    char text[64];
    if (x->shape.rank != 4)
        return graph_fail(g, ERR_SHAPE, "merge_heads: %s, wanted (B, H, N, d)",
                          shape_text(text, &x->shape));
    int B = x->shape.dim[0], H = x->shape.dim[1], N = x->shape.dim[2], d = x->shape.dim[3];
    if (H > 1 && x->stride[1] != d)
        return NULL;
    struct tensor *t = graph_tensor_copy(g, x);
    if (t == g->inert)
        return t;
    t->shape = SHAPE(B, N, H * d);
    t->stride[0] = x->stride[0];
    t->stride[1] = x->stride[2];
    t->stride[2] = 1;
    return t;
}

void graph_out_heads(struct graph *g, struct node *n, enum type type, struct shape shape)
{
    int B = shape.dim[0], H = shape.dim[1], N = shape.dim[2], d = shape.dim[3];
    struct tensor *root = tensor_add(g, n->op->name, type, SHAPE(B, N, H * d));
    n->out = root == g->inert ? root : graph_split_heads(g, root, H);
}

void graph_out_like(struct graph *g, struct node *n, enum type type, const struct tensor *x)
{
    const int *dim = x->shape.dim;
    if (x->shape.rank == 4 && dim[1] > 1 && dim[2] > 1 && x->stride[1] == dim[3])
        graph_out_heads(g, n, type, x->shape);
    else
        graph_out(g, n, type, x->shape);
}

struct tensor *graph_reshape(struct graph *g, struct tensor *x, struct shape shape)
{
    if (g->error.status)
        return g->inert;
    char from[64], to[64];
    if (!tensor_is_contiguous(x) || shape_count(&shape) != tensor_count(x) ||
        x->columns != tensor_cols(x->root))
        return graph_fail(g, ERR_SHAPE, "%s cannot be seen as %s", shape_text(from, &x->shape),
                          shape_text(to, &shape));
    struct tensor *t = graph_tensor_copy(g, x);
    if (t == g->inert)
        return t;
    t->shape = shape;
    ptrdiff_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; i--) {
        t->stride[i] = stride;
        stride *= shape.dim[i];
    }
    return t;
}
