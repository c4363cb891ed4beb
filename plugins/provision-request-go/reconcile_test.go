package main

import (
	"slices"
	"strings"
	"testing"

	guesthouse "guesthouse.dev/guest-sdk/go"
	"guesthouse.dev/guest-sdk/go/guesthousetest"
)

// Whole decisions, as files.
func TestCases(t *testing.T) { guesthousetest.Run(t, plugin, "cases/*.json") }

func TestANewRequestLooksFirstAndDoesNothingElse(t *testing.T) {
	decision := small().decide(t)
	fetch := decision.Needs[0].Source.Fetch
	if fetch.Request.Method != "GET" || fetch.Request.URL != "http://p:80/resources/acme.db.u-1" {
		t.Error(fetch)
	}
	if fetch.Fresh != 4 {
		t.Errorf("fresh is %d: the look must be older than that when the wake of 5 s comes", fetch.Fresh)
	}
	if len(decision.Effects) != 0 || decision.Status.Replace.Phase != "" {
		t.Error(decision)
	}
}

func TestWhatIsNotThereIsAskedForWithAllOfTheSpec(t *testing.T) {
	decision := small().looked(404, "").decide(t)
	http := decision.http(provision)
	if http.Request.Method != "PUT" || http.Request.URL != "http://p:80/resources/acme.db.u-1" || http.Delivery != "" {
		t.Error(http)
	}
	if body := string(http.Request.Body); body != `{"size":"small","region":"eu"}` {
		t.Error(body)
	}
	if status := decision.Status.Replace; status.Phase != Pending || status.Resource != "acme.db.u-1" {
		t.Error(status)
	}
	if decision.Finalized || decision.Wake != nil {
		t.Error("the rest is the host's")
	}
}

// outcome is what a pass comes to: phase, condition Ready with its reason, whether the resource is asked for, and whether it
// looks again.
type outcome struct {
	phase  Phase
	ready  guesthouse.ConditionStatus
	reason string
	asks   bool
	wakes  bool
}

func TestLookAndReceiptDecideWhatComesNext(t *testing.T) {
	looked := func(code int, body string) scene { return small().looked(code, body).at(later) }
	gone := looked(404, "")
	own := small().key(t)
	made := small().at(later).answered(provision, own, 201, there("small", "provisioning")).at(latest)
	const (
		yes   = guesthouse.True
		no    = guesthouse.False
		maybe = guesthouse.Unknown
	)
	for name, it := range map[string]struct {
		scene scene
		want  outcome
	}{
		"on its way": {
			looked(200, there("small", "provisioning")),
			outcome{Provisioning, maybe, "Provisioning", false, true},
		},
		"ready":             {looked(200, there("small", "ready")), outcome{Ready, yes, "Provisioned", false, false}},
		"failed over there": {looked(200, there("small", "failed")), outcome{Failed, no, "ProvisioningFailed", false, false}},
		"a state of a later version": {
			looked(200, there("small", "migrating")),
			outcome{Provisioning, maybe, "Provisioning", false, true},
		},
		"another size": {looked(200, there("large", "ready")), outcome{Provisioning, maybe, "Requested", true, false}},
		"accepted": {
			gone.answered(provision, own, 201, there("small", "provisioning")),
			outcome{Provisioning, maybe, "Provisioning", false, true},
		},
		"accepted without a word": {
			gone.answered(provision, own, 202, ""),
			outcome{Provisioning, maybe, "Provisioning", false, true},
		},
		"accepted, and ready at once": {
			gone.answered(provision, own, 201, there("small", "ready")),
			outcome{Ready, yes, "Provisioned", false, false},
		},
		"not answered": {
			gone.failed(provision, own, "ServerError", "503"),
			outcome{Pending, maybe, "ServerError", true, false},
		},
		"not answered, and seen: it may be a look from before": {
			looked(200, there("small", "ready")).failed(provision, own, "Timeout", "30 s"),
			outcome{Provisioning, maybe, "Timeout", true, false},
		},
		"rejected: one more look": {
			gone.answered(provision, own, 409, "quota"),
			outcome{Failed, no, "Rejected", false, true},
		},
		"rejected, and not there since": {
			small().at(later).answered(provision, own, 422, "no").at(latest).looked(404, ""),
			outcome{Failed, no, "Rejected", false, false},
		},
		"an answer that is lost for good": {
			gone.lost(provision, own),
			outcome{Failed, no, "AnswerLost", false, true},
		},
		"an answer that is lost for good, and the resource is there": {
			looked(200, there("small", "ready")).lost(provision, own),
			outcome{Ready, yes, "Provisioned", false, false},
		},
		"made, and gone since": {made.looked(404, ""), outcome{Failed, no, "ResourceLost", false, false}},
		"made, and changed by somebody else since": {
			made.looked(200, there("large", "ready")),
			outcome{Failed, no, "ResourceChanged", false, false},
		},
		"made, and ready since": {
			made.looked(200, there("small", "ready")),
			outcome{Ready, yes, "Provisioned", false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			decision := it.scene.decide(t)
			ready := decision.Conditions[0]
			have := outcome{
				decision.Status.Replace.Phase, ready.Status, ready.Reason, decision.http(provision) != nil, decision.Wake != nil,
			}
			if have != it.want {
				t.Errorf("have: %v\nwant: %v", have, it.want)
			}
			if decision.Finalized || decision.Wake != nil && decision.Wake.After != 5 {
				t.Error(decision)
			}
		})
	}
}

