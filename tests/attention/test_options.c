/* test_options.c - options that have no effect, at all or at a place, are refused. */
#include "layer.h"

enum { WHOLE, PREFIX, WINDOWS };

static const struct {
    const char *json;
    int place;
    const char *text;
} idle[] = {
    {"\"lara\", \"mis\": \"bh\", \"alpha\": 3", WHOLE, "alpha: 3 has no effect with mis \"bh\""},
    {"\"lara\", \"proposal\": \"no_param_pool\", \"pool_module\": \"dense\"", WHOLE,
     "(leave it out, or set proposal to \"pool\" or \"pool_mixed\")"},
    {"\"lara\", \"noise\": false, \"samples\": \"two\"", WHOLE,
     "samples: \"two\" has no effect with noise false (leave it out, or set noise to true)"},
    {"\"eva\", \"group_mean\": \"code\"", WHOLE,
     "group_mean: \"code\" has no effect with overlap false"},
    {"\"eva\", \"group_mean\": \"code\", \"overlap\": true, \"param\": \"evabyte\"", WHOLE,
     "group_mean: \"code\" has no effect with param \"evabyte\""},
    {"\"flasheva\", \"allow_gaps\": true", WHOLE,
     "(leave it out, or set visibility to \"disjoint\")"},
    {"\"eva\", \"noise\": false, \"param\": \"evabyte\"", WHOLE, "noise: false has no effect"},
    {"\"eva\", \"param\": \"sum\", \"scale\": \"prf\"", WHOLE, "param: \"sum\" is \"default\""},
    {"\"eva\", \"param\": \"none\", \"noise\": false, \"scale\": \"prf\"", WHOLE,
     "scale: \"prf\" has no effect"},
    {"\"performer\", \"map\": \"relu\", \"eps\": 1e-3", WHOLE,
     "eps: 0.001 has no effect with map \"relu\" (leave it out, or set map to \"positive\" "
     "or \"hyp\")"},
    {"\"performer\", \"map\": \"relu\", \"eps_inside\": false", WHOLE,
     "eps_inside: false has no effect"},
    {"\"performer\", \"eps\": 0, \"eps_inside\": false", WHOLE, "set eps to another number"},
    {"\"dijiang\", \"group_eps\": 0.1", WHOLE,
     "group_eps: 0.1 has no effect with norm \"sum\" (leave it out, or set norm to "
     "\"group_norm\")"},
    {"\"angular\", \"aux\": false", WHOLE, "aux: false has no effect with form \"kernel\""},
    {"\"angular\", \"threshold\": 0.5", WHOLE, "threshold: 0.5 has no effect with form \"kernel\""},
    {"\"angular\", \"form\": \"castling\", \"aux\": false, \"threshold\": 0.5", WHOLE,
     "threshold: 0.5 has no effect with aux false"},
    {"\"angular\", \"ramp\": true", WHOLE, "ramp: true has no effect with form \"kernel\""},
    {"\"taylor1\", \"residual\": false, \"bits\": 8", WHOLE,
     "bits: 8 has no effect with residual false"},
    {"\"taylor1\", \"residual\": false, \"threshold\": 0.5", WHOLE, "threshold: 0.5 has no effect"},
    {"\"aft_simple\", \"order\": \"quadratic\"", WHOLE, "order: \"quadratic\" has no effect"},
    {"\"vicinity\", \"clamp\": true, \"order\": \"linear\"", WHOLE,
     "order: \"linear\" has no effect with clamp true (leave it out, or set clamp to false)"},
    {"\"qt\", \"chunk\": 4", WHOLE, "chunk: 4 has no effect with reduce \"self\""},
    {"\"qt\", \"pool\": 4, \"reduce\": \"chunk\"", WHOLE,
     "pool: 4 has no effect with reduce \"chunk\""},
    {"\"qt\", \"zero\": \"beta\", \"beta0\": 1", WHOLE,
     "beta0: 1 has no effect with zero \"beta\" (leave it out, or set zero to \"none\" or "
     "\"alpha\" or \"gamma\")"},
    {"\"linformer\", \"pool\": 2, \"sharing\": \"none\"", WHOLE,
     "sharing: \"none\" has no effect with pool 2"},
    {"\"longformer\", \"form\": \"na\", \"window\": 1, \"dilation\": 2", WHOLE,
     "dilation: 2 has no effect"},
    {"\"longformer\", \"shared\": false", WHOLE, "shared: false is for what global tokens see"},
    {"\"super\", \"wa_mask\": true", PREFIX, "wa_mask: true is for shifted windows"},
    /* the same where they have an effect */
    {"\"lara\", \"alpha\": 3", WHOLE, NULL},
    {"\"lara\", \"proposal\": \"pool\", \"pool_module\": \"dense\"", WHOLE, NULL},
    {"\"eva\", \"group_mean\": \"code\", \"overlap\": true", WHOLE, NULL},
    {"\"eva\", \"param\": \"mean\", \"scale\": \"prf\"", WHOLE, NULL},
    {"\"eva\", \"param\": \"evabyte\", \"scale\": \"prf\"", WHOLE, NULL},
    {"\"eva\", \"allow_gaps\": true, \"visibility\": \"disjoint\"", WHOLE, NULL},
    {"\"angular\", \"form\": \"castling\", \"threshold\": 0.5, \"ramp\": true", WHOLE, NULL},
    {"\"qt\", \"chunk\": 4, \"reduce\": \"chunk\"", WHOLE, NULL},
    {"\"longformer\", \"shared\": false", PREFIX, NULL},
    {"\"super\", \"wa_mask\": true", WINDOWS, NULL},
};

TEST(options__without_effect_are_refused_with_what_would_give_them_one)
{
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
        struct attn_site s = layer_map(4, 4, idle[i].place == PREFIX);
        s.D = 16;
        s.window[0] = s.window[1] = idle[i].place == WINDOWS ? 2 : 0;
        layer_check_refused(test_text("{\"name\": %s}", idle[i].json), s, idle[i].text);
    }
}
