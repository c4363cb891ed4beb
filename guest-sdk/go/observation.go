package guesthouse

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Observation is all that a plugin sees in one call. Between two wakes a decision must not depend on Now.
type Observation[Spec, Status, Config any] struct {
	Metadata `json:"-"` // the object's: seen.Name, seen.Generation, seen.Labels["team"]
	Spec     Spec       `json:"-"` // the object's; the zero value for one without
	Status   *Status    `json:"-"` // the object's; nil when there is none yet
	Config   Config     `json:"-"` // the mapping's

	Mapping    string        `json:"mapping"`    // its name
	Now        time.Time     `json:"now"`        // when this pass began, in whole seconds; the same in all its rounds
	Attempt    uint32        `json:"attempt"`    // how many passes in a row failed before this one
	Round      uint32        `json:"round"`      // 0 in the first call of a pass
	Answers    []NamedAnswer `json:"related"`    // those to needs, by name
	Children   []Child       `json:"children"`   // those on record and those asked for last, by effect id
	Receipts   []Receipt     `json:"receipts"`   // what became of http effects
	Extensions []Extension   `json:"extensions"` // parts of later contracts that the plugin named

	ObjectJSON JSON `json:"object"` // the whole object as the API server sent it
	ConfigJSON JSON `json:"config"` // the mapping's config as it was written
}

// Related is the answer to the need of that name.
func (o *Observation[Spec, Status, Config]) Related(name string) Answer {
	return find(o.Answers, func(it NamedAnswer) bool { return it.Name == name }).Answer
}

// Receipt is what became of the http effect of that id and key; the key is empty for one that was asked for without.
func (o *Observation[Spec, Status, Config]) Receipt(id, key string) Receipt {
	return find(o.Receipts, func(it Receipt) bool { return it.Effect == id && it.Key == key })
}

// LastReceipt is what became of the http effect of that id under whatever key: only the last one is on record.
func (o *Observation[Spec, Status, Config]) LastReceipt(id string) Receipt {
	return find(o.Receipts, func(it Receipt) bool { return it.Effect == id })
}

// Child is the one that the effect of that id asked for; with no state, when it was never asked for.
func (o *Observation[Spec, Status, Config]) Child(id string) Child {
	return find(o.Children, func(it Child) bool { return it.Effect == id })
}

// OK is whether the code is 2xx.
func (r *Response) OK() bool { return r.Code >= 200 && r.Code < 300 }

// Header is the first one of that name (lower case), or empty.
func (r *Response) Header(name string) string {
	return find(r.Headers, func(it Header) bool { return it[0] == name })[1]
}

// Text is the body if it is text, else empty.
func (r *Response) Text() string {
	if utf8.Valid(r.Body) {
		return string(r.Body)
	}
	return ""
}

// All reads the objects of an answer into a type of the plugin's. None, as long as it was not asked for: then the decision is
// not carried out anyway, if only it names the need. Without an answer the error is a retry.
func All[T any](answer Answer) ([]T, error) {
	switch {
	case answer.Unavailable != nil:
		return nil, Retry(answer.Unavailable.Reason, answer.Unavailable.Message)
	case answer.Response != nil:
		return nil, Stall("BadRelated", "the need is a fetch: it has an answer, not objects")
	case answer.Objects == nil:
		return nil, nil
	}
	all := make([]T, len(answer.Objects.Items))
	for i, item := range answer.Objects.Items {
		if err := json.Unmarshal(item, &all[i]); err != nil {
			return nil, Stall("BadRelated", explain(err))
		}
	}
	return all, nil
}

// One is the first of [All], or nil: for a need of one object by name.
func One[T any](answer Answer) (*T, error) {
	all, err := All[T](answer)
	if len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// read makes an observation of its text. What does not fit the plugin's types is its user's to change: a terminal failure.
func read[Spec, Status, Config any](text []byte) (*Observation[Spec, Status, Config], error) {
	seen := new(Observation[Spec, Status, Config])
	if err := json.Unmarshal(text, seen); err != nil {
		return nil, fmt.Errorf("the observation cannot be read: %s", explain(err))
	}
	var object struct {
		Metadata Metadata `json:"metadata"`
		Spec     Spec     `json:"spec"`
		Status   *Status  `json:"status"`
	}
	if err := json.Unmarshal(seen.ObjectJSON, &object); err != nil {
		return nil, Stall("BadObject", explain(err))
	}
	if err := json.Unmarshal(seen.ConfigJSON, &seen.Config); err != nil {
		return nil, Stall("BadConfig", explain(err))
	}
	seen.Metadata, seen.Spec, seen.Status = object.Metadata, object.Spec, object.Status
	return seen, nil
}

// explain says where a value does not fit, as in "spec.size: string does not fit int64".
func explain(err error) string {
	var unfit *json.UnmarshalTypeError
	if errors.As(err, &unfit) && unfit.Field != "" {
		return fmt.Sprintf("%s: %s does not fit %s", unfit.Field, unfit.Value, unfit.Type)
	}
	return err.Error()
}

func find[T any](all []T, fits func(T) bool) (found T) {
	if at := slices.IndexFunc(all, fits); at >= 0 {
		found = all[at]
	}
	return found
}
