package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trueup/trueup/testdata/kubetest"
)

func TestApplicationsThatCannotBeAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	install(t, cluster)
	ns := cluster.Namespace(t)
	good := "{repoURL: https://git.example.com/shop.git, path: app}"
	long := strings.Repeat("n", 64)
	for name, c := range map[string]struct{ name, spec, want string }{
		"a name of 64 characters":       {long, "source: " + good, "an Application's name must fit into a label: at most 63 characters"},
		"a path that climbs out":        {"a", "source: {repoURL: https://git.example.com/shop.git, path: apps/../../etc}", "must not contain '..'"},
		"an absolute path":              {"a", "source: {repoURL: https://git.example.com/shop.git, path: /etc}", "must be relative to the repository's root"},
		"a URL without a scheme":        {"a", "source: {repoURL: git.example.com/shop}", "must be an https, http, ssh or file URL, or user@host:path"},
		"a URL that runs a program":     {"a", "source: {repoURL: 'ext::sh -c id', path: app}", "must be an https, http, ssh or file URL, or user@host:path"},
		"no URL":                        {"a", "source: {path: app}", "spec.source.repoURL: Required value"},
		"a registry without a chart":    {"a", "source: {repoURL: 'oci://registry.example.com/charts'}", "that of a chart repository or registry needs chart"},
		"a chart in Git":                {"a", "source: {repoURL: 'git@git.example.com:shop.git', chart: shop}", "repoURL must be an https, http or oci URL, or registry/path, where there is a chart"},
		"a chart with a path":           {"a", "source: {repoURL: 'https://charts.example.com', chart: shop, path: app}", "a chart is not in Git: path, ref, directory, kustomize, verify and submodules do not go with it"},
		"a chart with verify":           {"a", "source: {repoURL: 'https://charts.example.com', chart: shop, verify: {secretRef: {name: keys}}}", "a chart is not in Git"},
		"a chart with submodules":       {"a", "source: {repoURL: 'https://charts.example.com', chart: shop, submodules: false}", "a chart is not in Git"},
		"a chart with kustomize":        {"a", "source: {repoURL: 'https://charts.example.com', chart: shop, kustomize: {namePrefix: a-}}", "a chart is not in Git"},
		"a chart with ref":              {"a", "sources: [{repoURL: 'https://charts.example.com', chart: shop, ref: values}, {repoURL: 'https://charts.example.com', chart: shop}]", "a chart is not in Git"},
		"a chart whose name climbs":     {"a", "source: {repoURL: 'https://charts.example.com', chart: ../shop}", "spec.source.chart"},
		"no source":                     {"a", "destination: {namespace: a}", "set exactly one of source and sources"},
		"directory and kustomize":       {"a", "source: {repoURL: https://git.example.com/shop.git, directory: {recurse: true}, kustomize: {namePrefix: a-}}", "a source is a directory, a kustomization or a chart: set only one of directory, kustomize and helm"},
		"a misspelt field":              {"a", "source: " + good + "\n  syncPolicy: {automatd: {}}", `unknown field "spec.syncPolicy.automatd"`},
		"a sync option of another tool": {"a", "source: " + good + "\n  syncPolicy: {syncOptions: [Replace=true]}", `Unsupported value: "Replace=true": supported values: "CreateNamespace=true"`},
		"a policy that is none":         {"a", "source: " + good + "\n  fieldPolicies: [{policy: Ignore}]", `Unsupported value: "Ignore": supported values: "Enforce", "Yield", "Hold", "CreateOnly"`},
		"a wait that is no duration":    {"a", "source: " + good + "\n  syncPolicy: {retry: {backoff: {duration: soon}}}", "spec.syncPolicy.retry.backoff.duration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifest := fmt.Sprintf("apiVersion: trueup.dev/v1alpha1\nkind: Application\nmetadata: {name: %s}\nspec:\n  %s\n", c.name, c.spec)
			_, err := cluster.TryKubectl(t.Context(), manifest, "-n", ns, "apply", "-f", "-")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to be refused with %q", err, c.want)
			}
		})
	}
	for name, url := range map[string]string{"https": "https://git.example.com/shop.git", "scp": "git@git.example.com:shop.git", "ssh": "ssh://git@git.example.com:2222/shop.git", "file": "file:///srv/shop.git"} {
		manifest := fmt.Sprintf("apiVersion: trueup.dev/v1alpha1\nkind: Application\nmetadata: {name: %s}\nspec: {source: {repoURL: %q, path: ./apps/..shop}}\n", name, url)
		cluster.Kubectl(t, manifest, "-n", ns, "apply", "-f", "-")
	}
	for name, url := range map[string]string{"repo": "https://charts.example.com", "oci": "oci://registry.example.com:5000/team/charts", "bare": "registry.example.com:5000/team/charts", "host": "registry.example.com"} {
		manifest := fmt.Sprintf("apiVersion: trueup.dev/v1alpha1\nkind: Application\nmetadata: {name: chart-%s}\nspec: {source: {repoURL: %q, chart: shop, path: '', targetRevision: 1.x}}\n", name, url)
		cluster.Kubectl(t, manifest, "-n", ns, "apply", "-f", "-")
	}
}

func TestKubectlGetApplications(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one")}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	for _, word := range []string{"applications", "app", "apps.trueup.dev", "trueup"} {
		lines := strings.Split(w.kubectl("get", word), "\n")
		if got, want := strings.Fields(lines[0]), []string{"NAME", "SYNC", "HEALTH", "REVISION", "AGE"}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("kubectl get %s: the columns are %v, want %v", word, got, want)
		}
		if got, want := lines[1], []string{"shop", "Synced", "Healthy", commit[:7]}; strings.Join(strings.Fields(got)[:4], " ") != strings.Join(want, " ") {
			t.Errorf("kubectl get %s: got %s, want %v", word, got, want)
		}
	}
	if got := w.kubectl("get", "applications", "-o", "wide"); !strings.Contains(got, "1 object Synced and Healthy") {
		t.Errorf("the wide output should have the message, got %s", got)
	}
}
