package guesthousetest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	guesthouse "guesthouse.dev/guest-sdk/go"
	"guesthouse.dev/guest-sdk/go/guesthousetest"
)

// fixed answers always the same.
type fixed string

func (f fixed) Call(string, []byte) (guesthouse.JSON, error) { return guesthouse.JSON(f), nil }

// counting answers each time otherwise.
type counting struct{ calls int }

func (c *counting) Call(string, []byte) (guesthouse.JSON, error) {
	c.calls++
	return guesthouse.JSON(fmt.Sprintf(`{"decision":{"wake":{"after":%d}}}`, c.calls)), nil
}

// dead never answers.
type dead struct{}

func (dead) Call(string, []byte) (guesthouse.JSON, error) { return nil, errors.New("exit 1: no luck") }

// recorder is a test that may fail without this one failing.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Error(args ...any) { r.said = append(r.said, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func check(t *testing.T, plugin guesthousetest.Plugin, expect guesthousetest.Expect) string {
	t.Helper()
	object := map[string]guesthouse.JSON{"object": guesthouse.JSON(`{}`)}
	test := &recorder{TB: t}
	guesthousetest.Case{Observation: object, Expect: expect}.Check(test, plugin)
	return strings.Join(test.said, "\n")
}

func decision(text string) guesthousetest.Expect {
	return guesthousetest.Expect{Decision: guesthouse.JSON(text)}
}

func TestAnAnswerThatSaysTheSameIsAsExpected(t *testing.T) {
	for have, want := range map[string]string{
		`{"decision":{}}`: `{"complete":false,"labels":{},"events":[],"wake":null}`,
		`{"decision":{"complete":false,"conditions":[{"type":"A","status":"True","reason":"R","message":""}]}}`: `{"conditions":[{"type":"A","status":"True","reason":"R"}]}`,
		`{"decision":{"effects":[{"id":"a","action":{"apply":{"object":{"metadata":{}}}}}]}}`: `{"effects":[{"id":"a","after":[],
			"action":{"apply":{"object":{"metadata":{}},"mode":"keep","ownership":"owned"}}}]}`,
		`{"decision":{"status":{"replace":{"text":"xxx"}}}}`: `{"status":{"replace":{"text":{"repeat":["x",3]}}}}`,
	} {
		if said := check(t, fixed(have), decision(want)); said != "" {
			t.Error(said)
		}
	}
}

func TestAnAnswerThatSaysSomethingElseIsFound(t *testing.T) {
	for have, want := range map[string]string{
		`{"decision":{"status":{"replace":{"a":1}}}}`:  `{"status":{"replace":{"a":1.0}}}`,
		`{"decision":{"status":{"merge":{"a":null}}}}`: `{"status":{"merge":{}}}`,
		`{"decision":{"status":{"replace":{"a":""}}}}`: `{"status":{"replace":{}}}`,
		`{"decision":{"labels":{"a":null}}}`:           `{}`,
		`{"decision":{"wake":{"after":0}}}`:            `{}`,
		`{"decision":{"complete":true}}`:               `{}`,
		`{"decision":{"effects":[{"id":"a","action":{"apply":{"object":{"metadata":{"name":""}}}}}]}}`: `{"effects":[
			{"id":"a","action":{"apply":{"object":{"metadata":{}}}}}]}`,
		`{"failure":{"kind":"retry","cause":{"reason":"A"}}}`: `{}`,
		`{"decision":`: `{}`,
	} {
		if check(t, fixed(have), decision(want)) == "" {
			t.Errorf("%s passed for %s", have, want)
		}
	}
}

func TestTwoAnswersToOneObservationAreFound(t *testing.T) {
	said := check(t, new(counting), guesthousetest.Expect{Same: true})
	if !strings.Contains(said, "equal observations, and two answers") {
		t.Error(said)
	}
}

func TestWhatIsExpectedToBreakMustBreakForThatReason(t *testing.T) {
	for _, it := range []struct {
		plugin guesthousetest.Plugin
		text   string
		fine   bool
	}{
		{dead{}, "no luck", true},
		{dead{}, "another", false},
		{fixed(`{"failure":{"kind":"retry","cause":{"reason":"Panic","message":"no luck"}}}`), "no luck", true},
		{fixed(`{"failure":{"kind":"terminal","cause":{"reason":"Panic","message":"no luck"}}}`), "no luck", false},
		{fixed(`{"decision":{}}`), "no luck", false},
	} {
		said := check(t, it.plugin, guesthousetest.Expect{Broken: it.text})
		if (said == "") != it.fine {
			t.Errorf("%v: %q", it, said)
		}
	}
}

func TestACaseThatExpectsNothingAndOneWithoutAnAnswerFail(t *testing.T) {
	for _, said := range []string{
		check(t, fixed(`{"decision":{}}`), guesthousetest.Expect{}),
		check(t, dead{}, decision(`{}`)),
		check(t, fixed(`{"decision":{}}`), guesthousetest.Expect{Refused: "BadOutput"}),
		check(t, fixed(`{"decision":{}}`), guesthousetest.Expect{Same: true, Logs: [][2]string{{"info", "a"}}}),
	} {
		if said == "" {
			t.Error("passed")
		}
	}
}
