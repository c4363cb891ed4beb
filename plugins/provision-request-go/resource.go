package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

// What is asked of the provisioner, and what is known of the resource.
//
// Two things tell of the resource: the last look at it and the answer to what was asked for last. Whichever is newer counts:
// a look may be a few seconds old, so one from before the last answer says nothing.

const (
	look      = "resource"  // name of the look at the resource
	provision = "provision" // id of the effect that makes or resizes it
	release   = "release"   // id of the effect that takes it away
)

// resource is one as the provisioner shows it.
type resource struct {
	size, region, state string
	endpoint            *string
}

// id is that of one object in one life, so there can never be two for it, nor one for two.
func id(seen *Seen) string { return strings.Join([]string{seen.Namespace, seen.Name, seen.UID}, ".") }

// url needs no escaping: namespace, name and uid are lower-case letters, digits, - and .
func url(seen *Seen) string {
	return strings.TrimRight(seen.Config.Provisioner, "/") + "/resources/" + id(seen)
}

// aLook is whether the resource is there, and how far.
//
// It is a fetch and no http effect: it changes nothing, it is repeated as long as the resource is on its way, and only its
// latest answer counts. An effect is carried out once for each key and its answer is on record for good.
func aLook(seen *Seen) guesthouse.Need {
	return guesthouse.Need{Name: look, Source: guesthouse.Fetch{
		Request: guesthouse.Request{Method: "GET", URL: url(seen)},
		// A look as old as the wake that leads to it must be taken again.
		Fresh: max(seen.Config.poll()-1, 1),
	}}
}

// key is what makes one wish another: all that is sent, and the generation, since a size that comes back after another one is
// a new wish. (Under the key of the first time the provisioner would only repeat its answer of that time.)
func key(seen *Seen) string {
	sent := guesthouse.Fingerprint(url(seen), string(seen.Spec.Size), seen.Spec.Region)
	return fmt.Sprintf("%d-%s", seen.Generation, sent)
}

// aWish is the request that makes the resource, or makes it as large as it shall be.
func aWish(seen *Seen) guesthouse.HTTP {
	return guesthouse.HTTP{
		ID:      provision,
		Key:     key(seen),
		Request: guesthouse.Request{Method: "PUT", URL: url(seen), JSON: seen.Spec},
	}
}

// known is what is known of the resource.
type known struct {
	// As it was last; nil: it is not there.
	resource *resource
	// A look from before the last answer: another one is due.
	stale bool
	// Something was sent that had no definite answer, so whatever was seen may just be changing.
	open bool
}

// read makes it out of the look and the receipt, whatever key that is of.
func read(seen *Seen, looked *guesthouse.Response) (it known, err error) {
	switch looked.Code {
	case 404, 410:
	case 200:
		if it.resource, err = shown(looked); err != nil {
			return it, guesthouse.Retry("BadAnswer", "the provisioner's answer is not a resource")
		}
	default:
		return it, guesthouse.Retry("UnexpectedAnswer", fmt.Sprintf("GET was answered %d", looked.Code))
	}
	last := seen.LastReceipt(provision)
	own := last.Key == key(seen)
	it.stale = last.Answered != nil && !looked.At.After(last.Answered.At)
	if it.stale && last.Answered.OK() {
		if answered, err := shown(last.Answered); err == nil {
			it.resource = answered
		} else if own {
			// What a success without a readable body says.
			it.resource = &resource{size: string(seen.Spec.Size), region: seen.Spec.Region}
		}
	}
	// Of the own wish nothing more can be sent under this key once it is unknown: then it is as it is seen.
	it.open = last.Failed != nil || last.Unknown && !own
	return it, nil
}

// shown reads a resource from an answer.
func shown(answer *guesthouse.Response) (*resource, error) {
	var it struct {
		Size     *text `json:"size"`
		Region   *text `json:"region"`
		State    text  `json:"state"`
		Endpoint *text `json:"endpoint"`
	}
	if err := json.Unmarshal([]byte(answer.Text()), &it); err != nil {
		return nil, err
	}
	if it.Size == nil || it.Region == nil {
		return nil, errors.New("size and region are not both there")
	}
	return &resource{string(*it.Size), string(*it.Region), string(it.State), (*string)(it.Endpoint)}, nil
}

// text is a JSON string; null is none.
type text string

func (t *text) UnmarshalJSON(from []byte) error {
	if string(from) == "null" {
		return errors.New("null is not a text")
	}
	return json.Unmarshal(from, (*string)(t))
}
