package chart

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var ada = Owner("ada")

func put(t *testing.T, s *Store, content string) (name string) {
	t.Helper()
	digest, err := s.PutBytes([]byte(content), ada)
	if err != nil {
		t.Fatal(err)
	}
	return Name(digest, ada)
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "charts")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := NewStore(dir, clock)
	if n, err := s.Prune(0); n != 0 || err != nil {
		t.Errorf("pruning where there is no folder yet: %d, %v", n, err)
	}
	sum, err := s.Put(strings.NewReader("one"), ada, "", 100)
	digest := Name(sum, ada)
	if err != nil || !s.Has(digest) || !slices.Equal(s.Owners(sum), []string{ada}) {
		t.Fatalf("%q, %v", digest, err)
	}
	if s.Has(Name(sum, Owner("bob"))) {
		t.Error("somebody else finds it too")
	}
	if _, err := s.Put(strings.NewReader("two"), ada, sum, 100); !errors.Is(err, ErrDigest) {
		t.Errorf("another content: %v, want ErrDigest", err)
	}
	if _, err := s.Put(strings.NewReader("three"), ada, "", 4); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too much: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files are there", len(files))
	}
	for _, bad := range []string{"", "..", "../x", strings.Repeat("a", 64), Name("..", ada), Name(strings.Repeat("a", 64), ada)} {
		if _, err := s.Read(bad); !errors.Is(err, ErrNotStored) || s.Has(bad) {
			t.Errorf("reading %q: %v, want ErrNotStored", bad, err)
		}
	}

	// The next process finds it, or finds that it is damaged.
	s = NewStore(dir, clock)
	if content, err := s.Read(digest); string(content) != "one" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
	if err := os.WriteFile(filepath.Join(dir, digest), []byte("on"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = NewStore(dir, clock)
	if s.Has(digest) {
		t.Error("it is there and damaged")
	}
	if again, err := s.Put(strings.NewReader("one"), ada, sum, 100); again != sum || err != nil || !s.Has(digest) {
		t.Errorf("made anew: %q, %v", again, err)
	}
	if err := os.Remove(filepath.Join(dir, digest)); err != nil || s.Has(digest) {
		t.Errorf("somebody has removed it: %v", err)
	}
}

func TestAStoreForgetsWhatNobodyUses(t *testing.T) {
	dir := t.TempDir()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := NewStore(dir, clock)
	used, unused := put(t, s, "used"), put(t, s, "unused")
	rest := filepath.Join(dir, temporary+"1")
	if err := os.WriteFile(rest, []byte("cut off"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		clock.SetTime(clock.Now().Add(time.Hour + time.Minute))
		if !s.Has(used) {
			t.Fatal("what is used is gone")
		}
	}
	if n, err := s.Prune(24 * time.Hour); n != 2 || err != nil {
		t.Errorf("removed %d, %v, want what nobody uses and what was cut off", n, err)
	}
	if s.Has(unused) || !s.Has(used) {
		t.Error("the wrong one is gone")
	}
	if _, err := os.Stat(rest); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was cut off is still there: %v", err)
	}
}

func TestAStoreIsBounded(t *testing.T) {
	dir := t.TempDir()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := NewStore(dir, clock)
	var digests []string
	for _, content := range []string{"first", "second"} {
		digest := put(t, s, content)
		// As if it were large: a hole takes no disk.
		if err := os.Truncate(filepath.Join(dir, digest), 300<<20); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(2 * time.Hour))
		digests = append(digests, digest)
		now := clock.Now()
		if err := os.Chtimes(filepath.Join(dir, digest), now, now); err != nil {
			t.Fatal(err)
		}
	}
	clock.SetTime(clock.Now().Add(2 * time.Hour))
	third := put(t, s, "third")
	for i, want := range []bool{false, true} {
		if _, err := os.Stat(filepath.Join(dir, digests[i])); (err == nil) != want {
			t.Errorf("blob %d: %v, want it there: %t", i, err, want)
		}
	}
	if !s.Has(third) {
		t.Error("the newest is gone")
	}
}
