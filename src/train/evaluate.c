/* evaluate.c - one pass over a loader through the inference graph. */
#include "train/evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "base/timer.h"
#include "train/metrics.h"

/* What one pass needs beside its result. */
struct evaluation_pass {
    struct evaluation *e;
    struct calibration calibration;
    real *logits, *loss;   /* (capacity, classes), (capacity) */
    double *probabilities; /* (classes) */
    evaluation_sample *visit;
    void *context;
};

static enum status pass_allocate(struct evaluation_pass *p, int capacity, struct error *err)
{
    size_t classes = (size_t)p->e->classes, rows = (size_t)capacity;
    p->logits = calloc(rows * classes, sizeof *p->logits);
    p->loss = calloc(rows, sizeof *p->loss);
    p->probabilities = calloc(classes, sizeof *p->probabilities);
    if (!p->logits || !p->loss || !p->probabilities)
        return error_memory(err, rows * (classes + 1) * sizeof *p->logits);
    return OK;
}

static void pass_count(struct evaluation_pass *p, const struct batch *b)
{
    struct evaluation *e = p->e;
    for (int i = 0; i < b->count; i++) {
        const real *logits = p->logits + (size_t)i * (size_t)e->classes;
        int label = b->labels[i];
        int rank = metrics_rank(logits, e->classes, label);
        int prediction = metrics_prediction(logits, e->classes);
        metrics_softmax(p->probabilities, logits, e->classes);
        calibration_add(&p->calibration, p->probabilities[prediction], rank == 0);
        e->n++;
        e->loss += (double)p->loss[i];
        e->correct += rank == 0;
        e->correct5 += rank < 5;
        e->class_n[label]++;
        e->class_correct[label] += rank == 0;
        e->confusion[(size_t)label * (size_t)e->classes + (size_t)prediction]++;
        if (p->visit)
            p->visit(p->context, b->index[i], label, p->probabilities);
    }
}

static enum status pass_run(struct evaluation_pass *p, struct network *n, struct loader *loader,
                            const real *values, struct error *err)
{
    enum status status = loader_start(loader, 0, 0, err);
    while (!status) {
        const struct batch *b = NULL;
        status = loader_next(loader, &b, err);
        if (status || !b)
            break;
        if (n->stop && *n->stop)
            return error_set(err, ERR_INTERRUPTED, "evaluation was interrupted");
        if (!p->logits)
            status = pass_allocate(p, b->capacity, err);
        if (status)
            break;
        struct feed feed = {.rows = b->count, .values = values, .same_values = p->e->n > 0};
        feed.input[NETWORK_INPUT_IMAGES] = b->images;
        feed.input[NETWORK_INPUT_LABELS] = b->labels;
        feed.output[NETWORK_OUTPUT_LOGITS] = p->logits;
        feed.output[NETWORK_OUTPUT_LOSS] = p->loss;
        runner_run(n->infer_run, &feed);
        pass_count(p, b);
    }
    return status;
}

static void finish(struct evaluation *e, const struct calibration *c)
{
    double n = e->n ? (double)e->n : (double)NAN;
    e->loss /= n;
    e->top1 = 100 * (double)e->correct / n;
    e->top5 = e->classes > 5 ? 100 * (double)e->correct5 / n : (double)NAN;
    e->ece = calibration_error(c);
}

enum status evaluate(struct evaluation *e, struct network *n, struct loader *loader,
                     const real *values, evaluation_sample *visit, void *context, struct error *err)
{
    double start = timer_seconds();
    size_t classes = (size_t)n->shape.classes;
    *e = (struct evaluation){.classes = n->shape.classes};
    e->class_n = calloc(classes, sizeof *e->class_n);
    e->class_correct = calloc(classes, sizeof *e->class_correct);
    e->confusion = calloc(classes * classes, sizeof *e->confusion);
    struct evaluation_pass p = {.e = e, .visit = visit, .context = context};
    enum status status = OK;
    if (!e->class_n || !e->class_correct || !e->confusion)
        status = error_memory(err, (classes + 2) * classes * sizeof *e->confusion);
    else
        status = pass_run(&p, n, loader, values, err);
    free(p.logits);
    free(p.loss);
    free(p.probabilities);
    if (status) {
        evaluation_free(e);
        return status;
    }
    finish(e, &p.calibration);
    e->seconds = timer_seconds() - start;
    return OK;
}

void evaluation_free(struct evaluation *e)
{
    free(e->class_n);
    free(e->class_correct);
    free(e->confusion);
    *e = (struct evaluation){0};
}
