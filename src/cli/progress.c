/* progress.c - the lines that a run prints while it trains. */
#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/timer.h"
#include "cli/output.h"

static const double redraw_seconds = 0.1;

struct line {
    char *text;
    int length, columns;
    bool full;
};

/* Adds a field where it fits whole; after the first one that does not, none is added. */
static void add(struct line *l, const char *format, ...) PRINTF_LIKE(2, 3);
static void add(struct line *l, const char *format, ...)
{
    char field[128];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(field, sizeof field, format, args);
    va_end(args);
    int gap = l->length ? 2 : 0;
    if (l->full || length < 0 || length >= (int)sizeof field ||
        l->length + gap + length > l->columns) {
        l->full = true;
        return;
    }
    l->length += snprintf(l->text + l->length, (size_t)(PROGRESS_LINE_SIZE - l->length), "%*s%s",
                          gap, "", field);
}

const char *progress_line(char text[PROGRESS_LINE_SIZE], const struct train_progress *p,
                          int columns)
{
    char number[OUTPUT_NUMBER_SIZE];
    struct line l = {.text = text, .columns = columns};
    if (l.columns > PROGRESS_LINE_SIZE - 1)
        l.columns = PROGRESS_LINE_SIZE - 1;
    text[0] = 0;
    add(&l, "epoch %d/%d", p->epoch, p->epochs);
    if (p->epoch_done) {
        add(&l, "loss %.4f", p->loss);
        if (!isnan(p->val_top1)) {
            add(&l, "val %.2f %%", p->val_top1);
            add(&l, "val loss %.4f", p->val_loss);
        }
        if (!isnan(p->train_top1))
            add(&l, "train %.2f %%", p->train_top1);
        add(&l, "lr %.3g", p->lr);
        add(&l, "%.0f img/s", p->images_per_second);
        add(&l, "%s", output_duration(number, p->seconds));
    } else {
        add(&l, "step %lld/%lld", p->step, p->steps);
        add(&l, "loss %.4f", p->loss);
        add(&l, "lr %.3g", p->lr);
        add(&l, "%.0f img/s", p->images_per_second);
    }
    if (!p->epoch_done || p->epoch < p->epochs)
        add(&l, "ETA %s", output_duration(number, p->eta_seconds));
    if (p->wait_share >= 0.05)
        add(&l, "%.0f %% waiting for data", 100 * p->wait_share);
    return text;
}

/* Said when training begins: what is wrong with data or output is then the only message. */
static void say_start(struct progress *p)
{
    if (p->start)
        start_say(p->start);
    p->start = NULL;
}

void progress_begin(void *context)
{
    struct progress *p = context;
    if (!p->quiet)
        say_start(p);
}

void progress_show(void *context, const struct train_progress *now)
{
    struct progress *p = context;
    char text[PROGRESS_LINE_SIZE];
    if (p->quiet)
        return;
    say_start(p);
    if (!p->terminal) {
        if (now->epoch_done)
            output_note("%s", progress_line(text, now, PROGRESS_LINE_SIZE));
        return;
    }
    double time = timer_seconds();
    if (!now->epoch_done && p->open && time - p->drawn < redraw_seconds)
        return;
    /* A line as wide as the terminal would wrap on some: one column stays free. */
    fprintf(stderr, "\r%s\033[K%s", progress_line(text, now, output_columns() - 1),
            now->epoch_done ? "\n" : "");
    fflush(stderr);
    p->drawn = time;
    p->open = !now->epoch_done;
}

void progress_end(struct progress *p)
{
    if (p->open)
        fputc('\n', stderr);
    p->open = false;
}

void progress_say(void *context, const char *line)
{
    struct progress *p = context;
    if (p->quiet)
        return;
    say_start(p);
    if (p->open)
        fputs("\r\033[K", stderr);
    p->open = false;
    output_note("%s", line);
}
