/* planes.c - one plane, or the matrices of the last two axes. */
#include "graph/planes.h"

#include "kernels/team.h"

static struct planes planes_of(size_t count, const struct tensor *out)
{
    size_t rows = tensor_rows(out) / count;
    return (struct planes){
        .count = count, .rows = rows, .cols = (size_t)tensor_cols(out), .whole = rows,
    };
}

struct planes node_planes(const struct node *n)
{
    const struct tensor *out = n->out;
    bool rows = tensor_has_rows(out);
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i] && shape_equal(&n->in[i]->shape, &out->shape))
            rows = rows && tensor_has_rows(n->in[i]);
    return rows ? planes_of(1, out) : node_matrices(n);
}

struct planes node_matrices(const struct node *n)
{
    return planes_of(tensor_matrices(n->out), n->out);
}

struct vec plane_vec(const struct tensor *t, const struct planes *p, size_t i)
{
    return vec_at(p->count == 1 ? tensor_vec(t) : tensor_matrix(t, i), p->first, 0);
}

struct vec plane_grad(const struct tensor *t, const struct planes *p, size_t i)
{
    return vec_at(p->count == 1 ? tensor_grad(t) : tensor_matrix_grad(t, i), p->first, 0);
}

struct share {
    const struct node *n;
    struct planes p;
    plane_run *run;
    int parts;
};

static void run_planes(const void *job, int part, int member)
{
    (void)member;
    const struct share *s = job;
    struct team_rows planes = team_rows_of(s->p.count, s->parts, part);
    for (size_t i = planes.first; i < planes.first + planes.count; i++)
        s->run(s->n, &s->p, i);
}

static void run_rows(const void *job, int part, int member)
{
    (void)member;
    const struct share *s = job;
    struct planes p = s->p;
    struct team_rows rows = team_rows_of(p.rows, s->parts, part);
    p.first = rows.first;
    p.rows = rows.count;
    s->run(s->n, &p, 0);
}

void planes_share(const struct node *n, struct planes p, plane_run *run)
{
    struct share s = {n, p, run, 1};
    bool one = p.count == 1;
    if (team_threads() > 1 && p.rows)
        s.parts = one ? team_row_parts(p.rows, p.cols) : team_row_parts(p.count, p.rows * p.cols);
    team_run(one ? run_rows : run_planes, &s, s.parts);
}