func TestAnotherSizeIsAskedForUnderAnotherKeyAndTheEndpointStays(t *testing.T) {
	large := request(2, "large", "eu")
	large.Object["status"] = object{"phase": "Ready", "endpoint": "db.eu:5432", "size": "small"}
	before := large.looked(200, there("small", "ready"))
	decision := before.decide(t)
	if key := decision.http(provision).Key; key == small().key(t) {
		t.Errorf("asked for under the key of before, %s", key)
	}
	if it := decision.Status.Replace; it.Phase != Provisioning || *it.Endpoint != "db.eu:5432" {
		t.Error(it)
	}
	resized := before.at(later).answered(provision, large.key(t), 200, there("large", "provisioning"))
	decision = resized.decide(t)
	if decision.http(provision) != nil {
		t.Error("asked for twice")
	}
	if it := decision.Status.Replace; *it.Size != "large" || *it.Endpoint != "db.eu:5432" {
		t.Error(it)
	}
}

func TestASizeThatComesBackIsANewWish(t *testing.T) {
	first, third := small(), request(3, "small", "eu")
	if first.key(t) == third.key(t) {
		t.Error("one key")
	}
	// The look is from before the answer that made it large: it says small, and that is over.
	scene := third.looked(200, there("small", "ready")).
		at(later).answered(provision, request(2, "large", "eu").key(t), 200, there("large", "provisioning"))
	if scene.decide(t).http(provision) == nil {
		t.Error("not asked for")
	}
}

func TestAnOlderWishWithoutAnAnswerIsOverruledByTheNewOne(t *testing.T) {
	older := request(2, "large", "eu").key(t)
	for _, state := range []string{"ready", "provisioning"} {
		scene := request(3, "small", "eu").looked(200, there("small", state)).failed(provision, older, "Timeout", "30 s")
		decision := scene.decide(t)
		if decision.http(provision) == nil || decision.Conditions[0].Reason != "Requested" {
			t.Errorf("%s: it may still turn large: %v", state, decision)
		}
	}
}

func TestEveryPartOfTheRequestIsInItsKey(t *testing.T) {
	elsewhere := small()
	elsewhere.Config = object{"provisioner": "http://other"}
	var keys []string
	for _, scene := range []scene{
		small(), request(2, "small", "eu"), request(1, "large", "eu"), request(1, "small", "us"), elsewhere,
	} {
		key := scene.key(t)
		if slices.Contains(keys, key) || len(key) >= 64 {
			t.Error(key)
		}
		keys = append(keys, key)
	}
}

