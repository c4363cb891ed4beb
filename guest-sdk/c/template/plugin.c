#define GUESTHOUSE_IMPLEMENTATION
#include "guesthouse.h"

/* What is wanted for one {{kind}}: a pure function, called whenever something that it was shown changes. */
static gh_result reconcile(const gh_observation *seen, gh_decision *want) {
    const char *who = gh_seen_string(seen, "/spec/who", "world");
    gh_status(want, "{text: 'hello, %s'}", who);
    gh_condition(want, "Ready", GH_TRUE, "Greeted", "%s was greeted", who);
    return GH_OK;
}

static const gh_plugin plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .kinds = {{.api_version = "{{group}}/v1", .kind = "{{kind}}"}},
    .reconcile = reconcile,
};

GH_PLUGIN(plugin);
