/* guesthouse.h - write a Guesthouse plugin in C.
 *
 * A plugin is one function: it sees an object and says what it wants. It is pure: no clock, no randomness, no files, no
 * network; whatever it wants done it asks for, and the host does it. Two equal observations must give two equal decisions.
 *
 *     #define GUESTHOUSE_IMPLEMENTATION
 *     #include "guesthouse.h"
 *
 *     static gh_result reconcile(const gh_observation *seen, gh_decision *want) {
 *         gh_status(want, "{text: 'hello, %s'}", gh_seen_string(seen, "/spec/who", "world"));
 *         return GH_OK;
 *     }
 *
 *     static const gh_plugin greeter = {
 *         .name = "greeter",
 *         .version = "1.0.0",
 *         .kinds = {{.api_version = "example.com/v1", .kind = "Greeting"}},
 *         .reconcile = reconcile,
 *     };
 *     GH_PLUGIN(greeter);
 *
 * Built as a WASI command, that is the whole plugin: the verb comes in argv[1], the observation on stdin, the decision goes
 * to stdout, and lines on stderr are its log. Everything lives until the call is over; nothing has to be freed.
 *
 * What is left out of a `{...}` is not asked for: every type is made to be filled by designated initialisers. A `...` stands
 * for a template of gh_json.h and its arguments, which the compiler checks: JSON for a status or a value, plain text for a
 * message.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GUESTHOUSE_H
#define GUESTHOUSE_H

#include "gh_json.h"

#define GUESTHOUSE_VERSION "0.1.0"
#define GUESTHOUSE_CONTRACT "guesthouse:reconciler@0.1.0"

/* How many elements a list in an initialiser may have; more is an error of the compiler. */
#define GH_MANY 16

/* ---- what is seen -------------------------------------------------------------------------------------------------- */

/* One object by name. No namespace: that of the reconciled object, or none where the kind is cluster-scoped. */
typedef struct gh_ref { const char *api_version, *kind, *namespace, *name; } gh_ref;

/* Why something is as it is: `reason` for machines, `message` for people. No reason: there is no cause. */
typedef struct gh_cause { const char *reason, *message; } gh_cause;

typedef struct gh_header { const char *name, *value; } gh_header;

typedef struct gh_response {
    int code;
    const gh_header *headers;
    size_t header_count;
    /* Ended by a NUL that is not counted; empty where there was none. Not `text`: bytes that are not UTF-8. */
    const char *body;
    size_t body_size;
    bool text, truncated;
    const char *at;
} gh_response;

typedef enum gh_related_state {
    GH_RELATED_UNASKED, GH_RELATED_OBJECTS, GH_RELATED_RESPONSE, GH_RELATED_UNAVAILABLE
} gh_related_state;

/* What came of a need. */
typedef struct gh_related {
    const char *name;
    gh_related_state state;
    /* Of objects: an array in the order of namespace and name; nothing found is an answer, too. */
    const gh_json *items;
    size_t count;
    bool truncated;
    gh_response response;
    gh_cause unavailable;
} gh_related;

typedef enum gh_child_state {
    GH_CHILD_ABSENT, GH_CHILD_IN_PROGRESS, GH_CHILD_CURRENT, GH_CHILD_FAILED, GH_CHILD_TERMINATING
} gh_child_state;

/* An object that an apply asked for. */
typedef struct gh_child {
    const char *effect;
    gh_ref object;
    const char *uid;
    gh_child_state state;
    /* Why it is not current, in its own words. */
    const char *message;
    /* Why the last write of it did not succeed. */
    gh_cause error;
} gh_child;

typedef enum gh_receipt_state {
    GH_RECEIPT_UNSENT, GH_RECEIPT_ANSWERED, GH_RECEIPT_FAILED, GH_RECEIPT_UNKNOWN
} gh_receipt_state;

/* What became of an http effect. */
typedef struct gh_receipt {
    const char *effect, *key;
    gh_receipt_state state;
    gh_response answered;
    struct { uint32_t attempts; gh_cause error; const char *next_at; } failed;
} gh_receipt;

/* All that a plugin sees in one call. Text that the server does not set is NULL, and so is JSON that is absent. */
typedef struct gh_observation {
    const gh_json *object, *spec, *status, *config;
    const char *name, *namespace, *uid;
    int64_t generation;
    /* It has a deletionTimestamp. */
    bool deleting;
    const char *mapping;
    /* When the pass began; between two wakes a decision must not depend on it. */
    const char *now;
    uint32_t attempt, round;
    const gh_related *related;
    size_t related_count;
    const gh_child *children;
    size_t child_count;
    const gh_receipt *receipts;
    size_t receipt_count;
    /* The whole observation, for what has no name here. */
    const gh_json *json;
    gh_arena *arena;
} gh_observation;

/* Members of the object by JSON Pointer, "/spec/who"; `otherwise` where there is none of that type. */
const char *gh_seen_string(const gh_observation *seen, const char *pointer, const char *otherwise);
int64_t gh_seen_int(const gh_observation *seen, const char *pointer, int64_t otherwise);
bool gh_seen_bool(const gh_observation *seen, const char *pointer, bool otherwise);

