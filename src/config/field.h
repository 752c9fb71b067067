/* field.h - tables that say which keys a JSON object may have, and where their values go.
 *
 * A struct of options is described by an array of struct field that ends with FIELD_END. From it
 * come reading, defaults, range checks, error messages with JSON paths, nearest-name hints, the
 * effective config, and the help of `attnbench list`. */
#ifndef CONFIG_FIELD_H
#define CONFIG_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_type {
    FIELD_TYPE_END = 0,
    FIELD_TYPE_INT,    /* int; 1e3 and 3.0 are whole numbers, 1.5 is not */
    FIELD_TYPE_SEED,   /* uint64_t, 0 .. 2^53 */
    FIELD_TYPE_REAL,   /* double */
    FIELD_TYPE_BOOL,   /* bool */
    FIELD_TYPE_STRING, /* const char *; NULL for JSON null where the default is NULL */
    FIELD_TYPE_PATH,   /* const char *; made absolute against the file in which it stands */
    FIELD_TYPE_ENUM,   /* int: index into `names` */
    FIELD_TYPE_PAIR,   /* int[2]: a number n (both n) or [height, width] */
    FIELD_TYPE_REALS,  /* struct reals: list of numbers; one number alone is a list of one */
    FIELD_TYPE_INTS,   /* struct ints: list of whole numbers; one alone is a list of one */
    FIELD_TYPE_STRINGS,/* struct strings */
    FIELD_TYPE_OBJECT, /* a struct in place, described by `fields` */
    FIELD_TYPE_MAYBE,  /* pointer to such a struct, or NULL for JSON null */
    FIELD_TYPE_CHOICE, /* struct choice: an object with "name" that selects further keys */
    FIELD_TYPE_CHOICES,/* struct choices: one choice, or a list of choices */
    FIELD_TYPE_RANGE,  /* struct number_or_name: a number in min..max, or one of `names`, or null */
};

struct reals {
    int count;
    double *at;
};
struct ints {
    int count;
    int *at;
};
struct strings {
    int count;
    const char **at;
};

/* name: index into the field's `names`, or -1 where a number was given, or -2 for null. */
struct number_or_name {
    int name;
    double number;
    bool is_fraction; /* written with a point or a negative exponent (0.1, 5e-1, 1.0): lets 1 (one record) differ from 1.0 (all of them) */
};

/* One kind that a choice can name: an attention variant, a model, an optimizer, a schedule. */
struct kind {
    const char *name;
    const char *summary;
    const struct field *fields; /* its own keys beside "name"; NULL: none */
    size_t size;                /* bytes of its options struct */
    const void *impl;           /* what the owner of the list keeps there */
    const char *preset;         /* JSON text of an object {"name": kind, key: value ...} that this
                                   name stands for, NULL for a plain kind */
};

/* The i-th kind of a list, NULL past its end. */
typedef const struct kind *kind_list(int i);

/* A choice is written as a name or as an object with "name" (without it: the field's default). Where
 * the list has a kind with a field of its own name, the short form {"holdout": 5000} is read too, and
 * config_text writes all its choices so: {"holdout": 5000}, "test". */
struct choice {
    const struct kind *kind; /* the plain kind, presets resolved; NULL for JSON null */
    const char *name;        /* as the user wrote it: "vit_tiny_patch16_224"; NULL for null */
    void *options;           /* kind->size bytes, filled from kind->fields */
};

/* One choice for all parts of something, or a list with one for each: count is then its length. */
struct choices {
    int count;
    struct choice *at;
};

struct field {
    enum field_type type;
    const char *name;
    size_t offset;
    double number;            /* default of numbers, booleans and enums (and of both of a pair) */
    double min, max;          /* inclusive; -INFINITY and INFINITY: no bound */
    const char *text;         /* default of strings, paths, choices (a name); of lists and MAYBE as
                                 JSON text, of RANGE as JSON text or a name. NULL: null, and an empty
                                 list; a string, path, list or choice may be null only then */
    const char *const *names; /* ENUM, RANGE: NULL-terminated */
    const struct field *fields; /* OBJECT, MAYBE */
    size_t size;                /* MAYBE: bytes of the struct */
    kind_list *kinds;           /* CHOICE, CHOICES */
    const char *help;
};

