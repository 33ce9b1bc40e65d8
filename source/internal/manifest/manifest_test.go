package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"

func TestParseFindsObjectsAndTheirLines(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		want          []string // kind/name:line
	}{
		"one document":                        {content: head, want: []string{"ConfigMap/a:1"}},
		"several documents":                   {content: "# first\n" + head + "---\n" + head + "---\n\n# c\n" + head, want: []string{"ConfigMap/a:2", "ConfigMap/a:7", "ConfigMap/a:14"}},
		"documents of comments only":          {content: "# a\n---\n# b\n---\n" + head + "---\n# c\n---\n", want: []string{"ConfigMap/a:5"}},
		"only comments":                       {content: "# a\n---\n# b\n"},
		"nothing":                             {content: ""},
		"a separator in a block scalar":       {content: head + "data:\n  x: |\n    a\n    ---\n    b\n", want: []string{"ConfigMap/a:1"}},
		"a separator with a comment":          {content: head + "--- # next\n" + head, want: []string{"ConfigMap/a:1", "ConfigMap/a:6"}},
		"document ends":                       {content: head + "...\n---\n" + head + "...\n", want: []string{"ConfigMap/a:1", "ConfigMap/a:7"}},
		"a directive":                         {content: "%YAML 1.1\n---\n" + head, want: []string{"ConfigMap/a:3"}},
		"a byte order mark":                   {content: "\ufeff" + head, want: []string{"ConfigMap/a:1"}},
		"a byte order mark before JSON":       {file: "a.json", content: "\ufeff" + `{"apiVersion":"v1","kind":"A","metadata":{"name":"b"}}`, want: []string{"A/b:1"}},
		"Windows line ends":                   {content: strings.ReplaceAll(head+"---\n"+head, "\n", "\r\n"), want: []string{"ConfigMap/a:1", "ConfigMap/a:6"}},
		"JSON":                                {file: "a.json", content: `{"apiVersion":"v1","kind":"A","metadata":{"name":"\ud83d\ude00"}}`, want: []string{"A/😀:1"}},
		"JSON, several, in a YAML file":       {content: "{\"apiVersion\":\"v1\",\n\"kind\":\"A\",\"metadata\":{\"name\":\"b\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"c\"}}", want: []string{"A/b:1", "A/c:3"}},
		"YAML in flow style":                  {content: "{apiVersion: v1, kind: A, metadata: {name: b}}", want: []string{"A/b:1"}},
		"a List":                              {content: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n  metadata: {name: a}\n- apiVersion: v1\n  kind: B\n  metadata: {name: b}\n", want: []string{"A/a:4", "B/b:7"}},
		"a list of a kind":                    {content: "apiVersion: v1\nkind: ConfigMapList\nmetadata: {}\nitems:\n- metadata: {name: a}\n", want: []string{"ConfigMap/a:5"}},
		"a List in a List":                    {content: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - {apiVersion: v1, kind: A, metadata: {name: a}}\n", want: []string{"A/a:4"}},
		"an empty List":                       {content: "apiVersion: v1\nkind: List\nitems: []\n"},
		"a List of nothing":                   {content: "apiVersion: v1\nkind: List\nitems:\n"},
		"a kind that only sounds like a list": {content: "apiVersion: x/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {items: [1]}\n", want: []string{"AllowList/a:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.file == "" {
				tc.file = "a.yaml"
			}
			docs, err := Parse(tc.file, []byte(tc.content))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range docs {
				u := unstructured.Unstructured{Object: d.Object}
				got = append(got, fmt.Sprintf("%s/%s:%d", u.GetKind(), u.GetName(), d.Line))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseTellsManifestsFromOtherFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		manifest      bool
	}{
		"an object":                 {content: head, manifest: true},
		"an empty List":             {content: "apiVersion: v1\nkind: List\nitems: []\n", manifest: true},
		"Helm values":               {content: "image: x\nreplicas: 2\n"},
		"values with a key twice":   {content: "image: x\nimage: y\n"},
		"a list":                    {content: "- a\n- b\n"},
		"a word":                    {content: "hello\n"},
		"package.json":              {file: "package.json", content: `{"name": "x", "version": "1"}`},
		"a JSON list":               {file: "a.json", content: `[1, 2]`},
		"only comments":             {content: "# kind: ConfigMap\n"},
		"an object after something": {content: "image: x\n---\n" + head, manifest: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.file == "" {
				tc.file = "a.yaml"
			}
			docs, err := Parse(tc.file, []byte(tc.content))
			if name == "an object after something" {
				if err == nil || !strings.Contains(err.Error(), "a.yaml:1: object without apiVersion") {
					t.Errorf("error = %v, want that line 1 is no object", err)
				}
				return
			}
			if err != nil || (docs != nil) != tc.manifest {
				t.Errorf("Parse = %v, %v, want a manifest: %t", docs, err, tc.manifest)
			}
		})
	}
}

func TestParseRefusesMistakesAtTheirLine(t *testing.T) {
	for name, tc := range map[string]struct{ file, content, want string }{
		"no kind":                       {content: "apiVersion: v1\nmetadata:\n  name: a\n", want: "a.yaml:1: object without kind"},
		"no apiVersion":                 {content: "# x\nkind: A\nmetadata:\n  name: a\n", want: "a.yaml:2: object without apiVersion"},
		"no name":                       {content: head + "---\napiVersion: v1\nkind: A\nmetadata: {}\n", want: "a.yaml:6: A without metadata.name"},
		"no metadata":                   {content: "apiVersion: v1\nkind: A\n", want: "a.yaml:1: A without metadata.name"},
		"an empty name":                 {content: "apiVersion: v1\nkind: A\nmetadata: {name: \"\"}\n", want: "A without metadata.name"},
		"a name that is a number":       {content: "apiVersion: v1\nkind: A\nmetadata: {name: 12}\n", want: "must be a string, found a number: quote it"},
		"a generated name":              {content: "apiVersion: v1\nkind: A\nmetadata: {generateName: a-}\n", want: "generateName"},
		"metadata that is a list":       {content: "apiVersion: v1\nkind: A\nmetadata: []\n", want: "metadata of a A must be a mapping, found a list"},
		"a kind that is a number":       {content: "apiVersion: v1\nkind: 1\nmetadata: {name: a}\n", want: "kind must be a string, found a number"},
		"an item that is a word":        {content: "apiVersion: v1\nkind: List\nitems:\n- a\n", want: "a.yaml:4: items[0] of a List: expected a Kubernetes object, found a string"},
		"an item without name":          {content: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n", want: "a.yaml:4: A without metadata.name"},
		"text after an object":          {content: head + "---\nhello\n", want: "a.yaml:6: expected a Kubernetes object, found a string"},
		"a key twice":                   {content: head + "data:\n  x: 1\n  y: 2\n  x: 3\n", want: `a.yaml:8: key "x" is already set on line 6`},
		"a key twice, as number":        {content: head + "data:\n  1: a\n  \"1\": b\n", want: `a.yaml:7: key "1" is already set on line 6`},
		"a key twice in JSON":           {file: "a.json", content: "{\"apiVersion\":\"v1\",\n\"kind\":\"A\",\n\"kind\":\"B\"}", want: `a.json:3: key "kind" is set twice`},
		"invalid YAML":                  {content: head + "data:\n  x: 1\n y: 2\n", want: "a.yaml:7: invalid YAML: did not find expected key"},
		"invalid YAML, second document": {content: head + "---\napiVersion: v1\nkind: [\n", want: "a.yaml:7: invalid YAML"},
		"a tab":                         {content: head + "data:\n\tx: 1\n", want: "a.yaml:6: invalid YAML: found character that cannot start any token"},
		"invalid JSON":                  {file: "a.json", content: "{\"apiVersion\":\n\"v1\",,}", want: "a.json:2: invalid JSON"},
		"JSON cut off":                  {file: "a.json", content: `{"apiVersion":`, want: "a.json:1: invalid JSON"},
		"an unknown anchor":             {content: head + "data: *x\n", want: "unknown anchor 'x'"},
		"an anchor in itself":           {content: head + "data: &x\n  y: *x\n", want: `a.yaml:6: anchor "x" contains itself`},
		"a merge of a word":             {content: head + "data:\n  <<: x\n", want: "a.yaml:6: a merge key needs a mapping"},
		"infinity":                      {content: head + "x: .inf\n", want: "a.yaml:5: .inf is no number that JSON can hold"},
		"a key that is a list":          {content: head + "data: {[a]: b}\n", want: "a.yaml:5: a mapping key must be a string"},
		"a key that is null":            {content: head + "data: {~: b}\n", want: "a.yaml:5: a mapping key must be a string"},
		"an integer that is none":       {content: head + "x: !!int abc\n", want: "a.yaml:5: invalid int"},
		"binary that is none":           {content: head + "x: !!binary '*'\n", want: "a.yaml:5: !!binary is not base64"},
		"deep nesting":                  {content: head + "x: " + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "\n", want: "a.yaml:5: nested more than 512 levels deep"},
		"deep nesting in JSON":          {file: "a.json", content: strings.Repeat("[", 5000), want: "nested more than 512 levels deep"},
		"control characters":            {content: head + "x: \x01\n", want: "control characters are not allowed"},
		"UTF-8 that is none":            {content: head + "x: \xff\n", want: "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.file == "" {
				tc.file = "a.yaml"
			}
			docs, err := Parse(tc.file, []byte(tc.content))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("Parse = %v, %v, want %q", docs, err, tc.want)
			}
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), tc.file) {
				t.Errorf("the error does not start with the file: %v", err)
			}
		})
	}
}