/* A label or an annotation of the object; NULL if it has none of that name. */
#define gh_seen_label(seen, key) gh_seen_member((seen), "/metadata/labels", (key))
#define gh_seen_annotation(seen, key) gh_seen_member((seen), "/metadata/annotations", (key))
const char *gh_seen_member(const gh_observation *seen, const char *pointer, const char *key);

/* The answer to the need of that name, the child of that effect, the receipt of that effect and key (NULL: sent without one).
 * Never NULL: what is not there is `unasked`, `absent`, `unsent`. */
const gh_related *gh_seen_related(const gh_observation *seen, const char *name);
const gh_child *gh_seen_child(const gh_observation *seen, const char *effect);
const gh_receipt *gh_seen_receipt(const gh_observation *seen, const char *effect, const char *key);

/* A header of an answer (name in lower case); NULL if it has none of that name. */
const char *gh_response_header(const gh_response *response, const char *name);

/* ---- what is wanted ------------------------------------------------------------------------------------------------ */

typedef enum gh_result { GH_OK, GH_RETRY, GH_STALL } gh_result;
typedef enum gh_truth { GH_FALSE, GH_TRUE, GH_UNKNOWN } gh_truth;

/* A decision in the making; to be changed by what follows only. Nothing said is a decision, too: all stays as it is. */
typedef struct gh_decision {
    gh_arena *arena;
    gh_list conditions, labels, annotations, needs, effects, events, extensions;
    const char *status, *text;
    const gh_json *wake, *after;
    bool merge, complete, finalized;
    gh_cause cause;
} gh_decision;

/* A value for a part of the decision: gh_value(want, "{name: %s}", name). */
#define gh_value(want, ...) gh_json_format((want)->arena, __VA_ARGS__)

/* The whole status, or by RFC 7386 a part of it: null removes, what is not named stays. */
#define gh_status(want, ...) gh_put_status((want), gh_json_text(gh_value((want), __VA_ARGS__)), false)
#define gh_merge_status(want, ...) gh_put_status((want), gh_json_text(gh_value((want), __VA_ARGS__)), true)

/* A condition: gh_condition(want, "Ready", GH_TRUE, "Done", "%s is there", name). A bool will do as its status; `Ready` as
 * GH_UNKNOWN makes the object wait. No counters and no times in the message: each new one would be a write. */
#define gh_condition(want, type, status, reason, ...) \
    gh_put_condition((want), (type), (status), (reason), gh_text((want)->arena, __VA_ARGS__))

/* An Event, told only by a pass that changes something else too; a warning asks somebody to act. */
#define gh_event(want, reason, ...) gh_put_event((want), "normal", (reason), gh_text((want)->arena, __VA_ARGS__))
#define gh_warning(want, reason, ...) gh_put_event((want), "warning", (reason), gh_text((want)->arena, __VA_ARGS__))

/* No decision: nothing is carried out; the status and conditions said so far still are. To be returned:
 * `return gh_retry(want, "NotYet", "%s sleeps", name);`. A retry may work later (after the mapping's backoff, or the seconds
 * that gh_after says), a stall not before something changes. */
#define gh_retry(want, reason, ...) gh_fail((want), GH_RETRY, (reason), gh_text((want)->arena, __VA_ARGS__))
#define gh_stall(want, reason, ...) gh_fail((want), GH_STALL, (reason), gh_text((want)->arena, __VA_ARGS__))
void gh_after(gh_decision *want, uint32_t seconds);

/* A line of the log; `from` is the observation or the decision. */
#define gh_log(from, ...) gh_put_log(gh_text((from)->arena, __VA_ARGS__))

/* Sets a label or an annotation of the object; NULL takes it off. Others are left alone. */
void gh_label(gh_decision *want, const char *key, const char *value);
void gh_annotation(gh_decision *want, const char *key, const char *value);

/* Call again then at the latest: at a time (RFC 3339, UTC, whole seconds) computed from spec or status, or that many seconds
 * after this pass, which is not kept over a restart. */
void gh_wake_at(gh_decision *want, const char *time);
void gh_wake_after(gh_decision *want, uint32_t seconds);

/* In `finalize`: nothing is left to clean up. */
void gh_finalized(gh_decision *want);

/* A part of a later contract, named in the plugin's `extensions`. */
void gh_extension(gh_decision *want, const char *name, const gh_json *value);

/* The ways out, for what has no builder: the status, or the whole decision, as JSON text that nobody looks at here. */
void gh_status_json(gh_decision *want, const char *text);
void gh_decision_json(gh_decision *want, const char *text);

typedef enum gh_ownership { GH_OWNED, GH_ADOPT, GH_FIELDS } gh_ownership;
typedef enum gh_mode { GH_KEEP, GH_ONCE } gh_mode;
typedef enum gh_on_immutable { GH_FAIL, GH_RECREATE } gh_on_immutable;
typedef enum gh_on_delete { GH_DELETE, GH_ORPHAN } gh_on_delete;

/* A child, by server-side apply: the fields that are meant, with apiVersion, kind and metadata.name.
 *
 *     gh_apply(want, .id = "config", .object = gh_value(want, "{apiVersion: v1, kind: ConfigMap, …}"), .mode = GH_ONCE);
 *
 * An `id` names the wish and is stable; `after` are ids of effects that must have succeeded first. */
