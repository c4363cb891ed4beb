package main

import (
	"testing"
)

func deleted() scene {
	it := observe(object{
		"metadata": object{
			"name": "db", "namespace": "acme", "uid": "u-1", "generation": 2,
			"deletionTimestamp": earlier, "finalizers": list{"acme.io/cleanup"},
		},
		"spec":   object{"size": "small", "region": "eu"},
		"status": object{"phase": "Ready", "endpoint": "db.eu:5432"},
	})
	it.Config = object{"provisioner": "http://p:80"}
	return it
}

func (s scene) finalize(t *testing.T) *decision {
	t.Helper()
	it := s.call(t, "finalize")
	if it.Decision == nil {
		t.Fatalf("no decision: %v", it.Failure)
	}
	if status := it.Decision.Status.Replace; status.Phase != Deleting || status.Endpoint != nil {
		t.Error(status)
	}
	return it.Decision
}

func TestTheResourceIsTakenAwayBeforeTheObjectIsLetGo(t *testing.T) {
	decision := deleted().finalize(t)
	request := decision.http(release).Request
	if request.Method != "DELETE" || request.URL != "http://p:80/resources/acme.db.u-1" {
		t.Error(request)
	}
	if len(decision.Effects) != 1 || decision.Finalized {
		t.Error(decision)
	}
}

func TestGoneIsWhatWasTakenAwayAndWhatWasNeverThere(t *testing.T) {
	for _, code := range []int{200, 202, 204, 404, 410} {
		decision := deleted().answered(release, "0", code, "").finalize(t)
		if !decision.Finalized || len(decision.Effects) != 0 || decision.Conditions[0].Reason != "Released" {
			t.Errorf("%d: %v", code, decision)
		}
	}
}

func TestADeletionWithoutAnAnswerIsAskedForAgainUnderItsKey(t *testing.T) {
	for _, attempt := range []int{0, 4} {
		decision := deleted().failed(release, "0", "ServerError", "503").attempt(attempt).finalize(t)
		if decision.http(release).Key != "0" || decision.Finalized || decision.Conditions[0].Reason != "ServerError" {
			t.Errorf("attempt %d: %v", attempt, decision)
		}
	}
}

func TestARefusedDeletionIsRetriedLaterUnderAnotherKey(t *testing.T) {
	for name, scene := range map[string]scene{
		"403":  deleted().answered(release, "1", 403, "locked"),
		"301":  deleted().answered(release, "1", 301, ""),
		"lost": deleted().lost(release, "1"),
	} {
		failure := scene.attempt(1).fail(t, "finalize")
		if failure.Kind != "retry" || failure.Cause.Reason != "DeletionRefused" {
			t.Errorf("%s: %v", name, failure)
		}
		if failure.Conditions[0].Message != failure.Cause.Message {
			t.Errorf("%s: %v", name, failure.Conditions)
		}
		decision := scene.attempt(2).finalize(t)
		if decision.http(release).Key != "2" || decision.Finalized {
			t.Errorf("%s: %v", name, decision)
		}
	}
}

func TestACreationThatIsStillOpenIsNotAskedForAgain(t *testing.T) {
	for _, scene := range []scene{
		deleted().failed(provision, "1-x", "Timeout", "30 s"),
		deleted().lost(provision, "1-x"),
		deleted().answered(provision, "1-x", 201, "{}"),
	} {
		decision := scene.finalize(t)
		if decision.http(provision) != nil || decision.http(release).Key != "0" {
			t.Error(decision)
		}
	}
}
