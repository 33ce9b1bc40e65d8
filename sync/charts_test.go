package sync

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/chartserver"
)

// chartArchive is the archive of a chart with one ConfigMap, whose value says which archive it is from.
func chartArchive(version, value string) []byte {
	return chartserver.Archive(map[string]string{
		"shop/Chart.yaml":              "apiVersion: v2\nname: shop\nversion: " + version + "\n",
		"shop/values.yaml":             "mode: default\n",
		"shop/templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-settings}\ndata: {value: " + value + ", mode: {{ .Values.mode }}}\n",
	})
}

// settingsOf returns the data of the ConfigMap of a chart's release.
func (w *world) settingsOf(release string) string {
	w.t.Helper()
	return w.kubectl("get", "configmap", release+"-settings", "-o", "jsonpath={.data.value} {.data.mode}")
}

func TestChartsAreSyncedFromRepositoriesAndRegistries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := chartserver.New(t, chartserver.Options{TLS: true, Username: "ada", Password: "analytical-engine"})
	fromRepository := "1.0.0@sha256:" + s.Publish("shop", "1.0.0", chartArchive("1.0.0", "first"))
	fromRegistry := "1.0.0@sha256:" + s.Push("shop", "1.0.0", chartArchive("1.0.0", "pushed"))
	values := w.git.Commit(map[string]string{"prod.yaml": "mode: prod\n"}, "values")
	w.secret("login", "username", "ada", "password", "analytical-engine", "ca.crt", string(s.CA()))
	// Registries get theirs from a template.
	w.labelledSecret("registries", templateSelector, "url", s.OCIURL(), "username", "ada", "password", "analytical-engine", "ca.crt", string(s.CA()))

	w.app("repository", func(app *v1alpha1.Application) {
		app.Spec.Source = v1alpha1.Source{RepoURL: s.URL(), Chart: "shop", TargetRevision: "1.x", SecretRef: &v1alpha1.SecretReference{Name: "login"}}
	})
	w.app("registry", func(app *v1alpha1.Application) {
		app.Spec.Source = v1alpha1.Source{}
		app.Spec.Sources = []v1alpha1.Source{
			{RepoURL: strings.TrimPrefix(s.OCIURL(), "oci://"), Chart: "shop", TargetRevision: "~1.0", Helm: &v1alpha1.Helm{ValueFiles: []string{"$values/prod.yaml"}}},
			{RepoURL: w.git.URL(), Ref: "values"},
		}
	})
	app := w.until("repository", synced(fromRepository))
	if app.Status.Sync.ShortRevision != "1.0.0" {
		t.Errorf("the short revision is %s", app.Status.Sync.ShortRevision)
	}
	app = w.until("registry", synced(fromRegistry))
	if got, want := fmt.Sprint(app.Status.Sync.Revisions), fmt.Sprint([]string{fromRegistry, values}); got != want {
		t.Errorf("the revisions are %s, want %s", got, want)
	}
	if got := w.settingsOf("repository") + ", " + w.settingsOf("registry"); got != "first default, pushed prod" {
		t.Errorf("what is in the cluster: %s", got)
	}

	// A new version is in the range of one, and a new commit changes the values of the other.
	next := "1.1.0@sha256:" + s.Publish("shop", "1.1.0", chartArchive("1.1.0", "second"))
	w.until("repository", synced(next))
	w.git.Commit(map[string]string{"prod.yaml": "mode: quiet\n"}, "quiet")
	w.until("registry", func(app *v1alpha1.Application) error {
		if got := w.settingsOf("registry"); got != "pushed quiet" {
			return errors.New(got)
		}
		return synced(fromRegistry)(app)
	})

	// A version that is published anew is followed, and it is said.
	anew := "1.1.0@sha256:" + s.Publish("shop", "1.1.0", chartArchive("1.1.0", "second again"))
	app = w.until("repository", synced(anew))
	rendered := condition(app, v1alpha1.ConditionRendered)
	if want := fmt.Sprintf("version 1.1.0 of chart shop was published anew: it was %.19s and is %.19s", strings.TrimPrefix(next, "1.1.0@"), strings.TrimPrefix(anew, "1.1.0@")); !strings.Contains(rendered.Message, want) {
		t.Errorf("the condition Rendered should say %q: %s", want, rendered.Message)
	}
	if got := w.settingsOf("repository"); got != "second again default" {
		t.Errorf("what is in the cluster: %s", got)
	}

	// One that is not what the index says is refused, and the last good one runs on.
	s.Publish("shop", "1.2.0", chartArchive("1.2.0", "third"), func(e *chartserver.Entry) { e.Digest = strings.Repeat("0", 64) })
	w.until("repository", func(app *v1alpha1.Application) error {
		if c := condition(app, v1alpha1.ConditionFetched); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "digest mismatch") {
			return errors.New("it is not refused")
		}
		return synced(anew)(app)
	})
	w.hidesEverywhere("analytical-engine")
}

func TestAChartIsHealedWhileItsServerIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := chartserver.New(t, chartserver.Options{})
	commit := w.git.Commit(map[string]string{"prod.yaml": "mode: prod\n"}, "values")
	w.secret("login", "insecureOCIForceHttp", "true")
	for name, repository := range map[string]string{"repository": s.URL(), "registry": s.OCIURL()} {
		revision := "1.0.0@sha256:" + s.Publish("shop", "1.0.0", chartArchive("1.0.0", "one"))
		if name == "registry" {
			revision = "1.0.0@sha256:" + s.Push("shop", "1.0.0", chartArchive("1.0.0", "one"))
		}
		w.app(name, func(app *v1alpha1.Application) {
			app.Spec.Source = v1alpha1.Source{}
			app.Spec.Sources = []v1alpha1.Source{
				{RepoURL: repository, Chart: "shop", TargetRevision: "1.x", SecretRef: &v1alpha1.SecretReference{Name: "login"}, Helm: &v1alpha1.Helm{ValueFiles: []string{"$values/prod.yaml"}}},
				{RepoURL: w.git.URL(), Ref: "values"},
			}
		})
		w.until(name, synced(revision))
	}
	s.Stop()
	away := func(app *v1alpha1.Application) error {
		if c := condition(app, v1alpha1.ConditionFetched); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "cannot be reached") {
			return errors.New("it does not say that the server is away")
		}
		return nil
	}
	for _, name := range []string{"repository", "registry"} {
		w.until(name, away) // a look that began before may take the next commit with the chart as it was
	}
	// Of several sources nothing is used as long as one cannot be read: no new values with an old chart.
	w.git.Commit(map[string]string{"prod.yaml": "mode: quiet\n"}, "quiet")
	healed := func(name string) {
		t.Helper()
		w.kubectl("patch", "configmap", name+"-settings", "--type=merge", "-p", `{"data":{"value":"drift"}}`)
		w.until(name, func(app *v1alpha1.Application) error {
			if err := away(app); err != nil {
				return err
			}
			if got := w.settingsOf(name); got != "one prod" {
				return errors.New(got)
			}
			if app.Status.Sync.Status != v1alpha1.Synced || app.Status.Sync.Revisions[1] != commit {
				return errors.New("it is not Synced with what it was")
			}
			return nil
		})
	}
	healed("repository")
	healed("registry")
	w.stop()
	w.start()
	healed("repository")
	healed("registry")

	s.Start()
	for _, name := range []string{"repository", "registry"} {
		w.refresh(name)
		w.until(name, func(*v1alpha1.Application) error {
			if got := w.settingsOf(name); got != "one quiet" {
				return errors.New(got)
			}
			return nil
		})
	}
}

func TestABadChartHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("bad", "1.0.0", chartserver.Archive(map[string]string{"bad/Chart.yaml": "name: bad", "bad/../../escape": "x"}))
	good := "1.0.0@sha256:" + s.Publish("good", "1.0.0", chartArchive("1.0.0", "fine"))
	for _, name := range []string{"bad", "good"} {
		w.app(name, func(app *v1alpha1.Application) {
			app.Spec.Source = v1alpha1.Source{RepoURL: s.URL(), Chart: name}
		})
	}
	w.until("good", synced(good))
	w.until("bad", func(app *v1alpha1.Application) error {
		c := condition(app, v1alpha1.ConditionRendered)
		if c.Reason != "RenderFailed" || !strings.Contains(c.Message, "version 1.0.0: unpacking chart bad 1.0.0@sha256:") || !strings.Contains(c.Message, `its entry "bad/../../escape" leaves the chart's folder`) {
			return errors.New("it is not refused")
		}
		return nil
	})
}
