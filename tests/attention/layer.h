/* layer.h - one attention layer, alone in a graph under the scope "attn", made from the JSON of a
 * config: layer_begin(&l, "{\"name\": \"super\"}", site). */
#ifndef TESTS_ATTENTION_LAYER_H
#define TESTS_ATTENTION_LAYER_H

#include "attention/attention.h"
#include "config/config.h"
#include "graph/rig.h"

struct layer {
    struct rig rig;
    struct config *config;
    struct choice attention;
    struct attn_site site;
};

/* The registered attention of that name, NULL where there is none; whether it has that option. */
const struct kind *layer_kind(const char *name);
bool layer_has_option(const struct kind *kind, const char *option);

/* Whether these options (an object) leave `order` an effect; the object with that order. */
bool layer_takes_order(const char *json);
const char *layer_in_order(const char *json, const char *order);

/* Reads the attention alone. */
void layer_choose(struct layer *l, const char *json);

/* B images of N tokens, of which the last ones are patches in one row; biases on. */
struct attn_site layer_site(int B, int N, int D, int H);

/* Two images of rows x columns patches behind `prefix` tokens, D = 12, two heads, biases on. */
struct attn_site layer_map(int rows, int columns, int prefix);

/* The attention is refused at this site, with `text` in the message; NULL: it is taken. */
void layer_check_refused(const char *json, struct attn_site site, const char *text);

/* The layer ready to run on site.B images, with random parameters and the input x (B, N, D). */
void layer_begin(struct layer *l, const char *json, struct attn_site site);

/* The same with options of which the gradient is the derivative (struct attn_variant, exact). */
void layer_begin_exact(struct layer *l, const char *json, struct attn_site site);
void layer_end(struct layer *l);

/* Values and gradient of the parameter "attn.NAME". */
real *layer_value(const struct layer *l, const char *name);
real *layer_grad(const struct layer *l, const char *name);

/* Elements of that parameter. */
size_t layer_count(const struct layer *l, const char *name);

/* Copies the rows `first` on of the parameter of one layer to those of another. */
void layer_copy_rows(struct layer *to, const char *to_name, int to_first, const struct layer *from,
                     const char *from_name, int from_first, int rows);

/* An N x N identity, a D x D one: written to `matrix`. */
void layer_identity(real *matrix, int n);

#endif
