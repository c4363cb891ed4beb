package guesthouse_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

type (
	Spec struct {
		Size  int64           `json:"size"`
		Any   guesthouse.JSON `json:"any"`
		Texts []string        `json:"texts"`
	}
	Status struct {
		Text string `json:"text"`
	}
	Config struct {
		URL string `json:"url"`
	}
	Seen     = guesthouse.Observation[Spec, Status, Config]
	Decision = guesthouse.Decision[Status]
)

// answer is what a plugin with that function answers to that object.
func answer(t *testing.T, do func(*Seen) (*Decision, error), object string, more ...string) string {
	t.Helper()
	plugin := guesthouse.Plugin[Spec, Status, Config]{Name: "sample", Version: "1.2.3", Reconcile: do}
	members := append([]string{`"object":` + object, `"now":"2026-01-01T00:00:00Z"`, `"config":{}`}, more...)
	text, err := plugin.Call("reconcile", []byte("{"+strings.Join(members, ",")+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// decided is the answer to an object without anything.
func decided(t *testing.T, wanted *Decision, err error) string {
	t.Helper()
	return answer(t, func(*Seen) (*Decision, error) { return wanted, err }, `{}`)
}

func equal(t *testing.T, have, want string) {
	t.Helper()
	if have != want {
		t.Errorf("have: %s\nwant: %s", have, want)
	}
}

func TestAnErrorIsAFailure(t *testing.T) {
	stall := guesthouse.Stall("Wrong", "it is").Condition("Ready", guesthouse.False, "Wrong", "it is")
	told := `{"failure":{"kind":"terminal","cause":{"reason":"Wrong","message":"it is"},` +
		`"conditions":[{"type":"Ready","status":"False","reason":"Wrong","message":"it is"}]}}`
	for name, it := range map[string]struct {
		err  error
		want string
	}{
		"any error":         {errors.New("no luck"), `{"failure":{"kind":"retry","cause":{"reason":"Error","message":"no luck"}}}`},
		"a failure":         {stall, told},
		"a wrapped failure": {fmt.Errorf("while looking: %w", stall), told},
		"a failure with a time and a status": {
			guesthouse.Retry("A", "b").After(0).Status(Status{"x"}),
			`{"failure":{"kind":"retry","cause":{"reason":"A","message":"b"},"after":0,"status":{"replace":{"text":"x"}}}}`,
		},
		"a failure whose status cannot be written": {
			guesthouse.Retry("A", "b").MergeStatus(func() {}),
			`{"failure":{"kind":"terminal","cause":{"reason":"BadDecision",` +
				`"message":"the status cannot be written as JSON: json: unsupported type: func()"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) { equal(t, decided(t, nil, it.err), it.want) })
	}
}

func TestAPanicIsARetryThatSaysWhy(t *testing.T) {
	log.SetOutput(io.Discard) // the stack
	defer log.SetOutput(os.Stderr)
	var none map[string]int
	for want, do := range map[string]func(){
		"lost":                             func() { panic("lost") },
		"assignment to entry in nil map":   func() { none["a"] = 1 },
		"Wrong: a failure that was thrown": func() { panic(guesthouse.Stall("Wrong", "a failure that was thrown")) },
	} {
		have := answer(t, func(*Seen) (*Decision, error) { do(); return nil, nil }, `{}`)
		equal(t, have, `{"failure":{"kind":"retry","cause":{"reason":"Panic","message":"`+want+`"}}}`)
	}
}

func TestWhatDoesNotFitTheTypesIsTerminalAndNamesThePlace(t *testing.T) {
	never := func(*Seen) (*Decision, error) { return nil, errors.New("called") }
	for _, it := range []struct{ object, config, want string }{
		{`{"spec":{"size":"x"}}`, `{}`, "BadObject: spec.size: string does not fit int64"},
		{`{"spec":{"size":1.5}}`, `{}`, "BadObject: spec.size: number 1.5 does not fit int64"},
		{`{"spec":{"texts":["a",1]}}`, `{}`, "BadObject: spec.texts: number does not fit string"},
		{`{"status":{"text":{}}}`, `{}`, "BadObject: status.text: object does not fit string"},
		{`{}`, `{"url":1}`, "BadConfig: url: number does not fit string"},
	} {
		var reply struct{ Failure guesthouse.Failure }
		text := answer(t, never, it.object, `"config":`+it.config)
		if err := json.Unmarshal([]byte(text), &reply); err != nil {
			t.Fatal(err)
		}
		equal(t, reply.Failure.Error(), it.want)
		equal(t, reply.Failure.Kind, "terminal")
	}
}

func TestValuesComeThroughAsTheyAre(t *testing.T) {
	echo := func(seen *Seen) (*Decision, error) {
		text := guesthouse.JSON(fmt.Sprintf(`{"size":%d,"any":%q}`, seen.Spec.Size, seen.Spec.Any))
		return new(Decision).StatusJSON(text), nil
	}
	for spec, want := range map[string]string{
		`{"size":9223372036854775807,"any":1.0}`: `{"size":9223372036854775807,"any":"1.0"}`,
		`{"size":-9007199254740993,"any":null}`:  `{"size":-9007199254740993,"any":"null"}`,
		`{}`:                                     `{"size":0,"any":""}`,
		`null`:                                   `{"size":0,"any":""}`,
	} {
		have := answer(t, echo, `{"spec":`+spec+`}`)
		equal(t, have, `{"decision":{"complete":false,"status":{"replace":`+want+`}}}`)
	}
}

func TestTextIsWrittenAsInEveryLanguage(t *testing.T) {
	text := "<a> & 'b' \u2028 \u2029 \\u2028 \\ \" \n é 😀"
	wanted := new(Decision).HTTP(guesthouse.HTTP{
		ID: "a", Request: guesthouse.Request{Method: "PUT", URL: "http://a?b&c", JSON: Status{text}},
	})
	var reply struct {
		Decision struct {
			Effects []struct {
				Action struct{ HTTP guesthouse.HTTP }
			}
		}
	}
	if err := json.Unmarshal([]byte(decided(t, wanted, nil)), &reply); err != nil {
		t.Fatal(err)
	}
	sent := string(reply.Decision.Effects[0].Action.HTTP.Request.Body)
	equal(t, sent, `{"text":"<a> & 'b' `+"\u2028 \u2029"+` \\u2028 \\ \" \n é 😀"}`)
}

func TestABodyInJSONLeavesTheCallersHeadersAlone(t *testing.T) {
	all := []guesthouse.Header{{"a", "b"}, {"spare", ""}}
	request := guesthouse.Request{Method: "PUT", URL: "u", Headers: all[:1], JSON: 1}
	have := decided(t, new(Decision).HTTP(guesthouse.HTTP{ID: "a", Request: request}), nil)
	if !strings.Contains(have, `"headers":[["a","b"],["content-type","application/json"]],"body":{"text":"1"}`) {
		t.Error(have)
	}
	equal(t, all[1][0], "spare")
}

func TestADecisionThatCannotBeWrittenIsTerminalAndSaysWhichPart(t *testing.T) {
	for want, wanted := range map[string]*Decision{
		"the object of effect `a` cannot": new(Decision).Apply(guesthouse.Apply{ID: "a", Object: func() {}}),
		"the body of effect `b` cannot":   new(Decision).HTTP(guesthouse.HTTP{ID: "b", Request: guesthouse.Request{JSON: func() {}}}),
		"extension `c` cannot":            new(Decision).Extension("c", func() {}),
		"the status cannot":               new(Decision).MergeStatus(func() {}).Label("a", "b"),
		"need `d` has no source":          new(Decision).Need(guesthouse.Need{Name: "d"}),
	} {
		have := decided(t, wanted, nil)
		if !strings.HasPrefix(have, `{"failure":{"kind":"terminal","cause":{"reason":"BadDecision"`) || !strings.Contains(have, want) {
			t.Errorf("have: %s\nwant: %s", have, want)
		}
	}
}

func TestAWakeIsInWholeSecondsAndNotTooEarly(t *testing.T) {
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.FixedZone("", 3600))
	for want, at := range map[string]time.Time{"11:00:00": noon, "11:00:01": noon.Add(1)} {
		have := decided(t, new(Decision).WakeAt(at), nil)
		equal(t, have, `{"decision":{"complete":false,"wake":{"at":"2026-11-29T`+want+`Z"}}}`)
	}
}

func TestReceiptsAreFoundByIdAndKey(t *testing.T) {
	receipts := `"receipts":[{"effect":"a","key":"1","state":"unknown"},{"effect":"b","state":{"failed":` +
		`{"attempts":2,"error":{"reason":"Timeout","message":"m"},"nextAt":"2026-01-01T00:00:01Z"}}}]`
	answer(t, func(seen *Seen) (*Decision, error) {
		for name, holds := range map[string]bool{
			"its own key":     seen.Receipt("a", "1").Unknown,
			"another key":     seen.Receipt("a", "2") == guesthouse.Receipt{},
			"no key":          seen.Receipt("a", "") == guesthouse.Receipt{},
			"whatever key":    seen.LastReceipt("a").Key == "1",
			"none was needed": seen.Receipt("b", "").Failed.Error.Reason == "Timeout",
			"another id":      seen.LastReceipt("c") == guesthouse.Receipt{},
		} {
			if !holds {
				t.Error(name)
			}
		}
		return nil, nil
	}, `{}`, receipts)
}

func TestRelatedObjectsAreReadIntoAType(t *testing.T) {
	found := &guesthouse.Objects{Items: []guesthouse.JSON{guesthouse.JSON(`{"text":"a"}`), guesthouse.JSON(`{"text":"b"}`)}}
	all, err := guesthouse.All[Status](guesthouse.Answer{Objects: found})
	if len(all) != 2 || all[1].Text != "b" || err != nil {
		t.Error(all, err)
	}
	for want, answer := range map[string]guesthouse.Answer{
		"Denied: not granted": {Unavailable: &guesthouse.Cause{Reason: "Denied", Message: "not granted"}},
		"BadRelated: the need is a fetch: it has an answer, not objects": {Response: &guesthouse.Response{Code: 200}},
		"BadRelated: text: number does not fit string":                   {Objects: &guesthouse.Objects{Items: []guesthouse.JSON{guesthouse.JSON(`{"text":1}`)}}},
	} {
		if one, err := guesthouse.One[Status](answer); one != nil || err == nil || err.Error() != want {
			t.Errorf("have: %v\nwant: %s", err, want)
		}
	}
	for _, none := range []guesthouse.Answer{{}, {Objects: &guesthouse.Objects{}}} {
		if one, err := guesthouse.One[Status](none); one != nil || err != nil {
			t.Error(one, err)
		}
	}
}

func TestAFingerprintIsThatOfEverySDK(t *testing.T) {
	equal(t, guesthouse.Fingerprint(), "cbf29ce484222325")
	equal(t, guesthouse.Fingerprint("a"), "089bc907b544c769")
	seen := map[string]bool{}
	for _, texts := range [][]string{{"a", "b"}, {"b", "a"}, {"ab"}, {"ab", ""}, {"", "ab"}} {
		seen[guesthouse.Fingerprint(texts...)] = true
	}
	if len(seen) != 5 {
		t.Error("two lists of texts have one fingerprint")
	}
}

func TestAVerbThatThePluginHasNoFunctionForIsNoAnswer(t *testing.T) {
	plugin := guesthouse.Plugin[Spec, Status, guesthouse.NoConfig]{Name: "sample"}
	for verb, want := range map[string]string{
		"finalize": "the plugin has no function for this verb",
		"":         `"" is no verb: describe, reconcile and finalize are`,
		"describe": "the plugin has no function Reconcile",
	} {
		if _, err := plugin.Call(verb, nil); err == nil || err.Error() != want {
			t.Errorf("have: %v\nwant: %s", err, want)
		}
	}
}

func TestADescriptorLeavesOutWhatIsNotSaid(t *testing.T) {
	plugin := guesthouse.Plugin[Spec, Status, guesthouse.NoConfig]{Name: "sample"}
	plugin.Reconcile = func(*guesthouse.Observation[Spec, Status, guesthouse.NoConfig]) (*Decision, error) { return nil, nil }
	text, err := plugin.Call("describe", nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, string(text), `{"contract":"guesthouse:reconciler@0.1.0","descriptor":{"name":"sample","version":"",`+
		`"configSchema":{"type":"object","additionalProperties":false},"sdk":"go/0.1.0","finalizes":false}}`)
}
