package sync

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trueup/trueup/source"
)

func TestWhatWasStoppedIsTriedEverLater(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	limit := fmt.Errorf("rendering: %w", source.ErrLimit)
	s := stops{}.after(limit, []string{"a"}, now)
	for range 20 {
		if !s.hold([]string{"a"}, now.Add(s.wait-1)) || s.hold([]string{"a"}, now.Add(s.wait)) {
			t.Fatalf("it should wait for %s", s.wait)
		}
		if s.hold([]string{"b"}, now) {
			t.Fatal("another commit does not wait")
		}
		now = now.Add(s.wait)
		s = s.after(limit, []string{"a"}, now)
	}
	if s.wait != longStop {
		t.Errorf("it should come to wait for %s, not %s", longStop, s.wait)
	}
	if s = s.after(limit, []string{"b"}, now); s.wait != firstStop {
		t.Errorf("another commit begins anew, not with %s", s.wait)
	}
	if s = s.after(errors.New("invalid YAML"), []string{"b"}, now); s.hold([]string{"b"}, now) {
		t.Error("other errors do not wait")
	}
}
