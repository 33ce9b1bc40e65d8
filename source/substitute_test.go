package source

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSubstitutionIsBounded(t *testing.T) {
	many := strings.Repeat("a", 1<<20)
	for sentence, text := range map[string]string{
		"a value that grows":           "${many//a/" + many + "}",
		"a value in many places":       strings.Repeat("${many}\n", 1000),
		"a pattern tried at any place": "${many##*b}",
		"many patterns":                strings.Repeat("${some%%b*}", 100_000),
	} {
		s := Substitute{Variables: map[string]string{"many": many, "some": many[:1000]}}
		var objects []Object
		for range 3 {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}}
			u.Object["data"] = map[string]any{"text": text[:min(len(text), 9<<20)]}
			objects = append(objects, Object{Unstructured: u})
		}
		start := time.Now()
		_, err := s.apply(objects)
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: got %.1000v", sentence, err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: it took %s", sentence, took)
		}
	}
	objects := make([]Object, 1000)
	for i := range objects {
		objects[i].Unstructured = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"text": "${many}"}}}
	}
	s := Substitute{Variables: map[string]string{"many": many}}
	if _, err := s.apply(objects); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a value in many objects: got %v", err)
	}
}

func TestExpand(t *testing.T) {
	s := &substitution{Substitute: Substitute{Variables: map[string]string{"name": "Shop", "empty": "", "_n1": "7", "path": "a/b/c.yaml", "u": "éa"}}}
	for in, want := range map[string]string{
		"":                             "",
		"no variable $name $ {x} $":    "no variable $name $ {x} $",
		"${name}":                      "Shop",
		"a ${name} b ${_n1}.":          "a Shop b 7.",
		"$${name} $${":                 "${name} ${",
		"$$ ${name}":                   "$$ Shop",
		"${unset}":                     "",
		"${unset:-default}":            "default",
		"${unset:=default}":            "default",
		"${empty:-default}":            "default",
		"${empty-default}":             "",
		"${empty=default}":             "",
		"${unset-default}":             "default",
		"${name:-default}":             "Shop",
		"${unset:-${name}/${none:-x}}": "Shop/x",
		"${unset:-}":                   "",
		"${unset:-a:b}":                "a:b",
		"${name^^}":                    "SHOP",
		"${name,,}":                    "shop",
		"${name,}":                     "shop",
		"${u^}":                        "Éa",
		"${empty^}":                    "",
		"${#name}":                     "4",
		"${#u}":                        "2",
		"${name:1}":                    "hop",
		"${name:1:2}":                  "ho",
		"${name: -2}":                  "op",
		"${name:9:9}":                  "",
		"${path#*/}":                   "b/c.yaml",
		"${path##a/}":                  "b/c.yaml",
		"${path%.yaml}":                "a/b/c",
		"${path%.*}":                   "a/b/c",
		"${path#nothing}":              "a/b/c.yaml",
		"${path/b/x}":                  "a/x/c.yaml",
		"${path//\\//-}":               "a/b/c.yaml",
		"${name//o/0}":                 "Sh0p",
		"${name/#S/s}":                 "shop",
		"${name/%p/w}":                 "Show",
		"${name/o}":                    "Shp",
	} {
		got, err := s.expand(in, 0)
		if err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"${":          "no closing brace",
		"${name":      "no closing brace",
		"${a:-${b}":   "no closing brace",
		"${}":         "is no variable: write $${",
		"${1}":        "is no variable",
		"${a.b}":      "is no operation",
		"${ name }":   "is no variable",
		"${name!}":    "is no operation",
		"${name:x}":   "is no operation",
		"${name:1:x}": "is no operation",
		"${name/}":    "is no operation",
		"${#name:1}":  "is no variable",
	} {
		if got, err := s.expand(in, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expand(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestSubstitution(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: ${name}-web\nspec:\n  replicas: ${replicas:=1}\n  paused: ${paused}\n"
	kept := "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}\ndata: {script: '${name}'}\n"
	tree := commitTree(t, map[string]string{
		"plain/a.yaml":         deployment + kept,
		"k/kustomization.yaml": "resources: [a.yaml]\nnamePrefix: p-\n",
		"k/a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: \"${secret}\", n: '${name}'}\n",
		"bad/a.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '${secret}'}\n",
	})
	render := func(dir string, s Substitute) (string, error) {
		r, err := Render(t.Context(), tree, dir, Options{Substitute: s})
		if err != nil {
			return "", err
		}
		return yamlOf(t, r), nil
	}
	got, err := render("plain", Substitute{Variables: map[string]string{"name": "shop", "replicas": "3", "paused": "false"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop-web
spec:
  paused: false
  replicas: 3
---
apiVersion: v1
data:
  script: ${name}
kind: ConfigMap
metadata:
  annotations:
    kustomize.toolkit.fluxcd.io/substitute: disabled
  name: kept
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, err := render("k", Substitute{}); err != nil || !strings.Contains(got, "k: ${secret}") {
		t.Errorf("without variables: %v\n%s", err, got)
	}
	if got, err := render("k", Substitute{Variables: map[string]string{"secret": "s: x", "name": "1"}}); err == nil {
		t.Errorf("a value that breaks the YAML: %s", got)
	} else if strings.Contains(err.Error(), "s: x") || !strings.Contains(err.Error(), "ConfigMap p-a (k/kustomization.yaml): the result is no YAML") {
		t.Errorf("a value that breaks the YAML: %v", err)
	}
	strict := Substitute{Variables: map[string]string{"other": "x"}, Strict: true}
	if _, err := render("plain", strict); err == nil || !strings.Contains(err.Error(), "Deployment ${name}-web (plain/a.yaml:1): variable name is not set") {
		t.Errorf("strict: %v", err)
	}
	if _, err := render("plain", Substitute{Variables: map[string]string{"paused": "x"}}); err != nil {
		t.Errorf("not strict: %v", err)
	}
	big := &substitution{Substitute: Substitute{Variables: map[string]string{"secret": strings.Repeat("x", 11<<20)}}}
	deep := strings.Repeat("${a:-", 100_000) + strings.Repeat("}", 100_000)
	if _, err := big.expand(deep, 0); err == nil {
		t.Error("deep nesting is expanded")
	}
	if _, err := big.expand(strings.Repeat("${secret}", 1_000_000), 0); err == nil || !strings.Contains(err.Error(), "more than 10 MiB") {
		t.Errorf("many of a large value: %v", err)
	}
	if _, err := render("bad", big.Substitute); err == nil || !strings.Contains(err.Error(), "more than 10 MiB") {
		t.Errorf("a large value: %v", err)
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"${a}", "$${a}", "${a:-${b}}", "${a#*b}", "${a//b/c}", "${a:1:2}", "${#a}"} {
		f.Add(s, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		got, err := (&substitution{Substitute: Substitute{Variables: map[string]string{"a": value}}}).expand(text, 0)
		if err == nil && !strings.Contains(text, "${") && got != text {
			t.Errorf("%q became %q without a variable in it", text, got)
		}
	})
}

// TestSecretsThatWereUsed is about what must not be shown of rendered objects.
func TestSecretsThatWereUsed(t *testing.T) {
	tree := commitTree(t, map[string]string{"d/a.yaml": configMap("a", `"${token^^}-${user}-${token:0:3}-${#token}-${none:-${user}}-${token:-x}-${quiet}"`)})
	sub := Substitute{Variables: map[string]string{"token": "s3cret", "user": "ada", "quiet": "", "unused": "u"}, Secret: map[string]bool{"token": true, "quiet": true, "unused": true}, Strict: true}
	got, err := Render(t.Context(), tree, "d", Options{Substitute: sub})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"S3CRET", "s3c", "s3cret"}, got.Secrets); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	defaults, err := Render(t.Context(), commitTree(t, map[string]string{"d/a.yaml": configMap("a", "${none:-x}")}), "d", Options{Substitute: Substitute{Variables: map[string]string{}, Strict: true}})
	if err != nil || defaults.Objects[0].Object["data"].(map[string]any)["key"] != "x" {
		t.Errorf("with no variable set, defaults are put in all the same: %v, %v", defaults, err)
	}
}
