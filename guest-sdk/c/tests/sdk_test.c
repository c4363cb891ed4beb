/* guesthouse.h: what the conformance suite does not say. The plugins' functions are in a file of their own, since the
 * header must be of use in a program of many files. */
#define GH_TEST
#define GUESTHOUSE_IMPLEMENTATION
#include "../guesthouse.h"

#include "check.h"
#include "sdk_test_plugin.h"

static gh_arena arena;

/* What the function answers to an object. */
static const char *answer(gh_function *decide, const char *object) {
    const gh_plugin plugin = {.name = "test", .version = "1.0.0", .reconcile = decide};
    return gh_call(&arena, &plugin, "reconcile", gh_text(&arena, "{\"object\": %s}", object));
}

#define ANSWERS(decide, object, expected) CHECK(same(answer((decide), (object)), (expected)), #decide " on %s", (object))

static void decisions(void) {
    ANSWERS(says_nothing, "{}", "{\"decision\":{}}");
    ANSWERS(says_how_many, "{\"spec\": {\"n\": 2}}", "{\"decision\":{\"status\":{\"replace\":{\"n\": 3}}}}");
    ANSWERS(says_how_many, "{\"spec\": {\"n\": \"2\"}}", "{\"decision\":{\"status\":{\"replace\":{\"n\": 1}}}}");
    ANSWERS(has_no_children, "{}", "{\"decision\":{\"complete\": true}}");
    ANSWERS(posts_json, "{}",
            "{\"decision\":{\"effects\": [{\"id\": \"post\", \"action\": {\"http\": {\"request\": {\"method\": \"POST\", "
            "\"url\": \"https://example.test/\",\"headers\": [[\"content-type\", \"application/json\"]],"
            "\"body\": {\"text\": \"{\\\"a\\\": \\\"\\\\\\\"\\\"}\"}}}}}]}}");
    ANSWERS(is_all_raw, "{}", "{\"decision\":{\"wake\": {\"after\": 0}}}");
}

static void failures_by_value(void) {
    ANSWERS(
        fails_without_a_word, "{}",
        "{\"failure\":{\"kind\": \"retry\",\"cause\": {\"reason\": \"Error\", \"message\": \"the plugin gives no reason\"}}}");
    ANSWERS(
        fails_after_effects, "{}",
        "{\"failure\":{\"status\":{\"merge\":{\"phase\": \"Bad\"}},\"kind\": \"terminal\",\"cause\": {\"reason\": \"Bad\", "
        "\"message\": \"100% \\\"bad\\\"\"}}}");
    ANSWERS(writes_nonsense, "{}",
            "{\"failure\": {\"kind\": \"terminal\", \"cause\": {\"reason\": \"BadDecision\", \"message\": "
            "\"not JSON: expected `,` or `}` at byte 7, behind `{\\\"a\\\": 5`\"}}}");
    arena.error = NULL;
    ANSWERS(labels_with_bytes, "{}",
            "{\"failure\": {\"kind\": \"terminal\", \"cause\": {\"reason\": \"BadDecision\", \"message\": "
            "\"not JSON: not UTF-8 at byte 7, behind `{\\\"k\\\": \\\"`\"}}}");
    arena.error = NULL;
}

static void what_is_seen(void) {
    const char *object =
        "{\"metadata\": {\"deletionTimestamp\": \"2026-01-01T00:00:00Z\", \"annotations\": {\"a.b/c\": \"d\"}}}";
    ANSWERS(tells_what_it_sees, object,
            "{\"decision\":{\"status\":{\"replace\":{\"annotation\": \"d\", \"label\": null, "
            "\"deleting\": true, \"related\": 0, \"child\": 0, \"receipt\": 0}}}}");
}

static void the_door(void) {
    const gh_plugin plugin = {.name = "test", .version = "1.0.0", .reconcile = says_nothing};
    CHECK(!gh_call(&arena, &plugin, "dance", "{}"), "another verb is an error");
    CHECK(same(arena.error, "verb `dance` is none of describe, reconcile, finalize"), "that is named");
    arena.error = NULL;
    CHECK(!gh_call(&arena, &plugin, "reconcile", "{\"object\":"), "half an observation is an error");
    CHECK(same(arena.error, "observation is not JSON: expected a value at byte 10"), "that says where");
    arena.error = NULL;
    CHECK(same(gh_call(&arena, &plugin, "finalize", "{}"), "{\"decision\":{\"finalized\": true}}"),
          "nothing to clean up: let go");
    CHECK(same(gh_call(&arena, &plugin, "describe", ""),
               "{\"contract\": \"guesthouse:reconciler@0.1.0\",\"descriptor\": {\"sdk\": \"c/0.1.0\","
               "\"name\": \"test\", \"version\": \"1.0.0\"}}"),
          "a descriptor leaves out what is empty");
    const gh_plugin broken = {.name = "test", .version = "1.0.0", .grants = "{http: ["};
    CHECK(!gh_call(&arena, &broken, "describe", "") && arena.error, "a descriptor that is not JSON is an error");
    arena.error = NULL;
}

/* The same digits as in every other language: they stand in keys. */
static void fingerprints(void) {
    gh_decision from = {.arena = &arena};
    CHECK(same(gh_hash(&arena, NULL, 0), "cbf29ce484222325"), "of nothing");
    CHECK(same(gh_fingerprint(&from, "a"), "089bc907b544c769"), "of one text");
    CHECK(!same(gh_fingerprint(&from, "ab", ""), gh_fingerprint(&from, "a", "b")), "texts count as wholes");
}

int main(void) {
    decisions();
    failures_by_value();
    what_is_seen();
    the_door();
    fingerprints();
    gh_arena_free(&arena);
    return checked();
}
