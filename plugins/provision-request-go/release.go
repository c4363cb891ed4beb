package main

import (
	"strconv"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

// finalize asks for the deletion until there is a definite answer, and lets the object go when the resource is gone.
//
// Nothing is looked at: a deletion of what is not there is answered 404, which is as good. The id is of this object's uid, so
// it is nobody else's.
func finalize(seen *Seen) (*Decision, error) {
	last := seen.LastReceipt(release)
	var why string
	switch answer := last.Answered; {
	case last.Failed != nil:
		return goAway(seen, askedIn(last), last.Failed.Error.Reason, last.Failed.Error.Message), nil
	case last.Unknown:
		why = "what became of the deletion is not known"
	case answer == nil:
		return goAway(seen, seen.Attempt, "Deleting", "the resource is taken away"), nil
	case answer.OK(), answer.Code == 404, answer.Code == 410:
		return gone(seen), nil
	default:
		why = rejection(answer)
	}
	// Answered for good under this key. A later attempt is another wish; within this one it would be the same question again.
	if seen.Attempt > askedIn(last) {
		return goAway(seen, seen.Attempt, "DeletionRefused", why), nil
	}
	return nil, guesthouse.Retry("DeletionRefused", why).
		Status(status(seen, Deleting, nil)).
		Condition("Ready", guesthouse.False, "DeletionRefused", why)
}

// askedIn is the attempt that a deletion was first asked for in: its key.
func askedIn(last guesthouse.Receipt) uint32 {
	attempt, err := strconv.ParseUint(last.Key, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(attempt)
}

func goAway(seen *Seen, attempt uint32, reason, message string) *Decision {
	return new(Decision).
		Status(status(seen, Deleting, nil)).
		Condition("Ready", guesthouse.False, reason, message).
		HTTP(guesthouse.HTTP{
			ID:      release,
			Key:     strconv.FormatUint(uint64(attempt), 10),
			Request: guesthouse.Request{Method: "DELETE", URL: url(seen)},
		})
}

func gone(seen *Seen) *Decision {
	return new(Decision).
		Status(status(seen, Deleting, nil)).
		Condition("Ready", guesthouse.False, "Released", "the resource is gone").
		Event("Released", "the resource is gone").
		Finalized()
}
