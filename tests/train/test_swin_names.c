/* test_swin_names.c - checkpoints of a Swin whose tensors are named by other programs: kind
 * "foreign" of tests/golden. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "io/safetensors.h"
#include "kernels/kernels.h"
#include "rig.h"
#include "train/checkpoint.h"

struct foreign {
    struct json_value *root;
    struct experiment x;
    struct network *n;
    const char *path; /* of the file under the foreign names */
    int B;
};

static const struct json_value *tensors_of(const struct foreign *f)
{
    return json_first(golden_member(f->root, "tensors"));
}

/* One tensor of the file: a parameter with the formula's values, or a buffer of zeros. Its data is
 * to be freed. */
static struct st_tensor make_tensor(const struct json_value *v)
{
    const struct json_value *ours = json_member(v, "ours"), *dtype = json_member(v, "dtype");
    const struct shape shape = golden_shape(golden_member(v, "shape"));
    struct st_tensor t = {.name = json_to_string(golden_member(v, "name")),
                          .dtype = DTYPE_F32,
                          .rank = shape.rank,
                          .count = shape_count(&shape)};
    for (int i = 0; i < shape.rank; i++)
        t.shape[i] = shape.dim[i];
    if (dtype && strcmp(json_to_string(dtype), "I64") == 0)
        t.dtype = DTYPE_I64;
    float *data = calloc(t.count, sizeof(int64_t));
    CHECK(data != NULL);
    for (size_t j = 0; ours && j < t.count; j++)
        data[j] = (float)golden_entry(json_to_string(ours), &shape, (uint32_t)j);
    t.data = data;
    return t;
}

/* Writes the file, without the tensor `left_out` unless that is NULL. */
static void write_file(struct foreign *f, const char *left_out)
{
    struct st_tensor list[256];
    struct error err;
    int count = 0;
    for (const struct json_value *v = tensors_of(f); v; v = json_next(v)) {
        CHECK(count < 256);
        list[count] = make_tensor(v);
        if (left_out && strcmp(list[count].name, left_out) == 0)
            free((void *)list[count].data);
        else
            count++;
    }
    f->path = test_text("%s/foreign.safetensors", test_directory());
    CHECK_OK(st_write(f->path, list, count, NULL, 0, &err), err);
    for (int i = 0; i < count; i++)
        free((void *)list[i].data);
}

static void begin(struct foreign *f, const char *path)
{
    struct error err;
    test_about("%s", path);
    CHECK_OK(kernels_init(&err), err);
    f->root = golden_load(path);
    CHECK_OK(experiment_parse(&f->x, golden_config(f->root), path, &err), err);
    f->B = golden_shape(golden_member(golden_member(f->root, "input"), "shape")).dim[0];
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_INFER, f->B, 1, &err), err);
    write_file(f, NULL);
}

static void end(struct foreign *f)
{
    network_destroy(f->n);
    experiment_free(&f->x);
    json_free(f->root);
}

/* Every parameter holds what the file has under its foreign name. */
static void check_values(const struct foreign *f)
{
    int matched = 0;
    for (const struct json_value *v = tensors_of(f); v; v = json_next(v)) {
        const struct json_value *ours = json_member(v, "ours");
        if (!ours)
            continue;
        const struct param *p = params_find(&f->n->params, json_to_string(ours));
        test_about("%s", json_to_string(ours));
        CHECK(p != NULL);
        for (size_t j = 0; j < p->count; j++)
            CHECK_NEAR(p->value[j], golden_entry(p->name, &p->shape, (uint32_t)j), 0);
        matched++;
    }
    CHECK_INT(matched, f->n->params.count);
}

static void check_logits(const struct foreign *f)
{
    const struct json_value *input = golden_member(f->root, "input");
    const struct shape shape = golden_shape(golden_member(input, "shape"));
    const size_t count = (size_t)f->B * (size_t)f->n->shape.classes;
    real *images = malloc(shape_count(&shape) * sizeof *images);
    real *logits = malloc(count * sizeof *logits);
    int *labels = calloc((size_t)f->B, sizeof *labels);
    CHECK(images && logits && labels);
    golden_fill(images, json_to_string(golden_member(input, "x")), &shape);
    const struct feed feed = {
        .rows = f->B,
        .input = {[NETWORK_INPUT_IMAGES] = images, [NETWORK_INPUT_LABELS] = labels},
        .output = {[NETWORK_OUTPUT_LOGITS] = logits},
    };
    runner_run(f->n->infer_run, &feed);
    const double tolerance = sizeof(real) == sizeof(double) ? 1e-9 : 2e-5;
    double error = 0, norm = 0;
    const struct json_value *v = json_first(golden_member(f->root, "logits"));
    for (size_t i = 0; i < count; i++, v = json_next(v)) {
        CHECK(v != NULL);
        error += pow((double)logits[i] - json_to_number(v), 2);
        norm += pow(json_to_number(v), 2);
    }
    CHECK_NEAR(sqrt(error), 0, tolerance * sqrt(norm));
    free(images);
    free(logits);
    free(labels);
}

/* All layouts, for evaluation and as a start of training. */
static void check_reading(bool start)
{
    const char *const *path = golden_cases("foreign");
    int cases = 0;
    for (; path[cases]; cases++) {
        struct foreign f;
        struct error err;
        char *note = NULL;
        const char *said = NULL;
        int count;
        begin(&f, path[cases]);
        count = f.n->params.count;
        if (start)
            CHECK_OK(rig_init(&f.n->params, &f.x.model, f.path, &said, &err), err);
        else
            CHECK_OK(checkpoint_load(&f.n->params, &f.x.model, f.path, &note, &err), err);
        check_values(&f);
        check_logits(&f);
        if (start)
            CHECK_CONTAINS(said, test_text("%d of %d tensors loaded, 0 initialised; of the "
                                           "checkpoint's %d", count, count, count));
        else
            CHECK_CONTAINS(note, test_text("%d tensors match", count));
        CHECK_CONTAINS(start ? said : note, start ? "0 left unused" : "0 missing");
        CHECK_CONTAINS(start ? said : note, start ? "0 used in part" : "0 unexpected");
        free(note);
        end(&f);
    }
    CHECK(cases >= 3);
}

TEST(foreign_names__are_read_for_evaluation)
{
    check_reading(false);
}

TEST(foreign_names__are_read_as_start_values)
{
    check_reading(true);
}

/* The last parameter of the file, under its own name. */
static const char *last_parameter(const struct foreign *f, const char **ours)
{
    const char *name = NULL;
    for (const struct json_value *v = tensors_of(f); v; v = json_next(v))
        if (json_member(v, "ours") &&
            strstr(json_to_string(json_member(v, "ours")), "downsample")) {
            name = json_to_string(golden_member(v, "name"));
            *ours = json_to_string(json_member(v, "ours"));
        }
    return name;
}

TEST(foreign_names__a_missing_tensor_is_told_by_its_name)
{
    const char *const *path = golden_cases("foreign");
    for (int i = 0; path[i]; i++) {
        struct foreign f;
        struct error err;
        const char *ours = NULL;
        begin(&f, path[i]);
        const char *name = last_parameter(&f, &ours);
        CHECK(name != NULL);
        write_file(&f, name);
        CHECK_INT(checkpoint_load(&f.n->params, &f.x.model, f.path, NULL, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, "1 missing");
        CHECK_CONTAINS(err.text, ours);
        end(&f);
    }
}
