/* gh_test.h - run a plugin natively on case files, without host and without WebAssembly.
 *
 *     #include "gh_test.h"     // before all else: the plugin's main stays out
 *     #include "greeter.c"
 *
 *     int main(int argc, char **argv) { return gh_test(&greeter, NULL, argc, argv); }
 *
 * A test is a program of one source file; `cc -std=c11 -fsanitize=address,undefined test.c && ./a.out cases/<name>.json`. Each
 * argument is a case, or a suite of them (`{"describe": …, "cases": […]}`), in JSON:
 *
 *     {
 *       "about": "what the case is for",
 *       "verb": "reconcile",
 *       "observation": {"object": {"spec": {"who": "Ada"}}},
 *       "expect": {"decision": {"status": {"replace": {"text": "hello, Ada"}}}}
 *     }
 *
 * What is left out of an observation is empty, and `now` is 2026-01-01T00:00:00Z. `expect` has one of `decision`, `failure`,
 * `broken` (ends without a reply, or with a retry, and that text is in the message), `refused` and `same` (anything, each time
 * the same), and beside it `logs`. The plugin is run as the host runs it, as a program of its own with pipes, twice: two
 * different answers are an error. What comes out is TAP, version 12; the exit code is 0 when every case passed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GH_TEST_H
#define GH_TEST_H

#define GH_TEST
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#ifndef GUESTHOUSE_IMPLEMENTATION
#define GUESTHOUSE_IMPLEMENTATION
#endif
#include "guesthouse.h"

#include <sys/wait.h>
#include <unistd.h>

/* A case that cannot be run natively, and why. */
typedef struct gh_skip { const char *name, *reason; } gh_skip;

/* Runs the cases of the files that are the program's arguments; `skips` ends with an empty one, NULL is none. The program's
 * exit code. */
static int gh_test(const gh_plugin *plugin, const gh_skip *skips, int argc, char **argv);

/* ---- running the plugin -------------------------------------------------------------------------------------------- */

typedef struct {
    const gh_plugin *plugin;
    const gh_skip *skips;
    /* Lives as long as a file's cases. */
    gh_arena arena;
    int ran, failed;
    /* Of the case being run: what is wrong, a line each. */
    gh_list wrong;
} ghi_test;

/* How one run ended. */
typedef struct {
    bool answered;
    const char *how, *out, *log;
} ghi_end_of_run;

#define GHI_WRONG(test, ...) ghi_wrong_line((test), gh_text(&(test)->arena, __VA_ARGS__))

static void ghi_wrong_line(ghi_test *test, const char *line) {
    ghi_puts(&test->wrong, line);
    ghi_puts(&test->wrong, "\n");
}

static const char *ghi_file(gh_arena *arena, FILE *file) {
    gh_list text = {.arena = arena};
    char some[4096];
    ghi_puts(&text, "");
    rewind(file);
    for (size_t size; (size = fread(some, 1, sizeof some, file)) > 0;) ghi_put(&text, some, size);
    /* The line's end that a reply and a log have is no part of what they say. */
    if (text.size && text.text[text.size - 1] == '\n') text.text[text.size - 1] = 0;
    return text.text;
}

static ghi_end_of_run ghi_run(ghi_test *test, const char *verb, const char *observation) {
    ghi_end_of_run end = {.how = "no temporary file or process can be made", .out = "", .log = ""};
    FILE *files[] = {tmpfile(), tmpfile(), tmpfile()};
    bool ready = files[0] && files[1] && files[2] && fputs(observation, files[0]) != EOF;
    /* Nothing that waits in a buffer may be written twice. */
    pid_t child = ready && !fflush(NULL) ? (rewind(files[0]), fork()) : -1;
    if (child == 0) {
        for (int i = 0; i < 3; i++) dup2(fileno(files[i]), i);
        char *arguments[] = {(char *)test->plugin->name, (char *)verb, NULL};
        exit(gh_main(test->plugin, 2, arguments));
    }
    int status = 0;
    if (child > 0 && waitpid(child, &status, 0) == child) {
        end.answered = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        end.how = WIFEXITED(status) ? gh_text(&test->arena, "exit code %d", WEXITSTATUS(status))
                                    : gh_text(&test->arena, "signal %d", WTERMSIG(status));
        end.out = ghi_file(&test->arena, files[1]);
        end.log = ghi_file(&test->arena, files[2]);
    }
    for (int i = 0; i < 3; i++) {
        if (files[i]) fclose(files[i]);
    }
    return end;
}

/* ---- comparing ----------------------------------------------------------------------------------------------------- */

