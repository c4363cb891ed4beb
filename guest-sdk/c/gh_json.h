/* gh_json.h - JSON for plugins in C: read in place, written by templates.
 *
 * A value is a pointer to its first byte in a text that was checked once. Nothing is built beside the text, so everything in
 * it survives: 64-bit integers, `1.0` beside `1`, null beside absent, members nobody knows, all byte for byte.
 *
 *     const gh_json *seen = gh_json_parse("{\"spec\": {\"replicas\": 3}}", NULL);
 *     int64_t replicas = 0;
 *     gh_json_int(gh_json_get(seen, "/spec/replicas"), &replicas);
 *     const gh_json *wanted = gh_json_format(&arena, "{replicas: %" PRId64 ", by: %s}", replicas + 1, "me");
 *
 * Absent is NULL, and NULL may be given to every function that reads: look-ups chain without checks.
 *
 * In one source file, define GUESTHOUSE_IMPLEMENTATION before the include. C11; part of the SDK, version in guesthouse.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GH_JSON_H
#define GH_JSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How deep arrays and objects may be nested; what is deeper is refused. */
#ifndef GH_JSON_DEPTH
#define GH_JSON_DEPTH 512
#endif

#if defined(__GNUC__)
#define GH_PRINTF(template, first) __attribute__((format(printf, template, first)))
#else
#define GH_PRINTF(template, first)
#endif

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* All that is made in one call, freed at once. `gh_arena arena = {0};` begins one. When memory runs out the process ends with
 * a line on stderr, which is what the contract calls a retry. */
typedef struct gh_arena {
    struct gh_chunk *chunks;
    /* The first thing that went wrong while writing; NULL if nothing did. */
    const char *error;
} gh_arena;

void *gh_arena_alloc(gh_arena *arena, size_t size);
void gh_arena_free(gh_arena *arena);

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* A value: its first byte in a checked text. */
typedef struct gh_json {
    char first;
} gh_json;

typedef enum gh_json_kind {
    GH_JSON_ABSENT,
    GH_JSON_NULL,
    GH_JSON_BOOL,
    GH_JSON_NUMBER,
    GH_JSON_STRING,
    GH_JSON_ARRAY,
    GH_JSON_OBJECT
} gh_json_kind;

/* Why a text is not JSON, and at which byte. */
typedef struct gh_json_fault {
    const char *why;
    size_t at;
} gh_json_fault;

/* Checks a text (RFC 8259, UTF-8, ended by a NUL, which must stay where it is) and gives its value, or NULL and the fault
 * (which may be NULL). Only what comes from here or from gh_json_format may be read. */
const gh_json *gh_json_parse(const char *text, gh_json_fault *fault);

gh_json_kind gh_json_kind_of(const gh_json *value);

/* The value's own text: not ended where the value ends, but that many bytes long. */
const char *gh_json_text(const gh_json *value);
size_t gh_json_size(const gh_json *value);

/* By JSON Pointer (RFC 6901): "/spec/ports/0/name"; `/` in a name is `~1`, `~` is `~0`. Of two members with one name the last
 * counts, as it does for the API server. */
const gh_json *gh_json_get(const gh_json *value, const char *pointer);

/* A member by its plain name, which may hold anything: "app.kubernetes.io/name". */
const gh_json *gh_json_member(const gh_json *value, const char *name);

/* Several members in one pass over the value, which is what a look-up costs; NULL in `found` for those that are absent. */
void gh_json_members(const gh_json *value, const char *const *names, const gh_json **found, size_t count);

/* Elements and members, in order:
 *     for (gh_json_iter it = gh_json_iterate(list); gh_json_next(&it);) use(it.value);
 * `key` is the member's name as a string value; NULL in an array. */
typedef struct gh_json_iter {
    const gh_json *key, *value;
    const char *at;
} gh_json_iter;

gh_json_iter gh_json_iterate(const gh_json *value);
bool gh_json_next(gh_json_iter *iter);
size_t gh_json_count(const gh_json *value);

/* Whether it is that string. */
bool gh_json_is(const gh_json *value, const char *text);

/* Exact, or false and `*out` untouched: for what is no integer (1.0 and 1e2 are none) and what does not fit. */
bool gh_json_int(const gh_json *value, int64_t *out);
bool gh_json_bool(const gh_json *value, bool *out);

