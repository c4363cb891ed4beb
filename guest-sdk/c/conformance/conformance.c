/* The conformance guest in C (tests/conformance/README.md): a branch for each case, by the SDK's own builders. */
#define _DEFAULT_SOURCE 1 /* getentropy */
#define GUESTHOUSE_IMPLEMENTATION
#include "guesthouse.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

static const char *presence(const gh_json *value) {
    if (!value) return "absent";
    if (gh_json_kind_of(value) == GH_JSON_NULL) return "null";
    return gh_json_is(value, "") ? "empty" : "value";
}

static void absent(const gh_observation *seen, gh_decision *want) {
    gh_list members = {.arena = want->arena};
    for (const char *name = "a\0b\0c\0d\0"; *name; name += 2) {
        gh_json_put_string(&members, name, presence(gh_json_member(seen->spec, name)));
    }
    gh_status(want, "%p", gh_json_object(&members));
}

static void children(gh_decision *want) {
    const char *const part = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared, namespace: other}, data: {k: v}}";
    gh_children(want,
                {.id = "plain",
                 .object = gh_value(want, "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}, data: {k: v}}")},
                {.id = "job",
                 .after = {"plain"},
                 .object = gh_value(want, "{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {backoffLimit: %d}}",
                                    "job", 0),
                 .mode = GH_ONCE,
                 .ownership = GH_ADOPT,
                 .on_immutable = GH_RECREATE,
                 .on_delete = GH_ORPHAN},
                {.id = "secret",
                 .object = gh_value(want, "{apiVersion: v1, kind: Secret, metadata: {name: secret}}"),
                 .generate = {{.key = "password", .length = 24}, {.key = "pin", .length = 4, .alphabet = "0123456789"}}},
                {.id = "part",
                 .after = {"plain", "job"},
                 .object = gh_json_relaxed(want->arena, part),
                 .ownership = GH_FIELDS});
}

static void deletions(gh_decision *want) {
    gh_delete(want, .id = "one", .object = {.api_version = "v1", .kind = "ConfigMap", .name = "gone"});
    gh_delete(want, .id = "two", .uid = "u-9",
              .object = {.api_version = "v1", .kind = "ConfigMap", .namespace = "other", .name = "gone"});
}

static void requests(gh_decision *want) {
    gh_http(want, .id = "least", .request = {.method = "PUT", .url = "https://example.test/a"});
    gh_http(want, .id = "all", .after = {"least"}, .delivery = GH_AT_MOST_ONCE, .key = "generation-3",
            .request = {.method = "POST",
                        .url = "https://example.test/b?x=1",
                        .headers = {{"accept", "text/plain"}, {"accept", "*/*"}, {"x-a", "1"}},
                        .text = "{\"a\":1}",
                        .credential = "token",
                        .timeout = 7});
    gh_http(want, .id = "bytes", .literal_key = "c",
            .request = {.method = "PUT", .url = "https://example.test/c", .bytes = {"\x00\xff\xfe\x80", 4}});
}

static void needs(gh_decision *want) {
    gh_need(want, .name = "by-name",
            .object = {.api_version = "v1", .kind = "Secret", .namespace = "other", .name = "s"});
    gh_need(want, .name = "own-namespace", .view = GH_METADATA,
            .object = {.api_version = "v1", .kind = "ConfigMap", .name = "cm"});
    gh_need(want, .name = "by-label", .limit = 10,
            .selected = {.api_version = "v1", .kind = "Pod", .namespace = "*", .labels = "app in (a, b)"});
    gh_need(want, .name = "mine", .owned = {.api_version = "batch/v1", .kind = "Job"});
    gh_need(want, .name = "outside", .fresh = 60,
            .fetch = {.url = "https://example.test/r", .headers = {{"accept", "application/json"}}});
}

/* A body as it is told: text as it is, other bytes as base64. */
static const char *body(gh_arena *arena, const gh_response *response) {
    return response->text ? response->body : gh_base64(arena, response->body, response->body_size);
}