/* Whether a member that is left out says the same. */
static bool ghi_is_default(const char *name, const gh_json *value) {
    static const char *const defaults[][2] = {{"message", ""},      {"note", ""},        {"mode", "keep"},
                                              {"ownership", "owned"}, {"view", "full"},    {"delivery", "atLeastOnce"},
                                              {"onImmutable", "fail"}, {"body", "empty"}, {"onDelete", "delete"}};
    int64_t number = 1;
    if (gh_json_kind_of(value) == GH_JSON_NULL || value->first == 'f') return true;
    if (gh_json_kind_of(value) >= GH_JSON_ARRAY) return gh_json_count(value) == 0;
    if (!strcmp(name, "fresh")) return gh_json_int(value, &number) && number == 0;
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        if (!strcmp(name, defaults[i][0])) return gh_json_is(value, defaults[i][1]);
    }
    return false;
}

/* Whether what is in that member of the reply is the plugin's own JSON, in which nothing is a default. */
static bool ghi_is_payload(const char *parent, const char *name) {
    static const char *const names[] = {"replace", "merge", "value", "labels", "annotations", "crd", "configSchema", "grants"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(name, names[i])) return true;
    }
    return !strcmp(parent, "apply") && !strcmp(name, "object");
}

/* As much of a value as a line of diagnostics bears. */
static const char *ghi_shown(gh_arena *arena, const gh_json *value) {
    const size_t most = 300, size = gh_json_size(value);
    if (!value) return "nothing";
    return gh_text(arena, "%.*s%s", (int)(size < most ? size : most), gh_json_text(value), size < most ? "" : " …");
}

/* `{"repeat": [TEXT, N]}` stands for TEXT, N times. */
static const gh_json *ghi_repeated(gh_arena *arena, const gh_json *value) {
    const char *part = gh_json_string(arena, gh_json_get(value, "/repeat/0"), NULL);
    int64_t times = 0;
    if (!part || gh_json_count(value) != 1 || !gh_json_int(gh_json_get(value, "/repeat/1"), &times)) return value;
    gh_list text = {.arena = arena};
    ghi_puts(&text, "");
    while (times-- > 0) ghi_puts(&text, part);
    return gh_json_format(arena, "%s", text.text);
}

static bool ghi_compare(ghi_test *test, const char *path, const gh_json *expected, const gh_json *got, bool payload);

static bool ghi_compare_objects(ghi_test *test, const char *path, const gh_json *expected, const gh_json *got, bool payload) {
    const char *parent = strrchr(path, '/');
    parent = parent ? parent + 1 : path;
    bool same = true;
    for (gh_json_iter it = gh_json_iterate(expected); gh_json_next(&it);) {
        const char *name = gh_json_string(&test->arena, it.key, NULL);
        const gh_json *other = gh_json_member(got, name);
        if (!other && !payload && ghi_is_default(name, it.value)) continue;
        const bool own = payload || ghi_is_payload(parent, name);
        same &= ghi_compare(test, gh_text(&test->arena, "%s/%s", path, name), it.value, other, own);
    }
    for (gh_json_iter it = gh_json_iterate(got); gh_json_next(&it);) {
        const char *name = gh_json_string(&test->arena, it.key, NULL);
        if (gh_json_member(got, name) != it.value) GHI_WRONG(test, "%s/%s is there twice", path, name);
        else if (gh_json_member(expected, name) || (!payload && ghi_is_default(name, it.value))) continue;
        else GHI_WRONG(test, "%s/%s: not expected, got %s", path, name, ghi_shown(&test->arena, it.value));
        same = false;
    }
    return same;
}

/* As values in which 1 and 1.0 differ. Each difference is told with its path. */
static bool ghi_compare(ghi_test *test, const char *path, const gh_json *expected, const gh_json *got, bool payload) {
    gh_arena *arena = &test->arena;
    expected = ghi_repeated(arena, expected);
    const gh_json_kind kind = gh_json_kind_of(expected);
    bool same = kind == gh_json_kind_of(got);
    if (same && kind == GH_JSON_OBJECT) return ghi_compare_objects(test, path, expected, got, payload);
    if (same && kind == GH_JSON_ARRAY) {
        gh_json_iter other = gh_json_iterate(got);
        size_t at = 0;
        for (gh_json_iter it = gh_json_iterate(expected); gh_json_next(&it); at++) {
            const gh_json *value = gh_json_next(&other) ? other.value : NULL;
            same &= ghi_compare(test, gh_text(arena, "%s/%zu", path, at), it.value, value, payload);
        }
        for (; gh_json_next(&other); at++, same = false) {
            GHI_WRONG(test, "%s/%zu: not expected, got %s", path, at, ghi_shown(arena, other.value));
        }
        return same;
    }
    if (same && kind == GH_JSON_STRING) {
        size_t sizes[2];
        const char *one = gh_json_string(arena, expected, &sizes[0]), *two = gh_json_string(arena, got, &sizes[1]);
        same = sizes[0] == sizes[1] && !memcmp(one, two, sizes[0]);
    } else if (same && kind != GH_JSON_ABSENT) {
        const size_t size = gh_json_size(expected);
        same = size == gh_json_size(got) && !memcmp(gh_json_text(expected), gh_json_text(got), size);
    }
    if (!same) GHI_WRONG(test, "%s: expected %s, got %s", path, ghi_shown(arena, expected), ghi_shown(arena, got));
    return same;
}

