/* gh_json.h: what is read, what is refused and where, what templates write; at last, texts broken at random. */
#define GUESTHOUSE_IMPLEMENTATION
#include "../gh_json.h"

#include "check.h"

#include <inttypes.h>

static gh_arena arena;

static void texts_that_are_json(void) {
    static const char *const texts[] = {
        "null", " true ", "false", "0", "-0", "-1.5e-3", "1E+2", "\"\"", "[]", "{}", " [ ] ", "{ }", "[1,2]",
        "{\"a\":{\"b\":[{}]}}",
        "\"\\u0000\\ud83d\\ude00\\ud800\"", "\"\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\"",
        "\"\x7f\"", "\t\r\n{\"a\" : 1 , \"a\" : 2}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK(gh_json_parse(texts[i], NULL), "is JSON: %p", gh_json_format(&arena, "%s", texts[i]));
    }
}

static void texts_that_are_not(void) {
    static const struct {
        const char *text;
        size_t at;
    } texts[] = {
        {"", 0}, {" ", 1}, {"nul", 0}, {"True", 0}, {"01", 1}, {"-", 1}, {"1.", 2}, {".5", 0}, {"1e", 2}, {"+1", 0}, {"1 2", 2},
        {"nullnull", 4}, {"[1,]", 3}, {"[1 2]", 3}, {"[", 1}, {"[1", 2}, {"{\"a\"}", 4}, {"{\"a\":}", 5}, {"{\"a\":1,}", 7},
        {"{a:1}", 1}, {"{\"a\":1", 6}, {"]", 0}, {"[}", 1}, {"'a'", 0}, {"\"a", 2}, {"\"\\\"", 3}, {"\"\\x\"", 2},
        {"\"\\u12g4\"", 5}, {"\"\\u12", 5}, {"\"\n\"", 1}, {"\"\xff\"", 1}, {"\"\xc0\x80\"", 1}, {"\"\xe0\x9f\xbf\"", 1},
        {"\"\xed\xa0\x80\"", 1},
        {"\"\xf4\x90\x80\x80\"", 1}, {"\"\xc3", 1}, {"\"\xf0\x90\x80\"", 1}, {"\xef\xbb\xbf{}", 0}, {"NaN", 0},
        {"-Infinity", 1}, {"[1]//", 3},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gh_json_fault fault = {0};
        const bool refused = !gh_json_parse(texts[i].text, &fault);
        CHECK(refused && fault.why && fault.at == texts[i].at, "text %zu is refused at byte %zu: %s", i, fault.at,
              fault.why);
    }
}

static void depth_is_bounded(void) {
    char text[2 * GH_JSON_DEPTH + 3];
    for (size_t deep = GH_JSON_DEPTH; deep <= GH_JSON_DEPTH + 1; deep++) {
        memset(text, '[', deep);
        memset(text + deep, ']', deep);
        text[2 * deep] = 0;
        CHECK(!gh_json_parse(text, NULL) == (deep > GH_JSON_DEPTH), "%zu arrays in each other", deep);
    }
}

static void integers_are_exact(void) {
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } numbers[] = {
        {"0", true, 0}, {"-0", true, 0}, {"9007199254740993", true, INT64_C(9007199254740993)},
        {"9223372036854775807", true, INT64_MAX}, {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 7}, {"-9223372036854775809", false, 7}, {"99999999999999999999", false, 7},
        {"1.0", false, 7}, {"1e2", false, 7}, {"\"1\"", false, 7}, {"null", false, 7},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t value = 7;
        const bool fits = gh_json_int(gh_json_parse(numbers[i].text, NULL), &value);
        CHECK(fits == numbers[i].fits && value == numbers[i].value, "%s as an integer", numbers[i].text);
    }
    double fraction = 0;
    CHECK(gh_json_double(gh_json_parse("-0.5", NULL), &fraction) && fraction <= -0.5 && fraction >= -0.5,
          "a double when asked");
}

static void strings_lose_nothing(void) {
    size_t size = 0;
    const gh_json *text = gh_json_parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\ud83d\\ude00\xc3\xa4\"", NULL);
    CHECK(same(gh_json_string(&arena, text, NULL), "\"\\/\b\f\n\r\t\xc3\xa4\xf0\x9f\x98\x80\xc3\xa4"), "every escape");
    const gh_json *zero = gh_json_parse("\"a\\u0000b\"", NULL);
    CHECK(!gh_json_string(&arena, zero, NULL), "U+0000 is no end of a C string");
    const char *bytes = gh_json_string(&arena, zero, &size);
    CHECK(bytes && size == 3 && !memcmp(bytes, "a\0b", 4), "with a size it is read");
    CHECK(!gh_json_is(zero, "a"), "and it is not the part before it");
    CHECK(same(gh_json_string(&arena, gh_json_parse("\"\\ud800\\u0041\\udc00\"", NULL), NULL), "\xef\xbf\xbd" "A\xef\xbf\xbd"),
          "lone surrogates are U+FFFD");
    CHECK(gh_json_is(gh_json_parse("\"\\u0061\\/b\"", NULL), "a/b"), "compared as it reads, not as it is written");
    CHECK(!gh_json_string(&arena, gh_json_parse("1", NULL), NULL), "a number is no string");
}

