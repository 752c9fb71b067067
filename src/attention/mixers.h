/* mixers.h - what token mixers without queries and keys share: they know the map, and have no rule
 * for tokens that are not on it unless their authors give one. */
#ifndef ATTENTION_MIXERS_H
#define ATTENTION_MIXERS_H

#include "attention/attention.h"
#include "ops/ops.h"

/* ERR_INPUT where the site has tokens before its patches. */
MUST_USE enum status mixer_check_prefix(const char *name, const struct attn_site *s,
                                        struct error *err);

/* ERR_INPUT, "OPTION: ..", for an even number of patches around one, or for that one alone. */
MUST_USE enum status mixer_check_odd(const char *option, int size, struct error *err);

/* The site's tokens as a map. */
struct token_map mixer_map(const struct attn_site *s);

/* The site's tokens as a sequence in raster order, in which the tokens that are not on the map come
 * behind the first `patches` patches. */
struct token_sequence mixer_sequence(struct graph *g, const struct attn_site *s, int patches);

#endif
