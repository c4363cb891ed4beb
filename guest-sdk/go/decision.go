package guesthouse

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Decision is all that a plugin wants, built step by step. Empty, as in new(Decision), it is valid: nothing to do, and the
// status stays.
type Decision[Status any] struct {
	wanted decision
	status JSON
	err    error // what could not be written as JSON; then there is no decision
}

// Status is the whole status. Its observedGeneration is the host's to write.
func (d *Decision[Status]) Status(status Status) *Decision[Status] {
	return d.StatusJSON(d.text("the status", status))
}

// StatusJSON is the whole status as text, for what no type should touch. The host checks it.
func (d *Decision[Status]) StatusJSON(text JSON) *Decision[Status] {
	d.status = wrapped("replace", text)
	return d
}

// MergeStatus is a part of the status by RFC 7386: null removes, what is not named stays.
func (d *Decision[Status]) MergeStatus(part any) *Decision[Status] {
	d.status = wrapped("merge", d.text("the status", part))
	return d
}

// Condition is merged by type into the status.
func (d *Decision[Status]) Condition(typ string, status ConditionStatus, reason, message string) *Decision[Status] {
	d.wanted.Conditions = append(d.wanted.Conditions, Condition{typ, status, reason, message})
	return d
}

// Label sets a label of the object.
func (d *Decision[Status]) Label(key, value string) *Decision[Status] {
	return d.mark(&d.wanted.Labels, key, &value)
}

// RemoveLabel takes a label off the object.
func (d *Decision[Status]) RemoveLabel(key string) *Decision[Status] {
	return d.mark(&d.wanted.Labels, key, nil)
}

// Annotation sets an annotation of the object.
func (d *Decision[Status]) Annotation(key, value string) *Decision[Status] {
	return d.mark(&d.wanted.Annotations, key, &value)
}

// RemoveAnnotation takes an annotation off the object.
func (d *Decision[Status]) RemoveAnnotation(key string) *Decision[Status] {
	return d.mark(&d.wanted.Annotations, key, nil)
}

// Need is something to read first; until it is answered nothing else of this decision is carried out. It belongs into every
// decision, since the last one's are watched.
func (d *Decision[Status]) Need(need Need) *Decision[Status] {
	d.wanted.Needs = append(d.wanted.Needs, need)
	return d
}

// Apply is a child, beside others.
func (d *Decision[Status]) Apply(child Apply) *Decision[Status] {
	child.Object = d.text("the object of effect `"+child.ID+"`", child.Object)
	return d.effect(child.ID, child.After, variant{"apply": child})
}

// Children are all the children this object shall have: others on record are deleted.
func (d *Decision[Status]) Children(children ...Apply) *Decision[Status] {
	d.wanted.Complete = true
	for _, child := range children {
		d.Apply(child)
	}
	return d
}

// Delete is a deletion.
func (d *Decision[Status]) Delete(it Delete) *Decision[Status] {
	return d.effect(it.ID, it.After, variant{"delete": it})
}

// HTTP is a request with a receipt.
func (d *Decision[Status]) HTTP(it HTTP) *Decision[Status] {
	if request := &it.Request; request.JSON != nil {
		request.Body = Body(d.text("the body of effect `"+it.ID+"`", request.JSON))
		request.Headers = append(slices.Clip(request.Headers), Header{"content-type", "application/json"})
	}
	return d.effect(it.ID, it.After, variant{"http": it})
}

// Other is an effect of a later contract.
func (d *Decision[Status]) Other(id, name string, value any, after ...string) *Decision[Status] {
	return d.effect(id, after, variant{"other": Extension{name, d.text("the value of effect `"+id+"`", value)}})
}

// Extension is a part of a later contract.
func (d *Decision[Status]) Extension(name string, value any) *Decision[Status] {
	d.wanted.Extensions = append(d.wanted.Extensions, Extension{name, d.text("extension `"+name+"`", value)})
	return d
}

// Event is told only by a pass that changes something else too.
func (d *Decision[Status]) Event(reason, note string) *Decision[Status] {
	d.wanted.Events = append(d.wanted.Events, event{"normal", reason, note})
	return d
}

// Warning is an event that asks somebody to act.
func (d *Decision[Status]) Warning(reason, note string) *Decision[Status] {
	d.wanted.Events = append(d.wanted.Events, event{"warning", reason, note})
	return d
}

