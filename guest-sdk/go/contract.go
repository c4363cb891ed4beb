package guesthouse

import (
	"encoding/json"
	"time"
)

// The records of the contract guesthouse:reconciler@0.1.0, as its JSON has them: first what both sides speak of, then what a
// plugin sees, then what it wants. An option that is none is the empty value.

// JSON is JSON text, untouched. As a plugin's spec or status, or as the type of a field, it takes whatever is there.
type JSON = json.RawMessage

// Seconds is a length of time.
type Seconds uint32

// Cause is why something is as it is: a CamelCase reason for machines, a message for people. Neither may hold a counter or a
// time, since each new value would be a write.
type Cause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Kind is a kind as a manifest names it.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// GVK is a kind: GVK("apps/v1", "Deployment").
func GVK(apiVersion, kind string) Kind { return Kind{apiVersion, kind} }

// ObjectRef is one object by name. An empty namespace is that of the reconciled object.
type ObjectRef struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Named is one object of the kind, in the reconciled object's namespace.
func (k Kind) Named(name string) ObjectRef { return ObjectRef{Kind: k, Name: name} }

// Extension is a part of a later contract under a name of its own, as in example.com/thing.
type Extension struct {
	Name  string `json:"name"`
	Value JSON   `json:"value"`
}

// Header is name and value; a name may come more than once.
type Header [2]string

// Body of a request or an answer. What is UTF-8 crosses as text, all else as base64.
type Body []byte

// Metadata of an object.
type Metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"` // empty for a cluster-scoped one
	UID               string            `json:"uid"`
	Generation        int64             `json:"generation"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp"` // nil unless it is being deleted
}

// NamedAnswer is the answer to the need of that name.
type NamedAnswer struct {
	Name   string `json:"name"`
	Answer `json:"answer"`
}

// Answer is what came of a need. One member is set; none, when it was not asked for yet.
type Answer struct {
	Objects     *Objects  `json:"objects"`
	Response    *Response `json:"response"`    // of a [Fetch], whatever its code
	Unavailable *Cause    `json:"unavailable"` // asked for, and there is no answer
}

// Objects were found, maybe none; [All] and [One] read them into a type.
type Objects struct {
	Items     []JSON `json:"items"`
	Truncated bool   `json:"truncated"` // more matched than the limit let through
}

// Child is an object that this one asked for.
type Child struct {
	Effect  string     `json:"effect"`
	Object  ObjectRef  `json:"object"`
	UID     string     `json:"uid"` // empty until the server has answered
	State   ChildState `json:"state"`
	Message string     `json:"message"` // why it is not current, in its own words
	Error   *Cause     `json:"error"`   // why the last write of it did not succeed
}

// ChildState is how far a child is, as kubectl wait would see it.
type ChildState string

// States of a child.
const (
	Absent      ChildState = "absent"
	InProgress  ChildState = "inProgress"
	Current     ChildState = "current"
	Failing     ChildState = "failed"
	Terminating ChildState = "terminating"
)

// Receipt is what became of an http effect. One of Answered, Failed and Unknown is set; none, when it was not sent yet.
type Receipt struct {
	Effect   string      `json:"effect"`
	Key      string      `json:"key"`      // empty when it was asked for without one
	Answered *Response   `json:"answered"` // for good: 2xx, 3xx, 4xx but 408, 425 and 429
	Failed   *FailedSend `json:"failed"`   // sent again at NextAt, if it is still asked for
	Unknown  bool        `json:"-"`        // at most once: it was sent, and the answer is lost
}

// FailedSend was sent without a definite answer.
type FailedSend struct {
	Attempts uint32    `json:"attempts"`
	Error    Cause     `json:"error"` // Unreachable, Timeout, ServerError or Throttled
	NextAt   time.Time `json:"nextAt"`
}

// Response is an HTTP answer.
type Response struct {
	Code      int       `json:"code"`
	Headers   []Header  `json:"headers"` // names in lower case; only those the grant lets through
	Body      Body      `json:"body"`
	Truncated bool      `json:"truncated"` // the body was longer
	At        time.Time `json:"at"`
}

// Condition of an object; generation and transition time are the host's.
type Condition struct {
	Type    string          `json:"type"`
	Status  ConditionStatus `json:"status"`
	Reason  string          `json:"reason"`
	Message string          `json:"message"`
}

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// As Kubernetes writes them.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// Need is something to read: its answer comes in the next call, and what was read is watched.
type Need struct {
	Name   string // that of the answer
	Source Source // an ObjectRef, a Selection, Owned or a Fetch
	View   View   // empty: all of each object
	Limit  uint32 // how many objects at most; 0: the mapping's
}

// Source is what to read.
type Source interface{ source() string }

