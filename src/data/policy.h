/* policy.h - changes of colour images drawn from a list of ops: RandAugment and 3-Augment, as timm
 * draws them. */
#ifndef DATA_POLICY_H
#define DATA_POLICY_H

#include <stdbool.h>

#include "base/status.h"
#include "data/augment_ops.h"

enum policy_kind { POLICY_NONE, POLICY_RAND, POLICY_THREE };

/* RandAugment (Cubuk et al., arXiv:1909.13719): `ops` of 15, drawn with replacement, each applied
 * with `probability` and with a magnitude drawn from N(magnitude, deviation), cut to 0..most, of
 * which 10 is the full strength. */
struct policy {
    enum policy_kind kind;
    int ops;
    double magnitude;
    double deviation; /* infinite: the magnitude is uniform in 0..magnitude */
    double most;
    bool increasing; /* larger magnitudes always change more */
    double probability;
};

/* NULL: no policy. "3a": 3-Augment (Touvron et al., arXiv:2204.07118): grey, solarised from 128 on,
 * or blurred by a Gaussian of deviation 0.1 to 2, each for a third of the images. "rand" with
 * sections in any order: mM magnitude (10), nN ops (2), mstdS deviation (0; above 100: uniform),
 * mmaxM most (10), inc1 increasing (inc0: not), pP probability (0.5), as in "rand-m9-mstd0.5-inc1".
 * ERR_INPUT "data.augment.auto_augment: ..." for anything else. */
MUST_USE enum status policy_parse(struct policy *p, const char *text, struct error *err);

/* Whether a colour jitter is left out beside it, as in timm. */
bool policy_replaces_jitter(const struct policy *p);

/* Where the numbers of one image come from: see base/rng.h. */
struct policy_draw {
    uint64_t stream, epoch, position;
};

/* Changes the image. move: RESIZE_ERROR as filter draws one of the two for each op. `spare` has
 * room for as many bytes as the image. */
void policy_apply(const struct policy *p, const struct policy_draw *draw,
                  const struct augment_move *move, struct image *image, struct image *spare);

#endif
