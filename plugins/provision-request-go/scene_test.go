package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

const (
	earlier = "2026-01-01T00:00:00Z"
	later   = "2026-01-01T00:00:05Z"
	latest  = "2026-01-01T00:00:09Z"
)

type (
	list   []any
	object map[string]any
)

// scene is an observation in the making. Each method makes another one; looks and answers carry its time.
type scene struct {
	Object   object `json:"object"`
	Config   object `json:"config"`
	Mapping  string `json:"mapping"`
	Now      string `json:"now"`
	Attempt  int    `json:"attempt"`
	Round    int    `json:"round"`
	Related  list   `json:"related"`
	Receipts list   `json:"receipts"`
}

func observe(it object) scene {
	return scene{Object: it, Config: object{"provisioner": "http://p:80/"}, Mapping: "test", Now: earlier}
}

// request is a ProvisionRequest as it is made.
func request(generation int, size, region string) scene {
	return observe(object{
		"metadata": object{"name": "db", "namespace": "acme", "uid": "u-1", "generation": generation},
		"spec":     object{"size": size, "region": region},
		"status":   object{"phase": "Pending", "observedGeneration": -1},
	})
}

func small() scene { return request(1, "small", "eu") }

func (s scene) at(now string) scene {
	s.Now = now
	return s
}

func (s scene) attempt(attempt int) scene {
	s.Attempt = attempt
	return s
}

func (s scene) response(code int, body string) object {
	it := object{"code": code, "headers": list{}, "body": "empty", "truncated": false, "at": s.Now}
	if body != "" {
		it["body"] = object{"text": body}
	}
	return it
}

func (s scene) answer(answer object) scene {
	s.Related = append(slices.Clip(s.Related), object{"name": look, "answer": answer})
	return s
}

// looked: the look was answered so.
func (s scene) looked(code int, body string) scene {
	return s.answer(object{"response": s.response(code, body)})
}

// unavailable: there was no look.
func (s scene) unavailable(reason, message string) scene {
	return s.answer(object{"unavailable": object{"reason": reason, "message": message}})
}

func (s scene) receipt(effect, key string, state any) scene {
	s.Receipts = append(slices.Clip(s.Receipts), object{"effect": effect, "key": key, "state": state})
	return s
}

// answered: the effect was answered so.
func (s scene) answered(effect, key string, code int, body string) scene {
	return s.receipt(effect, key, object{"answered": s.response(code, body)})
}

// failed: the effect was sent without a definite answer.
func (s scene) failed(effect, key, reason, message string) scene {
	return s.receipt(effect, key, object{"failed": object{
		"attempts": 3, "error": object{"reason": reason, "message": message}, "nextAt": s.Now,
	}})
}

// lost: the effect was sent, and its answer is lost for good.
func (s scene) lost(effect, key string) scene { return s.receipt(effect, key, "unknown") }

// there is a resource as the provisioner shows it.
func there(size, state string) string {
	endpoint := ""
	if state == "ready" {
		endpoint = `,"endpoint":"db.eu:5432"`
	}
	return `{"id":"acme.db.u-1","size":"` + size + `","region":"eu","state":"` + state + `"` + endpoint + `}`
}

// decision is one as a test looks at it.
type decision struct {
	Status     struct{ Replace Status }
	Conditions []guesthouse.Condition
	Needs      []struct {
		Name   string
		Source struct{ Fetch guesthouse.Fetch }
	}
	Effects []struct {
		ID     string
		Action struct{ HTTP guesthouse.HTTP }
	}
	Wake      *struct{ After guesthouse.Seconds }
	Finalized bool
}

type reply struct {
	Decision *decision
	Failure  *guesthouse.Failure
}

// http is the request of the effect of that id, or nil.
func (d *decision) http(id string) *guesthouse.HTTP {
	for i := range d.Effects {
		if d.Effects[i].ID == id {
			return &d.Effects[i].Action.HTTP
		}
	}
	return nil
}

// call answers the same in two calls, or the test fails.
func (s scene) call(t *testing.T, verb string) (it reply) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := plugin.Call(verb, text)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := plugin.Call(verb, text); !reflect.DeepEqual(answer, again) {
		t.Errorf("equal observations, and two answers:\n%s\n%s", answer, again)
	}
	if err := json.Unmarshal(answer, &it); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return it
}

// decide is the decision of Reconcile, which names each time what is watched.
func (s scene) decide(t *testing.T) *decision {
	t.Helper()
	it := s.call(t, "reconcile")
	if it.Decision == nil {
		t.Fatalf("no decision: %v", it.Failure)
	}
	if len(it.Decision.Needs) != 1 || it.Decision.Needs[0].Name != look {
		t.Fatalf("needs: %v", it.Decision.Needs)
	}
	return it.Decision
}

func (s scene) fail(t *testing.T, verb string) *guesthouse.Failure {
	t.Helper()
	it := s.call(t, verb)
	if it.Failure == nil {
		t.Fatalf("no failure: %v", it.Decision)
	}
	return it.Failure
}

// key is the one that the request of this object is sent under.
func (s scene) key(t *testing.T) string {
	t.Helper()
	s.Related, s.Receipts = nil, nil
	return s.looked(404, "").decide(t).http(provision).Key
}
