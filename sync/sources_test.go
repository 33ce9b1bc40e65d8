package sync

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
	"github.com/trueup/trueup/testdata/kubetest"
)

func several(sources ...v1alpha1.Source) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) { app.Spec.Source, app.Spec.Sources = v1alpha1.Source{}, sources }
}

// syncedAll wants the Application Synced and Healthy at the commits of its sources.
func syncedAll(commits ...string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		s := app.Status.Sync
		if s.Status != v1alpha1.Synced || app.Status.Health.Status != "Healthy" || s.Revision != commits[0] || !slices.Equal(s.Revisions, commits) || !slices.Equal(s.SyncedRevisions, commits) {
			return fmt.Errorf("want Synced and Healthy at %v, got %+v", commits, s)
		}
		return nil
	}
}

func TestSeveralSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := gitserver.New(t, t.TempDir(), gitserver.Options{})
	one := w.git.Commit(map[string]string{"base/a.yaml": settings("one", "first"), "extra/c.yaml": settings("three", "first")}, "first")
	two := other.Commit(map[string]string{"team/b.yaml": settings("two", "first")}, "first")
	w.app("shop", several(
		v1alpha1.Source{RepoURL: w.git.URL(), Path: "base"},
		v1alpha1.Source{RepoURL: other.URL(), Path: "team", TargetRevision: "main"},
		v1alpha1.Source{RepoURL: w.git.URL(), Path: "extra"},
	))
	w.until("shop", syncedAll(one, two, one))

	// Never a mix: while one source cannot be read, nothing new of the others is used.
	other.Stop()
	newer := w.git.Commit(map[string]string{"base/a.yaml": settings("one", "second")}, "second")
	for range 2 { // the second time with an agent that remembers nothing
		w.refresh("shop")
		app := w.until("shop", says(v1alpha1.ConditionFetched, "sources[1]", "cannot be reached"))
		w.heals("one")
		if got := app.Status.Sync.Revisions; !slices.Equal(got, []string{one, two, one}) || w.setting("one") != "first" {
			t.Errorf("what was there before runs on, got %v and %s", got, w.setting("one"))
		}
		w.stop()
		w.start()
	}
	other.Start()
	app := w.until("shop", syncedAll(newer, two, newer))
	if h := app.Status.History[0]; h.Revision != newer || !slices.Equal(h.Revisions, []string{newer, two, newer}) {
		t.Errorf("history: %+v", h)
	}

	// A commit that does not render in one source holds the others, too.
	broken := other.Commit(map[string]string{"team/b.yaml": "kind: [\n"}, "broken")
	w.git.Commit(map[string]string{"base/a.yaml": settings("one", "third")}, "third")
	app = w.until("shop", says(v1alpha1.ConditionRendered, "sources[1]", "team/b.yaml"))
	if w.setting("one") != "second" || app.Status.Sync.Revision != newer {
		t.Errorf("a part of what does not render is used: %s, %+v", w.setting("one"), app.Status.Sync)
	}
	if f := app.Status.Sync.FailedRevision; f != broken && f != w.git.Rev("main") {
		t.Errorf("the failed revision is %s", f)
	}
	// The same object in two sources is a mistake, and both places are named.
	other.Commit(map[string]string{"team/b.yaml": settings("one", "twice")}, "twice")
	w.until("shop", says(v1alpha1.ConditionRendered, "ConfigMap "+w.ns+"/one is declared twice: in sources[0] base/a.yaml:1 and in sources[1] team/b.yaml:1"))
}

func TestTheAPIRefusesSourcesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	source := func(more string) string {
		return strings.Replace(`{"repoURL":"https://git.example.com/shop.git"}`, "}", more+"}", 1)
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"none":                     {`{}`, "set exactly one of source and sources"},
		"both":                     {`{"source":` + source("") + `,"sources":[` + source("") + `]}`, "set exactly one of source and sources"},
		"an empty list":            {`{"sources":[]}`, "at least 1"},
		"a ref of a single source": {`{"source":` + source(`,"ref":"values"`) + `}`, "ref is for one of several sources"},
		"a ref twice":              {`{"sources":[` + source("") + `,` + source(`,"ref":"v"`) + `,` + source(`,"ref":"v"`) + `]}`, "each ref must be there once only"},
		"nothing to render":        {`{"sources":[` + source(`,"ref":"v"`) + `]}`, "at least one source must be rendered"},
		"a malformed ref":          {`{"sources":[` + source("") + `,` + source(`,"ref":"a/b"`) + `]}`, "spec.sources[1].ref"},
		"another mode":             {`{"source":` + source(`,"verify":{"mode":"Commit","secretRef":{"name":"k"}}`) + `}`, `"HEAD", "Tag", "TagAndHEAD"`},
		"no keys":                  {`{"source":` + source(`,"verify":{"mode":"HEAD"}`) + `}`, "spec.source.verify.secretRef"},
		"nothing to substitute":    {`{"source":` + source(`,"postBuild":{}`) + `}`, "set substitute or substituteFrom"},
		"no name of a variable":    {`{"source":` + source(`,"postBuild":{"substitute":{"a-b":"c"}}`) + `}`, "a variable's name has letters, digits and _ only"},
		"another kind":             {`{"source":` + source(`,"postBuild":{"substituteFrom":[{"kind":"Pod","name":"c"}]}`) + `}`, `"ConfigMap", "Secret"`},
		"an absolute path":         {`{"sources":[` + source(`,"path":"/etc"`) + `]}`, "must be relative to the repository's root"},
	} {
		manifest := fmt.Sprintf(`{"apiVersion":"trueup.dev/v1alpha1","kind":"Application","metadata":{"name":"a","namespace":%q},"spec":%s}`, w.ns, tc.spec)
		out, err := w.TryKubectl(t.Context(), manifest, "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(out+err.Error(), tc.want) {
			t.Errorf("%s: %s, %v, want %q", name, out, err, tc.want)
		}
	}
	for name, spec := range map[string]string{
		"one":           `{"source":` + source(`,"verify":{"secretRef":{"name":"k"}},"submodules":false,"postBuild":{"substitute":{"a_1":"c"},"substituteFrom":[{"kind":"Secret","name":"c","optional":true}]}`) + `}`,
		"two and a ref": `{"sources":[` + source(`,"path":"a"`) + `,` + source(`,"ref":"v"`) + `]}`,
	} {
		manifest := fmt.Sprintf(`{"apiVersion":"trueup.dev/v1alpha1","kind":"Application","metadata":{"name":"a","namespace":%q},"spec":%s}`, w.ns, spec)
		if out, err := w.TryKubectl(t.Context(), manifest, "create", "--dry-run=server", "-f", "-"); err != nil {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
}