/* An option with an effect beside some values of another alone: beside those of an enum whose bits
 * (1u << VALUE) are set in `values`; of a boolean or a number beside what the names below say. */
enum { NEED_FALSE = 1, NEED_TRUE = 2, NEED_ZERO = 1, NEED_OTHER = 2 /* any number but 0 */ };
struct field_need {
    const char *name, *other;
    unsigned values;
};
#define NEED_END { .name = NULL }

/* clang-format off */
#define FIELD_INT(T, member, standard, low, high, about) \
    { .type = FIELD_TYPE_INT, .name = #member, .offset = offsetof(T, member), .number = (standard), .min = (low), .max = (high), .help = (about) }
#define FIELD_REAL(T, member, standard, low, high, about) \
    { .type = FIELD_TYPE_REAL, .name = #member, .offset = offsetof(T, member), .number = (standard), .min = (low), .max = (high), .help = (about) }
#define FIELD_BOOL(T, member, standard, about) \
    { .type = FIELD_TYPE_BOOL, .name = #member, .offset = offsetof(T, member), .number = (standard), .help = (about) }
#define FIELD_STRING(T, member, standard, about) \
    { .type = FIELD_TYPE_STRING, .name = #member, .offset = offsetof(T, member), .text = (standard), .help = (about) }
#define FIELD_PATH(T, member, standard, about) \
    { .type = FIELD_TYPE_PATH, .name = #member, .offset = offsetof(T, member), .text = (standard), .help = (about) }
#define FIELD_ENUM(T, member, standard, list, about) \
    { .type = FIELD_TYPE_ENUM, .name = #member, .offset = offsetof(T, member), .number = (standard), .names = (list), .help = (about) }
#define FIELD_PAIR(T, member, standard, low, high, about) \
    { .type = FIELD_TYPE_PAIR, .name = #member, .offset = offsetof(T, member), .number = (standard), .min = (low), .max = (high), .help = (about) }
#define FIELD_OBJECT(T, member, table, about) \
    { .type = FIELD_TYPE_OBJECT, .name = #member, .offset = offsetof(T, member), .fields = (table), .help = (about) }
#define FIELD_MAYBE(T, member, S, table, standard, about) \
    { .type = FIELD_TYPE_MAYBE, .name = #member, .offset = offsetof(T, member), .fields = (table), .size = sizeof(S), .text = (standard), .help = (about) }
#define FIELD_CHOICE(T, member, list, standard, about) \
    { .type = FIELD_TYPE_CHOICE, .name = #member, .offset = offsetof(T, member), .kinds = (list), .text = (standard), .help = (about) }
#define FIELD_CHOICES(T, member, list, standard, about) \
    { .type = FIELD_TYPE_CHOICES, .name = #member, .offset = offsetof(T, member), .kinds = (list), .text = (standard), .help = (about) }
#define FIELD_REALS(T, member, standard, low, high, about) \
    { .type = FIELD_TYPE_REALS, .name = #member, .offset = offsetof(T, member), .text = (standard), .min = (low), .max = (high), .help = (about) }
#define FIELD_INTS(T, member, standard, low, high, about) \
    { .type = FIELD_TYPE_INTS, .name = #member, .offset = offsetof(T, member), .text = (standard), .min = (low), .max = (high), .help = (about) }
#define FIELD_STRINGS(T, member, standard, about) \
    { .type = FIELD_TYPE_STRINGS, .name = #member, .offset = offsetof(T, member), .text = (standard), .help = (about) }
#define FIELD_RANGE(T, member, standard, list, low, high, about) \
    { .type = FIELD_TYPE_RANGE, .name = #member, .offset = offsetof(T, member), .text = (standard), .names = (list), .min = (low), .max = (high), .help = (about) }
#define FIELD_SEED(T, member, standard, about) \
    { .type = FIELD_TYPE_SEED, .name = #member, .offset = offsetof(T, member), .number = (standard), .min = 0, .max = 9007199254740992.0, .help = (about) }
#define FIELD_END { .type = FIELD_TYPE_END }
/* clang-format on */

#endif