static void members_are_found(void) {
    const char *text = "{\"spec\": {\"a/b\": 1, \"m~n\": [10, {\"x\": null}], \"\": 2, \"\\u0061\": 3, \"twice\": 1,"
                       " \"twice\": 2}, \"n\": 1.0}";
    const gh_json *json = gh_json_parse(text, NULL);
    static const char *const found[][2] = {
        {"/spec/a~1b", "1"}, {"/spec/m~0n/0", "10"}, {"/spec/m~0n/1/x", "null"}, {"/spec/", "2"}, {"/spec/a", "3"},
        {"/spec/twice", "2"}, {"/n", "1.0"},
    };
    static const char *const absent[] = {"/spec/m~0n/2", "/spec/m~0n/00", "/spec/m~0n/-", "/spec/m~0n/x", "/none/of/it", "/n/0",
                                         "spec", "/spec/a~b", "/spec/m~0n/99999999999"};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        const gh_json *value = gh_json_get(json, found[i][0]);
        CHECK(same(gh_text(&arena, "%p", value), found[i][1]), "%s is %s", found[i][0], found[i][1]);
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) CHECK(!gh_json_get(json, absent[i]), "%s is absent", absent[i]);
    CHECK(gh_json_get(json, "") == json, "the empty pointer is the whole");
    CHECK(gh_json_member(gh_json_get(json, "/spec"), "a/b"), "a name with a slash");
    CHECK(gh_json_count(gh_json_get(json, "/spec")) == 6 && !gh_json_count(NULL), "members are counted");
    CHECK(gh_json_kind_of(gh_json_get(json, "/x")) == GH_JSON_ABSENT, "absent is a kind of its own");
    CHECK(gh_json_size(gh_json_get(json, "/spec/m~0n")) == strlen("[10, {\"x\": null}]"), "a value knows its size");
}

/* A template, and what comes out or why nothing does. */
#define WRITES(expected, ...) writes((expected), gh_json_format(&arena, __VA_ARGS__))

static void writes(const char *expected, const gh_json *made) {
    const char *got = made ? gh_json_text(made) : arena.error;
    arena.error = NULL;
    CHECK(same(got, expected), "writes %s", expected);
}

static void templates_write_json(void) {
    /* Volatile, since the compiler rightly finds a NULL odd that it can see. */
    const char *volatile nothing = NULL;
    const gh_json *raw = gh_json_parse(" {\"n\": 1.0, \"big\": 9007199254740993} ", NULL);
    WRITES("{\"apiVersion\": \"apps/v1\", \"a-b\": [true, false, null, \"nullish\", -1.5e3]}",
           "{apiVersion: apps/v1, a-b: [true, false, null, nullish, -1.5e3]}");
    WRITES("{\"k/\\\"\": \"a\\u0001\\n\xc3\xa4\"}", "{%s: %s}", "k/\"", "a\x01\n\xc3\xa4");
    WRITES("[\"hello, \\\"x\\\"!\", \"it's\", \"100%\", \"\\u00e4\"]", "['hello, %s!', 'it\\'s', '100%%', \"\\u00e4\"]",
           "\"x\"");
    WRITES("[-9223372036854775808, 18446744073709551615, 7, -1]", "[%" PRId64 ", %" PRIu64 ", %zu, %ld]", INT64_MIN, UINT64_MAX,
           (size_t)7, -1L);
    WRITES("[\"00ff\", \"x-0a\"]", "[%04x, 'x-%02x']", 255u, 10u);
    WRITES("[null, null, \"\"]", "[%s, %p, '%s']", nothing, NULL, nothing);
    WRITES("[\"ab\", \"abc\", \"\"]", "[%.*s, %.*s, %.*s]", 2, "abc", 9, "abc", 0, "abc");
    WRITES("{\"raw\": {\"n\": 1.0, \"big\": 9007199254740993}, \"text\": \"{\\\"n\\\": 1.0, \\\"big\\\": 9007199254740993}\"}",
           "{raw: %p, text: '%p'}", raw, raw);
    WRITES("[true, false]", "[%p, %p]", gh_bool(true), gh_bool(false));
}

