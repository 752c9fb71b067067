/* test_models.c - what every line of models.def and presets.def must hold. */
#include "attention/attention.h"
#include "backbone.h"

TEST(every_model__is_complete_and_its_presets_are_right)
{
    int models = 0, presets = 0;
    for (int i = 0; model_kinds(i); i++) {
        const struct kind *kind = model_kinds(i);
        struct backbone n;
        for (int k = 0; k < i; k++)
            CHECK(strcmp(kind->name, model_kinds(k)->name) != 0);
        CHECK(kind->summary && kind->summary[0]);
        backbone_choose(&n, test_text("\"%s\"", kind->name), 1, false);
        const struct model *model = model_of(&n.model);
        CHECK(model->check && model->shape && model->record && model->fields);
        CHECK_OK(model->check(n.model.options, &n.rig.error), n.rig.error);
        CHECK_STR(n.model.name, kind->name);
        presets += kind->preset != NULL;
        models += kind->preset == NULL;
        backbone_end(&n);
    }
    CHECK(models >= 2 && presets >= 12);
}

/* The options of every model may be left out: its defaults are a model that works. */
TEST(every_model__records_its_defaults_and_is_told_by_its_names)
{
    for (int i = 0; model_kinds(i) && !model_kinds(i)->preset; i++) {
        struct backbone n;
        backbone_choose(&n, test_text("\"%s\"", model_kinds(i)->name), 1, false);
        backbone_record(&n);
        const struct model *model = model_of(&n.model);
        int heads = 0, attention = 0;
        for (int k = 0; k < n.rig.params.count; k++) {
            const char *name = n.rig.params.list[k]->name;
            test_about("%s", name);
            CHECK(!model_is_derived(model, name));
            heads += model_is_head(model, name);
            attention += attn_owns(name);
            for (const struct model_layout *l = model->layouts; l && l->program; l++) {
                char theirs[MODEL_NAME_SIZE] = "";
                l->rename(theirs, name);
                CHECK(theirs[0]);
            }
        }
        CHECK_INT(heads, 2); /* weight and bias */
        CHECK(attention >= 4);
        backbone_end(&n);
    }
}
