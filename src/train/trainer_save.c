/* trainer_save.c - checkpoints of a run. What is not finite never replaces a good file. */
#include "train/trainer_run.h"

static enum status check_finite(const struct trainer *t, struct error *err)
{
    if (step_values_finite(t->network))
        return OK;
    return error_set(err, ERR_NUMERIC,
                     "%s: epoch %d, step %lld: a weight is not finite (learning rate %g, gradient "
                     "norm %g; checkpoints were left as they are; lower train.optimizer.lr or set "
                     "train.clip_norm)",
                     t->files.directory, t->state.epoch + 1, t->state.update, t->state.lr,
                     t->step.grad_norm);
}

static const real *values_of(const struct trainer *t, int kind)
{
    return kind ? t->network->params.average : t->network->params.values;
}

/* The state comes first: weights without one mean that it was removed (see run_files_check). */
enum status trainer_save(struct trainer *t, struct error *err)
{
    enum status status = check_finite(t, err);
    if (!status)
        status = state_write(t->files.state, t->network, &t->state, err);
    for (int kind = 0; kind < 2 && !status; kind++)
        if (values_of(t, kind))
            status = checkpoint_write(t->files.last[kind], t->network, values_of(t, kind),
                                      t->class_names, t->state.epoch, err);
    return status;
}

enum status trainer_save_best(struct trainer *t, int kind, struct error *err)
{
    enum status status = check_finite(t, err);
    if (status)
        return status;
    return checkpoint_write(t->files.best[kind], t->network, values_of(t, kind), t->class_names,
                            t->state.epoch + 1, err);
}
