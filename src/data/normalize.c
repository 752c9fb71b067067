/* normalize.c - resolving data.normalize. */
#include "data/normalize.h"

#include <math.h>

#include "data/format.h"

static enum status take_list(double *out, const struct reals *list, const double *usual,
                             int usual_count, int channels, const char *name, struct error *err)
{
    if (list->count != 0 && list->count != channels)
        return error_set(err, ERR_INPUT,
                         "data.normalize.%s: holds %d number%s, expected one for each of %d "
                         "channel%s",
                         name, list->count, list->count == 1 ? "" : "s", channels,
                         channels == 1 ? "" : "s");
    for (int c = 0; c < channels; c++)
        out[c] = list->count ? list->at[c] : usual[usual_count > 1 ? c : 0];
    return OK;
}

enum status normalization_resolve(struct normalization *out, const struct data_config *config,
                                  int channels, struct error *err)
{
    if (channels < 1 || channels > DATA_MAX_CHANNELS)
        return error_set(err, ERR_INPUT, "model.channels: %d is not in 1..%d", channels,
                         DATA_MAX_CHANNELS);
    const struct dataset_format *format = dataset_format_at(config->format);
    if (format->channels > 1 && channels != format->channels)
        return error_set(err, ERR_INPUT,
                         "model.channels: %d, but %s images have %d colour channels, and colour "
                         "cannot become %s (set model.channels to %d)",
                         channels, format->name, format->channels,
                         channels == 1 ? "one channel" : "anything else", format->channels);
    out->channels = channels;
    enum status status = take_list(out->mean, &config->normalize.mean, format->mean,
                                   format->channels, channels, "mean", err);
    if (!status)
        status = take_list(out->std, &config->normalize.std, format->std, format->channels,
                           channels, "std", err);
    if (status)
        return status;
    for (int c = 0; c < channels; c++) {
        if (!isfinite(out->mean[c]))
            return error_set(err, ERR_INPUT, "data.normalize.mean[%d]: is not finite", c);
        if (!(out->std[c] > 0 && isfinite(out->std[c])))
            return error_set(err, ERR_INPUT, "data.normalize.std[%d]: %g is not above 0", c,
                             out->std[c]);
    }
    return OK;
}

void normalization_table(const struct normalization *n, real *table)
{
    for (int c = 0; c < n->channels; c++)
        for (int pixel = 0; pixel < 256; pixel++)
            table[c * 256 + pixel] = (real)((pixel / 255.0 - n->mean[c]) / n->std[c]);
}
