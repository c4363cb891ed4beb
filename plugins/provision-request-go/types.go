package main

import (
	"fmt"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

type (
	// Seen is what this plugin sees.
	Seen = guesthouse.Observation[Spec, Status, Config]
	// Decision is what it wants.
	Decision = guesthouse.Decision[Status]
)

// Spec is a resource that shall be there as long as the object is.
type Spec struct {
	// Size can be changed at any time.
	Size Size `json:"size"`
	// Region counts until the resource is there; changed afterwards, the object is stalled until it is changed back.
	Region string `json:"region"`
}

// Size is how large a resource is.
type Size string

// UnmarshalText refuses a size that the kind's definition does not have.
func (s *Size) UnmarshalText(text []byte) error {
	switch *s = Size(text); *s {
	case "small", "medium", "large":
		return nil
	}
	return fmt.Errorf("spec.size: `%s` is none of small, medium, large", text)
}

// Status is how the resource stands.
type Status struct {
	Phase Phase `json:"phase"`
	// Resource is its id at the provisioner, made of namespace, name and uid of the object.
	Resource string `json:"resource,omitempty"`
	// Endpoint is where it can be reached.
	Endpoint *string `json:"endpoint,omitempty"`
	// Size is how large it is, as the provisioner says.
	Size *string `json:"size,omitempty"`
}

// Phase is where a resource is on its way.
type Phase string

// Phases of a resource.
const (
	Pending      Phase = "Pending"      // not there yet
	Provisioning Phase = "Provisioning" // being made, or made larger or smaller
	Ready        Phase = "Ready"        // as asked for
	Failed       Phase = "Failed"       // refused, lost, or not as asked for; the condition Ready says why
	Deleting     Phase = "Deleting"     // being taken away
)

// Config is the mapping's.
type Config struct {
	Provisioner string             `json:"provisioner"`
	PollSeconds guesthouse.Seconds `json:"pollSeconds"`
}

// configSchema leaves no other members and no interval of 0, which therefore can stand for none.
const configSchema = `{
	"type": "object",
	"required": ["provisioner"],
	"additionalProperties": false,
	"properties": {
		"provisioner": {
			"description": "The provisioner's address, without a path: http://provisioner.infra.",
			"type": "string"
		},
		"pollSeconds": {
			"description": "Seconds between two looks at a resource that is on its way.",
			"type": "integer", "minimum": 1, "maximum": 3600, "default": 5
		}
	}
}`

// poll is how long to wait between two looks at a resource that is on its way.
func (c Config) poll() guesthouse.Seconds {
	if c.PollSeconds == 0 {
		return 5
	}
	return c.PollSeconds
}