// WakeAt asks for a call at that time at the latest, computed from spec or status. It is rounded up to whole seconds, so that
// the time has come when the call does.
func (d *Decision[Status]) WakeAt(at time.Time) *Decision[Status] {
	at = at.Add(time.Second - 1).Truncate(time.Second)
	d.wanted.Wake = variant{"at": at.UTC().Format(time.RFC3339)}
	return d
}

// WakeAfter asks for a call that long after this pass at the latest; not kept over a restart.
func (d *Decision[Status]) WakeAfter(after Seconds) *Decision[Status] {
	d.wanted.Wake = variant{"after": after}
	return d
}

// Finalized says, in Finalize, that nothing is left to clean up.
func (d *Decision[Status]) Finalized() *Decision[Status] {
	d.wanted.Finalized = true
	return d
}

func (d *Decision[Status]) effect(id string, after []string, action variant) *Decision[Status] {
	d.wanted.Effects = append(d.wanted.Effects, effect{id, after, action})
	return d
}

func (d *Decision[Status]) mark(marks *map[string]*string, key string, value *string) *Decision[Status] {
	if *marks == nil {
		*marks = map[string]*string{}
	}
	(*marks)[key] = value
	return d
}

// text is a value as JSON; what cannot be written is kept as the decision's error.
func (d *Decision[Status]) text(what string, value any) JSON {
	text, err := encode(value)
	if err != nil {
		d.err = errors.Join(d.err, fmt.Errorf("%s cannot be written as JSON: %w", what, err))
	}
	return text
}

func (d *Decision[Status]) reply() (JSON, error) {
	text, err := reply("decision", d.wanted, d.status)
	if err = errors.Join(d.err, err); err != nil {
		return Stall("BadDecision", err.Error()).reply()
	}
	return text, nil
}

// Failure is why there is no decision, and the error that a plugin returns for it. Nothing is carried out then, but status and
// conditions may say why.
type Failure struct {
	Kind       string      `json:"kind"` // retry or terminal
	Cause      Cause       `json:"cause"`
	NotBefore  *Seconds    `json:"after,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	status     JSON
}

// Retry may work later: again with the mapping's backoff.
func Retry(reason, message string) *Failure {
	return &Failure{Kind: "retry", Cause: Cause{reason, message}}
}

// Stall will not work as things are: the object is stalled until something changes.
func Stall(reason, message string) *Failure {
	return &Failure{Kind: "terminal", Cause: Cause{reason, message}}
}

// Error is reason and message.
func (f *Failure) Error() string { return f.Cause.Reason + ": " + f.Cause.Message }

// After is not before that time; only for a retry.
func (f *Failure) After(after Seconds) *Failure {
	f.NotBefore = &after
	return f
}

// Status is the whole status to leave behind.
func (f *Failure) Status(status any) *Failure { return f.leave("replace", status) }

// MergeStatus is a part of the status to leave behind, by RFC 7386.
func (f *Failure) MergeStatus(part any) *Failure { return f.leave("merge", part) }

// Condition is one to leave behind.
func (f *Failure) Condition(typ string, status ConditionStatus, reason, message string) *Failure {
	f.Conditions = append(f.Conditions, Condition{typ, status, reason, message})
	return f
}

func (f *Failure) leave(how string, status any) *Failure {
	text, err := encode(status)
	if err != nil {
		return Stall("BadDecision", "the status cannot be written as JSON: "+err.Error())
	}
	f.status = wrapped(how, text)
	return f
}

func (f *Failure) reply() (JSON, error) { return reply("failure", f, f.status) }

// failed makes a failure of any error.
func failed(err error) (failure *Failure) {
	if errors.As(err, &failure) && failure != nil {
		return failure
	}
	return Retry("Error", err.Error())
}

// reply is a record under its name. The status goes in as the text it is: it was written once already, and whether a plugin's
// own text is JSON is for the host to say.
func reply(name string, record any, status JSON) (JSON, error) {
	text, err := encode(record)
	if err == nil && status != nil {
		// No record is without members, so a comma is right.
		text = fmt.Appendf(text[:len(text)-1], `,"status":%s}`, status)
	}
	return wrapped(name, text), err
}

func wrapped(name string, text JSON) JSON { return fmt.Appendf(nil, `{%q:%s}`, name, text) }
