/* experiment_text.c - the effective config as text, for the run's config.json and for checkpoints.
 */
#include "train/experiment.h"

char *experiment_text(const struct experiment *x)
{
    return config_text(x->config);
}

char *experiment_text_without_paths(const struct experiment *x)
{
    return config_text_changed(x->config, "output", NULL, false);
}

char *experiment_text_with_output(const struct experiment *x, const char *output)
{
    return config_text_changed(x->config, "output", output, true);
}