func TestAChangedRegionStallsTheObjectAndCountsOnlyOnceThereIsAResource(t *testing.T) {
	moved := request(2, "small", "us")
	failure := moved.looked(200, there("small", "ready")).fail(t, "reconcile")
	if failure.Kind != "terminal" || failure.Cause.Reason != "RegionImmutable" {
		t.Error(failure)
	}
	if !strings.Contains(failure.Cause.Message, "in eu") {
		t.Error(failure)
	}
	if ready := failure.Conditions[0]; ready.Type != "Ready" || ready.Status != guesthouse.False {
		t.Error(ready)
	}
	if moved.looked(404, "").decide(t).http(provision) == nil {
		t.Error("nothing is there yet, and it is not asked for")
	}
}

func TestWithoutALookNothingIsAskedFor(t *testing.T) {
	for _, it := range []struct {
		scene        scene
		kind, reason string
	}{
		{small().unavailable("Failed", "connection refused"), "retry", "Failed"},
		{small().unavailable("Denied", "not granted"), "terminal", "Denied"},
		{small().looked(403, ""), "retry", "UnexpectedAnswer"},
		{small().looked(200, "<html>"), "retry", "BadAnswer"},
		{small().looked(200, `{"size":"small"}`), "retry", "BadAnswer"},
		{small().looked(200, `{"size":"small","region":"eu","state":null}`), "retry", "BadAnswer"},
	} {
		if failure := it.scene.fail(t, "reconcile"); failure.Kind != it.kind || failure.Cause.Reason != it.reason {
			t.Errorf("have: %v\nwant: %s %s", failure, it.kind, it.reason)
		}
	}
}

func TestAReadyResourceThatCannotBeLookedAtStaysReady(t *testing.T) {
	ready := small()
	ready.Object["status"] = object{"phase": "Ready"}
	if failure := ready.unavailable("Failed", "no route").fail(t, "reconcile"); failure.Conditions != nil {
		t.Error(failure.Conditions)
	}
	failure := small().unavailable("Failed", "no route").fail(t, "reconcile")
	if failure.Conditions[0].Status != guesthouse.Unknown {
		t.Error(failure.Conditions)
	}
}

func TestTwoObjectsOfOneNameAreTwoResources(t *testing.T) {
	url := func(uid string) string {
		scene := small()
		scene.Object["metadata"] = object{"name": "db", "namespace": "acme", "uid": uid, "generation": 1}
		return scene.looked(404, "").decide(t).http(provision).Request.URL
	}
	if url("u-1") == url("u-2") {
		t.Error(url("u-1"))
	}
}

func TestARejectionIsCutBetweenCharacters(t *testing.T) {
	for want, said := range map[string]string{
		"the provisioner answered 409":                               " \n ",
		"the provisioner answered 409: quota":                        " quota\n",
		"the provisioner answered 409: " + strings.Repeat("x", 512):  strings.Repeat("x", 600),
		"the provisioner answered 409: x" + strings.Repeat("é", 255): "x" + strings.Repeat("é", 300),
		"the provisioner answered 409: " + strings.Repeat("é", 256):  strings.Repeat("é", 256),
	} {
		decision := small().looked(404, "").at(later).answered(provision, small().key(t), 409, said).decide(t)
		if have := decision.Conditions[0].Message; have != want {
			t.Errorf("have: %s\nwant: %s", have, want)
		}
	}
}

func TestASizeThatTheKindDoesNotHaveIsTheObjectsFault(t *testing.T) {
	failure := request(1, "huge", "eu").looked(404, "").fail(t, "reconcile")
	if failure.Kind != "terminal" || failure.Error() != "BadObject: spec.size: `huge` is none of small, medium, large" {
		t.Error(failure)
	}
}