/* Nearest double; integers above 2^53 are rounded, so ask for one only where the field is a fraction. */
bool gh_json_double(const gh_json *value, double *out);

/* The string without quotes and escapes, ended by a NUL; NULL for what is no string. `size` gets its length. A string that
 * holds U+0000 cannot be told from a shorter one without: where `size` is NULL, such a string is NULL, too. A lone surrogate
 * is read as U+FFFD. */
const char *gh_json_string(gh_arena *arena, const gh_json *value, size_t *size);

/* ---- writing ------------------------------------------------------------------------------------------------------- */

/* A value from a template: JSON in which names and words need no quotes, strings may stand in single ones, and arguments are
 * put in, quoted and escaped. The compiler checks their types as it does for printf.
 *
 *     gh_json_format(arena, "{kind: ConfigMap, metadata: {name: '%s-content'}, data: {%s: %s}}", name, key, value)
 *
 *     %s %.*s            a string; inside quotes a part of one; NULL is null
 *     %d %u %x           integers, with h, l, ll, z, j; %016x pads
 *     %p                 a const gh_json *, as it is (gh_bool makes one); inside quotes its text; NULL is null
 *     %%                 a percent sign
 *
 * A word is letters, digits and `_ . / -`, and begins with a letter or `_`: all but true, false and null become strings. NULL
 * when what comes out is not JSON; `arena->error` then says why. */
const gh_json *gh_json_format(gh_arena *arena, const char *template, ...) GH_PRINTF(2, 3);
const gh_json *gh_bool(bool is);

/* JSON text in the template's relaxed form, without arguments: a percent sign is itself. */
const gh_json *gh_json_relaxed(gh_arena *arena, const char *text);

/* Plain text from the same conversions. */
const char *gh_text(gh_arena *arena, const char *template, ...) GH_PRINTF(2, 3);

/* An array or object of a number of parts that is not known before: `gh_list list = {.arena = arena};`, then gh_json_add for
 * each element ("%s") or member ("%s: %d"), or gh_json_put for a member that is left out where its value is NULL; at last
 * gh_json_array or gh_json_object. */
typedef struct gh_list {
    gh_arena *arena;
    char *text;
    size_t size, room;
} gh_list;

void gh_json_add(gh_list *list, const char *template, ...) GH_PRINTF(2, 3);
void gh_json_put(gh_list *members, const char *name, const gh_json *value);
void gh_json_put_string(gh_list *members, const char *name, const char *text);
const gh_json *gh_json_array(const gh_list *list);
const gh_json *gh_json_object(const gh_list *list);

/* Bytes as JSON carries them (RFC 4648, section 4). What is decoded is ended by a NUL; NULL for what is not base64. */
const char *gh_base64(gh_arena *arena, const void *bytes, size_t size);
const void *gh_base64_decode(gh_arena *arena, const char *text, size_t *size);

#endif

/* ==================================================================================================================== */

#if defined(GUESTHOUSE_IMPLEMENTATION) && !defined(GH_JSON_IMPLEMENTED)
#define GH_JSON_IMPLEMENTED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------------------------------- */

struct gh_chunk {
    struct gh_chunk *next;
    size_t used, room;
    max_align_t bytes[];
};

void *gh_arena_alloc(gh_arena *arena, size_t size) {
    const size_t unit = sizeof(max_align_t), smallest = 8192;
    size_t want = size > SIZE_MAX / 2 ? 0 : (size + unit - 1) / unit * unit;
    struct gh_chunk *chunk = arena->chunks;
    if (!chunk || chunk->room - chunk->used < want || want < size) {
        size_t room = want > smallest ? want : smallest;
        chunk = want < size ? NULL : malloc(sizeof *chunk + room);
        if (!chunk) {
            fputs("guesthouse: out of memory\n", stderr);
            exit(EXIT_FAILURE);
        }
        *chunk = (struct gh_chunk){.next = arena->chunks, .room = room};
        arena->chunks = chunk;
    }
    void *made = (char *)chunk->bytes + chunk->used;
    chunk->used += want;
    return made;
}

