/* progress.h - how a training run shows itself on stderr: one line redrawn on a terminal, cut to
 * its width; else one plain line an epoch. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/start.h"
#include "train/trainer.h"

struct progress {
    bool quiet;
    bool terminal;     /* lines are redrawn */
    bool open;         /* a line without newline stands on the terminal */
    double drawn;      /* when it was last drawn, in seconds */
    const struct start *start; /* said when a run begins or goes on, then NULL */
};

/* Callbacks for struct train_options; context is the struct progress. */
void progress_begin(void *context);
void progress_show(void *context, const struct train_progress *p);
void progress_say(void *context, const char *line);

/* Ends an open line. Called before anything else is written. */
void progress_end(struct progress *p);

/* Writes the fields of p into text, as many as fit `columns` whole, in the order of their
 * weight. */
enum { PROGRESS_LINE_SIZE = 512 };
const char *progress_line(char text[PROGRESS_LINE_SIZE], const struct train_progress *p,
                          int columns);

#endif