typedef struct gh_apply {
    const char *id, *after[GH_MANY];
    const gh_json *object;
    gh_ownership ownership;
    gh_mode mode;
    gh_on_immutable on_immutable;
    gh_on_delete on_delete;
    /* Random values of a Secret, made by the host once: so many characters under `data.<key>`, of that alphabet. */
    struct { const char *key; uint32_t length; const char *alphabet; } generate[GH_MANY];
} gh_apply;

/* A deletion of an own child, or of the object itself where granted; with `uid` of that one only. */
typedef struct gh_delete {
    const char *id, *after[GH_MANY];
    gh_ref object;
    const char *uid;
} gh_delete;

/* A request. At most one of `text`, `json` (which brings its content type) and `bytes` is its body. */
typedef struct gh_request {
    const char *method, *url;
    gh_header headers[GH_MANY];
    const char *text;
    const gh_json *json;
    struct { const void *at; size_t size; } bytes;
    /* Of the mapping, by name; the host puts it in. */
    const char *credential;
    /* Seconds; 0: the grant's. */
    uint32_t timeout;
} gh_request;

typedef enum gh_delivery { GH_AT_LEAST_ONCE, GH_AT_MOST_ONCE } gh_delivery;

/* A request with a receipt, carried out once per id and key. */
typedef struct gh_http {
    const char *id, *after[GH_MANY];
    gh_request request;
    gh_delivery delivery;
    /* What makes this wish another than the last one under this id, usually something of the spec. */
    const char *key;
    /* Sent as the idempotency key instead of the host's hash, where granted. */
    const char *literal_key;
} gh_http;

/* An effect of a later contract. */
typedef struct gh_other {
    const char *id, *after[GH_MANY], *name;
    const gh_json *value;
} gh_other;

/* Something to read: exactly one of `object`, `selected`, `owned` and `fetch` (GET unless its method says otherwise). */
typedef struct gh_need {
    const char *name;
    gh_ref object;
    /* Namespace NULL: the object's own; "*": all that are granted. Labels as after `kubectl get -l`. */
    struct { const char *api_version, *kind, *namespace, *labels; } selected;
    struct { const char *api_version, *kind; } owned;
    gh_request fetch;
    /* How many seconds old an answer to `fetch` may be. */
    uint32_t fresh;
    enum { GH_FULL, GH_METADATA } view;
    /* 0: the mapping's. */
    uint32_t limit;
} gh_need;

#define gh_apply(want, ...) gh_put_apply((want), &(gh_apply){__VA_ARGS__})
#define gh_delete(want, ...) gh_put_delete((want), &(gh_delete){__VA_ARGS__})
#define gh_http(want, ...) gh_put_http((want), &(gh_http){__VA_ARGS__})
#define gh_other(want, ...) gh_put_other((want), &(gh_other){__VA_ARGS__})
#define gh_need(want, ...) gh_put_need(&(want)->needs, &(gh_need){__VA_ARGS__})

/* All the children this object shall have: others on record are deleted.
 *     gh_children(want, {.id = "config", .object = config}, {.id = "server", .object = server});
 * Where their number is not known before: gh_complete, and gh_apply for each. */
#define gh_children(want, ...) \
    gh_put_children((want), (gh_apply[]){__VA_ARGS__}, sizeof((gh_apply[]){__VA_ARGS__}) / sizeof(gh_apply))
void gh_complete(gh_decision *want);

/* 16 hexadecimal digits that stand for these texts in this order: `.key = gh_fingerprint(want, name, size)`. It tells changes
 * apart and is no protection against somebody who looks for two texts with one fingerprint. */
