package source

import (
	"bytes"
	"fmt"
	"strings"
	gosync "sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func yamlOf(t testing.TB, r *Rendered) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteYAML(&out, r.Objects); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestOverridesAreEditsOfTheKustomization compares with the same kustomization, edited by hand.
func TestOverridesAreEditsOfTheKustomization(t *testing.T) {
	base := archive(t, "testdata/kustomize/plugins.txtar")
	for name, tc := range map[string]struct {
		written, edited string // below "resources: [../base]"
		overrides       Kustomize
	}{
		"none": {},
		"images": {
			written:   "images:\n- {name: nginx, newName: mirror/nginx, newTag: '1'}\n- {name: other, newTag: '1'}\n",
			overrides: Kustomize{Images: []string{"nginx:1.27", "more=x.example.com:5000/more:2", "a@sha256:b"}},
			edited:    "images:\n- {name: nginx, newName: mirror/nginx, newTag: '1.27'}\n- {name: other, newTag: '1'}\n- {name: more, newName: 'x.example.com:5000/more', newTag: '2'}\n- {name: a, digest: 'sha256:b'}\n",
		},
		"an image by another name": {
			overrides: Kustomize{Images: []string{"nginx=registry.example.com/nginx@sha256:abc"}},
			edited:    "images: [{name: nginx, newName: registry.example.com/nginx, digest: 'sha256:abc'}]\n",
		},
		"names and namespace go before what is written": {
			written:   "namePrefix: a-\nNAMESUFFIX: -b\nnamespace: c\n",
			overrides: Kustomize{NamePrefix: "x-", NameSuffix: "-y", Namespace: "z"},
			edited:    "namePrefix: x-\nnameSuffix: -y\nnamespace: z\n",
		},
		"replicas": {
			written:   "replicas: [{name: web, count: 2}]\n",
			overrides: Kustomize{Replicas: []Replicas{{"web", 5}}},
			edited:    "replicas: [{name: web, count: 5}]\n",
		},
		"labels and annotations": {
			written:   "commonLabels: {a: one, b: one}\ncommonAnnotations: {c: one}\n",
			overrides: Kustomize{CommonLabels: map[string]string{"b": "two", "d": "yes"}, CommonAnnotations: map[string]string{"e": "1"}},
			edited:    "commonLabels: {a: one, b: two, d: 'yes'}\ncommonAnnotations: {c: one, e: '1'}\n",
		},
		"labels without selectors": {
			overrides: Kustomize{CommonLabels: map[string]string{"d": "e"}, LabelWithoutSelector: true},
			edited:    "labels: [{pairs: {d: e}}]\n",
		},
		"labels in templates": {
			written:   "labels: [{pairs: {a: b}}]\n",
			overrides: Kustomize{CommonLabels: map[string]string{"d": "e"}, LabelWithoutSelector: true, LabelIncludeTemplates: true},
			edited:    "labels: [{pairs: {a: b}}, {pairs: {d: e}, includeTemplates: true}]\n",
		},
		"patches go last": {
			written: "patches:\n- target: {kind: Deployment}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 7}]'\n",
			overrides: Kustomize{Patches: []Patch{
				{Target: &PatchTarget{Group: "apps", Version: "v1", Kind: "Deployment", Name: "w.*"}, Patch: `[{"op": "replace", "path": "/spec/replicas", "value": 8}]`},
				{Path: "p.yaml"},
				{Target: &PatchTarget{Kind: "ConfigMap"}, Patch: `[{"op": "replace", "path": "/metadata/name", "value": "renamed"}]`, Options: map[string]bool{"allowNameChange": true}},
			}},
			edited: "patches:\n- target: {kind: Deployment}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 8}]'\n- path: p.yaml\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"renamed\"}]'\n  options: {allowNameChange: true}\n",
		},
		"components": {
			written:   "components: [../one]\n",
			overrides: Kustomize{Components: []string{"../two", "../one"}},
			edited:    "components: [../one, ../two]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"written/kustomization.yaml": "resources: [../base]\n" + tc.written,
				"edited/kustomization.yaml":  "resources: [../base]\n" + tc.edited,
				"one/kustomization.yaml":     "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamePrefix: one-\n",
				"two/kustomization.yaml":     "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnameSuffix: -two\n",
			}
			for _, dir := range []string{"written", "edited"} {
				files[dir+"/p.yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: NodePort}\n"
			}
			for _, f := range []string{"base/kustomization.yaml", "base/r.yaml"} {
				files[f] = base[f]
			}
			tree := commitTree(t, files)
			got, err := Render(t.Context(), tree, "written", Options{Kustomize: tc.overrides})
			if err != nil {
				t.Fatal(err)
			}
			want, err := Render(t.Context(), tree, "edited", Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(yamlOf(t, want), yamlOf(t, got)); diff != "" {
				t.Errorf("-by hand +override:\n%s", diff)
			}
		})
	}
}

func TestOverridesReachALinkedKustomization(t *testing.T) {
	tree := commitTree(t, map[string]string{
		"real/kustomization.yaml": "-> k.yaml", "real/k.yaml": "resources: [a.yaml]\n", "real/a.yaml": configMap("a", "1"), "link": "-> real",
	})
	for _, dir := range []string{"real", "link"} {
		got, err := Render(t.Context(), tree, dir, Options{Kustomize: Kustomize{NamePrefix: "p-"}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ConfigMap/p-a@" + dir + "/kustomization.yaml"}, places(got)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestOverridesThatMakeNoSense(t *testing.T) {
	tree := commitTree(t, map[string]string{"a/kustomization.yaml": "resources: [a.yaml]\n", "a/a.yaml": configMap("a", "1")})
	for name, tc := range map[string]struct {
		k    Kustomize
		want string
	}{
		"an image without anything": {Kustomize{Images: []string{"nginx"}}, `kustomize.images: "nginx" is none of name:tag`},
		"an image without name":     {Kustomize{Images: []string{"=x:1"}}, "is none of"},
		"a missing component":       {Kustomize{Components: []string{"../nope"}}, "nope"},
		"a component out of it":     {Kustomize{Components: []string{"../../nope"}}, "leaves the repository"},
		"a replica of nothing":      {Kustomize{Replicas: []Replicas{{"nope", 1}}}, "nope"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), tree, "a", Options{Kustomize: tc.k})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "a/kustomization.yaml") {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMissingComponentsMayBeIgnored(t *testing.T) {
	tree := commitTree(t, map[string]string{"a/kustomization.yaml": "resources: [a.yaml]\n", "a/a.yaml": configMap("a", "1")})
	k := Kustomize{Components: []string{"../nope"}, IgnoreMissingComponents: true}
	got, err := Render(t.Context(), tree, "a", Options{Kustomize: k})
	if err != nil || len(got.Objects) != 1 {
		t.Fatalf("Render = %v, %v", got, err)
	}
	// That it was missing is an input: it may come.
	missed := false
	for _, in := range got.Inputs {
		missed = missed || in == Input{Path: "nope", Kind: InputMiss}
	}
	if !missed {
		t.Errorf("the miss is not among the inputs: %v", got.Inputs)
	}
}

func TestErrorsOfKustomizeTellNoSecrets(t *testing.T) {
	for name, kustomization := range map[string]string{
		"a literal without key":         "secretGenerator: [{name: a, literals: [S3CRET]}]",
		"literals that come twice":      "secretGenerator: [{name: a, literals: [a=S3CRET, a=S3CRET]}]",
		"a generator without name":      "secretGenerator: [{literals: [a=S3CRET, b=T0KEN]}]",
		"a bad literal among good":      "secretGenerator: [{name: a, literals: [a=S3CRET, =T0KEN]}]",
		"a patch that is none":          "resources: [a.yaml]\npatches: [{patch: 'S3CRET: [x'}]",
		"a patch for nothing":           "resources: [a.yaml]\npatches: [{patch: '{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {a: S3CRET}}'}]",
		"a JSON patch without target":   "resources: [a.yaml]\npatches: [{patch: '[{op: add, path: /data/a, value: S3CRET}]'}]",
		"a JSON patch that fails":       "resources: [a.yaml]\npatches: [{target: {kind: Secret}, patch: '[{op: test, path: /data/a, value: S3CRET}]'}]",
		"an environment that is none":   "secretGenerator: [{name: a, envs: [bad.env]}]",
		"a patch both ways":             "resources: [a.yaml]\npatches: [{patch: 'S3CRET', path: a.yaml}]",
		"an old JSON patch, bad":        "resources: [a.yaml]\npatchesJson6902: [{target: {version: v1, kind: Secret, name: s}, patch: '[{op: S3CRET'}]",
		"an old merge patch, bad":       "resources: [a.yaml]\npatchesStrategicMerge: ['S3CRET: {']",
		"an inline generator that errs": "generators: ['{apiVersion: builtin, kind: SecretGenerator, metadata: {name: x}, literals: [S3CRET]}']",
		"a patch of two documents":      "resources: [a.yaml]\npatches: [{target: {kind: Secret}, patch: \"a: S3CRET\\n---\\nb: S3CRET\\n\"}]",
		"a resource without name":       "resources: [noname.yaml]",
		"a resource that comes twice":   "resources: [a.yaml, a.yaml]",
		"an invalid resource":           "resources: [invalid.yaml]",
	} {
		t.Run(name, func(t *testing.T) {
			tree := commitTree(t, map[string]string{
				"kustomization.yaml": kustomization,
				"a.yaml":             "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: S3CRET}\n",
				"noname.yaml":        "apiVersion: v1\nkind: Secret\nstringData: {a: S3CRET}\n",
				"invalid.yaml":       "apiVersion: v1\nkind: Secret\nstringData: {a: S3CRET\n",
				"bad.env":            "A=1\nB=\xffS3CRET\n",
			})
			_, err := Render(t.Context(), tree, ".", Options{})
			if err == nil {
				t.Fatal("it renders")
			}
			if strings.Contains(err.Error(), "S3CRET") || strings.Contains(err.Error(), "T0KEN") {
				t.Errorf("the error tells the secret: %v", err)
			}
			if !strings.Contains(err.Error(), "kustomization.yaml") && !strings.Contains(err.Error(), "invalid.yaml:3") {
				t.Errorf("the error names no file: %v", err)
			}
		})
	}
}

// TestOwnSchemasDoNotLeak renders kustomizations that change kustomize's process-wide schema among others that do not.
func TestOwnSchemasDoNotLeak(t *testing.T) {
	schema := `{"definitions": {"v1.Thing": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Thing"}],
	"properties": {"spec": {"type": "object", "properties": {"parts": {"type": "array", "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge",
	"items": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}}}}`
	body := "resources: [../thing.yaml.d]\npatches:\n- patch: |-\n    apiVersion: example.com/v1\n    kind: Thing\n    metadata: {name: t}\n    spec: {parts: [{name: b, size: 2}]}\n"
	tree := commitTree(t, map[string]string{
		"thing.yaml.d/kustomization.yaml": "resources: [t.yaml]\n",
		"thing.yaml.d/t.yaml":             "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {parts: [{name: a}, {name: b, size: 1}]}\n",
		"own/kustomization.yaml":          body + "openapi: {path: schema.json}\n",
		"own/schema.json":                 schema,
		"plain/kustomization.yaml":        body,
		"old/kustomization.yaml":          body + "openapi: {version: v1.21.2}\n",
		"over/kustomization.yaml":         "resources: [../own]\n",
	})
	want := map[string]string{}
	for _, dir := range []string{"plain", "own", "old", "over"} {
		r, err := Render(t.Context(), tree, dir, Options{})
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		want[dir] = yamlOf(t, r)
	}
	if want["own"] == want["plain"] || want["own"] != want["over"] || want["old"] != want["plain"] {
		t.Fatalf("the schema makes the wrong difference:\n%v", want)
	}
	var wg gosync.WaitGroup
	for i := range 40 {
		dir := []string{"plain", "own", "plain", "over", "old"}[i%5]
		wg.Go(func() {
			r, err := Render(t.Context(), tree, dir, Options{})
			if err != nil {
				t.Errorf("%s: %v", dir, err)
				return
			}
			if diff := cmp.Diff(want[dir], yamlOf(t, r)); diff != "" {
				t.Errorf("%s differs when others run beside it:\n%s", dir, diff)
			}
		})
	}
	wg.Wait()
}

func TestDeprecatedFieldsAreWarnedOf(t *testing.T) {
	tree := commitTree(t, map[string]string{
		"a/kustomization.yaml": "bases: [../b]\n", "b/kustomization.yaml": "resources: [b.yaml]\ncommonLabels: {a: b}\n", "b/b.yaml": configMap("b", "1"),
	})
	got, err := Render(t.Context(), tree, "a", Options{Kustomize: Kustomize{CommonLabels: map[string]string{"not": "warned of"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a/kustomization.yaml: 'bases' is deprecated. Please use 'resources' instead. Run 'kustomize edit fix' to update your Kustomization automatically.",
		"b/kustomization.yaml: 'commonLabels' is deprecated. Please use 'labels' instead. Run 'kustomize edit fix' to update your Kustomization automatically.",
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestImageOverrides(t *testing.T) {
	for s, want := range map[string]string{
		"a:1":                        "a  1 ",
		"host:5000/a":                "error",
		"host:5000/a:1":              "host:5000/a  1 ",
		"a@sha256:b":                 "a   sha256:b",
		"a=b":                        "a b  ",
		"a=b:1":                      "a b 1 ",
		"a=host:5000/b":              "a host:5000/b  ",
		"a=host:5000/b@sha256:c":     "a host:5000/b  sha256:c",
		"a=":                         "error",
		"":                           "error",
		"host:5000/a=host:6000/a:v2": "host:5000/a host:6000/a v2 ",
	} {
		image, err := parseImage(s)
		got := fmt.Sprintf("%s %s %s %s", image.Name, image.NewName, image.NewTag, image.Digest)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("parseImage(%q) = %q, want %q", s, got, want)
		}
	}
}
