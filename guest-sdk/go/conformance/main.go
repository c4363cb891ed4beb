// The conformance guest in Go: a branch for each case of tests/conformance/cases.json, with the SDK's own builders.
package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

// Spec of a Case. Values, A, B, C and D are whatever is there.
type Spec struct {
	Case       string
	Number     int64
	Values     guesthouse.JSON
	A, B, C, D guesthouse.JSON
}

// Status is any object.
type Status map[string]any

// Config of a mapping.
type Config struct{ Greeting string }

type (
	// Seen is what this plugin sees.
	Seen = guesthouse.Observation[Spec, Status, Config]
	// Decision is what it wants.
	Decision = guesthouse.Decision[Status]
)

var configMap = guesthouse.GVK("v1", "ConfigMap")

var plugin = guesthouse.Plugin[Spec, Status, Config]{
	Name:    "conformance",
	Version: "1.2.3",
	Kinds: []guesthouse.ServedKind{
		{
			Kind: guesthouse.GVK("conformance.guesthouse.dev/v1", "Case"),
			CRD: guesthouse.JSON(`{
				"apiVersion": "apiextensions.k8s.io/v1",
				"kind": "CustomResourceDefinition",
				"metadata": {"name": "cases.conformance.guesthouse.dev"}
			}`),
		},
		{Kind: configMap},
	},
	Needs:        []guesthouse.Need{{Name: "settings", Source: configMap.Named("settings")}},
	Grants:       guesthouse.JSON(`{"http": [{"host": "example.test"}]}`),
	ConfigSchema: guesthouse.JSON(`{"type": "object", "properties": {"greeting": {"type": "string"}}}`),
	Reconcile:    reconcile,
	Finalize:     finalize,
}

func main() { guesthouse.Handle(plugin) }

func reconcile(seen *Seen) (*Decision, error) {
	wanted := new(Decision)
	switch seen.Spec.Case {
	case "empty":
		return nil, nil
	case "status-replace":
		return wanted.Status(Status{
			"phase": "Done", "count": 3, "ok": false, "ratio": 0.5,
			"list": []string{"a", ""}, "nested": map[string]any{"none": nil},
		}), nil
	case "status-merge":
		return wanted.MergeStatus(Status{"kept": "x", "gone": nil}), nil
	case "values":
		return wanted.Status(Status{"values": seen.Spec.Values}), nil
	case "arithmetic":
		return wanted.Status(Status{"next": seen.Spec.Number + 1}), nil
	case "absent":
		return wanted.Status(Status{
			"a": presence(seen.Spec.A), "b": presence(seen.Spec.B), "c": presence(seen.Spec.C), "d": presence(seen.Spec.D),
		}), nil
	case "conditions":
		return wanted.
			Condition("Synced", guesthouse.True, "Done", "all of it").
			Condition("Healthy", guesthouse.False, "Broken", "m").
			Condition("Ready", guesthouse.Unknown, "Waiting", ""), nil
	case "labels":
		return wanted.
			Label("team", "a").RemoveLabel("old").
			Annotation("acme.io/note", "n").RemoveAnnotation("acme.io/old"), nil
	case "events":
		return wanted.Event("Told", "so").Warning("Warned", "beware"), nil
	case "wake-at":
		return wanted.WakeAt(time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC)), nil
	case "wake-after":
		return wanted.WakeAfter(90), nil
	case "children":
		return children(wanted), nil
	case "delete":
		other := configMap.Named("gone")
		other.Namespace = "other"
		return wanted.
			Delete(guesthouse.Delete{ID: "one", Object: configMap.Named("gone")}).
			Delete(guesthouse.Delete{ID: "two", Object: other, UID: "u-9"}), nil
	case "http":
		return requests(wanted, seen), nil
	case "needs":
		return needs(wanted), nil
	case "extension":
		return wanted.
			Extension("example.test/more", map[string]int{"n": 1}).
			Other("x", "example.test/do", map[string]any{"deep": []any{1, nil}}), nil
	case "retry":
		return nil, guesthouse.Retry("NotYet", "the other side sleeps").
			After(30).
			MergeStatus(Status{"phase": "Waiting"}).
			Condition("Synced", guesthouse.False, "NotYet", "m")
	case "stall":
		return nil, guesthouse.Stall("Wrong", "the size is negative")
	case "throw":
		panic("conformance throws")
	case "malformed":
		return wanted.StatusJSON(guesthouse.JSON(`{"a":`)), nil
	case "logs":
		// All a plugin writes to standard error is one level: package log is as good as any.
		for _, line := range []string{"d 1", "i 2", "w 3", "e 4"} {
			log.Print(line)
		}
		fmt.Fprintln(os.Stderr, "printed to stderr")
		return wanted, nil
	case "clock":
		return wanted.Status(Status{"now": time.Now().UTC().Format(time.RFC3339)}), nil
	case "random":
		return wanted.Status(Status{"random": rand.Uint64()}), nil
	case "large":
		return wanted.Status(Status{"text": strings.Repeat("x", 100_000)}), nil
	case "observed":
		return observed(wanted, seen)
	}
	return nil, guesthouse.Stall("NoSuchCase", "the guest has no branch for case "+seen.Spec.Case)
}