#define gh_fingerprint(want, ...) \
    gh_hash((want)->arena, (const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

/* What the macros above call. */
void gh_put_status(gh_decision *want, const char *text, bool merge);
void gh_put_condition(gh_decision *want, const char *type, gh_truth status, const char *reason, const char *message);
void gh_put_event(gh_decision *want, const char *type, const char *reason, const char *note);
void gh_put_log(const char *line);
void gh_put_apply(gh_decision *want, const gh_apply *apply);
void gh_put_children(gh_decision *want, const gh_apply *children, size_t count);
void gh_put_delete(gh_decision *want, const gh_delete *delete);
void gh_put_http(gh_decision *want, const gh_http *http);
void gh_put_other(gh_decision *want, const gh_other *other);
void gh_put_need(gh_list *needs, const gh_need *need);
gh_result gh_fail(gh_decision *want, gh_result result, const char *reason, const char *message);
const char *gh_hash(gh_arena *arena, const char *const *texts, size_t count);

/* ---- what a plugin says of itself ---------------------------------------------------------------------------------- */

typedef gh_result gh_function(const gh_observation *seen, gh_decision *want);

typedef struct gh_plugin {
    const char *name, *version;
    /* The kinds it can be mapped to, with their CustomResourceDefinitions if it brings them; none: any kind. JSON here and
     * below in the relaxed form of templates. */
    struct { const char *api_version, *kind, *crd; } kinds[GH_MANY];
    /* What every pass of every object needs. */
    gh_need needs[GH_MANY];
    /* JSON Schema (2020-12) of the mapping's config. */
    const char *config_schema;
    /* What it will ask for, in the form of a mapping's grants. */
    const char *grants;
    /* Parts of later contracts that it cannot do without. */
    const char *extensions[GH_MANY];
    gh_function *reconcile;
    /* The object is being deleted. NULL: deletion does not pass through the plugin. */
    gh_function *finalize;
} gh_plugin;

/* The program of a plugin; its exit code. */
int gh_main(const gh_plugin *plugin, int argc, char **argv);

/* One call: what `describe`, `reconcile` and `finalize` print; NULL and `arena->error` when the observation cannot be read. */
const char *gh_call(gh_arena *arena, const gh_plugin *plugin, const char *verb, const char *observation);

/* Makes it this program; a test (gh_test.h) has a main of its own. */
#ifdef GH_TEST
#define GH_PLUGIN(plugin) struct gh_plugin
#else
#define GH_PLUGIN(plugin) \
    int main(int argc, char **argv) { return gh_main(&(plugin), argc, argv); } \
    struct gh_plugin
#endif

#endif

/* ==================================================================================================================== */

#if defined(GUESTHOUSE_IMPLEMENTATION) && !defined(GUESTHOUSE_IMPLEMENTED)
#define GUESTHOUSE_IMPLEMENTED

/* ---- reading the observation --------------------------------------------------------------------------------------- */

static const char *ghi_read_or(gh_arena *arena, const gh_json *value, const char *pointer, const char *otherwise) {
    const char *text = gh_json_string(arena, gh_json_get(value, pointer), NULL);
    return text ? text : otherwise;
}

static const char *ghi_read(gh_arena *arena, const gh_json *value, const char *pointer) {
    return ghi_read_or(arena, value, pointer, NULL);
}

static uint32_t ghi_count(const gh_json *value, const char *pointer) {
    int64_t number = 0;
    return gh_json_int(gh_json_get(value, pointer), &number) && number > 0 && number <= UINT32_MAX ? (uint32_t)number : 0;
}

static bool ghi_flag(const gh_json *value, const char *pointer) {
    bool flag = false;
    return gh_json_bool(gh_json_get(value, pointer), &flag) && flag;
}

static gh_cause ghi_read_cause(gh_arena *arena, const gh_json *value) {
    return (gh_cause){.reason = ghi_read(arena, value, "/reason"), .message = ghi_read_or(arena, value, "/message", "")};
}

static gh_response ghi_read_response(gh_arena *arena, const gh_json *value) {
    gh_response response = {
        .code = (int)ghi_count(value, "/code"),
        .body = "",
        .truncated = ghi_flag(value, "/truncated"),
        .at = ghi_read(arena, value, "/at"),
    };
    const gh_json *headers = gh_json_get(value, "/headers");
    gh_header *header = gh_arena_alloc(arena, sizeof *header * gh_json_count(headers));
    response.headers = header;
    for (gh_json_iter it = gh_json_iterate(headers); gh_json_next(&it); response.header_count++) {
        *header++ = (gh_header){ghi_read(arena, it.value, "/0"), ghi_read(arena, it.value, "/1")};
    }
    const char *base64 = ghi_read(arena, value, "/body/bytes");
    const char *text = gh_json_string(arena, gh_json_get(value, "/body/text"), &response.body_size);
    const char *bytes = base64 ? gh_base64_decode(arena, base64, &response.body_size) : NULL;
    if (text || bytes) response.body = text ? text : bytes;
    response.text = !bytes;
    return response;
}

static gh_related ghi_read_related(gh_arena *arena, const gh_json *value) {
    static const char *const names[] = {"objects", "response", "unavailable"}, *const parts[] = {"items", "truncated"};
    const gh_json *answers[3], *objects[2];
    gh_json_members(gh_json_get(value, "/answer"), names, answers, 3);
    gh_json_members(answers[0], parts, objects, 2);
    gh_related related = {
        .name = ghi_read(arena, value, "/name"),
        .state = answers[0] ? GH_RELATED_OBJECTS : answers[1] ? GH_RELATED_RESPONSE : GH_RELATED_UNAVAILABLE,
        .items = objects[0],
        .count = gh_json_count(objects[0]),
        .truncated = ghi_flag(objects[1], ""),
        .unavailable = ghi_read_cause(arena, answers[2]),
    };
    if (answers[1]) related.response = ghi_read_response(arena, answers[1]);
    return related;
}

static gh_child ghi_read_child(gh_arena *arena, const gh_json *value) {
    static const char *const states[] = {"absent", "inProgress", "current", "failed", "terminating"};
    size_t state = GH_CHILD_TERMINATING;
    while (state && !gh_json_is(gh_json_get(value, "/state"), states[state])) state--;
    return (gh_child){
        .effect = ghi_read(arena, value, "/effect"),
        .object = {ghi_read(arena, value, "/object/kind/apiVersion"), ghi_read(arena, value, "/object/kind/kind"),
                   ghi_read(arena, value, "/object/namespace"), ghi_read(arena, value, "/object/name")},
        .uid = ghi_read(arena, value, "/uid"),
        .state = (gh_child_state)state,
        .message = ghi_read_or(arena, value, "/message", ""),
        .error = ghi_read_cause(arena, gh_json_get(value, "/error")),
    };
}

static gh_receipt ghi_read_receipt(gh_arena *arena, const gh_json *value) {
    const gh_json *answered = gh_json_get(value, "/state/answered"), *failed = gh_json_get(value, "/state/failed");
    gh_receipt receipt = {.effect = ghi_read(arena, value, "/effect"),
                          .key = ghi_read(arena, value, "/key"),
                          .state = answered ? GH_RECEIPT_ANSWERED : failed ? GH_RECEIPT_FAILED : GH_RECEIPT_UNKNOWN};
    if (answered) receipt.answered = ghi_read_response(arena, answered);
    receipt.failed.attempts = ghi_count(failed, "/attempts");
    receipt.failed.error = ghi_read_cause(arena, gh_json_get(failed, "/error"));
    receipt.failed.next_at = ghi_read(arena, failed, "/nextAt");
    return receipt;
}

/* A list of the observation, element by element. */
#define GHI_READ_ALL(list, count, type, read, from)                                                                   \
    do {                                                                                                              \
        type *made = gh_arena_alloc(arena, sizeof(type) * gh_json_count(from));                                       \
        for (gh_json_iter it = gh_json_iterate(from); gh_json_next(&it);) made[seen.count++] = read(arena, it.value); \
        seen.list = made;                                                                                             \
    } while (0)

static gh_observation ghi_read_observation(gh_arena *arena, const gh_json *json) {
    enum { OBJECT, CONFIG, MAPPING, NOW, ATTEMPT, ROUND, RELATED, CHILDREN, RECEIPTS, PARTS };
    static const char *const names[PARTS] = {"object", "config",  "mapping",  "now",     "attempt",
                                             "round",  "related", "children", "receipts"};
    static const char *const inner[] = {"metadata", "spec", "status"};
    const gh_json *part[PARTS], *object[3];
    gh_json_members(json, names, part, PARTS);
    gh_json_members(part[OBJECT], inner, object, 3);
    gh_observation seen = {
        .object = part[OBJECT],
        .spec = object[1],
        .status = object[2],
        .config = part[CONFIG],
        .name = ghi_read(arena, object[0], "/name"),
        .namespace = ghi_read(arena, object[0], "/namespace"),
        .uid = ghi_read(arena, object[0], "/uid"),
        .deleting = gh_json_get(object[0], "/deletionTimestamp") != NULL,
        .mapping = ghi_read(arena, part[MAPPING], ""),
        .now = ghi_read(arena, part[NOW], ""),
        .attempt = ghi_count(part[ATTEMPT], ""),
        .round = ghi_count(part[ROUND], ""),
        .json = json,
        .arena = arena,
    };
    gh_json_int(gh_json_get(object[0], "/generation"), &seen.generation);
    GHI_READ_ALL(related, related_count, gh_related, ghi_read_related, part[RELATED]);
    GHI_READ_ALL(children, child_count, gh_child, ghi_read_child, part[CHILDREN]);
    GHI_READ_ALL(receipts, receipt_count, gh_receipt, ghi_read_receipt, part[RECEIPTS]);
    return seen;
}

const char *gh_seen_string(const gh_observation *seen, const char *pointer, const char *otherwise) {
    return ghi_read_or(seen->arena, seen->object, pointer, otherwise);
}

int64_t gh_seen_int(const gh_observation *seen, const char *pointer, int64_t otherwise) {
    gh_json_int(gh_json_get(seen->object, pointer), &otherwise);
    return otherwise;
}

bool gh_seen_bool(const gh_observation *seen, const char *pointer, bool otherwise) {
    gh_json_bool(gh_json_get(seen->object, pointer), &otherwise);
    return otherwise;
}

const char *gh_seen_member(const gh_observation *seen, const char *pointer, const char *key) {
    return gh_json_string(seen->arena, gh_json_member(gh_json_get(seen->object, pointer), key), NULL);
}

static bool ghi_same(const char *one, const char *other) {
    return one && other ? !strcmp(one, other) : one == other;
}

const gh_related *gh_seen_related(const gh_observation *seen, const char *name) {
    static const gh_related unasked = {.state = GH_RELATED_UNASKED};
    for (size_t i = 0; i < seen->related_count; i++) {
        if (ghi_same(seen->related[i].name, name)) return &seen->related[i];
    }
    return &unasked;
}

const gh_child *gh_seen_child(const gh_observation *seen, const char *effect) {
    static const gh_child absent = {.state = GH_CHILD_ABSENT};
    for (size_t i = 0; i < seen->child_count; i++) {
        if (ghi_same(seen->children[i].effect, effect)) return &seen->children[i];
    }
    return &absent;
}

const gh_receipt *gh_seen_receipt(const gh_observation *seen, const char *effect, const char *key) {
    static const gh_receipt unsent = {.state = GH_RECEIPT_UNSENT};
    for (size_t i = 0; i < seen->receipt_count; i++) {
        const gh_receipt *receipt = &seen->receipts[i];
        if (ghi_same(receipt->effect, effect) && ghi_same(receipt->key, key)) return receipt;
    }
    return &unsent;
}

const char *gh_response_header(const gh_response *response, const char *name) {
    for (size_t i = 0; i < response->header_count; i++) {
        if (ghi_same(response->headers[i].name, name)) return response->headers[i].value;
    }
    return NULL;
}

/* ---- building the decision ----------------------------------------------------------------------------------------- */

/* An array member, unless it is empty: what is left out is the contract's default. */
static void ghi_array(gh_list *members, const char *name, const gh_list *elements) {
    gh_json_put(members, name, elements->size ? gh_json_array(elements) : NULL);
}

static void ghi_add(gh_list *elements, const gh_list *members) {
    gh_json_add(elements, "%p", (const void *)gh_json_object(members));
}

static void ghi_number(gh_list *members, const char *name, uint32_t number) {
    if (number) gh_json_add(members, "%s: %lu", name, (unsigned long)number);
}

void gh_put_status(gh_decision *want, const char *text, bool merge) {
    want->status = text;
    want->merge = merge;
}

void gh_status_json(gh_decision *want, const char *text) { gh_put_status(want, text, false); }
void gh_decision_json(gh_decision *want, const char *text) { want->text = text; }

void gh_put_condition(gh_decision *want, const char *type, gh_truth status, const char *reason, const char *message) {
    const char *const word = status == GH_UNKNOWN ? "Unknown" : status ? "True" : "False";
    gh_json_add(&want->conditions, "{type: %s, status: %s, reason: %s, message: %s}", type, word, reason, message);
}

void gh_put_event(gh_decision *want, const char *type, const char *reason, const char *note) {
    gh_json_add(&want->events, "{type: %s, reason: %s, note: %s}", type, reason, note);
}

void gh_put_log(const char *line) {
    fputs(line, stderr);
    fputs("\n", stderr);
}

gh_result gh_fail(gh_decision *want, gh_result result, const char *reason, const char *message) {
    want->cause = (gh_cause){reason, message};
    return result;
}

static void ghi_mark(gh_list *marks, const char *key, const char *value) {
    if (value) gh_json_put_string(marks, key, value);
    else gh_json_add(marks, "%s: null", key);
}

void gh_label(gh_decision *want, const char *key, const char *value) { ghi_mark(&want->labels, key, value); }
void gh_annotation(gh_decision *want, const char *key, const char *value) { ghi_mark(&want->annotations, key, value); }
void gh_after(gh_decision *want, uint32_t seconds) { want->after = gh_value(want, "%lu", (unsigned long)seconds); }
void gh_wake_at(gh_decision *want, const char *time) { want->wake = gh_value(want, "{at: %s}", time); }
void gh_wake_after(gh_decision *want, uint32_t seconds) { want->wake = gh_value(want, "{after: %lu}", (unsigned long)seconds); }
void gh_finalized(gh_decision *want) { want->finalized = true; }
void gh_complete(gh_decision *want) { want->complete = true; }

void gh_extension(gh_decision *want, const char *name, const gh_json *value) {
    gh_json_add(&want->extensions, "{name: %s, value: %p}", name, (const void *)value);
}

static void ghi_put_effect(gh_decision *want, const char *id, const char *const *after, const char *action, const gh_list *of) {
    gh_list effect = {.arena = want->arena}, first = {.arena = want->arena};
    for (size_t i = 0; i < GH_MANY && after[i]; i++) gh_json_add(&first, "%s", after[i]);
    ghi_array(&effect, "after", &first);
    gh_json_add(&effect, "id: %s, action: {%s: %p}", id, action, (const void *)gh_json_object(of));
    ghi_add(&want->effects, &effect);
}

void gh_put_apply(gh_decision *want, const gh_apply *apply) {
    static const char *const ownerships[] = {NULL, "adopt", "fields"};
    gh_list members = {.arena = want->arena}, generate = {.arena = want->arena};
    gh_json_put(&members, "object", apply->object);
    gh_json_put_string(&members, "ownership", ownerships[apply->ownership]);
    gh_json_put_string(&members, "mode", apply->mode == GH_ONCE ? "once" : NULL);
    gh_json_put_string(&members, "onImmutable", apply->on_immutable == GH_RECREATE ? "recreate" : NULL);
    gh_json_put_string(&members, "onDelete", apply->on_delete == GH_ORPHAN ? "orphan" : NULL);
    for (size_t i = 0; i < GH_MANY && apply->generate[i].key; i++) {
        gh_list one = {.arena = want->arena};
        gh_json_add(&one, "key: %s, length: %lu", apply->generate[i].key, (unsigned long)apply->generate[i].length);
        gh_json_put_string(&one, "alphabet", apply->generate[i].alphabet);
        ghi_add(&generate, &one);
    }
    ghi_array(&members, "generate", &generate);
    ghi_put_effect(want, apply->id, apply->after, "apply", &members);
}

void gh_put_children(gh_decision *want, const gh_apply *children, size_t count) {
    for (size_t i = 0; i < count; i++) gh_put_apply(want, &children[i]);
    gh_complete(want);
}

static const gh_json *ghi_kind(gh_arena *arena, const char *api_version, const char *kind) {
    return gh_json_format(arena, "{apiVersion: %s, kind: %s}", api_version, kind);
}

static const gh_json *ghi_ref(gh_arena *arena, const gh_ref *ref) {
    gh_list members = {.arena = arena};
    gh_json_add(&members, "kind: {apiVersion: %s, kind: %s}, name: %s", ref->api_version, ref->kind, ref->name);
    gh_json_put_string(&members, "namespace", ref->namespace);
    return gh_json_object(&members);
}

void gh_put_delete(gh_decision *want, const gh_delete *delete) {
    gh_list members = {.arena = want->arena};
    gh_json_put(&members, "object", ghi_ref(want->arena, &delete->object));
    gh_json_put_string(&members, "uid", delete->uid);
    ghi_put_effect(want, delete->id, delete->after, "delete", &members);
}

static const gh_json *ghi_request(gh_arena *arena, const gh_request *request, const char *method) {
    gh_list members = {.arena = arena}, headers = {.arena = arena};
    gh_json_add(&members, "method: %s, url: %s", request->method ? request->method : method, request->url);
    if (request->json) gh_json_add(&headers, "['content-type', 'application/json']");
    for (const gh_header *one = request->headers; one < request->headers + GH_MANY && one->name; one++) {
        gh_json_add(&headers, "[%s, %s]", one->name, one->value);
    }
    ghi_array(&members, "headers", &headers);
    const char *bytes = request->bytes.at ? gh_base64(arena, request->bytes.at, request->bytes.size) : NULL;
    if (request->text) gh_json_add(&members, "body: {text: %s}", request->text);
    else if (request->json) gh_json_add(&members, "body: {text: '%p'}", (const void *)request->json);
    else if (bytes) gh_json_add(&members, "body: {bytes: %s}", bytes);
    gh_json_put_string(&members, "credential", request->credential);
    ghi_number(&members, "timeout", request->timeout);
    return gh_json_object(&members);
}

void gh_put_http(gh_decision *want, const gh_http *http) {
    gh_list members = {.arena = want->arena};
    gh_json_put(&members, "request", ghi_request(want->arena, &http->request, NULL));
    gh_json_put_string(&members, "delivery", http->delivery == GH_AT_MOST_ONCE ? "atMostOnce" : NULL);
    gh_json_put_string(&members, "key", http->key);
    gh_json_put_string(&members, "literalKey", http->literal_key);
    ghi_put_effect(want, http->id, http->after, "http", &members);
}

void gh_put_other(gh_decision *want, const gh_other *other) {
    gh_list members = {.arena = want->arena};
    gh_json_add(&members, "name: %s, value: %p", other->name, (const void *)other->value);
    ghi_put_effect(want, other->id, other->after, "other", &members);
}

void gh_put_need(gh_list *needs, const gh_need *need) {
    gh_list members = {.arena = needs->arena}, source = members, selected = members, fetch = members;
    if (need->object.kind) gh_json_put(&source, "object", ghi_ref(needs->arena, &need->object));
    if (need->selected.kind) {
        gh_json_put(&selected, "kind", ghi_kind(needs->arena, need->selected.api_version, need->selected.kind));
        gh_json_put_string(&selected, "namespace", need->selected.namespace);
        gh_json_put_string(&selected, "labels", need->selected.labels);
        gh_json_put(&source, "selected", gh_json_object(&selected));
    }
    if (need->owned.kind) gh_json_put(&source, "owned", ghi_kind(needs->arena, need->owned.api_version, need->owned.kind));
    if (need->fetch.url) {
        gh_json_put(&fetch, "request", ghi_request(needs->arena, &need->fetch, "GET"));
        ghi_number(&fetch, "fresh", need->fresh);
        gh_json_put(&source, "fetch", gh_json_object(&fetch));
    }
    gh_json_add(&members, "name: %s, source: %p", need->name, (const void *)gh_json_object(&source));
    gh_json_put_string(&members, "view", need->view == GH_METADATA ? "metadata" : NULL);
    ghi_number(&members, "limit", need->limit);
    ghi_add(needs, &members);
}

const char *gh_hash(gh_arena *arena, const char *const *texts, size_t count) {
    /* FNV-1a, 64 bits, each text ended by a byte that UTF-8 does not have: all texts count as wholes. */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        for (const char *at = texts[i]; *at; at++) hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        hash = (hash ^ 0xff) * UINT64_C(0x100000001b3);
    }
    return gh_text(arena, "%016llx", (unsigned long long)hash);
}

/* ---- the door ------------------------------------------------------------------------------------------------------ */

static const char *ghi_reply(gh_decision *want, gh_result result) {
    gh_arena *arena = want->arena;
    gh_list members = {.arena = arena};
    if (want->status) {
        /* As it is: a raw status is the host's to judge. */
        ghi_puts(&members, want->merge ? "\"status\":{\"merge\":" : "\"status\":{\"replace\":");
        ghi_puts(&members, want->status);
        ghi_puts(&members, "}");
    }
    ghi_array(&members, "conditions", &want->conditions);
    if (result == GH_OK) {
        if (want->labels.size) gh_json_put(&members, "labels", gh_json_object(&want->labels));
        if (want->annotations.size) gh_json_put(&members, "annotations", gh_json_object(&want->annotations));
        ghi_array(&members, "needs", &want->needs);
        ghi_array(&members, "effects", &want->effects);
        ghi_array(&members, "events", &want->events);
        ghi_array(&members, "extensions", &want->extensions);
        gh_json_put(&members, "wake", want->wake);
        if (want->complete) gh_json_add(&members, "complete: true");
        if (want->finalized) gh_json_add(&members, "finalized: true");
    } else {
        const gh_cause cause = want->cause.reason ? want->cause : (gh_cause){"Error", "the plugin gives no reason"};
        gh_json_add(&members, "kind: %s", result == GH_RETRY ? "retry" : "terminal");
        gh_json_put(&members, "cause", gh_value(want, "{reason: %s, message: %s}", cause.reason, cause.message));
        gh_json_put(&members, "after", want->after);
    }
    const char *const text = want->text && result == GH_OK ? want->text : gh_text(arena, "{%s}", members.text);
    const char *const reply = gh_text(arena, "{\"%s\":%s}", result == GH_OK ? "decision" : "failure", text);
    if (!arena->error) return reply;
    /* Something could not be written: then there is no decision, and the user hears why. */
    return gh_json_text(gh_value(want, "{failure: {kind: terminal, cause: {reason: BadDecision, message: %s}}}", arena->error));
}

static const char *ghi_describe(gh_arena *arena, const gh_plugin *plugin) {
    gh_list members = {.arena = arena}, kinds = members, needs = members, extensions = members;
    for (size_t i = 0; i < GH_MANY && plugin->kinds[i].kind; i++) {
        gh_list one = {.arena = arena};
        gh_json_put(&one, "kind", ghi_kind(arena, plugin->kinds[i].api_version, plugin->kinds[i].kind));
        if (plugin->kinds[i].crd) gh_json_put(&one, "crd", gh_json_relaxed(arena, plugin->kinds[i].crd));
        ghi_add(&kinds, &one);
    }
    for (size_t i = 0; i < GH_MANY && plugin->needs[i].name; i++) gh_put_need(&needs, &plugin->needs[i]);
    for (size_t i = 0; i < GH_MANY && plugin->extensions[i]; i++) gh_json_add(&extensions, "%s", plugin->extensions[i]);
    gh_json_add(&members, "sdk: 'c/" GUESTHOUSE_VERSION "'");
    gh_json_add(&members, "name: %s, version: %s", plugin->name, plugin->version);
    ghi_array(&members, "kinds", &kinds);
    ghi_array(&members, "needs", &needs);
    if (plugin->finalize) gh_json_add(&members, "finalizes: true");
    if (plugin->config_schema) gh_json_put(&members, "configSchema", gh_json_relaxed(arena, plugin->config_schema));
    if (plugin->grants) gh_json_put(&members, "grants", gh_json_relaxed(arena, plugin->grants));
    ghi_array(&members, "extensions", &extensions);
    gh_list reply = {.arena = arena};
    gh_json_add(&reply, "contract: '" GUESTHOUSE_CONTRACT "'");
    gh_json_put(&reply, "descriptor", gh_json_object(&members));
    const gh_json *whole = gh_json_object(&reply);
    return arena->error ? NULL : gh_json_text(whole);
}

const char *gh_call(gh_arena *arena, const gh_plugin *plugin, const char *verb, const char *observation) {
    if (!strcmp(verb, "describe")) return ghi_describe(arena, plugin);
    const bool finalize = !strcmp(verb, "finalize");
    gh_json_fault fault;
    const gh_json *json = gh_json_parse(observation, &fault);
    if (!finalize && strcmp(verb, "reconcile")) ghi_fail(arena, "verb `%s` is none of describe, reconcile, finalize", verb);
    else if (!json) ghi_fail(arena, "observation is not JSON: %s at byte %zu", fault.why, fault.at);
    if (arena->error) return NULL;
    const gh_observation seen = ghi_read_observation(arena, json);
    const gh_list empty = {.arena = arena};
    gh_decision want = {.arena = arena, .conditions = empty, .labels = empty, .annotations = empty, .needs = empty,
                        .effects = empty, .events = empty, .extensions = empty};
    gh_function *decide = finalize ? plugin->finalize : plugin->reconcile;
    /* A plugin that has nothing to clean up lets go. */
    if (!decide) want.finalized = finalize;
    return ghi_reply(&want, decide ? decide(&seen, &want) : GH_OK);
}

/* All of stdin. */
static const char *ghi_stdin(gh_arena *arena) {
    gh_list in = {.arena = arena};
    char some[4096];
    ghi_puts(&in, "");
    for (size_t size; (size = fread(some, 1, sizeof some, stdin)) > 0;) ghi_put(&in, some, size);
    if (ferror(stdin)) arena->error = "observation cannot be read from stdin";
    else if (strlen(in.text) != in.size) arena->error = "observation holds a NUL byte";
    return in.text;
}

#ifdef __wasm__
/* Only for who makes a component of a plugin by an adapter: it asks here for memory. Without this it takes a page behind the back
 * of malloc, which older versions of wasi-libc then hand out again. */
__attribute__((export_name("cabi_realloc"))) void *ghi_cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size, (void)align;
    return realloc(old, size);
}
#endif

int gh_main(const gh_plugin *plugin, int argc, char **argv) {
    gh_arena arena = {0};
    const char *verb = argc > 1 ? argv[1] : "";
    const char *observation = strcmp(verb, "describe") ? ghi_stdin(&arena) : "";
    const char *reply = arena.error ? NULL : gh_call(&arena, plugin, verb, observation);
    if (reply && (fputs(reply, stdout) == EOF || fputs("\n", stdout) == EOF || fflush(stdout))) {
        arena.error = "reply cannot be written to stdout";
        reply = NULL;
    }
    /* Not printf: it would be a third of a plugin's size. */
    if (!reply) fputs(gh_text(&arena, "%s: %s\n", plugin->name, arena.error), stderr);
    gh_arena_free(&arena);
    return reply ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
