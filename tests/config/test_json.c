/* test_json.c - JSON text in and out: what is refused and where, what survives a round trip. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"
#include "config/json_tree.h"
#include "test.h"

/* The message that parsing the text gives, "" where it is read. Valid until the next call. */
static const char *message_of(const char *text, size_t length)
{
    static struct error err;
    struct json_value *v = NULL;
    err.text[0] = 0;
    enum status status = json_parse(&v, text, length, &err);
    CHECK_INT(status, err.text[0] ? ERR_INPUT : OK);
    CHECK((v == NULL) == (status != OK));
    json_free(v);
    return err.text;
}

static struct json_value *parse(const char *text)
{
    struct error err = {0};
    struct json_value *v = NULL;
    CHECK_OK(json_parse(&v, text, strlen(text), &err), err);
    return v;
}

TEST(json_parse__reads_each_type)
{
    struct json_value *v = parse(" {\"a\": [1, -2.5e2, \"x\\u00e9\\ud83d\\ude00\\n\"], \"b\": true,"
                                 "\"c\": null, \"\": {}} \n");
    CHECK_INT(json_type(v), JSON_OBJECT);
    const struct json_value *a = json_member(v, "a");
    CHECK_INT(json_type(a), JSON_ARRAY);
    CHECK_NEAR(json_to_number(json_first(a)), 1, 0);
    CHECK_NEAR(json_to_number(json_next(json_first(a))), -250, 0);
    CHECK_STR(json_to_string(json_next(json_next(json_first(a)))), "x\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK(json_key(json_first(a)) == NULL);
    CHECK_STR(json_key(a), "a");
    CHECK(json_to_bool(json_member(v, "b")));
    CHECK_INT(json_type(json_member(v, "c")), JSON_NULL);
    CHECK_INT(json_type(json_member(v, "")), JSON_OBJECT);
    CHECK(json_member(v, "d") == NULL);
    CHECK(json_member(a, "a") == NULL);
    CHECK(json_to_string(a) == NULL);
    json_free(v);
}

TEST(json_parse__allows_a_byte_order_mark)
{
    const char text[] = "\xef\xbb\xbf{\"a\": 1}";
    CHECK_STR(message_of(text, sizeof text - 1), "");
    const char broken[] = "\xef\xbb\xbf{\"a\" 1}";
    CHECK_CONTAINS(message_of(broken, sizeof broken - 1), "line 1, column 6: ");
}

TEST(json_parse__refuses_what_is_not_json)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "line 1, column 1: expected a value, got the end of the text"},
        {"{", "line 1, column 2: expected a key in double quotes or }, got the end of the text"},
        {"{\"a\": 1,}", "line 1, column 9: expected a key in double quotes, got } (a comma behind"},
        {"[1,\n 2,\n]", "line 3, column 1: expected a value, got ] (a comma behind"},
        {"[1 2]", "line 1, column 4: expected a comma or ], got 2"},
        {"{\"a\": 1 \"b\": 2}", "line 1, column 9: expected a comma or }, got \""},
        {"{a: 1}", "line 1, column 2: expected a key in double quotes or }, got a"},
        {"{'a': 1}", "got ' (text stands in double quotes)"},
        {"{\"a\" 1}", "line 1, column 6: expected a colon after the key, got 1"},
        {"{\"a\": 1} x", "line 1, column 10: expected the end of the text, got x"},
        {"// c\n1", "line 1, column 1: expected a value, got / (comments are not allowed)"},
        {"{\"\xc3\xa9\": # c\n1}", "line 1, column 7: expected a value, got # (comments"},
        {"NaN", "NaN is no JSON value"},
        {"[-Infinity]", "line 1, column 3: expected a digit, got I"},
        {"True", "True is no JSON value (true, false and null"},
        {"nullx", "nullx is no JSON value"},
        {"0x10", "line 1, column 2: expected the end of a number, got x"},
        {"01", "without zeros in front"},
        {"+1", "a number has no + in front"},
        {".5", "a number has a digit before the point"},
        {"1.", "expected a digit after the point"},
        {"1.e3", "expected a digit after the point"},
        {"1e", "expected a digit in the exponent"},
        {"1e400", "line 1, column 1: the number 1e400 is too large"},
        {"-1e400", "the number -1e400 is too large"},
        {"[0.1111111111111111111111111111111111111111111111111111111111111]", "a number of 63"},
        {"\"a\nb\"", "line 1, column 3: the control character 0x0a stands unescaped in text"},
        {"\"a\tb\"", "the control character 0x09 stands unescaped"},
        {"\"a", "text without a closing \""},
        {"\"\\x\"", "expected one of \" \\ / b f n r t u after \\, got x"},
        {"\"\\u12g4\"", "expected four hexadecimal digits"},
        {"\"\\u0000\"", "the character \\u0000 is not allowed"},
        {"\"\\ud800\"", "\\ud800 is the first half of a pair"},
        {"\"\\ud800\\u0041\"", "\\ud800 is the first half of a pair"},
        {"\"\\udc00\"", "\\udc00 is the second half"},
        {"\"\xff\"", "line 1, column 2: invalid UTF-8"},
        {"\"\xc0\x80\"", "invalid UTF-8"},
        {"\"\xed\xa0\x80\"", "invalid UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "invalid UTF-8"},
        {"\"\xe2\x82\"", "invalid UTF-8"},
        {"[\x01]", "got the control character 0x01"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_about("%s", cases[i].text);
        CHECK_CONTAINS(message_of(cases[i].text, strlen(cases[i].text)), cases[i].message);
    }
    test_about("a zero byte");
    CHECK_CONTAINS(message_of("1\0", 2), "got the control character 0x00");
}