/* ---- one case ------------------------------------------------------------------------------------------------------ */

/* The observation with what the case left out. */
static const gh_json *ghi_filled(gh_arena *arena, const gh_json *given) {
    static const char *const others[][2] = {{"config", "{}"}, {"mapping", "conformance"}, {"now", "'2026-01-01T00:00:00Z'"},
                                            {"attempt", "0"}, {"round", "0"}};
    gh_list members = {.arena = arena};
    for (gh_json_iter it = gh_json_iterate(given); gh_json_next(&it);) {
        gh_json_add(&members, "%p: %p", (const void *)it.key, (const void *)it.value);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!gh_json_member(given, others[i][0])) gh_json_put(&members, others[i][0], gh_json_relaxed(arena, others[i][1]));
    }
    return gh_json_object(&members);
}

static void ghi_check_logs(ghi_test *test, const gh_json *expected, const char *log) {
    for (gh_json_iter it = gh_json_iterate(expected); gh_json_next(&it);) {
        /* Level and text; this door knows the text alone. */
        const gh_json *text = gh_json_get(it.value, "/1");
        const size_t size = strcspn(log, "\n");
        const gh_json *line = gh_json_format(&test->arena, "%.*s", (int)size, log);
        ghi_compare(test, "/logs", text, *log ? line : NULL, true);
        log += size + (log[size] == '\n');
    }
    if (*log) GHI_WRONG(test, "/logs: not expected, got `%s`", log);
}

/* Ends without a reply, or with a retry, and says that text. */
static void ghi_check_broken(ghi_test *test, const char *text, const ghi_end_of_run *end) {
    const gh_json *reply = end->answered ? gh_json_parse(end->out, NULL) : NULL;
    const char *message = gh_json_string(&test->arena, gh_json_get(reply, "/failure/cause/message"), NULL);
    const bool retry = gh_json_is(gh_json_get(reply, "/failure/kind"), "retry");
    const char *said = !end->answered ? end->log : retry && message ? message : "";
    if (!strstr(said, text)) GHI_WRONG(test, "expected to break with `%s`, got %s: %s%s", text, end->how, end->out, end->log);
}

static void ghi_check_reply(ghi_test *test, const gh_json *expect, const char *verb, const ghi_end_of_run *end) {
    gh_json_fault fault = {0};
    const gh_json *reply = end->answered ? gh_json_parse(end->out, &fault) : NULL;
    const gh_json *refused = gh_json_get(expect, "/refused");
    if (!end->answered) GHI_WRONG(test, "%s ends with %s: %s", verb, end->how, end->log);
    else if (refused && reply) GHI_WRONG(test, "expected what is refused, got %s", end->out);
    else if (!refused && !reply) GHI_WRONG(test, "the reply is not JSON: %s at byte %zu of %s", fault.why, fault.at, end->out);
    if (!reply || gh_json_get(expect, "/same")) return;
    const char *const members[] = {"decision", "failure"};
    for (size_t i = 0; i < 2; i++) {
        const gh_json *expected = gh_json_member(expect, members[i]), *got = gh_json_member(reply, members[i]);
        if (expected || got) ghi_compare(test, gh_text(&test->arena, "/%s", members[i]), expected, got, false);
    }
}

/* Ends a case: a line, and what is wrong below it. */
static void ghi_tell(ghi_test *test, const char *name, const char *skipped) {
    const bool wrong = test->wrong.size > 0;
    test->ran++;
    test->failed += wrong;
    printf("%sok %d - %s%s%s\n", wrong ? "not " : "", test->ran, name, skipped ? " # SKIP " : "", skipped ? skipped : "");
    for (char *line = wrong ? strtok(test->wrong.text, "\n") : NULL; line; line = strtok(NULL, "\n")) printf("#   %s\n", line);
    test->wrong = (gh_list){.arena = &test->arena};
}

