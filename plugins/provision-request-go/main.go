// acme.io/v1 ProvisionRequest: a resource outside the cluster that is there as long as its object is. The same plugin as
// plugins/provision-request, in Go: each decision is the same, so one can take over from the other at any time.
//
// Every pass looks first whether the resource is there. If it is not, or has another size, one http effect, provision, asks
// for it under a key that holds all that is sent; then it is watched until it is ready. What the provisioner shows decides,
// not what was sent: a resource whose creation was answered into the void is found and not made again. Deletion takes the
// resource away before the finalizer goes.
//
//   - There is never more than one resource for an object: its id is made of namespace, name and uid.
//   - A resource that vanished is not replaced: it held something, and an empty one in its place would hide the loss. A new
//     generation is somebody's decision to have a new one.
//   - The region of a resource does not change: a changed region stalls the object, and changing it back goes on.
package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

var plugin = guesthouse.Plugin[Spec, Status, Config]{
	Name:    "provision-request-go",
	Version: "0.1.0",
	Kinds:   []guesthouse.ServedKind{{Kind: guesthouse.GVK("acme.io/v1", "ProvisionRequest")}},
	// The host stands for the one in the mapping's config.
	Grants: guesthouse.JSON(`{"http": [
		{"host": "provisioner.example", "methods": ["GET", "PUT", "DELETE"], "path": "/resources/"}
	]}`),
	ConfigSchema: guesthouse.JSON(configSchema),
	Reconcile:    reconcile,
	Finalize:     finalize,
}

func main() { guesthouse.Handle(plugin) }

func reconcile(seen *Seen) (*Decision, error) {
	looked := seen.Related(look)
	switch {
	case looked.Unavailable != nil:
		return nil, unseen(seen, looked.Unavailable)
	case looked.Response == nil:
		return new(Decision).Need(aLook(seen)), nil
	}
	known, err := read(seen, looked.Response)
	if err != nil {
		return nil, err
	}
	var wanted *Decision
	there := known.resource
	switch {
	case there != nil && there.region != seen.Spec.Region:
		return nil, moved(seen, there)
	case there != nil && there.size == string(seen.Spec.Size) && !known.open:
		wanted = arrived(seen, there)
	default:
		wanted = want(seen, known)
	}
	return wanted.Need(aLook(seen)), nil
}

// arrived: the resource is there with the size it shall have, ready or on its way.
func arrived(seen *Seen, there *resource) *Decision {
	switch there.state {
	case "ready":
		return new(Decision).
			Status(status(seen, Ready, there)).
			Condition("Ready", guesthouse.True, "Provisioned", "the resource is ready").
			Event("Provisioned", "the resource is ready")
	case "failed":
		return refused(seen, there, "ProvisioningFailed", "the provisioner says that the resource failed")
	}
	return new(Decision).
		Status(status(seen, Provisioning, there)).
		Condition("Ready", guesthouse.Unknown, "Provisioning", "the provisioner is at work").
		WakeAfter(seen.Config.poll())
}

// want: the resource is not there, is not as it shall be, or may just be changing. It is asked for, unless that was answered
// for good.
func want(seen *Seen, known known) *Decision {
	there := known.resource
	receipt := seen.Receipt(provision, key(seen))
	var wanted *Decision
	switch answer := receipt.Answered; {
	case receipt.Failed != nil:
		return asked(seen, there, receipt.Failed.Error.Reason, receipt.Failed.Error.Message)
	case receipt.Unknown:
		// It may still turn up.
		why := "what became of the request is not known; a changed spec asks again"
		return refused(seen, there, "AnswerLost", why).WakeAfter(seen.Config.poll())
	case answer == nil:
		return asked(seen, there, "Requested", "the provisioner is asked")
	case !answer.OK():
		wanted = refused(seen, there, "Rejected", rejection(answer))
	// Made as asked for, and seen otherwise since.
	case there == nil:
		wanted = refused(seen, nil, "ResourceLost", "the resource was made and is gone; a changed spec makes a new one")
	default:
		wanted = refused(seen, there, "ResourceChanged", "the resource was changed by somebody else: it is "+there.size)
	}
	if known.stale {
		// One more look, for what was there before the answer.
		wanted.WakeAfter(seen.Config.poll())
	}
	return wanted
}

// asked asks for the resource, now or once more.
func asked(seen *Seen, there *resource, reason, message string) *Decision {
	phase := Pending
	if there != nil {
		phase = Provisioning
	}
	return new(Decision).
		Status(status(seen, phase, there)).
		Condition("Ready", guesthouse.Unknown, reason, message).
		HTTP(aWish(seen))
}

// refused: not as it shall be, and nothing more to ask for.
func refused(seen *Seen, there *resource, reason, why string) *Decision {
	return new(Decision).
		Status(status(seen, Failed, there)).
		Warning(reason, why).
		Condition("Ready", guesthouse.False, reason, why)
}

// moved: the region was changed after the resource was made.
func moved(seen *Seen, there *resource) *guesthouse.Failure {
	why := fmt.Sprintf("the resource is in %s and cannot be moved: change `spec.region` back, or delete the object and make "+
		"another one", there.region)
	return guesthouse.Stall("RegionImmutable", why).
		Status(status(seen, Failed, there)).
		Condition("Ready", guesthouse.False, "RegionImmutable", why)
}

// unseen: whether the resource is there cannot be seen. What was known before stays.
func unseen(seen *Seen, cause *guesthouse.Cause) *guesthouse.Failure {
	why := "the resource cannot be looked at: " + cause.Message
	failure := guesthouse.Retry(cause.Reason, why)
	if cause.Reason == "Denied" {
		failure = guesthouse.Stall("Denied", why)
	}
	if seen.Status != nil && seen.Status.Phase == Ready {
		return failure
	}
	return failure.Condition("Ready", guesthouse.Unknown, cause.Reason, why)
}

func status(seen *Seen, phase Phase, there *resource) Status {
	status := Status{Phase: phase, Resource: id(seen)}
	if there != nil {
		status.Size, status.Endpoint = &there.size, there.endpoint
		if status.Endpoint == nil && seen.Status != nil {
			// While it is resized a resource is where it was.
			status.Endpoint = seen.Status.Endpoint
		}
	}
	return status
}

// rejection is what the provisioner said against it, cut at 512 bytes.
func rejection(answer *guesthouse.Response) string {
	said := strings.TrimSpace(answer.Text())
	if said == "" {
		return fmt.Sprintf("the provisioner answered %d", answer.Code)
	}
	end := min(len(said), 512)
	for end < len(said) && !utf8.RuneStart(said[end]) {
		end--
	}
	return fmt.Sprintf("the provisioner answered %d: %s", answer.Code, said[:end])
}
