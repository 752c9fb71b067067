/* tensor.h - a value in a recorded graph: shape, strides, storage type, and while a step runs a place.
 *
 * Shapes are outermost first, the innermost axis is contiguous. A view has no memory of its own: it
 * shows (part of) its root, and its gradient is the same view of the root's gradient. */
#ifndef GRAPH_TENSOR_H
#define GRAPH_TENSOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"
#include "kernels/vec.h"

enum { MAX_RANK = 5 };

struct shape {
    int rank;
    int dim[MAX_RANK];
};

#define SHAPE(...)                                                                                 \
    ((struct shape){.rank = (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), .dim = {__VA_ARGS__}})

struct param;

struct tensor {
    const char *name; /* dotted scope and name, for messages, parameters and trace */
    enum type type;
    struct shape shape;
    ptrdiff_t stride[MAX_RANK]; /* in elements */
    void *data;                 /* first element, while a step runs */
    void *grad;                 /* its gradient's, NULL where none is needed */

    struct tensor *root;   /* itself, or what it is a view of */
    ptrdiff_t offset;      /* of the first element from the root's, in elements */
    int column, columns;   /* part of the root's last axis that it covers */
    struct param *param;   /* the parameter behind it, or NULL */
    int input;             /* number of the graph input, or -1 */
    const real *constant;  /* values of a graph_constant, or NULL */
    bool needs_grad;
    bool keep;             /* value wanted after the step: an output */
    bool traced;           /* an output that fusion may do without */
    bool keep_grad;        /* gradient wanted after the step */
    int index;             /* position among the graph's tensors */
    size_t data_at, grad_at; /* planned places in the step block, in bytes */
};

/* Product of all dims, and of all but the last; the last dim. */
size_t tensor_count(const struct tensor *t);
size_t tensor_rows(const struct tensor *t);
int tensor_cols(const struct tensor *t);
size_t shape_count(const struct shape *s);

/* True where one stride leads from each row to the next, so that tensor_vec can show it. */
bool tensor_has_rows(const struct tensor *t);
bool tensor_is_contiguous(const struct tensor *t);

/* The tensor, or its gradient (data NULL where none is needed), as rows for kernels. */
struct vec tensor_vec(const struct tensor *t);
struct vec tensor_grad(const struct tensor *t);

/* The matrices that the last two axes form, one for each index of the axes before them, of any
 * strides: how many there are, and the i-th, or its gradient. A tensor with fewer axes before them
 * than another goes through its own again and again. */
size_t tensor_matrices(const struct tensor *t);
struct vec tensor_matrix(const struct tensor *t, size_t i);
struct vec tensor_matrix_grad(const struct tensor *t, size_t i);

/* The same for a tensor (B, H, N, d). */
struct heads tensor_heads(const struct tensor *t);
struct heads tensor_grad_heads(const struct tensor *t);

/* Writes "(2, 3, 5)" into text. Returns text. */
const char *shape_text(char text[64], const struct shape *s);
bool shape_equal(const struct shape *a, const struct shape *b);

#endif
