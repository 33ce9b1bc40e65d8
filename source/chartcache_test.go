package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trueup/trueup/source/internal/chart"
	"github.com/trueup/trueup/testdata/chartserver"
)

func TestChartsStayWhenTheServerIsAway(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	s.Push("shop", "1.0.0", shopChart("1.0.0", "pushed"))
	dir := t.TempDir()
	for repository, want := range map[string]string{s.URL(): "one", s.OCIURL(): "pushed"} {
		c := Chart{Repository: repository, Name: "shop"}
		r := NewRepositories(dir, RepositoriesOptions{})
		rev := resolvedChart(t, r, c, Auth{PlainHTTP: true}, "1.x")
		s.Stop()
		restarted := NewRepositories(dir, RepositoriesOptions{})
		if _, err := restarted.ResolveChart(t.Context(), c, Auth{PlainHTTP: true}, "1.x", 0); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("resolving: %v", err)
		}
		if got, err := valueOf(t, restarted, c, rev, Helm{}); got != want || err != nil {
			t.Errorf("rendering: %q, %v, want %q", got, err, want)
		}
		s.Start()

		// What is damaged, or gone, is fetched anew.
		for _, damage := range []func(string) error{func(name string) error { return os.WriteFile(name, []byte("x"), 0o600) }, os.Remove} {
			files, err := os.ReadDir(filepath.Join(dir, chartsFolder))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if err := damage(filepath.Join(dir, chartsFolder, f.Name())); err != nil {
					t.Fatal(err)
				}
			}
			restarted = NewRepositories(dir, RepositoriesOptions{})
			if _, err := valueOf(t, restarted, c, rev, Helm{}); !errors.Is(err, ErrNotFetched) {
				t.Errorf("rendering from a damaged cache: %v", err)
			}
			resolvedChart(t, restarted, c, Auth{PlainHTTP: true}, rev)
			if got, err := valueOf(t, restarted, c, rev, Helm{}); got != want || err != nil {
				t.Errorf("made anew: %q, %v, want %q", got, err, want)
			}
		}
	}
}

// TestWhatOneHasLostIsFoundOfAnother has two with different credentials, one of whom has the manifest and no archive.
func TestWhatOneHasLostIsFoundOfAnother(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Push("shop", "1.0.0", shopChart("1.0.0", "one"))
	c := Chart{Repository: s.OCIURL(), Name: "shop"}
	for lost := range 2 {
		r := NewRepositories(t.TempDir(), RepositoriesOptions{})
		var rev string
		for i, auth := range []Auth{plain, {PlainHTTP: true, Username: "ada", Password: "pw"}} {
			rev = resolvedChart(t, r, c, auth, "1.0.0")
			if a, err := c.access(auth); err != nil {
				t.Fatal(err)
			} else if i == lost {
				r.charts.store.Remove(chart.Name(chartserver.Digest(shopChart("1.0.0", "one")), a.owner))
			}
		}
		if got, err := valueOf(t, r, c, rev, Helm{}); got != "one" || err != nil {
			t.Errorf("rendered %q, %v", got, err)
		}
	}
}

func TestPruneKeepsChartsInUse(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	s.Publish("shop", "2.0.0", shopChart("2.0.0", "two"))
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := NewRepositories(t.TempDir(), RepositoriesOptions{Clock: clock})
	c := Chart{Repository: s.URL(), Name: "shop"}
	one, two := resolvedChart(t, r, c, Auth{}, "1.0.0"), resolvedChart(t, r, c, Auth{}, "2.0.0")
	for range 26 {
		clock.SetTime(clock.Now().Add(61 * time.Minute))
		resolvedChart(t, r, c, Auth{}, "2.0.0")
	}
	if n, err := r.Prune(24 * time.Hour); n != 1 || err != nil {
		t.Errorf("removed %d, %v, want one archive", n, err)
	}
	if _, err := valueOf(t, r, c, one, Helm{}); !errors.Is(err, ErrNotFetched) {
		t.Errorf("what nobody uses: %v", err)
	}
	if got, err := valueOf(t, r, c, two, Helm{}); got != "two" || err != nil {
		t.Errorf("what is used: %q, %v", got, err)
	}
	s.Requests()
	clock.SetTime(clock.Now().Add(time.Minute))
	resolvedChart(t, r, c, Auth{}, "2.0.0")
	asked(t, s, "GET /charts/index.yaml 304")
}
