/* A file that uses the SDK and does not implement it. */
#include "sdk_test_plugin.h"

#include <inttypes.h>

gh_result says_nothing(const gh_observation *seen, gh_decision *want) {
    (void)seen, (void)want;
    return GH_OK;
}

gh_result says_how_many(const gh_observation *seen, gh_decision *want) {
    gh_status(want, "{n: %" PRId64 "}", gh_seen_int(seen, "/spec/n", 0) + 1);
    return GH_OK;
}

gh_result has_no_children(const gh_observation *seen, gh_decision *want) {
    (void)seen;
    gh_complete(want);
    return GH_OK;
}

gh_result posts_json(const gh_observation *seen, gh_decision *want) {
    (void)seen;
    gh_http(want, .id = "post",
            .request = {.method = "POST", .url = "https://example.test/", .json = gh_value(want, "{a: %s}", "\"")});
    return GH_OK;
}

gh_result is_all_raw(const gh_observation *seen, gh_decision *want) {
    (void)seen;
    gh_status(want, "{not: said}");
    gh_decision_json(want, "{\"wake\": {\"after\": 0}}");
    return GH_OK;
}

gh_result fails_without_a_word(const gh_observation *seen, gh_decision *want) {
    (void)seen, (void)want;
    return GH_RETRY;
}

gh_result fails_after_effects(const gh_observation *seen, gh_decision *want) {
    (void)seen;
    gh_delete(want, .id = "gone", .object = {.api_version = "v1", .kind = "ConfigMap", .name = "gone"});
    gh_label(want, "k", "v");
    gh_merge_status(want, "{phase: Bad}");
    return gh_stall(want, "Bad", "%d%% \"%s\"", 100, "bad");
}

gh_result writes_nonsense(const gh_observation *seen, gh_decision *want) {
    (void)seen;
    gh_status(want, "{a: 5m}");
    return GH_OK;
}

gh_result labels_with_bytes(const gh_observation *seen, gh_decision *want) {
    (void)seen;
    gh_label(want, "k", "\xff");
    return GH_OK;
}

gh_result tells_what_it_sees(const gh_observation *seen, gh_decision *want) {
    gh_status(want, "{annotation: %s, label: %s, deleting: %p, related: %d, child: %d, receipt: %d}",
              gh_seen_annotation(seen, "a.b/c"), gh_seen_label(seen, "a"), gh_bool(seen->deleting),
              (int)gh_seen_related(seen, "none")->state, (int)gh_seen_child(seen, "none")->state,
              (int)gh_seen_receipt(seen, "none", NULL)->state);
    return GH_OK;
}
