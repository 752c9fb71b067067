#include "wrong.h"

#include "graph/rig.h"

void check_wrong(const struct wrong *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct rig r;
        test_about("%s %s", list[i].op, list[i].shape);
        rig_begin(&r, 2, true);
        graph_scope_push(r.graph, "blocks.%d.attn", 7);
        list[i].record(r.graph);
        graph_scope_pop(r.graph);
        CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
        CHECK_CONTAINS(r.error.text, "blocks.7.attn: ");
        CHECK_CONTAINS(r.error.text, list[i].op);
        CHECK_CONTAINS(r.error.text, list[i].shape);
        rig_end(&r);
    }
}
