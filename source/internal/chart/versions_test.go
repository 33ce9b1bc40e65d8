package chart

import (
	"errors"
	"testing"
)

func TestChoose(t *testing.T) {
	all := []string{"1.0.0", "v1.2.0", "1.10.0", "2.0.0-rc.1", "2.0.0-beta.2", "not-a-version"}
	for wanted, want := range map[string]string{
		"": "1.10.0", "*": "1.10.0", "1.x": "1.10.0", "~1.2": "v1.2.0", "<1.10": "v1.2.0", "1.2.0": "v1.2.0", "v1.0.0": "1.0.0",
		"2.0.0-beta.2": "2.0.0-beta.2", ">=2.0.0-0": "2.0.0-rc.1", "not-a-version": "not-a-version",
		"^2": "", "1.3.0": "", "main": "",
	} {
		got, err := Choose(all, wanted)
		if got != want || (want == "") != errors.Is(err, ErrVersion) {
			t.Errorf("%q: got %q, %v, want %q", wanted, got, err, want)
		}
	}
	// Two that are the same version, in any order.
	for _, same := range [][]string{{"1.0.0+a", "1.0.0+b"}, {"1.0.0+b", "1.0.0+a"}} {
		if got, err := Choose(same, "1.x"); got != "1.0.0+b" || err != nil {
			t.Errorf("of %v: %q, %v", same, got, err)
		}
	}
	const want = "version not found: there is no version 3: it has 2.0.0-rc.1, 2.0.0-beta.2, 1.10.0, v1.2.0, 1.0.0"
	if _, err := Choose(all, "3"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := Choose(nil, ""); err == nil || err.Error() != "version not found: there is no version *: it has no versions" {
		t.Errorf("nothing to choose from: %v", err)
	}
}
