package main

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	guesthouse "guesthouse.dev/guest-sdk/go"
	"guesthouse.dev/guest-sdk/go/guesthousetest"
)

// What cannot exist natively: there the program has the machine's own clock and random numbers, and no host replaces them.
var hostOnly = map[string]string{
	"clock":  "the clock that shows the observation's time is the host's",
	"random": "the random numbers that are the same in every call are the host's",
}

type suite struct {
	Describe map[string]any
	Cases    []guesthousetest.Case
}

func load(t *testing.T) (all suite) {
	t.Helper()
	text, err := os.ReadFile("../../../tests/conformance/cases.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEveryCaseIsAnsweredAsExpected(t *testing.T) {
	for _, it := range load(t).Cases {
		t.Run(it.Name, func(t *testing.T) {
			if why := hostOnly[it.Name]; why != "" {
				t.Skip(why)
			}
			it.Check(t, plugin)
		})
	}
}

func TestMembersThatNoContractHasNamedAreIgnored(t *testing.T) {
	for _, it := range load(t).Cases {
		if it.Name != "observed" {
			continue
		}
		for name, text := range it.Observation {
			if name == "object" || name == "config" {
				continue // these are the user's
			}
			var value any
			if err := json.Unmarshal(text, &value); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(widened(value))
			if err != nil {
				t.Fatal(err)
			}
			it.Observation[name] = text
		}
		it.Observation["later"] = guesthouse.JSON(`{"a": [1]}`)
		it.Check(t, plugin)
		return
	}
	t.Fatal("the suite has no case observed")
}

// widened has one more member in every object.
func widened(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = widened(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = widened(value[name])
		}
		value["later"] = map[string]any{"a": []any{1}}
	}
	return value
}

func TestTheDescriptorIsTheSuites(t *testing.T) {
	want := load(t).Describe
	want["sdk"] = "go/" + guesthouse.Version
	delete(want, "extensions") // none, and left out
	answer, err := plugin.Call("describe", nil)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Contract   string
		Descriptor map[string]any
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		t.Fatal(err)
	}
	if said.Contract != "guesthouse:reconciler@0.1.0" || !reflect.DeepEqual(said.Descriptor, want) {
		t.Errorf("said: %s\nwanted: %v", answer, want)
	}
}
