/* init_report.h - what became of every tensor when a model started from a checkpoint: for the reader
 * and for metrics.jsonl. */
#ifndef TRAIN_INIT_REPORT_H
#define TRAIN_INIT_REPORT_H

#include "base/arena.h"
#include "config/json.h"

/* Every parameter of the model is in one of the first three lists, every tensor of the file in use, in
 * the fourth, or in the fifth. */
enum init_list {
    INIT_LOADED, INIT_RESIZED, INIT_INITIALISED, INIT_PARTLY_USED, INIT_UNUSED, INIT_LISTS
};

struct init_item {
    const char *name, *how; /* how: "" where there is nothing to add */
};

struct init_report {
    struct arena memory;
    const char *path, *from, *to; /* the checkpoint, and the attentions of both models */
    const char *names;            /* what was done to the names in it, or "" */
    int tensors;                  /* in it */
    struct {
        struct init_item *at;
        int count, capacity;
    } list[INIT_LISTS];
};

void init_report_begin(struct init_report *r);
void init_report_free(struct init_report *r);

/* Copies both texts into a list. */
MUST_USE enum status init_report_add(struct init_report *r, enum init_list list, const char *name,
                                     const char *how, struct error *err);

/* "a.safetensors: standard to hedgehog: 27 of 32 tensors loaded, 1 resized, 4 initialised; ..." */
const char *init_report_summary(struct init_report *r);

/* A list by name, with * for the numbers of blocks: "initialised: blocks.*.attn.q_map.weight (2): 2 times
 * the identity; ...". NULL where the list is empty, or there is no memory. */
const char *init_report_line(struct init_report *r, enum init_list list);

/* Adds members "from", "to", and a list of {"name", "how"} each to an open object. */
void init_report_json(const struct init_report *r, struct json *j);

#endif