void gh_arena_free(gh_arena *arena) {
    for (struct gh_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    *arena = (gh_arena){0};
}

/* Appends bytes; the text is always ended by a NUL. */
static void ghi_put(gh_list *out, const char *bytes, size_t size) {
    if (out->room - out->size <= size) {
        size_t room = (out->size + size) * 2 + 64;
        char *text = gh_arena_alloc(out->arena, room);
        if (out->size) memcpy(text, out->text, out->size);
        out->text = text;
        out->room = room;
    }
    memcpy(out->text + out->size, bytes, size);
    out->size += size;
    out->text[out->size] = 0;
}

static void ghi_puts(gh_list *out, const char *text) { ghi_put(out, text, strlen(text)); }

/* ---- checking ------------------------------------------------------------------------------------------------------ */

static const char *ghi_space(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
    return at;
}

static bool ghi_digit(char c) { return c >= '0' && c <= '9'; }

/* Value of a hexadecimal digit; -1 for anything else. */
static int ghi_hex(char c) {
    if (ghi_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Length of the UTF-8 sequence at that place; 0 if it is none (overlong, surrogate, above U+10FFFF, cut off). */
static size_t ghi_utf8(const char *at) {
    const unsigned char *b = (const unsigned char *)at;
    if (b[0] < 0x80) return 1;
    size_t size = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    /* What the second byte may be; the narrower bounds are those of Unicode's table 3-7. */
    unsigned char low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    if (b[0] < 0xc2 || b[0] > 0xf4 || b[1] < low || b[1] > high) return 0;
    for (size_t i = 2; i < size; i++) {
        if ((b[i] & 0xc0) != 0x80) return 0;
    }
    return size;
}

/* A text being checked. */
typedef struct {
    const char *text;
    gh_json_fault fault;
} ghi_scan;

static const char *ghi_wrong(ghi_scan *scan, const char *at, const char *why) {
    scan->fault = (gh_json_fault){why, (size_t)(at - scan->text)};
    return NULL;
}

static const char *ghi_check_string(const char *at, ghi_scan *scan) {
    for (at++; *at != '"';) {
        if (!*at) return ghi_wrong(scan, at, "the text ends inside a string");
        if ((unsigned char)*at < 0x20) return ghi_wrong(scan, at, "a control character in a string");
        size_t size = ghi_utf8(at);
        if (!size) return ghi_wrong(scan, at, "not UTF-8");
        if (*at == '\\') {
            at++;
            if (!*at || !strchr("\"\\/bfnrtu", *at)) return ghi_wrong(scan, at, "no such escape");
            for (int i = 1; *at == 'u' && i <= 4; i++) {
                if (ghi_hex(at[i]) < 0) return ghi_wrong(scan, at + i, "an escape of less than four digits");
                if (i == 4) at += 4;
            }
        }
        at += size;
    }
    return at + 1;
}

static const char *ghi_check_number(const char *at, ghi_scan *scan) {
    if (*at == '-') at++;
    if (!ghi_digit(*at)) return ghi_wrong(scan, at, "expected a value");
    if (*at++ == '0' && ghi_digit(*at)) return ghi_wrong(scan, at, "a number with a leading zero");
    while (ghi_digit(*at)) at++;
    if (*at == '.') {
        if (!ghi_digit(*++at)) return ghi_wrong(scan, at, "expected a digit");
        while (ghi_digit(*at)) at++;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        if (*at == '+' || *at == '-') at++;
        if (!ghi_digit(*at)) return ghi_wrong(scan, at, "expected a digit");
        while (ghi_digit(*at)) at++;
    }
    return at;
}

/* Where the value at that place ends; NULL and the fault if there is none. */
static const char *ghi_check(const char *at, unsigned depth, ghi_scan *scan) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        if (!strncmp(at, words[i], strlen(words[i]))) return at + strlen(words[i]);
    }
    if (*at == '"') return ghi_check_string(at, scan);
    if (*at != '{' && *at != '[') return ghi_check_number(at, scan);
    if (depth == GH_JSON_DEPTH) return ghi_wrong(scan, at, "nested too deep");
    const bool object = *at == '{';
    const char close = object ? '}' : ']';
    at = ghi_space(at + 1);
    if (*at == close) return at + 1;
    for (;; at = ghi_space(at + 1)) {
        if (object) {
            if (*at != '"') return ghi_wrong(scan, at, "expected a member's name");
            if (!(at = ghi_check_string(at, scan))) return NULL;
            at = ghi_space(at);
            if (*at != ':') return ghi_wrong(scan, at, "expected `:`");
            at = ghi_space(at + 1);
        }
        if (!(at = ghi_check(at, depth + 1, scan))) return NULL;
        at = ghi_space(at);
        if (*at == close) return at + 1;
        if (*at != ',') return ghi_wrong(scan, at, object ? "expected `,` or `}`" : "expected `,` or `]`");
    }
}

const gh_json *gh_json_parse(const char *text, gh_json_fault *fault) {
    ghi_scan scan = {.text = text};
    const char *start = ghi_space(text), *end = ghi_check(start, 0, &scan);
    if (end && *(end = ghi_space(end))) end = ghi_wrong(&scan, end, "something follows the value");
    if (fault) *fault = scan.fault;
    return end ? (const gh_json *)start : NULL;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

gh_json_kind gh_json_kind_of(const gh_json *value) {
    if (!value) return GH_JSON_ABSENT;
    switch (value->first) {
    case 'n': return GH_JSON_NULL;
    case 't':
    case 'f': return GH_JSON_BOOL;
    case '"': return GH_JSON_STRING;
    case '[': return GH_JSON_ARRAY;
    case '{': return GH_JSON_OBJECT;
    default: return GH_JSON_NUMBER;
    }
}

const char *gh_json_text(const gh_json *value) { return value ? &value->first : ""; }

/* Where a checked value ends. */
static const char *ghi_end(const char *at) {
    size_t depth = 0;
    do {
        if (*at == '"') {
            for (at++; *at != '"'; at++) at += *at == '\\';
            at++;
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth) {
            at++;
        } else {
            at += strcspn(at, ",:]} \t\n\r");
        }
    } while (depth);
    return at;
}

size_t gh_json_size(const gh_json *value) { return value ? (size_t)(ghi_end(&value->first) - &value->first) : 0; }

gh_json_iter gh_json_iterate(const gh_json *value) {
    const gh_json_kind kind = gh_json_kind_of(value);
    const bool many = kind == GH_JSON_ARRAY || kind == GH_JSON_OBJECT;
    return (gh_json_iter){.at = many ? &value->first : NULL};
}

bool gh_json_next(gh_json_iter *iter) {
    if (!iter->at) return false;
    /* At the opening bracket, or behind the last value: then at the comma or the closing bracket. */
    const bool begins = !iter->value, object = begins ? *iter->at == '{' : iter->key != NULL;
    const char *at = ghi_space(begins ? iter->at + 1 : iter->at);
    if (*at == ']' || *at == '}') {
        iter->at = NULL;
        return false;
    }
    if (!begins) at = ghi_space(at + 1);
    if (object) {
        iter->key = (const gh_json *)at;
        at = ghi_space(ghi_space(ghi_end(at)) + 1);
    }
    iter->value = (const gh_json *)at;
    iter->at = ghi_end(at);
    return true;
}

size_t gh_json_count(const gh_json *value) {
    size_t count = 0;
    for (gh_json_iter it = gh_json_iterate(value); gh_json_next(&it);) count++;
    return count;
}

static size_t ghi_encode(uint32_t point, char out[4]) {
    const uint8_t shift[] = {0, 6, 12, 18}, head[] = {0, 0xc0, 0xe0, 0xf0};
    size_t more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    for (size_t i = 0; i <= more; i++) {
        uint32_t bits = point >> shift[more - i];
        out[i] = (char)(i ? 0x80 | (bits & 0x3f) : more ? head[more] | bits : bits);
    }
    return more + 1;
}

static uint32_t ghi_four(const char *at) {
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) unit = unit << 4 | (uint32_t)ghi_hex(at[i]);
    return unit;
}

/* One character of a checked string: its bytes in UTF-8, how many, and where the next one begins. */
static const char *ghi_character(const char *at, char out[4], size_t *size) {
    if (*at != '\\') {
        *out = *at;
        *size = 1;
        return at + 1;
    }
    static const char names[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *name = strchr(names, *++at);
    if (*at != 'u') {
        *out = name ? meant[name - names] : *at;
        *size = 1;
        return at + 1;
    }
    uint32_t point = ghi_four(at + 1);
    at += 5;
    if (point >= 0xd800 && point < 0xe000) {
        uint32_t low = point < 0xdc00 && at[0] == '\\' && at[1] == 'u' ? ghi_four(at + 2) : 0;
        const bool pair = low >= 0xdc00 && low < 0xe000;
        point = pair ? 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
        if (pair) at += 6;
    }
    *size = ghi_encode(point, out);
    return at;
}

/* Whether a string value reads as these bytes; `pointer`: they are a token of a JSON Pointer. */
static bool ghi_reads_as(const gh_json *value, const char *bytes, size_t size, bool pointer) {
    if (gh_json_kind_of(value) != GH_JSON_STRING) return false;
    const char *at = &value->first + 1, *end = bytes + size;
    while (*at != '"') {
        char have[4];
        size_t length;
        at = ghi_character(at, have, &length);
        if (pointer && bytes + 1 < end && *bytes == '~' && (bytes[1] == '0' || bytes[1] == '1')) {
            if (length != 1 || *have != (bytes[1] == '0' ? '~' : '/')) return false;
            bytes += 2;
        } else {
            if ((size_t)(end - bytes) < length || memcmp(bytes, have, length) != 0) return false;
            bytes += length;
        }
    }
    return bytes == end;
}

bool gh_json_is(const gh_json *value, const char *text) { return ghi_reads_as(value, text, strlen(text), false); }

static const gh_json *ghi_member(const gh_json *value, const char *name, size_t size, bool pointer) {
    const gh_json *found = NULL;
    for (gh_json_iter it = gh_json_iterate(value); gh_json_next(&it);) {
        if (ghi_reads_as(it.key, name, size, pointer)) found = it.value;
    }
    return found;
}

const gh_json *gh_json_member(const gh_json *value, const char *name) {
    return ghi_member(value, name, strlen(name), false);
}

void gh_json_members(const gh_json *value, const char *const *names, const gh_json **found, size_t count) {
    for (size_t i = 0; i < count; i++) found[i] = NULL;
    for (gh_json_iter it = gh_json_iterate(value); gh_json_next(&it);) {
        for (size_t i = 0; i < count; i++) {
            if (it.key && gh_json_is(it.key, names[i])) found[i] = it.value;
        }
    }
}

/* The element that an index (digits without leading zero) names. */
static const gh_json *ghi_element(const gh_json *value, const char *index, size_t size) {
    size_t wanted = 0;
    if (!size || size > 9 || (size > 1 && *index == '0')) return NULL;
    for (size_t i = 0; i < size; i++) {
        if (!ghi_digit(index[i])) return NULL;
        wanted = wanted * 10 + (size_t)(index[i] - '0');
    }
    for (gh_json_iter it = gh_json_iterate(value); gh_json_next(&it);) {
        if (!wanted--) return it.value;
    }
    return NULL;
}

const gh_json *gh_json_get(const gh_json *value, const char *pointer) {
    while (value && *pointer) {
        if (*pointer++ != '/') return NULL;
        size_t size = strcspn(pointer, "/");
        const bool array = gh_json_kind_of(value) == GH_JSON_ARRAY;
        value = array ? ghi_element(value, pointer, size) : ghi_member(value, pointer, size, true);
        pointer += size;
    }
    return value;
}

bool gh_json_int(const gh_json *value, int64_t *out) {
    if (gh_json_kind_of(value) != GH_JSON_NUMBER) return false;
    const char *at = &value->first;
    const bool negative = *at == '-';
    /* Below zero there is one more, so digits are counted downwards. */
    int64_t number = 0;
    for (at += negative; ghi_digit(*at); at++) {
        int digit = *at - '0';
        if (number < (INT64_MIN + digit) / 10) return false;
        number = number * 10 - digit;
    }
    if (*at == '.' || *at == 'e' || *at == 'E' || (!negative && number == INT64_MIN)) return false;
    *out = negative ? number : -number;
    return true;
}

bool gh_json_bool(const gh_json *value, bool *out) {
    if (gh_json_kind_of(value) != GH_JSON_BOOL) return false;
    *out = value->first == 't';
    return true;
}

bool gh_json_double(const gh_json *value, double *out) {
    if (gh_json_kind_of(value) != GH_JSON_NUMBER) return false;
    *out = strtod(&value->first, NULL);
    return true;
}

const char *gh_json_string(gh_arena *arena, const gh_json *value, size_t *size) {
    if (gh_json_kind_of(value) != GH_JSON_STRING) return NULL;
    /* Reading never makes a string longer. */
    char *text = gh_arena_alloc(arena, gh_json_size(value)), *out = text;
    for (const char *at = &value->first + 1; *at != '"';) {
        char have[4];
        size_t length;
        at = ghi_character(at, have, &length);
        if (!size && !*have) return NULL;
        memcpy(out, have, length);
        out += length;
    }
    *out = 0;
    if (size) *size = (size_t)(out - text);
    return text;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

/* Where in a template an argument is put in. */
typedef enum { GHI_PLAIN, GHI_BARE, GHI_QUOTED } ghi_place;

typedef struct {
    va_list list;
} ghi_arguments;

static void ghi_fail(gh_arena *arena, const char *template, ...) GH_PRINTF(2, 3);

/* Bytes inside a string. Those above 0x7f are left for the check of what comes out. */
static void ghi_escape(gh_list *out, const char *bytes, size_t size) {
    static const char names[] = "btnfr\"\\", meant[] = "\b\t\n\f\r\"\\";
    size_t from = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        ghi_put(out, bytes + from, i - from);
        from = i + 1;
        const char *name = c ? strchr(meant, c) : NULL;
        char escape[] = {'\\', 'u', '0', '0', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};
        if (name) escape[1] = names[name - meant];
        ghi_put(out, escape, name ? 2 : sizeof escape);
    }
    ghi_put(out, bytes + from, size - from);
}

static void ghi_put_string(gh_list *out, const char *bytes, size_t size, ghi_place place) {
    if (place == GHI_PLAIN) {
        ghi_put(out, bytes, size);
        return;
    }
    if (place == GHI_BARE) ghi_puts(out, "\"");
    ghi_escape(out, bytes, size);
    if (place == GHI_BARE) ghi_puts(out, "\"");
}

static void ghi_put_number(gh_list *out, uint64_t number, bool negative, unsigned base, size_t width) {
    char digits[64], *at = digits + sizeof digits;
    do {
        *--at = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    while ((size_t)(digits + sizeof digits - at) < width && at > digits + 1) *--at = '0';
    if (negative) *--at = '-';
    ghi_put(out, at, (size_t)(digits + sizeof digits - at));
}

static int64_t ghi_signed(const char *size, ghi_arguments *from) {
    if (!strcmp(size, "ll")) return va_arg(from->list, long long);
    if (*size == 'l') return va_arg(from->list, long);
    if (*size == 'j') return va_arg(from->list, intmax_t);
    if (*size == 'z') return va_arg(from->list, ptrdiff_t);
    return va_arg(from->list, int);
}

static uint64_t ghi_unsigned(const char *size, ghi_arguments *from) {
    if (!strcmp(size, "ll")) return va_arg(from->list, unsigned long long);
    if (*size == 'l') return va_arg(from->list, unsigned long);
    if (*size == 'j') return va_arg(from->list, uintmax_t);
    if (*size == 'z') return va_arg(from->list, size_t);
    return va_arg(from->list, unsigned);
}

/* One conversion, from behind its percent sign; where the template goes on. */
static const char *ghi_convert(gh_list *out, const char *at, ghi_arguments *from, ghi_place place) {
    const char *start = at - 1;
    size_t width = 0, limit = SIZE_MAX;
    if (*at == '0') {
        while (ghi_digit(*at)) width = width * 10 + (size_t)(*at++ - '0');
    }
    if (at[0] == '.' && at[1] == '*') {
        int given = va_arg(from->list, int);
        if (given >= 0) limit = (size_t)given;
        at += 2;
    }
    char size[3] = {0};
    for (int i = 0; i < 2 && strchr("hljz", *at) && *at; i++) size[i] = *at++;
    switch (*at) {
    case '%': ghi_puts(out, "%"); break;
    case 's': {
        const char *text = va_arg(from->list, const char *);
        const char *end = text && limit != SIZE_MAX ? memchr(text, 0, limit) : NULL;
        size_t length = !text ? 0 : end ? (size_t)(end - text) : limit != SIZE_MAX ? limit : strlen(text);
        if (text || place != GHI_BARE) ghi_put_string(out, text ? text : "", length, place);
        else ghi_puts(out, "null");
        break;
    }
    case 'd':
    case 'i': {
        int64_t number = ghi_signed(size, from);
        ghi_put_number(out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, number < 0, 10, width);
        break;
    }
    case 'u': ghi_put_number(out, ghi_unsigned(size, from), false, 10, width); break;
    case 'x': {
        const bool bare = place == GHI_BARE;
        if (bare) ghi_puts(out, "\"");
        ghi_put_number(out, ghi_unsigned(size, from), false, 16, width);
        if (bare) ghi_puts(out, "\"");
        break;
    }
    case 'p': {
        const gh_json *value = va_arg(from->list, void *);
        if (value) ghi_put_string(out, &value->first, gh_json_size(value), place == GHI_QUOTED ? place : GHI_PLAIN);
        else ghi_puts(out, "null");
        break;
    }
    default: {
        /* With the letter, if it is one: a byte of a longer character alone would not be UTF-8. */
        int length = (int)(at - start) + (*at > ' ' && *at <= '~');
        ghi_fail(out->arena, "template: `%.*s` is none of %%s %%d %%u %%x %%p %%%%", length, start);
        /* What the argument was is not known, so no later one can be found. */
        return at + strlen(at);
    }
    }
    return at + 1;
}

/* A quoted part of a template; where it goes on. An escape is JSON's, and `\'` an apostrophe. */
static const char *ghi_quoted(gh_list *out, const char *at, ghi_arguments *from) {
    const char quote = *at++;
    ghi_puts(out, "\"");
    while (*at && *at != quote) {
        if (*at == '%' && from) {
            at = ghi_convert(out, at + 1, from, GHI_QUOTED);
        } else if (*at == '\\' && at[1]) {
            ghi_put(out, at + (at[1] == '\''), at[1] == '\'' ? 1 : 2);
            at += 2;
        } else {
            ghi_escape(out, at++, 1);
        }
    }
    if (!*at) return at;
    ghi_puts(out, "\"");
    return at + 1;
}

/* Whether a word goes on, or, with `first`, begins. */
static bool ghi_word(char c, bool first) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && (ghi_digit(c) || c == '.' || c == '/' || c == '-'));
}

static void ghi_template(gh_list *out, const char *at, ghi_arguments *from) {
    while (*at) {
        if (*at == '%' && from) {
            at = ghi_convert(out, at + 1, from, GHI_BARE);
        } else if (*at == '"' || *at == '\'') {
            at = ghi_quoted(out, at, from);
        } else if (ghi_digit(*at) || *at == '-') {
            size_t size = strspn(at, "0123456789+-.eE");
            ghi_put(out, at, size);
            at += size;
        } else if (ghi_word(*at, true)) {
            size_t size = 1;
            while (ghi_word(at[size], false)) size++;
            const bool literal = (size == 4 && (!memcmp(at, "true", 4) || !memcmp(at, "null", 4))) ||
                                 (size == 5 && !memcmp(at, "false", 5));
            ghi_put_string(out, at, size, literal ? GHI_PLAIN : GHI_BARE);
            at += size;
        } else {
            ghi_put(out, at++, 1);
        }
    }
}

static const char *ghi_plain(gh_arena *arena, const char *at, ghi_arguments *from) {
    gh_list out = {.arena = arena};
    ghi_puts(&out, "");
    while (*at) {
        size_t size = strcspn(at, "%");
        ghi_put(&out, at, size);
        at += size;
        if (*at) at = ghi_convert(&out, at + 1, from, GHI_PLAIN);
    }
    return out.text;
}

const char *gh_text(gh_arena *arena, const char *template, ...) {
    ghi_arguments from;
    va_start(from.list, template);
    const char *text = ghi_plain(arena, template, &from);
    va_end(from.list);
    return text;
}

static void ghi_fail(gh_arena *arena, const char *template, ...) {
    ghi_arguments from;
    va_start(from.list, template);
    if (!arena->error) arena->error = ghi_plain(arena, template, &from);
    va_end(from.list);
}

/* What was written, checked. */
static const gh_json *ghi_finish(const gh_list *out) {
    gh_json_fault fault;
    const gh_json *value = gh_json_parse(out->text, &fault);
    if (value) return value;
    /* A window of the text that is small enough for a condition's message and begins with a whole character. */
    size_t from = fault.at > 40 ? fault.at - 40 : 0;
    while (((unsigned char)out->text[from] & 0xc0) == 0x80 && from < fault.at) from++;
    const int size = (int)(fault.at - from);
    ghi_fail(out->arena, "not JSON: %s at byte %zu, behind `%.*s`", fault.why, fault.at, size, out->text + from);
    return NULL;
}

const gh_json *gh_json_format(gh_arena *arena, const char *template, ...) {
    gh_list out = {.arena = arena};
    ghi_arguments from;
    va_start(from.list, template);
    ghi_puts(&out, "");
    ghi_template(&out, template, &from);
    va_end(from.list);
    return ghi_finish(&out);
}

const gh_json *gh_bool(bool is) { return (const gh_json *)(is ? "true" : "false"); }

const gh_json *gh_json_relaxed(gh_arena *arena, const char *text) {
    gh_list out = {.arena = arena};
    ghi_puts(&out, "");
    ghi_template(&out, text, NULL);
    return ghi_finish(&out);
}

void gh_json_add(gh_list *list, const char *template, ...) {
    ghi_arguments from;
    va_start(from.list, template);
    if (list->size) ghi_puts(list, ",");
    ghi_template(list, template, &from);
    va_end(from.list);
}

void gh_json_put(gh_list *members, const char *name, const gh_json *value) {
    if (value) gh_json_add(members, "%s: %p", name, (const void *)value);
}

void gh_json_put_string(gh_list *members, const char *name, const char *text) {
    if (text) gh_json_add(members, "%s: %s", name, text);
}

static const gh_json *ghi_enclose(const gh_list *list, const char *open, const char *close) {
    gh_list out = {.arena = list->arena};
    ghi_puts(&out, open);
    if (list->size) ghi_put(&out, list->text, list->size);
    ghi_puts(&out, close);
    return ghi_finish(&out);
}

const gh_json *gh_json_array(const gh_list *list) { return ghi_enclose(list, "[", "]"); }
const gh_json *gh_json_object(const gh_list *list) { return ghi_enclose(list, "{", "}"); }

/* ---- base64 -------------------------------------------------------------------------------------------------------- */

static const char ghi_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const char *gh_base64(gh_arena *arena, const void *bytes, size_t size) {
    const unsigned char *in = bytes;
    char *text = gh_arena_alloc(arena, size / 3 * 4 + 5), *out = text;
    for (size_t i = 0; i < size; i += 3) {
        const size_t have = size - i < 3 ? size - i : 3;
        uint32_t three = (uint32_t)in[i] << 16;
        if (have > 1) three |= (uint32_t)in[i + 1] << 8;
        if (have > 2) three |= in[i + 2];
        for (size_t j = 0; j < 4; j++) *out++ = j <= have ? ghi_alphabet[three >> (18 - 6 * j) & 63] : '=';
    }
    *out = 0;
    return text;
}

const void *gh_base64_decode(gh_arena *arena, const char *text, size_t *size) {
    const size_t length = strlen(text), pad = length ? strspn(text + strcspn(text, "="), "=") : 0;
    if (length % 4 || pad > 2 || strcspn(text, "=") + pad != length) return NULL;
    unsigned char *bytes = gh_arena_alloc(arena, length / 4 * 3 + 1), *out = bytes;
    uint32_t bits = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = text[i] == '=' ? ghi_alphabet : memchr(ghi_alphabet, text[i], 64);
        if (!digit) return NULL;
        bits = bits << 6 | (uint32_t)(digit - ghi_alphabet);
        if (i % 4 == 3) {
            *out++ = (unsigned char)(bits >> 16);
            *out++ = (unsigned char)(bits >> 8);
            *out++ = (unsigned char)bits;
        }
    }
    *size = (size_t)(out - bytes) - pad;
    bytes[*size] = 0;
    return bytes;
}

#endif
