// Package guesthousetest runs cases of a plugin natively, under go test: no host and no WebAssembly.
//
//	func TestCases(t *testing.T) { guesthousetest.Run(t, plugin, "cases/*.json") }
//
// A case is a JSON file, the same that the host's own tools read:
//
//	{
//	  "about": "what it is for",
//	  "verb": "reconcile",
//	  "observation": {"object": {"metadata": {"name": "a"}, "spec": {"who": "world"}}},
//	  "expect": {"decision": {"status": {"replace": {"text": "hello, world"}}}}
//	}
//
// The verb may be left out, and so may be all of an observation that is empty. Values are compared as JSON, in which 1 and 1.0
// differ; what an answer leaves out and what it says by default are the same.
package guesthousetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	guesthouse "guesthouse.dev/guest-sdk/go"
)

// Plugin is any [guesthouse.Plugin].
type Plugin interface {
	Call(verb string, observation []byte) (guesthouse.JSON, error)
}

// Case is an observation and what a plugin is to answer to it.
type Case struct {
	Name        string                     `json:"name"`
	About       string                     `json:"about"`
	Verb        string                     `json:"verb"`
	Observation map[string]guesthouse.JSON `json:"observation"`
	Expect      Expect                     `json:"expect"`
}

// Expect is what is expected: one of the first five, and maybe lines logged.
type Expect struct {
	Decision guesthouse.JSON `json:"decision"`
	Failure  guesthouse.JSON `json:"failure"`
	Same     bool            `json:"same"`    // whatever it is
	Broken   string          `json:"broken"`  // no answer or a retry, with this text in it
	Refused  string          `json:"refused"` // natively only BadOutput can be seen: the answer is not JSON
	Logs     [][2]string     `json:"logs"`    // level and text; a plugin's standard error knows no level
}

// Run checks the cases in all files of that pattern, each in a subtest of its own.
func Run(t *testing.T, plugin Plugin, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no case file is named %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			from := json.NewDecoder(bytes.NewReader(text))
			from.DisallowUnknownFields()
			var it Case
			if err := from.Decode(&it); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			it.Check(t, plugin)
		})
	}
}

// Check calls the plugin twice, and compares: both answers with each other, and the first with what is expected.
func (c Case) Check(t testing.TB, plugin Plugin) {
	t.Helper()
	observation, err := c.observation()
	if err != nil {
		t.Fatal(err)
	}
	verb := c.Verb
	if verb == "" {
		verb = "reconcile"
	}
	var answer, again guesthouse.JSON
	logged := logs(t, func() { answer, err = plugin.Call(verb, observation) })
	logs(t, func() { again, _ = plugin.Call(verb, observation) })
	if !bytes.Equal(answer, again) {
		t.Errorf("equal observations, and two answers:\n%s\n%s", answer, again)
	}
	if lines := c.Expect.lines(); lines != nil && !reflect.DeepEqual(logged, lines) {
		t.Errorf("logged: %q\nwanted: %q", logged, lines)
	}
	c.Expect.compare(t, answer, err)
}

// observation fills in what a case leaves out.
func (c Case) observation() ([]byte, error) {
	whole := map[string]guesthouse.JSON{
		"config":  guesthouse.JSON(`{}`),
		"mapping": guesthouse.JSON(`"conformance"`),
		"now":     guesthouse.JSON(`"2026-01-01T00:00:00Z"`),
		"attempt": guesthouse.JSON(`0`),
		"round":   guesthouse.JSON(`0`),
	}
	maps.Copy(whole, c.Observation)
	if whole["object"] == nil {
		return nil, errors.New("the case's observation has no object")
	}
	return json.Marshal(whole)
}

func (e Expect) lines() (lines []string) {
	for _, line := range e.Logs {
		lines = append(lines, line[1])
	}
	return lines
}

