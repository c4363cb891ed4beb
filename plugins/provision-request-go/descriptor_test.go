package main

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestItFinalizesAndAsksForAllItSends(t *testing.T) {
	text, err := plugin.Call("describe", nil)
	if err != nil {
		t.Fatal(err)
	}
	var printed struct {
		Descriptor struct {
			Kinds []struct {
				Kind struct{ APIVersion, Kind string }
			}
			Finalizes bool
			Grants    struct {
				HTTP []struct{ Methods []string }
			}
			ConfigSchema struct{ Required []string }
		}
	}
	if err := json.Unmarshal(text, &printed); err != nil {
		t.Fatal(err)
	}
	said := printed.Descriptor
	if kind := said.Kinds[0].Kind; kind.APIVersion != "acme.io/v1" || kind.Kind != "ProvisionRequest" || !said.Finalizes {
		t.Errorf("%s", text)
	}
	if !slices.Equal(said.Grants.HTTP[0].Methods, []string{"GET", "PUT", "DELETE"}) {
		t.Errorf("%s", text)
	}
	if !slices.Equal(said.ConfigSchema.Required, []string{"provisioner"}) {
		t.Errorf("%s", text)
	}
}
