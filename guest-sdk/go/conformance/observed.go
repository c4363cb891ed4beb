package main

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

// observed tells all that an observation holds.
func observed(wanted *Decision, seen *Seen) (*Decision, error) {
	var related, children, receipts []Status
	for _, answer := range seen.Answers {
		it, err := told(answer)
		if err != nil {
			return nil, err
		}
		related = append(related, it)
	}
	for _, child := range seen.Children {
		it := Status{
			"effect": child.Effect, "name": child.Object.Name, "namespace": orNull(child.Object.Namespace),
			"uid": orNull(child.UID), "state": child.State, "error": nil,
		}
		if child.Error != nil {
			it["error"] = child.Error.Reason
		}
		children = append(children, it)
	}
	for _, receipt := range seen.Receipts {
		it := Status{"effect": receipt.Effect, "key": orNull(receipt.Key)}
		switch {
		case receipt.Answered != nil:
			it["state"], it["code"], it["body"] = "answered", receipt.Answered.Code, text(receipt.Answered.Body)
		case receipt.Failed != nil:
			failed := receipt.Failed
			it["state"], it["attempts"], it["reason"] = "failed", failed.Attempts, failed.Error.Reason
			it["nextAt"] = failed.NextAt.Format(time.RFC3339)
		case receipt.Unknown:
			it["state"] = "unknown"
		}
		receipts = append(receipts, it)
	}
	status := Status{
		"name": seen.Name, "namespace": seen.Namespace, "uid": seen.UID, "generation": seen.Generation,
		"label": seen.Labels["a"], "old": (*seen.Status)["old"], "deleting": seen.DeletionTimestamp != nil,
		"mapping": seen.Mapping, "now": seen.Now.Format(time.RFC3339), "attempt": seen.Attempt, "round": seen.Round,
		"greeting": seen.Config.Greeting,
		"related":  related, "children": children, "receipts": receipts,
	}
	return wanted.Status(status), nil
}

func told(answer guesthouse.NamedAnswer) (Status, error) {
	it := Status{"name": answer.Name}
	switch {
	case answer.Objects != nil:
		type named struct{ Metadata guesthouse.Metadata }
		first, err := guesthouse.One[named](answer.Answer)
		if err != nil {
			return nil, err
		}
		it["found"], it["truncated"], it["first"] = len(answer.Objects.Items), answer.Objects.Truncated, nil
		if first != nil {
			it["first"] = first.Metadata.Name
		}
	case answer.Response != nil:
		response := answer.Response
		it["code"], it["body"], it["truncated"] = response.Code, text(response.Body), response.Truncated
		it["header"] = response.Header("x-a")
	case answer.Unavailable != nil:
		it["unavailable"], it["message"] = answer.Unavailable.Reason, answer.Unavailable.Message
	}
	return it, nil
}

func text(body guesthouse.Body) string {
	if utf8.Valid(body) {
		return string(body)
	}
	return base64.StdEncoding.EncodeToString(body)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