func finalize(seen *Seen) (*Decision, error) {
	wanted := new(Decision)
	switch seen.Spec.Case {
	case "finalized":
		return wanted.MergeStatus(Status{"phase": "Gone"}).Finalized(), nil
	case "finalize-waits":
		return wanted.HTTP(guesthouse.HTTP{
			ID:      "undo",
			Request: guesthouse.Request{Method: "DELETE", URL: "https://example.test/a"},
		}), nil
	}
	return nil, guesthouse.Stall("NoSuchCase", "the guest has no branch for case "+seen.Spec.Case)
}

func presence(value guesthouse.JSON) string {
	switch string(value) {
	case "":
		return "absent"
	case "null":
		return "null"
	case `""`:
		return "empty"
	}
	return "value"
}

func children(wanted *Decision) *Decision {
	type object map[string]any
	return wanted.Children(
		guesthouse.Apply{
			ID: "plain",
			Object: object{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": object{"name": "plain"}, "data": object{"k": "v"},
			},
		},
		guesthouse.Apply{
			ID:    "job",
			After: []string{"plain"},
			Object: object{
				"apiVersion": "batch/v1", "kind": "Job",
				"metadata": object{"name": "job"}, "spec": object{"backoffLimit": 0},
			},
			Mode:        guesthouse.Once,
			Ownership:   guesthouse.Adopt,
			OnImmutable: guesthouse.Recreate,
			OnDelete:    guesthouse.Orphan,
		},
		guesthouse.Apply{
			ID:     "secret",
			Object: guesthouse.JSON(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}}`),
			Generate: []guesthouse.Generated{
				{Key: "password", Length: 24},
				{Key: "pin", Length: 4, Alphabet: "0123456789"},
			},
		},
		guesthouse.Apply{
			ID:    "part",
			After: []string{"plain", "job"},
			Object: object{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": object{"name": "shared", "namespace": "other"}, "data": object{"k": "v"},
			},
			Ownership: guesthouse.Fields,
		},
	)
}

func requests(wanted *Decision, seen *Seen) *Decision {
	return wanted.
		HTTP(guesthouse.HTTP{
			ID:      "least",
			Request: guesthouse.Request{Method: "PUT", URL: "https://example.test/a"},
		}).
		HTTP(guesthouse.HTTP{
			ID:    "all",
			After: []string{"least"},
			Request: guesthouse.Request{
				Method:     "POST",
				URL:        "https://example.test/b?x=1",
				Headers:    []guesthouse.Header{{"accept", "text/plain"}, {"accept", "*/*"}, {"x-a", "1"}},
				Body:       guesthouse.Body(`{"a":1}`),
				Credential: "token",
				Timeout:    7,
			},
			Key:      fmt.Sprintf("generation-%d", seen.Generation),
			Delivery: guesthouse.AtMostOnce,
		}).
		HTTP(guesthouse.HTTP{
			ID: "bytes",
			Request: guesthouse.Request{
				Method: "PUT",
				URL:    "https://example.test/c",
				Body:   guesthouse.Body{0x00, 0xff, 0xfe, 0x80},
			},
			LiteralKey: "c",
		})
}

func needs(wanted *Decision) *Decision {
	secret := guesthouse.GVK("v1", "Secret").Named("s")
	secret.Namespace = "other"
	return wanted.
		Need(guesthouse.Need{Name: "by-name", Source: secret}).
		Need(guesthouse.Need{Name: "own-namespace", Source: configMap.Named("cm"), View: guesthouse.MetadataOnly}).
		Need(guesthouse.Need{
			Name:   "by-label",
			Source: guesthouse.Selection{Kind: guesthouse.GVK("v1", "Pod"), Namespace: "*", Labels: "app in (a, b)"},
			Limit:  10,
		}).
		Need(guesthouse.Need{Name: "mine", Source: guesthouse.Owned(guesthouse.GVK("batch/v1", "Job"))}).
		Need(guesthouse.Need{Name: "outside", Source: guesthouse.Fetch{
			Request: guesthouse.Request{
				Method:  "GET",
				URL:     "https://example.test/r",
				Headers: []guesthouse.Header{{"accept", "application/json"}},
			},
			Fresh: 60,
		}})
}
