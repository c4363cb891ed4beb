/* ConfigChecksum: a checksum of a ConfigMap, in the status and in an annotation, that follows each of its changes.
 *
 * What reads it need not read the ConfigMap: a Deployment rolls when its template carries the annotation's value, and two
 * clusters are compared by one line. The ConfigMap is a need of the decision: it is watched whether it is there or not. */
#define GUESTHOUSE_IMPLEMENTATION
#include "guesthouse.h"

#include <inttypes.h>

/* A key of the ConfigMap and its content. */
typedef struct {
    const char *key, *bytes;
    size_t size;
} entry;

static int by_key(const void *one, const void *other) {
    return strcmp(((const entry *)one)->key, ((const entry *)other)->key);
}

/* The content of `data` or, decoded, of `binaryData`; `bytes` is NULL where the ConfigMap has no such key. */
static entry read_entry(gh_arena *arena, const gh_json *config_map, const char *key) {
    entry read = {.key = key};
    const gh_json *text = gh_json_member(gh_json_get(config_map, "/data"), key);
    const char *base64 = gh_json_string(arena, gh_json_member(gh_json_get(config_map, "/binaryData"), key), NULL);
    if (text) read.bytes = gh_json_string(arena, text, &read.size);
    else if (base64) read.bytes = gh_base64_decode(arena, base64, &read.size);
    return read;
}

/* FNV-1a, 64 bits. */
static uint64_t add_bytes(uint64_t hash, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* With its length before it, eight bytes and the highest first: no two lists of parts run together to the same bytes. */
static uint64_t add_part(uint64_t hash, const char *bytes, size_t size) {
    char length[8];
    for (int i = 0; i < 8; i++) length[i] = (char)((uint64_t)size >> (56 - 8 * i));
    return add_bytes(add_bytes(hash, length, sizeof length), bytes, size);
}

static gh_result wait_for(gh_decision *want, const char *reason, const char *message) {
    gh_condition(want, "Ready", GH_UNKNOWN, reason, "%s", message);
    gh_condition(want, "Synced", GH_FALSE, reason, "%s", message);
    return GH_OK;
}

/* The keys of the spec, or all that the ConfigMap has, each once and in order; how many. */
static size_t chosen(const gh_observation *seen, const gh_json *config_map, entry **entries) {
    const gh_json *keys = gh_json_get(seen->spec, "/keys");
    const gh_json *lists[] = {keys, NULL};
    if (gh_json_kind_of(keys) != GH_JSON_ARRAY) {
        lists[0] = gh_json_get(config_map, "/data");
        lists[1] = gh_json_get(config_map, "/binaryData");
    }
    entry *all = gh_arena_alloc(seen->arena, sizeof *all * (gh_json_count(lists[0]) + gh_json_count(lists[1])));
    size_t count = 0, distinct = 0;
    for (size_t i = 0; i < 2; i++) {
        for (gh_json_iter it = gh_json_iterate(lists[i]); gh_json_next(&it);) {
            const char *key = gh_json_string(seen->arena, it.key ? it.key : it.value, NULL);
            if (key) all[count++] = read_entry(seen->arena, config_map, key);
        }
    }
    qsort(all, count, sizeof *all, by_key);
    for (size_t i = 0; i < count; i++) {
        if (!distinct || by_key(&all[distinct - 1], &all[i])) all[distinct++] = all[i];
    }
    *entries = all;
    return distinct;
}

static gh_result reconcile(const gh_observation *seen, gh_decision *want) {
    const char *name = gh_seen_string(seen, "/spec/configMap", NULL);
    if (!name) return gh_stall(want, "BadObject", "spec.configMap is not the name of a ConfigMap");

    gh_need(want, .name = "config", .object = {.api_version = "v1", .kind = "ConfigMap", .name = name});
    const gh_related *config = gh_seen_related(seen, "config");
    if (config->state == GH_RELATED_UNASKED) return GH_OK;
    const gh_cause *unavailable = &config->unavailable;
    if (config->state != GH_RELATED_OBJECTS) return gh_retry(want, unavailable->reason, "%s", unavailable->message);
    const gh_json *config_map = gh_json_get(config->items, "/0");
    if (!config_map) return wait_for(want, "ConfigMapMissing", gh_text(want->arena, "ConfigMap %s is not there", name));

    entry *entries = NULL;
    const size_t count = chosen(seen, config_map, &entries);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        const entry *one = &entries[i];
        const char *missing = one->bytes ? NULL : gh_text(want->arena, "ConfigMap %s has no key %s", name, one->key);
        if (missing) return wait_for(want, "KeyMissing", missing);
        hash = add_part(add_part(hash, one->key, strlen(one->key)), one->bytes, one->size);
    }
    const char *checksum = gh_text(want->arena, "%016" PRIx64, hash);
    gh_status(want, "{checksum: %s, keys: %zu}", checksum, count);
    gh_annotation(want, "ops.acme.io/checksum", checksum);
    gh_condition(want, "Synced", GH_TRUE, "Checksummed", "of ConfigMap %s", name);
    return GH_OK;
}

static const gh_plugin config_checksum = {
    .name = "config-checksum",
    .version = "0.1.0",
    .kinds = {{.api_version = "ops.acme.io/v1", .kind = "ConfigChecksum"}},
    .grants = "{read: [{apiVersion: v1, kind: ConfigMap}]}",
    .reconcile = reconcile,
};

GH_PLUGIN(config_checksum);
