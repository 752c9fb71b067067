/* pair.c - running both ways. */
#include "pair.h"

static void run_one(struct rig *r, pair_record *record, bool second, bool noise)
{
    rig_begin(r, 2, noise);
    struct tensor *y = record(r->graph, second);
    CHECK_INT(r->graph->error.status, OK);
    r->lanes = 2;
    rig_ready(r, y, 4); /* two slices */
    rig_randomize(r, 1);
    rig_run(r);
}

static void check(pair_record *record, bool noise)
{
    struct rig a, b;
    double tolerance = 3 * rig_rounding;
    run_one(&a, record, false, noise);
    run_one(&b, record, true, noise);
    CHECK_INT(a.y_count, b.y_count);
    CHECK(rig_norm(a.y, a.y_count) > 0);
    CHECK_NEAR(rig_distance(a.y, b.y, a.y_count), 0, tolerance);
    for (int i = 0; i < a.graph->input_count; i++) {
        if (!a.dx[i])
            continue;
        CHECK(rig_norm(a.dx[i], a.count[i]) > 0);
        CHECK_NEAR(rig_distance(a.dx[i], b.dx[i], a.count[i]), 0, tolerance);
    }
    for (int i = 0; i < a.params.count; i++) {
        const struct param *p = a.params.list[i];
        CHECK_STR(p->name, b.params.list[i]->name);
        CHECK(rig_norm(rig_grad(&a, p->name), p->count) > 0);
        CHECK_NEAR(rig_distance(rig_grad(&a, p->name), rig_grad(&b, p->name), p->count), 0,
                   tolerance);
    }
    rig_end(&a);
    rig_end(&b);
}

void check_pair(pair_record *record)
{
    check(record, false);
}

void check_noisy_pair(pair_record *record)
{
    check(record, true);
}