static void templates_refuse(void) {
    WRITES("template: `%f` is none of %s %d %u %x %p %%", "{a: %f}", 1.0);
    WRITES("not JSON: expected `,` or `}` at byte 7, behind `{\"a\": 5`", "{a: 5m}");
    WRITES("not JSON: expected a value at byte 6, behind `{\"a\": `", "{a: , b: 1}");
    WRITES("not JSON: not UTF-8 at byte 1, behind `\"`", "%s", "\xff");
    WRITES("not JSON: the text ends inside a string at byte 3, behind `[\"a`", "['a");
    arena.error = NULL;
    gh_json_format(&arena, "[%s", "x");
    const char *first = arena.error;
    gh_json_format(&arena, "{");
    CHECK(first && arena.error == first, "the first error is kept");
    arena.error = NULL;
    CHECK(same(gh_json_text(gh_json_relaxed(&arena, "{a: '5%'}")), "{\"a\": \"5%\"}"), "a relaxed text has no arguments");
}

static void lists_leave_out_what_is_absent(void) {
    gh_list members = {.arena = &arena};
    CHECK(same(gh_json_text(gh_json_object(&members)), "{}"), "no members");
    gh_json_put(&members, "a", NULL);
    gh_json_put_string(&members, "b", NULL);
    gh_json_put_string(&members, "c", "");
    gh_json_add(&members, "%s: [%d]", "d", 1);
    CHECK(same(gh_json_text(gh_json_object(&members)), "{\"c\": \"\",\"d\": [1]}"), "some members");
    CHECK(!gh_json_array(&members) && arena.error, "members are no elements");
    arena.error = NULL;
}

static void base64_goes_there_and_back(void) {
    static const char *const pairs[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t size = 0;
        const char *back = gh_base64_decode(&arena, pairs[i][1], &size);
        CHECK(same(gh_base64(&arena, pairs[i][0], strlen(pairs[i][0])), pairs[i][1]), "base64 of `%s`", pairs[i][0]);
        CHECK(same(back, pairs[i][0]) && size == strlen(pairs[i][0]), "and back");
    }
    static const char *const none[] = {"Z", "Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Z g=", "Zg=a"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        size_t size = 0;
        CHECK(!gh_base64_decode(&arena, none[i], &size), "`%s` is not base64", none[i]);
    }
}

/* Reads all of a value; how many bytes its strings have. */
static size_t walk(const gh_json *value) {
    size_t total = 0, size = 0;
    if (gh_json_string(&arena, value, &size)) total += size;
    for (gh_json_iter it = gh_json_iterate(value); gh_json_next(&it);) {
        total += walk(it.value);
        if (gh_json_string(&arena, it.key, &size)) total += size;
    }
    return total;
}

/* A sanitizer stands behind this one: what is accepted can be read, and what is refused is left alone. */
static void broken_texts_are_survived(void) {
    static const char model[] =
        "{\"spec\":{\"a\":[1,-2.5e+3,true,null,\"\\u00e4\\ud83d\\ude00\xc3\xa4\"],\"b\":{\"\":{}}},\"x\":\"\\\\\"}";
    static const char bytes[] = "{}[]\",:\\u0d8-.e+tfn \x80\xc3\xf0";
    uint32_t random = 1;
    size_t accepted = 0, refused = 0;
    for (int i = 0; i < 200000; i++) {
        char text[sizeof model];
        memcpy(text, model, sizeof model);
        for (int change = 0; change <= i % 3; change++) {
            random = random * UINT32_C(1664525) + UINT32_C(1013904223);
            text[(random >> 16) % (sizeof text - 1)] = bytes[(random >> 8) % (sizeof bytes - 1)];
        }
        gh_arena mine = arena;
        arena = (gh_arena){0};
        const gh_json *json = gh_json_parse(text, NULL);
        const bool read = json && walk(json) + gh_json_size(json) > 0;
        gh_arena_free(&arena);
        arena = mine;
        accepted += read;
        refused += !json;
    }
    CHECK(accepted > 1000 && refused > 1000 && accepted + refused == 200000, "200000 texts broken at random are survived");
}

int main(void) {
    texts_that_are_json();
    texts_that_are_not();
    depth_is_bounded();
    integers_are_exact();
    strings_lose_nothing();
    members_are_found();
    templates_write_json();
    templates_refuse();
    lists_leave_out_what_is_absent();
    base64_goes_there_and_back();
    broken_texts_are_survived();
    gh_arena_free(&arena);
    return checked();
}
