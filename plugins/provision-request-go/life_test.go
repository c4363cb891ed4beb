package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

// A whole life of a ProvisionRequest under a host that fits on a page: looks, receipts by id and key, the same idempotency key
// for the same wish, time that only moves between passes. The provisioner keeps the rules of plugins/provisioner.

// trouble is a way in which requests go wrong.
type trouble int

const (
	none   trouble = iota
	answer         // answered 503 or 403, and nothing is done
	shut           // the connection is closed, and nothing is done
	lose           // it is done, and the answer is lost
)

// said is an answer of before.
type said struct {
	code int
	body string
}

// provisioner has at most one resource, since there is one object.
type provisioner struct {
	size, region            string
	exists, ready, gone     bool
	answers                 map[string]said // by idempotency key
	created, resized, freed int
	requests                int
	fails                   trouble
	method                  string // of the requests that fail
	code, times             int
}

func (p *provisioner) fail(how trouble, method string, code, times int) {
	p.fails, p.method, p.code, p.times = how, method, code, times
}

// send is a request with an idempotency key; ok is whether an answer came.
func (p *provisioner) send(request guesthouse.Request, key string) (code int, body string, ok bool) {
	p.requests++
	how := none
	if p.times > 0 && p.method == request.Method {
		p.times--
		how = p.fails
	}
	switch how {
	case answer:
		return p.code, `{"error":"told to fail"}`, true
	case shut:
		return 0, "", false
	}
	if request.Method == "GET" {
		code, body = p.show(200)
	} else if before, known := p.answers[key]; known {
		code, body = before.code, before.body
	} else {
		code, body = p.act(request)
		p.answers[key] = said{code, body}
	}
	return code, body, how != lose
}

func (p *provisioner) show(code int) (int, string) {
	if !p.exists {
		return 404, `{"error":"no such resource"}`
	}
	it := map[string]string{"size": p.size, "region": p.region, "state": "provisioning"}
	if p.ready {
		it["state"], it["endpoint"] = "ready", "db.eu:5432"
	}
	text, _ := json.Marshal(it)
	return code, string(text)
}

func (p *provisioner) act(request guesthouse.Request) (int, string) {
	if request.Method == "DELETE" {
		p.gone = true
		if !p.exists {
			return 404, ""
		}
		p.exists = false
		p.freed++
		return 204, ""
	}
	var wish struct{ Size, Region string }
	if json.Unmarshal(request.Body, &wish) != nil {
		return 400, ""
	}
	switch {
	case p.gone:
		return 410, ""
	case !p.exists:
		p.exists, p.ready, p.size, p.region = true, false, wish.Size, wish.Region
		p.created++
		return p.show(201)
	case p.region != wish.Region:
		return 409, ""
	case p.size != wish.Size:
		p.size, p.ready = wish.Size, false
		p.resized++
	}
	return p.show(200)
}

type host struct {
	t           *testing.T
	provisioner provisioner
	scene       scene
	receipts    map[string]any
	look        object // the answer to it; nil: there was none
	lookedAt    int
	now         int
}

func newHost(t *testing.T) *host {
	it := &host{t: t, scene: small(), receipts: map[string]any{}}
	it.provisioner.answers = map[string]said{}
	delete(it.scene.Object, "status")
	return it
}

// present is the scene at this time, with nothing in it yet.
func (h *host) present() scene {
	return h.scene.at(fmt.Sprintf("2026-01-01T%02d:%02d:%02dZ", h.now/3600, h.now/60%60, h.now%60))
}

func (h *host) call() reply {
	scene := h.present()
	if h.look != nil {
		scene = scene.answer(h.look)
	}
	for _, id := range []string{provision, release} {
		if receipt := h.receipts[id]; receipt != nil {
			scene.Receipts = append(scene.Receipts, receipt)
		}
	}
	if h.scene.Object["metadata"].(object)["deletionTimestamp"] != nil {
		return scene.call(h.t, "finalize")
	}
	return scene.call(h.t, "reconcile")
}

