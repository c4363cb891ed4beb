package main

import (
	"testing"

	"guesthouse.dev/guest-sdk/go/guesthousetest"
)

func TestCases(t *testing.T) { guesthousetest.Run(t, plugin, "cases/*.json") }