func (e Expect) compare(t testing.TB, answer guesthouse.JSON, err error) {
	t.Helper()
	var reply struct {
		Failure *guesthouse.Failure `json:"failure"`
	}
	unreadable := json.Unmarshal(answer, &reply)
	switch {
	case e.Broken != "":
		said := err
		if said == nil && reply.Failure != nil && reply.Failure.Kind == "retry" {
			said = reply.Failure
		}
		if said == nil || !strings.Contains(said.Error(), e.Broken) {
			t.Errorf("answered: %s (%v)\nwanted: no answer, and the text %q", answer, err, e.Broken)
		}
	case err != nil:
		t.Errorf("no answer: %v", err)
	case e.Refused == "BadOutput":
		if unreadable == nil {
			t.Errorf("answered: %s\nwanted: what is not JSON", answer)
		}
	case e.Refused != "":
		t.Skipf("only the host refuses for %s", e.Refused)
	case e.Decision != nil:
		same(t, answer, wrap("decision", e.Decision))
	case e.Failure != nil:
		same(t, answer, wrap("failure", e.Failure))
	case !e.Same:
		t.Error("the case expects nothing")
	}
}

func wrap(name string, text guesthouse.JSON) guesthouse.JSON {
	return guesthouse.JSON(`{"` + name + `":` + string(text) + `}`)
}

// same compares two answers as values.
func same(t testing.TB, answered, wanted guesthouse.JSON) {
	t.Helper()
	have, err := parse(answered)
	if err != nil {
		t.Errorf("the answer is not JSON: %v\n%s", err, answered)
		return
	}
	want, err := parse(wanted)
	if err != nil {
		t.Errorf("the case expects what is not JSON: %v", err)
		return
	}
	if have, want = short(have), short(repeated(want)); !reflect.DeepEqual(have, want) {
		t.Errorf("answered: %s\nwanted: %s", pretty(have), pretty(want))
	}
}

// parse keeps numbers as they are written.
func parse(text guesthouse.JSON) (value any, err error) {
	from := json.NewDecoder(bytes.NewReader(text))
	from.UseNumber()
	if err = from.Decode(&value); err == nil && from.More() {
		err = errors.New("more than one value")
	}
	return value, err
}

// repeated writes {"repeat": [TEXT, N]} out: TEXT, N times.
func repeated(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = repeated(value[i])
		}
	case map[string]any:
		if pair, ok := value["repeat"].([]any); ok && len(value) == 1 && len(pair) == 2 {
			text, isText := pair[0].(string)
			times, isNumber := pair[1].(json.Number)
			if n, err := times.Int64(); isText && isNumber && err == nil {
				return strings.Repeat(text, int(n))
			}
		}
		for name := range value {
			value[name] = repeated(value[name])
		}
	}
	return value
}

// short leaves out of an answer what says no more than being left out: empty members, and those that name a default. Where
// values are the plugin's own (a status, an object) nothing is left out.
func short(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = short(value[i])
		}
	case map[string]any:
		for name, member := range value {
			switch name {
			case "replace", "merge", "value":
				continue
			case "object":
				if fields, ok := member.(map[string]any); !ok || fields["metadata"] != nil {
					continue // of an apply
				}
			case "labels", "annotations": // null takes one off
			default:
				member = short(member)
			}
			zero := member == json.Number("0") && name != "after" // 0 seconds are at once
			if zero || isEmpty(member) || member == byDefault[name] {
				delete(value, name)
			}
		}
	}
	return value
}

var byDefault = map[string]any{
	"ownership": "owned", "mode": "keep", "onImmutable": "fail", "onDelete": "delete",
	"view": "full", "delivery": "atLeastOnce", "body": "empty",
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return value == nil || value == false
}

func pretty(value any) string {
	var out strings.Builder
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	if err := to.Encode(value); err != nil {
		return err.Error()
	}
	return out.String()
}

// logs are the lines that a call writes to standard error, also through package log.
func logs(t testing.TB, call func()) []string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, writer, flags := os.Stderr, log.Writer(), log.Flags()
	os.Stderr = write
	log.SetOutput(write)
	log.SetFlags(0)
	text := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(read)
		text <- all
	}()
	call()
	os.Stderr = stderr
	log.SetOutput(writer)
	log.SetFlags(flags)
	write.Close()
	all := <-text
	if len(all) == 0 {
		return nil
	}
	t.Logf("logged:\n%s", all)
	return strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
}
