/* json_scan.c - a recursive descent over JSON text that keeps nothing but one mark a value. */
#include "config/json_scan.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cJSON copies a number into 64 bytes and leaves what is longer unread. */
enum { NUMBER_CHARACTERS = 60 };

struct scan {
    const char *text;
    size_t length, at;
    struct json_mark *marks;
    size_t count, capacity;
    int depth;
    struct error *err;
};

int utf8_length(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (length == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    int n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || length < (size_t)n)
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool no_character = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong || no_character ? 0 : n;
}

PRINTF_LIKE(5, 0)
static enum status place_error(const char *text, size_t length, size_t offset, struct error *err,
                               const char *format, va_list args)
{
    size_t line = 1, column = 1;
    size_t start = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (size_t i = start; i < offset && i < length; i++) {
        if (text[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    char what[512];
    vsnprintf(what, sizeof what, format, args);
    return error_set(err, ERR_INPUT, "line %zu, column %zu: %s", line, column, what);
}

enum status json_scan_error(const char *text, size_t length, size_t offset, struct error *err,
                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum status status = place_error(text, length, offset, err, format, args);
    va_end(args);
    return status;
}

PRINTF_LIKE(2, 3)
static enum status fail(struct scan *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum status status = place_error(s->text, s->length, s->at, s->err, format, args);
    va_end(args);
    return status;
}

/* The character at the reading position, 0 at the end of the text. */
static char peek(const struct scan *s)
{
    return s->at < s->length ? s->text[s->at] : 0;
}

/* Fails with what stands where something else was expected, and a word on common slips. */
static enum status fail_expected(struct scan *s, const char *expected)
{
    if (s->at >= s->length)
        return fail(s, "expected %s, got the end of the text", expected);
    char c = peek(s);
    int n = utf8_length(s->text + s->at, s->length - s->at);
    if (n == 0)
        return fail(s, "invalid UTF-8");
    if (n == 1 && iscntrl((unsigned char)c))
        return fail(s, "expected %s, got the control character 0x%02x", expected, (unsigned)c);
    const char *hint = "";
    if (c == '#' || (c == '/' && s->at + 1 < s->length && strchr("/*", s->text[s->at + 1])))
        hint = " (comments are not allowed)";
    else if (c == '\'')
        hint = " (text stands in double quotes)";
    else if (c == '+')
        hint = " (a number has no + in front)";
    else if (c == '.')
        hint = " (a number has a digit before the point)";
    return fail(s, "expected %s, got %.*s%s", expected, n, s->text + s->at, hint);
}

static void skip_space(struct scan *s)
{
    while (s->at < s->length && memchr(" \t\r\n", s->text[s->at], 4))
        s->at++;
}

static enum status add_mark(struct scan *s, size_t offset)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 64;
        if (capacity > SIZE_MAX / sizeof *s->marks)
            return error_memory(s->err, SIZE_MAX);
        struct json_mark *marks = realloc(s->marks, capacity * sizeof *marks);
        if (!marks)
            return error_memory(s->err, capacity * sizeof *marks);
        s->marks = marks;
        s->capacity = capacity;
    }
    s->marks[s->count++] = (struct json_mark){.offset = offset};
    return OK;
}

/* The four digits of \uXXXX at the reading position, or -1. */
static int hex4(const struct scan *s)
{
    int code = 0;
    for (size_t i = s->at; i < s->at + 4; i++) {
        if (i >= s->length || !isxdigit((unsigned char)s->text[i]))
            return -1;
        int c = tolower((unsigned char)s->text[i]);
        code = 16 * code + (isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    return code;
}

static enum status scan_escape(struct scan *s)
{
    s->at++;
    char c = peek(s);
    if (c != 'u') {
        if (c == 0 || !strchr("\"\\/bfnrt", c))
            return fail_expected(s, "one of \" \\ / b f n r t u after \\");
        s->at++;
        return OK;
    }
    s->at++;
    int code = hex4(s);
    if (code < 0)
        return fail(s, "expected four hexadecimal digits after \\u");
    if (code == 0)
        return fail(s, "the character \\u0000 is not allowed");
    if (code >= 0xdc00 && code <= 0xdfff)
        return fail(s, "\\u%04x is the second half of a pair without the first", (unsigned)code);
    s->at += 4;
    if (code >= 0xd800 && code <= 0xdbff) {
        bool second = s->length - s->at >= 6 && memcmp(s->text + s->at, "\\u", 2) == 0;
        s->at += second ? 2 : 0;
        int low = second ? hex4(s) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return fail(s, "\\u%04x is the first half of a pair without the second",
                        (unsigned)code);
        s->at += 4;
    }
    return OK;
}

static enum status scan_string(struct scan *s)
{
    s->at++;
    for (;;) {
        if (s->at >= s->length)
            return fail(s, "text without a closing \"");
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"') {
            s->at++;
            return OK;
        }
        if (c == '\\') {
            enum status status = scan_escape(s);
            if (status)
                return status;
            continue;
        }
        if (c < 0x20)
            return fail(s, "the control character 0x%02x stands unescaped in text%s", (unsigned)c,
                        c == '\n' ? " (is a closing \" missing?)" : "");
        int n = utf8_length(s->text + s->at, s->length - s->at);
        if (n == 0)
            return fail(s, "invalid UTF-8");
        s->at += (size_t)n;
    }
}

static bool skip_digits(struct scan *s)
{
    size_t start = s->at;
    while (isdigit((unsigned char)peek(s)))
        s->at++;
    return s->at > start;
}

static enum status scan_number(struct scan *s, size_t mark)
{
    size_t start = s->at;
    bool fraction = false;
    s->at += peek(s) == '-';
    if (peek(s) == '0')
        s->at++;
    else if (!skip_digits(s))
        return fail_expected(s, "a digit");
    if (isalnum((unsigned char)peek(s)) && tolower((unsigned char)peek(s)) != 'e')
        return fail(s, "expected the end of a number, got %c (numbers are decimal%s)", peek(s),
                    isdigit((unsigned char)peek(s)) ? ", without zeros in front" : "");
    if (peek(s) == '.') {
        fraction = true;
        s->at++;
        if (!skip_digits(s))
            return fail_expected(s, "a digit after the point");
    }
    if (tolower((unsigned char)peek(s)) == 'e') {
        s->at++;
        fraction = fraction || peek(s) == '-';
        s->at += peek(s) == '+' || peek(s) == '-';
        if (!skip_digits(s))
            return fail_expected(s, "a digit in the exponent");
    }
    size_t length = s->at - start;
    char number[NUMBER_CHARACTERS + 1] = "";
    if (length <= NUMBER_CHARACTERS)
        memcpy(number, s->text + start, length);
    s->marks[mark].fraction = fraction;
    if (length <= NUMBER_CHARACTERS && isfinite(strtod(number, NULL)))
        return OK;
    s->at = start;
    return length > NUMBER_CHARACTERS
               ? fail(s, "a number of %zu characters (at most %d)", length, NUMBER_CHARACTERS)
               : fail(s, "the number %s is too large", number);
}

static enum status scan_word(struct scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t n = 0;
    while (s->at + n < s->length &&
           (isalnum((unsigned char)s->text[s->at + n]) || s->text[s->at + n] == '_'))
        n++;
    for (int i = 0; i < 3; i++) {
        if (n == strlen(words[i]) && memcmp(s->text + s->at, words[i], n) == 0) {
            s->at += n;
            return OK;
        }
    }
    return fail(s,
                "%.*s is no JSON value (true, false and null are written so; text stands in "
                "double quotes)",
                n > 40 ? 40 : (int)n, s->text + s->at);
}

static enum status scan_value(struct scan *s, size_t offset);

/* One "key": value of an object. */
static enum status scan_member(struct scan *s, bool first)
{
    size_t offset = s->at;
    if (peek(s) == '}' && !first)
        return fail(s, "expected a key in double quotes, got } (a comma behind the last value is "
                       "not allowed)");
    if (peek(s) != '"')
        return fail_expected(s, first ? "a key in double quotes or }" : "a key in double quotes");
    enum status status = scan_string(s);
    if (status)
        return status;
    skip_space(s);
    if (peek(s) != ':')
        return fail_expected(s, "a colon after the key");
    s->at++;
    skip_space(s);
    return scan_value(s, offset);
}

/* What stands between brackets, with the closing one. */
static enum status scan_inside(struct scan *s, char close)
{
    if (s->depth == JSON_MAX_DEPTH)
        return fail(s, "more than %d levels of nesting", JSON_MAX_DEPTH);
    s->depth++;
    s->at++;
    skip_space(s);
    for (bool first = true; peek(s) != close || !first; first = false) {
        if (!first && close == ']' && peek(s) == close)
            return fail(s, "expected a value, got ] (a comma behind the last value is not "
                           "allowed)");
        enum status status = close == '}' ? scan_member(s, first) : scan_value(s, s->at);
        if (status)
            return status;
        skip_space(s);
        if (peek(s) == close)
            break;
        if (peek(s) != ',')
            return fail_expected(s, close == '}' ? "a comma or }" : "a comma or ]");
        s->at++;
        skip_space(s);
    }
    s->at++;
    s->depth--;
    return OK;
}

static enum status scan_value(struct scan *s, size_t offset)
{
    size_t mark = s->count;
    enum status status = add_mark(s, offset);
    if (status)
        return status;
    char c = peek(s);
    if (c == '{' || c == '[')
        return scan_inside(s, c == '{' ? '}' : ']');
    if (c == '"')
        return scan_string(s);
    if (c == '-' || isdigit((unsigned char)c))
        return scan_number(s, mark);
    if (isalpha((unsigned char)c))
        return scan_word(s);
    return fail_expected(s, "a value");
}

enum status json_scan(struct json_mark **marks, const char *text, size_t length, struct error *err)
{
    struct scan s = {.text = text, .length = length, .err = err};
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        s.at = 3;
    skip_space(&s);
    enum status status = scan_value(&s, s.at);
    if (!status) {
        skip_space(&s);
        if (s.at < length)
            status = fail_expected(&s, "the end of the text");
    }
    if (status) {
        free(s.marks);
        s.marks = NULL;
    }
    *marks = s.marks;
    return status;
}