// Selection is objects of a kind by label.
type Selection struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // empty: the object's own; *: all that are granted
	Labels    string `json:"labels,omitempty"`    // as after kubectl get -l; empty: all
}

// Owned is objects of a kind that carry this object's owner mark.
type Owned Kind

// Fetch is a GET or HEAD of something outside the cluster: it leaves no receipt, and is sent again when its answer is older
// than Fresh.
type Fetch struct {
	Request Request `json:"request"`
	Fresh   Seconds `json:"fresh,omitempty"`
}

func (ObjectRef) source() string { return "object" }
func (Selection) source() string { return "selected" }
func (Owned) source() string     { return "owned" }
func (Fetch) source() string     { return "fetch" }

// View is how much of an object is shown.
type View string

// MetadataOnly is apiVersion, kind and metadata, at a fraction of the cost.
const MetadataOnly View = "metadata"

// Apply is a child by server-side apply: state the fields you mean and no others. ID names the wish, not the attempt: unique
// and stable within the object. After are ids of effects that must have succeeded first.
type Apply struct {
	ID          string      `json:"-"`
	After       []string    `json:"-"`
	Object      any         `json:"object"`                // with apiVersion, kind and metadata.name: a struct, a map or JSON
	Ownership   Ownership   `json:"ownership,omitempty"`   // empty: made by this object
	Mode        Mode        `json:"mode,omitempty"`        // empty: kept as stated
	OnImmutable OnImmutable `json:"onImmutable,omitempty"` // when a field cannot be changed; empty: an error of the effect
	OnDelete    OnDelete    `json:"onDelete,omitempty"`    // when the reconciled object is deleted; empty: it goes too
	Generate    []Generated `json:"generate,omitempty"`    // only for a Secret
}

// What may be otherwise with a child.
type (
	Ownership   string
	Mode        string
	OnImmutable string
	OnDelete    string
)

// What may be otherwise with a child.
const (
	Adopt    Ownership   = "adopt"    // one that is there and has no owner is taken over
	Fields   Ownership   = "fields"   // only these fields of somebody else's object
	Once     Mode        = "once"     // made once and then left alone, also when it is gone
	Recreate OnImmutable = "recreate" // deleted and made again
	Orphan   OnDelete    = "orphan"   // it stays
)

// Generated is a random value under data of a Secret, made by the host once.
type Generated struct {
	Key      string `json:"key"`
	Length   uint32 `json:"length"`
	Alphabet string `json:"alphabet,omitempty"` // empty: A-Za-z0-9
}

// Delete is a deletion of an own child, or of the object itself where granted.
type Delete struct {
	ID     string    `json:"-"`
	After  []string  `json:"-"`
	Object ObjectRef `json:"object"`
	UID    string    `json:"uid,omitempty"` // only this one; empty: the one on record
}

// HTTP is a request with a receipt, carried out once for each ID and Key: Key makes this another wish than the last one under
// this ID, and is usually something of the spec.
type HTTP struct {
	ID         string   `json:"-"`
	After      []string `json:"-"`
	Request    Request  `json:"request"`
	Key        string   `json:"key,omitempty"`
	LiteralKey string   `json:"literalKey,omitempty"` // sent instead of the host's hash, where granted
	Delivery   Delivery `json:"delivery,omitempty"`   // empty: at least once, again until there is a definite answer
}

// Delivery is how often a request may be sent under one key.
type Delivery string

// AtMostOnce is never sent a second time, also when the answer is lost.
const AtMostOnce Delivery = "atMostOnce"

// Request is an HTTP request.
type Request struct {
	Method     string   `json:"method"` // upper case
	URL        string   `json:"url"`
	Headers    []Header `json:"headers,omitempty"`
	Body       Body     `json:"body,omitempty"`
	JSON       any      `json:"-"`                    // written as the body, with its content type
	Credential string   `json:"credential,omitempty"` // name of one of the mapping's; the host puts it in
	Timeout    Seconds  `json:"timeout,omitempty"`    // 0: as the grant says
}

// decision is a [Decision] without its status.
type decision struct {
	Conditions  []Condition        `json:"conditions,omitempty"`
	Labels      map[string]*string `json:"labels,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
	Needs       []Need             `json:"needs,omitempty"`
	Effects     []effect           `json:"effects,omitempty"`
	Complete    bool               `json:"complete"`
	Events      []event            `json:"events,omitempty"`
	Wake        variant            `json:"wake,omitempty"`
	Finalized   bool               `json:"finalized,omitempty"`
	Extensions  []Extension        `json:"extensions,omitempty"`
}

// effect is one thing wanted, by its id.
type effect struct {
	ID     string   `json:"id"`
	After  []string `json:"after,omitempty"`
	Action variant  `json:"action"`
}

// event is one to tell: normal or warning.
type event struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
}

// variant is a record of one member, named after the case.
type variant map[string]any