// pass is one pass. Whether the object is let go.
func (h *host) pass() bool {
	tried := map[string]bool{}
	for range 5 {
		it := h.call().Decision
		if it == nil {
			h.scene.Attempt++
			h.look = nil
			return false
		}
		if len(it.Needs) > 0 {
			fetch := it.Needs[0].Source.Fetch
			if h.look == nil || h.now-h.lookedAt > int(fetch.Fresh) {
				h.lookedAt = h.now
				h.look = object{"unavailable": object{"reason": "Failed", "message": "no answer"}}
				if code, body, ok := h.provisioner.send(fetch.Request, ""); ok && code < 500 {
					h.look = object{"response": h.present().response(code, body)}
				}
				continue
			}
		}
		var wish *guesthouse.HTTP
		var id string
		for _, effect := range it.Effects { // one at most
			wish, id = &effect.Action.HTTP, effect.ID
		}
		if wish == nil || tried[id+wish.Key] {
			text, err := json.Marshal(it.Status.Replace)
			if err != nil {
				h.t.Fatal(err)
			}
			h.scene.Object["status"] = json.RawMessage(text)
			return it.Finalized
		}
		tried[id+wish.Key] = true
		sent := h.present().failed(id, wish.Key, "Unreachable", "no answer")
		if code, body, ok := h.provisioner.send(wish.Request, id+"/"+wish.Key); ok && code < 500 {
			sent = h.present().answered(id, wish.Key, code, body)
		}
		h.receipts[id] = sent.Receipts[0]
	}
	h.t.Fatal("a pass of more than five rounds")
	return false
}

// settle passes until the resource is ready in that size, or, without one, until the object is let go; what is under way is
// finished in between.
func (h *host) settle(size string) {
	h.t.Helper()
	for range 12 {
		if h.pass() {
			if size != "" {
				h.t.Error("let go")
			}
			return
		}
		var status Status
		if text, ok := h.scene.Object["status"].(json.RawMessage); ok {
			if err := json.Unmarshal(text, &status); err != nil {
				h.t.Fatal(err)
			}
		}
		if size != "" && status.Phase == Ready && *status.Size == size {
			return
		}
		h.provisioner.ready = true
		h.now += 5
	}
	h.t.Fatalf("does not settle: %s", h.scene.Object["status"])
}

func (h *host) edit(size string) {
	h.scene.Object["spec"] = object{"size": size, "region": "eu"}
	meta := h.scene.Object["metadata"].(object)
	meta["generation"] = meta["generation"].(int) + 1
}

// live: created, made larger and small again within the time that a look is good for, deleted; before each step something
// goes wrong.
func (h *host) live(wrong func(step int)) {
	h.t.Helper()
	wrong(0)
	h.settle("small")
	wrong(1)
	h.edit("large")
	h.pass()
	wrong(2)
	h.edit("small")
	h.settle("small")
	if h.provisioner.size != "small" {
		h.t.Errorf("it is %s", h.provisioner.size)
	}
	wrong(3)
	h.scene.Object["metadata"].(object)["deletionTimestamp"] = earlier
	h.settle("")
	if it := &h.provisioner; it.exists || it.created != 1 || it.freed != 1 || it.resized > 2 {
		h.t.Errorf("created %d, resized %d, deleted %d times", it.created, it.resized, it.freed)
	}
}

func TestALifeWithoutTroubleIsFourDeeds(t *testing.T) {
	host := newHost(t)
	host.live(func(int) {})
	if host.provisioner.resized != 2 {
		t.Errorf("resized %d times", host.provisioner.resized)
	}
}

func TestOnceSettledNothingIsAsked(t *testing.T) {
	host := newHost(t)
	host.settle("small")
	host.edit("large")
	host.settle("large")
	if it := host.provisioner; it.created != 1 || it.resized != 1 || it.freed != 0 {
		t.Error(it)
	}
	before := host.provisioner.requests
	host.pass()
	if host.provisioner.requests != before {
		t.Error("settled, and something is asked")
	}
}

func TestNoSingleFailureMakesTwoOrLeavesOneBehind(t *testing.T) {
	for _, method := range strings.Fields("GET PUT DELETE") {
		for _, how := range []trouble{answer, shut, lose} {
			for step := range 4 {
				t.Run(fmt.Sprint(method, how, step), func(t *testing.T) {
					host := newHost(t)
					host.live(func(now int) {
						if now == step {
							host.provisioner.fail(how, method, 503, 2)
						}
					})
				})
			}
		}
	}
}

func TestReceiptsThatAreLostMakeNoSecondResource(t *testing.T) {
	for step := range 4 {
		host := newHost(t)
		host.live(func(now int) {
			if now == step {
				clear(host.receipts)
				host.look = nil
			}
		})
	}
}

func TestARefusedDeletionIsAskedForAgainAndKeepsTheObjectUntilThen(t *testing.T) {
	host := newHost(t)
	host.live(func(now int) {
		if now == 3 {
			host.provisioner.fail(answer, "DELETE", 403, 3)
		}
	})
}