static void tell_related(gh_list *told, const gh_related *related) {
    const gh_response *response = &related->response;
    switch (related->state) {
    case GH_RELATED_UNASKED: break;
    case GH_RELATED_OBJECTS:
        gh_json_add(told, "{name: %s, found: %zu, truncated: %p, first: %p}", related->name, related->count,
                    gh_bool(related->truncated), gh_json_get(related->items, "/0/metadata/name"));
        break;
    case GH_RELATED_RESPONSE:
        gh_json_add(told, "{name: %s, code: %d, body: %s, header: %s, truncated: %p}", related->name, response->code,
                    body(told->arena, response), gh_response_header(response, "x-a"), gh_bool(response->truncated));
        break;
    case GH_RELATED_UNAVAILABLE:
        gh_json_add(told, "{name: %s, unavailable: %s, message: %s}", related->name, related->unavailable.reason,
                    related->unavailable.message);
        break;
    }
}

static void tell_child(gh_list *told, const gh_child *child) {
    static const char *const states[] = {"absent", "inProgress", "current", "failed", "terminating"};
    gh_json_add(told, "{effect: %s, name: %s, namespace: %s, uid: %s, state: %s, error: %s}", child->effect,
                child->object.name, child->object.namespace, child->uid, states[child->state], child->error.reason);
}

static void tell_receipt(gh_list *told, const gh_receipt *receipt) {
    const gh_response *answered = &receipt->answered;
    switch (receipt->state) {
    case GH_RECEIPT_UNSENT: break;
    case GH_RECEIPT_ANSWERED:
        gh_json_add(told, "{effect: %s, key: %s, state: answered, code: %d, body: %s}", receipt->effect, receipt->key,
                    answered->code, body(told->arena, answered));
        break;
    case GH_RECEIPT_FAILED:
        gh_json_add(told, "{effect: %s, key: %s, state: failed, attempts: %" PRIu32 ", reason: %s, nextAt: %s}",
                    receipt->effect, receipt->key, receipt->failed.attempts, receipt->failed.error.reason,
                    receipt->failed.next_at);
        break;
    case GH_RECEIPT_UNKNOWN:
        gh_json_add(told, "{effect: %s, key: %s, state: unknown}", receipt->effect, receipt->key);
        break;
    }
}

static void observed(const gh_observation *seen, gh_decision *want) {
    gh_list members = {.arena = want->arena}, related = members, told_children = members, receipts = members;
    for (size_t i = 0; i < seen->related_count; i++) tell_related(&related, &seen->related[i]);
    for (size_t i = 0; i < seen->child_count; i++) tell_child(&told_children, &seen->children[i]);
    for (size_t i = 0; i < seen->receipt_count; i++) tell_receipt(&receipts, &seen->receipts[i]);
    gh_json_add(&members, "name: %s, namespace: %s, uid: %s, generation: %" PRId64, seen->name, seen->namespace, seen->uid,
                seen->generation);
    gh_json_add(&members, "label: %s, old: %p", gh_seen_label(seen, "a"), gh_json_get(seen->status, "/old"));
    gh_json_add(&members, "mapping: %s, now: %s, attempt: %" PRIu32 ", round: %" PRIu32, seen->mapping, seen->now,
                seen->attempt, seen->round);
    gh_json_add(&members, "greeting: %p, deleting: %p", gh_json_get(seen->config, "/greeting"), gh_bool(seen->deleting));
    gh_json_put(&members, "related", gh_json_array(&related));
    gh_json_put(&members, "children", gh_json_array(&told_children));
    gh_json_put(&members, "receipts", gh_json_array(&receipts));
    gh_status(want, "%p", gh_json_object(&members));
}

