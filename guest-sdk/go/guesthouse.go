// Package guesthouse is for writing Guesthouse plugins.
//
// A plugin is a pure function from what is seen to what is wanted: it gets an [Observation], with spec, status and config in
// its own types, and answers with a [Decision], or with a [Failure] as its error. It has no clock, no randomness, no files and
// no network; what it wants done it asks for, and the host does it. Equal observations must give equal decisions.
//
//	func main() { guesthouse.Handle(plugin) }
//
// Built with GOOS=wasip1 GOARCH=wasm, that is a whole plugin: the host runs it once for each call. What it writes to standard
// error, also through package log, is attached to the pass.
//
// Values are exact as long as no float64 comes between: an int64 field holds every integer, and a [JSON] field keeps the text
// it came as, in which null differs from absent (nil) and 1.0 from 1. A field of type any reads numbers as float64.
package guesthouse

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
)

// Version of this SDK.
const Version = "0.1.0"

// Plugin is what a plugin says of itself, and what it does.
type Plugin[Spec, Status, Config any] struct {
	// Name is in lower case, as in report-job.
	Name string `json:"name"`
	// Version is the plugin's own (semver), shown to people.
	Version string `json:"version"`
	// Kinds are those it can be mapped to; none: any.
	Kinds []ServedKind `json:"kinds,omitempty"`
	// Needs are what every pass of every object has to know: they are answered before the first call.
	Needs []Need `json:"needs,omitempty"`
	// Grants is what it will ask for, in the form of a mapping's grants. It grants nothing.
	Grants JSON `json:"grants,omitempty"`
	// ConfigSchema is the JSON Schema of Config, which the host checks a mapping's config against.
	ConfigSchema JSON `json:"configSchema,omitempty"`
	// Extensions are the parts of later contracts that it cannot do without.
	Extensions []string `json:"extensions,omitempty"`

	// Reconcile answers for an object that is there and wanted. An error that is no [Failure] is a retry, and so is a panic;
	// a nil decision wants nothing.
	Reconcile func(seen *Observation[Spec, Status, Config]) (*Decision[Status], error) `json:"-"`
	// Finalize answers for an object that is being deleted; maybe without any Reconcile before. Only with it the host holds
	// the object, by its finalizer, until a decision is [Decision.Finalized].
	Finalize func(seen *Observation[Spec, Status, Config]) (*Decision[Status], error) `json:"-"`
}

// ServedKind is a kind that a plugin answers for, and its whole CustomResourceDefinition if the plugin brings it.
type ServedKind struct {
	Kind Kind `json:"kind"`
	CRD  JSON `json:"crd,omitempty"`
}

// NoConfig is the config of a plugin that takes none; a mapping that gives one is refused.
type NoConfig struct{}

// Handle is the whole main function of a plugin: the verb is the first argument, an observation comes on standard input, and
// the answer goes to standard output. When there is no answer, standard error ends with the reason and the exit code is 1.
func Handle[Spec, Status, Config any](plugin Plugin[Spec, Status, Config]) {
	log.SetFlags(0)
	var verb string
	var observation, answer []byte
	var err error
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	if verb != "describe" {
		observation, err = io.ReadAll(os.Stdin)
	}
	if err == nil {
		answer, err = plugin.Call(verb, observation)
	}
	if err == nil {
		_, err = os.Stdout.Write(answer)
	}
	if err != nil {
		log.Fatalf("%s %s: %v", plugin.Name, verb, err)
	}
}

// Call is one call without a process around it. An error is a bad verb or a plugin that cannot be described; whatever goes
// wrong with an object is a failure, and an answer like any other.
func (p Plugin[Spec, Status, Config]) Call(verb string, observation []byte) (answer JSON, err error) {
	do := p.Reconcile
	switch verb {
	case "describe":
		return p.describe()
	case "reconcile":
	case "finalize":
		do = p.Finalize
	default:
		return nil, fmt.Errorf("%q is no verb: describe, reconcile and finalize are", verb)
	}
	if do == nil {
		return nil, errors.New("the plugin has no function for this verb")
	}
	defer func() {
		if cause := recover(); cause != nil {
			log.Printf("%s", debug.Stack())
			answer, err = Retry("Panic", fmt.Sprint(cause)).reply()
		}
	}()
	seen, err := read[Spec, Status, Config](observation)
	if err != nil {
		return failed(err).reply()
	}
	decision, err := do(seen)
	if err != nil {
		return failed(err).reply()
	}
	if decision == nil {
		decision = new(Decision[Status])
	}
	return decision.reply()
}

func (p Plugin[Spec, Status, Config]) describe() (JSON, error) {
	if p.Reconcile == nil {
		return nil, errors.New("the plugin has no function Reconcile")
	}
	if _, none := any(*new(Config)).(NoConfig); none && p.ConfigSchema == nil {
		p.ConfigSchema = JSON(`{"type":"object","additionalProperties":false}`)
	}
	type descriptor struct {
		Plugin[Spec, Status, Config]
		SDK       string `json:"sdk"`
		Finalizes bool   `json:"finalizes"`
	}
	return encode(struct {
		Contract   string     `json:"contract"`
		Descriptor descriptor `json:"descriptor"`
	}{"guesthouse:reconciler@0.1.0", descriptor{p, "go/" + Version, p.Finalize != nil}})
}
