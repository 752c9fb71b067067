/* params.h - parameters: values, gradients and moments in blocks that outlive the graphs using them.
 *
 * A graph that is recorded names its parameters; the first one makes them, later ones (for evaluation,
 * another batch size) find them again. params_allocate then gives them memory and initial values. */
#ifndef GRAPH_PARAMS_H
#define GRAPH_PARAMS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/name_index.h"
#include "graph/tensor.h"
#include "kernels/kernels.h"

struct init;

/* Writes all values of a parameter, row-major: each a function of the numbers of `stream`, its place,
 * and what init says. A variant may bring its own. Can fail for memory alone (error_memory). */
typedef enum status init_fill(real *value, const struct shape *shape, const struct init *init,
                              uint64_t stream, struct error *err);

/* Where a parameter starts: a fill, and two numbers for it. */
struct init {
    init_fill *fill;
    double a, b;
};

init_fill init_constant;       /* a */
init_fill init_normal;         /* mean 0, deviation a */
init_fill init_truncated;      /* the same, cut off at -2 and 2 */
init_fill init_uniform;        /* -a .. a */
init_fill init_xavier_uniform; /* +- sqrt(6 / (rows + columns)) of the last two axes */
init_fill init_identity;       /* last two axes */
init_fill init_orthogonal;     /* last two axes, a random orthogonal matrix */

#define INIT_ZEROS ((struct init){init_constant, 0, 0})
#define INIT_ONES ((struct init){init_constant, 1, 0})
#define INIT_CONSTANT(c) ((struct init){init_constant, (c), 0})
#define INIT_NORMAL(std) ((struct init){init_normal, (std), 0})
#define INIT_TRUNCATED(std) ((struct init){init_truncated, (std), 0})
#define INIT_UNIFORM(bound) ((struct init){init_uniform, (bound), 0})
#define INIT_XAVIER_UNIFORM ((struct init){init_xavier_uniform, 0, 0})
#define INIT_IDENTITY ((struct init){init_identity, 0, 0})
#define INIT_ORTHOGONAL ((struct init){init_orthogonal, 0, 0})

enum param_flags {
    PARAM_DECAY = 1,  /* weight decay applies: set for tensors of two or more axes unless exempted */
    PARAM_FROZEN = 2, /* not trained */
    PARAM_BUFFER = 4, /* stored, not trained, not counted (running means, random features) */
};

struct param {
    const char *name; /* "blocks.0.attn.qkv.weight" */
    struct shape shape;
    unsigned flags;
    struct init init;
    int interval; /* of a buffer: updates after which training draws it again; 0: never */
    size_t count;
    int number;  /* place in the list */
    size_t at;   /* of its first element in every block of params */
    bool packed; /* a bf16 graph multiplies by it: kept as packed copies too */
    size_t packed_at[2]; /* of these copies in params->packed: W^T and W */
    real *value; /* NULL before params_allocate */
};

enum { PARAMS_MAX_MOMENTS = 2 };

struct params {
    struct arena memory; /* names and structs */
    struct param **list; /* in the order in which they were first named */
    int count, capacity;
    struct name_index names; /* places in the list */
    size_t total;   /* elements of all parameters and buffers; trained ones come first */
    size_t trained; /* elements of those that are neither frozen nor buffers */
    int lanes;
    real *values;                       /* (total) */
    real *grads;                        /* (lanes, trained); lane 0 holds the sum after a step */
    real *moments[PARAMS_MAX_MOMENTS];  /* (trained) each */
    real *average;                      /* (total): exponential moving average, or NULL */
    unsigned char *packed;              /* bf16 copies of weights, laid out for products; or NULL */
};

void params_init(struct params *p);
void params_free(struct params *p);

/* The parameter of that name, or NULL. */
struct param *params_find(const struct params *p, const char *name);

/* Adds a parameter; used by graph_param. NULL without memory. */
struct param *params_add(struct params *p, const char *name, struct shape shape, struct init init,
                         unsigned flags);

/* Lays the parameters out and fills them with their initial values, each drawn from the stream
 * "init:NAME" of the seed. lanes: gradient blocks (0: none); moments: 0 to 2; average: whether an
 * average is kept (it starts as a copy of the values). */
MUST_USE enum status params_allocate(struct params *p, uint64_t seed, int lanes, int moments,
                                     bool average, struct error *err);

/* Bytes of p->packed, as far as graphs have been recorded. */
size_t params_packed_bytes(const struct params *p);

/* Rounds the weights that bf16 graphs multiply by into p->packed, from the block `values`. */
void params_pack(struct params *p, const real *values, int threads);

/* A weight as the right operand of a product: W^T (in, out), or W (out, in).  W: (out, ..). */
struct packed param_packed(const struct params *p, const struct param *param, enum trans trans);

/* Fills one parameter with its initial values. */
MUST_USE enum status param_initialize(struct param *param, uint64_t seed, struct error *err);

/* Before update `update`, counted from 0: draws again the buffers whose interval it ends, for the n-th time
 * from the stream "init:NAME:n" of the seed, so that values are a function of seed, name and update, and a
 * run may be resumed anywhere. For training alone: evaluation takes the values as they are. */
MUST_USE enum status params_renew(struct params *p, uint64_t seed, long long update,
                                  struct error *err);

/* Gradient of a trained parameter in lane 0, NULL where it has none. */
real *param_grad(const struct params *p, const struct param *param);

/* Elements of all that is no buffer: what papers call the number of parameters. */
size_t params_counted(const struct params *p);

#endif