static gh_result wall_clock(gh_decision *want) {
    const time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    char text[sizeof "2026-01-02T03:04:05Z"];
    if (!utc || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", utc)) return gh_retry(want, "NoTime", "time() is of no use");
    gh_status(want, "{now: %s}", text);
    return GH_OK;
}

static gh_result random_number(gh_decision *want) {
    uint32_t number;
    if (getentropy(&number, sizeof number)) return gh_retry(want, "NoEntropy", "getentropy() fails");
    gh_status(want, "{random: %" PRIu32 "}", number);
    return GH_OK;
}

static void large(gh_decision *want) {
    char *text = gh_arena_alloc(want->arena, 100001);
    memset(text, 'x', 100000);
    text[100000] = 0;
    gh_status(want, "{text: %s}", text);
}

static void logs(const gh_observation *seen) {
    gh_log(seen, "d %d", 1);
    gh_log(seen, "i %d", 2);
    gh_log(seen, "w %d", 3);
    gh_log(seen, "e %d", 4);
    fputs("printed to stderr\n", stderr);
}

/* What C has for an error that nobody catches. */
static void throws(const gh_observation *seen) {
    gh_log(seen, "conformance throws");
    exit(EXIT_FAILURE);
}

/* As long as the suite has cases. */
static gh_result reconcile(const gh_observation *seen, gh_decision *want) {
    const char *const name = gh_seen_string(seen, "/spec/case", "");
#define CASE(is) else if (!strcmp(name, is))
    if (!strcmp(name, "empty")) return GH_OK;
    CASE("status-replace") {
        gh_status(want, "{phase: Done, count: %d, ok: false, ratio: 0.5, list: [a, %s], nested: {none: null}}", 3, "");
    }
    CASE("status-merge") gh_merge_status(want, "{kept: %s, gone: null}", "x");
    CASE("values") gh_status(want, "{values: %p}", gh_json_get(seen->spec, "/values"));
    CASE("arithmetic") gh_status(want, "{next: %" PRId64 "}", gh_seen_int(seen, "/spec/number", 0) + 1);
    CASE("absent") absent(seen, want);
    CASE("conditions") {
        gh_condition(want, "Synced", true, "Done", "all of it");
        gh_condition(want, "Healthy", GH_FALSE, "Broken", "m");
        gh_condition(want, "Ready", GH_UNKNOWN, "Waiting", "%s", "");
    }
    CASE("labels") {
        gh_label(want, "team", "a");
        gh_label(want, "old", NULL);
        gh_annotation(want, "acme.io/note", "n");
        gh_annotation(want, "acme.io/old", NULL);
    }
    CASE("events") {
        gh_event(want, "Told", "so");
        gh_warning(want, "Warned", "beware");
    }
    CASE("wake-at") gh_wake_at(want, "2026-02-01T00:00:00Z");
    CASE("wake-after") gh_wake_after(want, 90);
    CASE("children") children(want);
    CASE("delete") deletions(want);
    CASE("http") requests(want);
    CASE("needs") needs(want);
    CASE("extension") {
        gh_extension(want, "example.test/more", gh_value(want, "{n: %d}", 1));
        gh_other(want, .id = "x", .name = "example.test/do", .value = gh_value(want, "{deep: [%d, null]}", 1));
    }
    CASE("retry") {
        gh_merge_status(want, "{phase: Waiting}");
        gh_condition(want, "Synced", false, "NotYet", "m");
        gh_after(want, 30);
        return gh_retry(want, "NotYet", "the other side sleeps");
    }
    CASE("stall") return gh_stall(want, "Wrong", "the %s is negative", "size");
    CASE("throw") throws(seen);
    CASE("malformed") gh_status_json(want, "{\"a\":");
    CASE("logs") logs(seen);
    CASE("clock") return wall_clock(want);
    CASE("random") return random_number(want);
    CASE("large") large(want);
    CASE("observed") observed(seen, want);
    else return gh_stall(want, "NoSuchCase", "case `%s` is not written in C", name);
    return GH_OK;
}

static gh_result finalize(const gh_observation *seen, gh_decision *want) {
    const char *const name = gh_seen_string(seen, "/spec/case", "");
    if (!strcmp(name, "finalized")) {
        gh_merge_status(want, "{phase: Gone}");
        gh_finalized(want);
    }
    CASE("finalize-waits") gh_http(want, .id = "undo", .request = {.method = "DELETE", .url = "https://example.test/a"});
    else return gh_stall(want, "NoSuchCase", "case `%s` is not written in C", name);
    return GH_OK;
}

static const gh_plugin conformance = {
    .name = "conformance",
    .version = "1.2.3",
    .kinds = {{.api_version = "conformance.guesthouse.dev/v1",
               .kind = "Case",
               .crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,"
                      " metadata: {name: cases.conformance.guesthouse.dev}}"},
              {.api_version = "v1", .kind = "ConfigMap"}},
    .needs = {{.name = "settings", .object = {.api_version = "v1", .kind = "ConfigMap", .name = "settings"}}},
    .config_schema = "{type: object, properties: {greeting: {type: string}}}",
    .grants = "{http: [{host: example.test}]}",
    .reconcile = reconcile,
    .finalize = finalize,
};

GH_PLUGIN(conformance);
