/* pool.c - the mean of what stands around each patch, minus the patch, without parameters.
 * Yu et al., "MetaFormer Is Actually What You Need for Vision", arXiv:2111.11418, section 3.2: the
 * block adds its input, hence the subtraction. Means at the border are of the patches that there
 * are. */
#include "attention/attention.h"
#include "attention/mixers.h"
#include "ops/ops.h"

struct pool {
    int size;
};

static const struct field pool_fields[] = {
    FIELD_INT(struct pool, size, 3, 1, 15, "patches along the square of a mean, odd"),
    FIELD_END,
};

static enum status pool_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct pool *o = options;
    enum status status = mixer_check_prefix("pool", s, err);
    return status ? status : mixer_check_odd("size", o->size, err);
}

static struct tensor *pool_build(struct graph *g, const void *options, const struct attn_site *s,
                                 struct tensor *x)
{
    const struct pool *o = options;
    const struct token_map map = mixer_map(s);
    return op_map_pool(g, x, o->size, &map);
}

/* Additions alone, which the papers do not count. */
static double pool_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    (void)s;
    return 0;
}

const struct attn_variant pool_attn = {
    .name = "pool", .summary = "mean of the patches around (PoolFormer)",
    .paper = "arXiv:2111.11418", .complexity = "O(N k^2 D)", .fields = pool_fields,
    .options_size = sizeof(struct pool), .check = pool_check, .build = pool_build,
    .macs = pool_macs,
};
