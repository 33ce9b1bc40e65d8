package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trueup/trueup/source"
)

func TestMain(m *testing.M) {
	source.Main()
	testscript.Main(m, map[string]func(){"trueup": main})
}

// TestScripts runs testdata/script: what needs no cluster.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireUniqueNames: true})
}
