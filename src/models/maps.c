/* maps.c - checks of maps and windows, and the search for sizes that pass them. */
#include "models/maps.h"

#include <stdio.h>
#include <string.h>

#include "models/sizes.h"

/* The first stage whose map cannot be merged along an axis; m->stages where all can. */
static int odd_stage(const struct maps *m, int axis)
{
    for (int i = 0; i + 1 < m->stages; i++)
        if (m->length[axis] >> i & 1 || !(m->length[axis] >> i))
            return i;
    return m->stages;
}

/* The first stage whose map the window does not divide along an axis; m->stages where it divides all. */
static int torn_stage(const struct maps *m, int axis)
{
    for (int i = 0; i < m->stages; i++) {
        int length = m->length[axis] >> i, window = m->window[i][axis];
        if (length > window && length % window)
            return i;
    }
    return m->stages;
}

static bool fits(const struct maps *m, int axis)
{
    return odd_stage(m, axis) == m->stages && torn_stage(m, axis) == m->stages;
}

/* A number of the config that could be another: what it sets. */
struct change {
    bool window;     /* the windows of some stages, else the size of the image */
    bool axes[2];    /* along which axes */
    int first, last; /* stages whose windows it sets */
};

static struct maps changed(const struct maps *m, const struct change *c, int number)
{
    struct maps other = *m;
    for (int axis = 0; axis < 2; axis++) {
        if (c->axes[axis] && !c->window)
            other.length[axis] = number;
        for (int i = c->first; c->axes[axis] && c->window && i <= c->last; i++)
            other.window[i][axis] = number;
    }
    return other;
}

/* Whether the change makes the axes fit that it touches, and leaves right what was. */
static bool works(const struct maps *m, const struct change *c, int number)
{
    struct maps other = changed(m, c, number);
    for (int axis = 0; axis < 2; axis++)
        if ((c->axes[axis] || fits(m, axis)) && !fits(&other, axis))
            return false;
    return model_check_map(other.length, other.dim, NULL) == OK;
}

/* Writes the numbers next to `start` below and above it that work, times `unit`: "4 or 8"; "" for none. */
static const char *nearest(char text[32], const struct maps *m, const struct change *c, int start,
                           int unit)
{
    int found[2] = {0, 0};
    for (int step = 1; step < MAPS_MAX_SIZE / unit && !(found[0] && found[1]); step++) {
        if (!found[0] && start > step && works(m, c, start - step))
            found[0] = start - step;
        if (!found[1] && start + step <= MAPS_MAX_SIZE / unit && works(m, c, start + step))
            found[1] = start + step;
    }
    if (found[0] && found[1])
        snprintf(text, 32, "%d or %d", found[0] * unit, found[1] * unit);
    else
        snprintf(text, 32, found[0] || found[1] ? "%d" : "", (found[0] + found[1]) * unit);
    return text;
}

/* Appends "(A would do, or B)" of what is not empty. */
static enum status append_hint(struct error *err, const char *const hints[], int count)
{
    int shown = 0;
    for (int i = 0; i < count; i++)
        if (*hints[i])
            error_append(err, shown++ ? ", or %s" : " (%s would do", hints[i]);
    error_append(err, shown ? ")" : "");
    return ERR_INPUT;
}

/* "image_size 56 or 64" that would work along the axis. */
static const char *image_hint(char text[64], const struct maps *m, int axis)
{
    const struct change c = {.axes = {m->square || axis == 0, m->square || axis == 1}};
    char sizes[32];
    const char *what = m->square ? "image_size" : axis ? "an image width of" : "an image height of";
    nearest(sizes, m, &c, m->length[axis], m->patch[axis]);
    snprintf(text, 64, *sizes ? "%s %s" : "", what, sizes);
    return text;
}

static enum status refuse_odd(const struct maps *m, int axis, int stage, struct error *err)
{
    char image[64], stages[32] = "";
    struct maps fewer = *m;
    fewer.stages = stage + 1;
    if (fits(&fewer, 0) && fits(&fewer, 1))
        snprintf(stages, sizeof stages, "%d stage%s", stage + 1, stage ? "s" : "");
    error_set(err, ERR_INPUT, "image_size: the %d x %d map of stage %d is odd and cannot be merged",
              m->length[0] >> stage, m->length[1] >> stage, stage + 1);
    return append_hint(err, (const char *const[]){image_hint(image, m, axis), stages}, 2);
}

static enum status refuse_torn(const struct maps *m, int axis, int stage, struct error *err)
{
    struct change c = {.window = true, .axes = {true, true}, .last = m->stages - 1};
    if (m->windows == WINDOWS_PAIR)
        c.axes[!axis] = false;
    if (m->windows == WINDOWS_STAGES)
        c.first = c.last = stage;
    char image[64], windows[32];
    nearest(windows, m, &c, m->window[stage][axis], 1);
    error_set(err, ERR_INPUT, "window_size: %d does not divide the %d x %d map of stage %d",
              m->window[stage][axis], m->length[0] >> stage, m->length[1] >> stage, stage + 1);
    return append_hint(err, (const char *const[]){windows, image_hint(image, m, axis)}, 2);
}

enum status maps_check(const struct maps *m, struct error *err)
{
    int odd[] = {odd_stage(m, 0), odd_stage(m, 1)};
    int axis = odd[1] < odd[0];
    if (odd[axis] < m->stages)
        return refuse_odd(m, axis, odd[axis], err);
    for (axis = 0; axis < 2; axis++)
        if (torn_stage(m, axis) < m->stages)
            return refuse_torn(m, axis, torn_stage(m, axis), err);
    return OK;
}
