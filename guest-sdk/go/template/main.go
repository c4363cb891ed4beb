// Greets whoever a {{kind}} names.
package main

import guesthouse "guesthouse.dev/guest-sdk/go"

// Spec is what the user wants.
type Spec struct {
	// Who is to be greeted.
	Who string `json:"who"`
}

// Status is what came of it.
type Status struct {
	// Text is the greeting.
	Text string `json:"text"`
}

type (
	// Seen is what the plugin sees.
	Seen = guesthouse.Observation[Spec, Status, guesthouse.NoConfig]
	// Decision is what it wants.
	Decision = guesthouse.Decision[Status]
)

var plugin = guesthouse.Plugin[Spec, Status, guesthouse.NoConfig]{
	Name:    "{{name}}",
	Version: "0.1.0",
	Kinds: []guesthouse.ServedKind{
		{Kind: guesthouse.GVK("{{group}}/v1", "{{kind}}")},
	},
	Reconcile: reconcile,
}

func main() { guesthouse.Handle(plugin) }

func reconcile(seen *Seen) (*Decision, error) {
	text := "hello, " + seen.Spec.Who
	return new(Decision).Status(Status{Text: text}), nil
}