/* Why a case is left out; NULL if it is not. */
static const char *ghi_skipped(const ghi_test *test, const char *name, const gh_json *expect) {
    for (const gh_skip *skip = test->skips; skip && skip->name; skip++) {
        if (!strcmp(skip->name, name)) return skip->reason;
    }
    const gh_json *refused = gh_json_get(expect, "/refused");
    return refused && !gh_json_is(refused, "BadOutput") ? "only the host refuses" : NULL;
}

static void ghi_case(ghi_test *test, const char *file, const gh_json *one) {
    gh_arena *arena = &test->arena;
    const gh_json *expect = gh_json_get(one, "/expect");
    const char *name = gh_json_string(arena, gh_json_get(one, "/name"), NULL);
    const char *verb = gh_json_string(arena, gh_json_get(one, "/verb"), NULL);
    const char *skipped = ghi_skipped(test, name ? name : file, expect);
    if (!name) name = file;
    if (!verb) verb = "reconcile";
    if (!gh_json_count(expect)) GHI_WRONG(test, "the case expects nothing: no member in `expect`");
    else if (!skipped) {
        const char *observation = gh_json_text(ghi_filled(arena, gh_json_get(one, "/observation")));
        const ghi_end_of_run end = ghi_run(test, verb, observation), again = ghi_run(test, verb, observation);
        const gh_json *broken = gh_json_get(expect, "/broken");
        if (broken) ghi_check_broken(test, gh_json_string(arena, broken, NULL), &end);
        else ghi_check_reply(test, expect, verb, &end);
        if (gh_json_get(expect, "/logs")) ghi_check_logs(test, gh_json_get(expect, "/logs"), end.log);
        if (strcmp(end.out, again.out) != 0) GHI_WRONG(test, "two calls answer differently: %s and %s", end.out, again.out);
    }
    ghi_tell(test, name, skipped);
}

/* A suite says of the SDK only that there is one. */
static void ghi_describe_case(ghi_test *test, const gh_json *expected) {
    gh_list members = {.arena = &test->arena}, whole = members;
    gh_json_add(&members, "sdk: 'c/" GUESTHOUSE_VERSION "'");
    for (gh_json_iter it = gh_json_iterate(expected); gh_json_next(&it);) {
        if (!gh_json_is(it.key, "sdk")) gh_json_add(&members, "%p: %p", (const void *)it.key, (const void *)it.value);
    }
    gh_json_add(&whole, "contract: '" GUESTHOUSE_CONTRACT "'");
    gh_json_put(&whole, "descriptor", gh_json_object(&members));
    const ghi_end_of_run end = ghi_run(test, "describe", "");
    const gh_json *got = end.answered ? gh_json_parse(end.out, NULL) : NULL;
    if (got) ghi_compare(test, "", gh_json_object(&whole), got, false);
    else GHI_WRONG(test, "describe gives no JSON, %s: %s%s", end.how, end.out, end.log);
    ghi_tell(test, "describe", NULL);
}

static void ghi_test_file(ghi_test *test, const char *path) {
    gh_json_fault fault = {0};
    FILE *file = fopen(path, "r");
    const char *text = file ? ghi_file(&test->arena, file) : "";
    const gh_json *json = gh_json_parse(text, &fault);
    if (file) fclose(file);
    if (!json) {
        if (!file) GHI_WRONG(test, "the file cannot be read");
        else GHI_WRONG(test, "the case is not JSON: %s at byte %zu", fault.why, fault.at);
        ghi_tell(test, path, NULL);
        return;
    }
    const gh_json *cases = gh_json_get(json, "/cases"), *describe = gh_json_get(json, "/describe");
    if (describe) ghi_describe_case(test, describe);
    for (gh_json_iter it = gh_json_iterate(cases); gh_json_next(&it);) ghi_case(test, path, it.value);
    if (!cases) ghi_case(test, path, json);
}

static int gh_test(const gh_plugin *plugin, const gh_skip *skips, int argc, char **argv) {
    ghi_test test = {.plugin = plugin, .skips = skips};
    for (int i = 1; i < argc; i++) {
        test.wrong = (gh_list){.arena = &test.arena};
        ghi_test_file(&test, argv[i]);
        gh_arena_free(&test.arena);
    }
    printf("1..%d\n", test.ran);
    if (!test.ran) fprintf(stderr, "usage: %s CASE.json...\n", argv[0]);
    return test.ran && !test.failed ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
