/* identity.c - tokens are not mixed at all: what the blocks of a model do without attention.
 * Yu et al., "MetaFormer Baselines for Vision", arXiv:2210.13452, section 3.1. */
#include "attention/attention.h"
#include "attention/mixers.h"
#include "ops/ops.h"

static enum status identity_check(const void *options, const struct attn_site *s,
                                  struct error *err)
{
    (void)options;
    return mixer_check_prefix("identity", s, err);
}

static struct tensor *identity_build(struct graph *g, const void *options,
                                     const struct attn_site *s, struct tensor *x)
{
    (void)options;
    (void)s;
    return op_scale(g, x, 1);
}

static double identity_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    (void)s;
    return 0;
}

const struct attn_variant identity_attn = {
    .name = "identity", .summary = "no mixing of tokens", .paper = "arXiv:2210.13452",
    .complexity = "O(1)", .check = identity_check, .build = identity_build,
    .macs = identity_macs,
};