TEST(json_parse__refuses_repeated_keys_with_their_place)
{
    const char *text = "{\"a\": 1,\n \"b\": {\"x\": 1, \"y\": 2, \"\\u0078\": 3}}";
    CHECK_STR(message_of(text, strlen(text)), "line 2, column 24: the key \"x\" is repeated");
    const char *fine = "{\"a\": {\"a\": {\"A\": 1}}, \"b\": [{\"a\": 1}, {\"a\": 1}]}";
    CHECK_STR(message_of(fine, strlen(fine)), "");
}

TEST(json_parse__many_keys_are_compared_fast)
{
    size_t n = 50000, length = 1;
    char *text = malloc(n * 16 + 32);
    CHECK(text != NULL);
    strcpy(text, "{");
    for (size_t i = 0; i < n; i++)
        length += (size_t)sprintf(text + length, "\"k%zu\":%zu,", i, i);
    strcpy(text + length, "\"k7\":0}");
    CHECK_CONTAINS(message_of(text, strlen(text)), "the key \"k7\" is repeated");
    free(text);
}

TEST(json_parse__limits_nesting)
{
    static char text[200000];
    for (int depth = 64; depth <= 65; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        CHECK_STR(message_of(text, 2 * (size_t)depth),
                  depth == 64 ? "" : "line 1, column 65: more than 64 levels of nesting");
    }
    memset(text, '[', 100000);
    memset(text + 100000, ']', 100000);
    CHECK_STR(message_of(text, 200000), "line 1, column 65: more than 64 levels of nesting");
}

TEST(json_parse__long_text_shows_a_short_message)
{
    static char text[100000];
    memset(text, 'x', sizeof text);
    CHECK(strlen(message_of(text, sizeof text)) < 300);
}

TEST(json_format_number__is_the_shortest_text_that_reads_back)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {1e-8, "1e-08"},
        {128, "128"},
        {-3, "-3"},
        {1e5, "100000"},
        {1e300, "1e+300"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {9007199254740991.0, "9007199254740991"},
        {5e-324, "4.94065645841247e-324"},
        {(double)NAN, "null"},
        {(double)INFINITY, "null"},
    };
    char text[JSON_NUMBER_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_format_number(text, cases[i].number);
        CHECK_STR(text, cases[i].text);
        if (isfinite(cases[i].number))
            CHECK(strtod(text, NULL) == cases[i].number);
    }
}

TEST(json_write__gives_one_line)
{
    struct json *j = json_create();
    CHECK(j != NULL);
    json_object(j, NULL);
    json_string(j, "event", "a\"b\\c\n\x01\xff");
    json_number(j, "loss", 0.25);
    json_number(j, "bad", (double)NAN);
    json_int(j, "n", 9223372036854775807LL);
    json_bool(j, "yes", true);
    json_null(j, "no");
    json_string(j, "none", NULL);
    json_array(j, "list");
    json_int(j, NULL, 1);
    json_object(j, NULL);
    json_end(j);
    json_array(j, NULL);
    json_end(j);
    json_end(j);
    json_raw(j, "raw", "{\"x\":1}");
    CHECK(json_text(j) == NULL); /* one bracket is open */
    json_end(j);
    CHECK_STR(json_text(j), "{\"event\":\"a\\\"b\\\\c\\n\\u0001\xef\xbf\xbd\",\"loss\":0.25,"
                            "\"bad\":null,\"n\":9223372036854775807,\"yes\":true,\"no\":null,"
                            "\"none\":null,\"list\":[1,{},[]],\"raw\":{\"x\":1}}");
    CHECK_STR(message_of(json_text(j), strlen(json_text(j))), "");
    json_end(j); /* one too many: the failure is kept */
    CHECK(json_text(j) == NULL);
    json_destroy(j);
}

TEST(json_print__keeps_the_point_of_a_fraction)
{
    struct json_value *v = parse("[1, 1.0, 5e-1, 1e-7, 1.5e30, 1.0e30, {\"a\": [[], {}]}]");
    char *text = json_print(v, false);
    CHECK_STR(text, "[1,1.0,0.5,1e-07,1.5e+30,1.0e+30,{\"a\":[[],{}]}]");
    free(text);
    text = json_print(v, true);
    CHECK_CONTAINS(text, "\n  1.0,\n");
    CHECK_CONTAINS(text, "    \"a\": [[], {}]\n  }\n]\n");
    free(text);
    json_free(v);
}

TEST(json_copy__keeps_origin_and_flags)
{
    struct json_value *v = parse("{\"a\": [0.5, \"x\"]}");
    json_set_origin_all(v, 7);
    json_set_flag(json_child(v, "a"), JSON_STEP);
    struct json_value *copy = json_copy(v);
    json_free(v);
    const struct json_value *item = json_at(copy, "a.0", NULL);
    CHECK_INT(json_origin(item), 7);
    CHECK(json_flag(item, JSON_FRACTION));
    CHECK(json_flag(json_at(copy, "a", NULL), JSON_STEP));
    CHECK(!json_flag(json_at(copy, "a.1", NULL), JSON_FRACTION));
    CHECK(json_at(copy, "a.2", NULL) == NULL);
    CHECK(json_at(copy, "b.c", NULL) == NULL);
    json_free(copy);
}
