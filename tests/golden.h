/* golden.h - the cases of tests/golden: the formula that gives their inputs and weights, the files,
 * and what is stored of a tensor. tests/golden/README.md is the specification. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/real.h"
#include "config/json.h"
#include "graph/tensor.h"

/* u(name, j), in (-1/2, 1/2). */
double golden_unit(const char *name, uint32_t j);

/* Entry j of the formula's tensor `name` with this shape; all of its entries. */
double golden_entry(const char *name, const struct shape *shape, uint32_t j);
void golden_fill(real *to, const char *name, const struct shape *shape);

/* Paths of the cases of a kind ("vit"), sorted by name, NULL past the last; valid until the next
 * call. */
const char *const *golden_cases(const char *kind);

/* A whole case file, for json_free. */
struct json_value *golden_load(const char *path);

/* The member, which must be there. */
const struct json_value *golden_member(const struct json_value *object, const char *key);

/* The case's config as text; valid until the program ends. */
const char *golden_config(const struct json_value *root);

struct shape golden_shape(const struct json_value *list);

/* Checks n values against all that is stored of a tensor, whose key is its name: norm and, as far
 * as projections and entries show it, error vector within `allowed`. */
void golden_check_values(const struct json_value *stored, const real *t, size_t n, double allowed);

#endif
