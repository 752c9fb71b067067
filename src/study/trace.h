/* trace.h - one batch through a model, written out for comparison with other implementations. */
#ifndef STUDY_TRACE_H
#define STUDY_TRACE_H

#include "train/experiment.h"

struct trace_options {
    const char *input;      /* safetensors: x (B, C, H, W); y (B) or dlogits (B, classes) */
    const char *output;     /* safetensors, F64 in the double build */
    const char *checkpoint; /* weights; NULL: initial values from the seed */
    bool gradients;         /* of x and of every parameter */
    bool noise;             /* dropout and drop path are active */
    bool fused;             /* as train runs it: outputs that are then never stored are left out */
    char **note;            /* a malloc'd line about the weights, or NULL */
    char **left_out;        /* a malloc'd line about outputs that are left out, or NULL */
};

/* Writes logits, loss (where y is given: mean cross entropy), the outputs that the model names, and
 * grad.x, grad.PARAMETER. ERR_INPUT with file, tensor, and sizes for input that does not fit. */
MUST_USE enum status trace_run(const struct experiment *x, const struct trace_options *options,
                               struct error *err);

#endif