// TestValuesAreThoseOfKubectl compares with the library and the decoder that kubectl has.
func TestValuesAreThoseOfKubectl(t *testing.T) {
	values := []string{
		"1", "-1", "0", "+1", "007", "0o17", "0x1F", "0b101", "1_000", "9223372036854775807", "-9223372036854775808",
		"9223372036854775808", "18446744073709551615", "18446744073709551616", "1.0", "1.5", "-0.0", "1e3", "1E3", "1e21", "1e22", ".5", "1.", "1e-7",
		"true", "True", "TRUE", "false", "yes", "Yes", "no", "on", "off", "Off", "y", "Y", "n", "N", "tRue", "yEs",
		"null", "~", "", "Null", `"null"`, "'yes'", `"1"`, "2001-01-01", "2001-12-14t21:59:43.10-05:00", "12:30:45", "1.2.3", "0.0.0.0", "1d", "100m", "1Gi",
		"!!str 1", "!!str yes", "!!str true", "!!str ~", "!!int 1", `!!int "1"`, "!!float 1", "!!bool yes", "!!binary aGVsbG8=", "!custom x",
		"[1, a, yes]", "{a: 1, b: yes}", "{1: a}", "{yes: a}", "{1.5: a}", "{y: 1}", "|\n  a\n  b\n", ">-\n  a\n  b\n", "'it''s'", `"a\tb\u00e9"`,
		"*", "a: b", "<<", "=", "0x", "1__0", "_1", "+.5", "-.5", "0.1e+2", "1e400",
	}
	for _, v := range values {
		t.Run(v, func(t *testing.T) {
			content := []byte(head + "x: " + v + "\n")
			var want any
			j, wantErr := yaml.YAMLToJSON(content)
			if wantErr == nil {
				u := &unstructured.Unstructured{}
				if wantErr = u.UnmarshalJSON(j); wantErr == nil {
					want = u.Object
				}
			}
			docs, err := Parse("a.yaml", content)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("Parse: %v, kubectl: %v", err, wantErr)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(want, any(docs[0].Object)); diff != "" {
				t.Errorf("-kubectl +ours:\n%s", diff)
			}
		})
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	content := head + `data: &d
  a: "1"
  b: "2"
copy: *d
merged:
  b: mine
  <<: *d
several:
  <<: [{a: first}, *d]
`
	docs, err := Parse("a.yaml", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	got := docs[0].Object
	delete(got, "metadata")
	d := map[string]any{"a": "1", "b": "2"}
	want := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": d, "copy": d,
		"merged":  map[string]any{"a": "1", "b": "mine"},
		"several": map[string]any{"a": "first", "b": "2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func bomb(first, list string) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("a0: &a0 " + first + "\n")
	for i := 1; i < 12; i++ {
		ref := fmt.Sprintf("*a%d", i-1)
		fmt.Fprintf(&b, "a%d: &a%d "+list+"\n", i, i, strings.TrimSuffix(strings.Repeat(ref+", ", 10), ", "))
	}
	return b.String()
}

func TestAliasBombsCostNothing(t *testing.T) {
	for name, content := range map[string]string{
		"lists":       bomb("[x, x]", "[%s]"),
		"long texts":  head + "t: &t " + strings.Repeat("x", 1<<20) + "\nl: [" + strings.TrimSuffix(strings.Repeat("*t, ", 200), ", ") + "]\n",
		"merged maps": strings.ReplaceAll(bomb("{x: 1}", "{<<: [%s]}"), "  ", " "),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("a.yaml", []byte(content))
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), errExpansion) {
				t.Errorf("Parse: %v, want %q", err, errExpansion)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%d MiB were allocated", got>>20)
			}
			if err := CheckYAML("a.yaml", []byte(content)); err == nil {
				t.Error("CheckYAML lets it through")
			}
		})
	}
	if err := CheckYAML("a.yaml", []byte(head+"a: &x [1]\nb: *x\n")); err != nil {
		t.Errorf("CheckYAML of an honest file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{head, head + "---\n" + head, `{"apiVersion":"v1","kind":"A","metadata":{"name":"b"}}`, bomb("[x]", "[%s]"), "a: &a [*a]", "%YAML 1.1\n--- !!map\n"} {
		f.Add("a.yaml", []byte(s))
		f.Add("a.json", []byte(s))
	}
	f.Fuzz(func(t *testing.T, file string, content []byte) {
		docs, err := Parse(file, content)
		for _, d := range docs {
			if d.Line < 1 || d.Object["kind"] == nil {
				t.Errorf("document %+v", d)
			}
			if _, err := json.Marshal(d.Object); err != nil {
				t.Errorf("the object cannot be sent: %v", err)
			}
		}
		if err != nil && docs != nil {
			t.Errorf("both objects and an error: %v", err)
		}
	})
}
