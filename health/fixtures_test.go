package health

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// fixture is one file of testdata, <group>/<kind>-<state>.yaml: an object as an API server returns it, under a first
// comment that says in a sentence what it shows, and a second with the result that is wanted.
type fixture struct {
	path, sentence string
	want           Result
	object         *unstructured.Unstructured
}

func loadFixtures(t testing.TB) []fixture {
	t.Helper()
	var all []fixture
	err := filepath.WalkDir("testdata", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == "fuzz":
			return fs.SkipDir // the corpus of go test -fuzz
		case entry.IsDir():
			return nil
		}
		f, err := parseFixture(path)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func parseFixture(path string) (fixture, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return fixture{}, err
	}
	lines := strings.SplitN(string(data), "\n", 3)
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "# ") || !strings.HasPrefix(lines[1], "# want: ") {
		return fixture{}, fmt.Errorf("its first two lines are not a sentence and a wanted result")
	}
	head, message, _ := strings.Cut(strings.TrimPrefix(lines[1], "# want: "), ": ")
	words := strings.Fields(head)
	if len(words) != 3 {
		return fixture{}, fmt.Errorf("want is not CODE REASON RULE: MESSAGE")
	}
	f := fixture{
		path: path, sentence: strings.TrimPrefix(lines[0], "# "), object: &unstructured.Unstructured{},
		want: Result{Code: Code(words[0]), Reason: words[1], Rule: words[2], Message: message},
	}
	return f, yaml.UnmarshalStrict(data, &f.object.Object)
}

func TestFixtures(t *testing.T) {
	seen := make(map[string]string)
	for _, f := range loadFixtures(t) {
		if other, twice := seen[f.sentence]; twice {
			t.Errorf("%s and %s show the same", f.path, other)
		}
		seen[f.sentence] = f.path
		t.Run(f.path, func(t *testing.T) {
			kind := strings.ToLower(f.object.GetKind())
			if !strings.HasPrefix(filepath.Base(f.path), kind+"-") {
				t.Errorf("its name does not begin with its kind %s", kind)
			}
			before := f.object.DeepCopy()
			if diff := cmp.Diff(f.want, Of(f.object)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", f.sentence, diff)
			}
			if diff := cmp.Diff(before.Object, f.object.Object); diff != "" {
				t.Errorf("judging changed the object (-before +after):\n%s", diff)
			}
			// A JSON number may have been decoded as float64; the verdict is the same.
			if diff := cmp.Diff(f.want, Of(&unstructured.Unstructured{Object: asFloats(before.Object).(map[string]any)})); diff != "" {
				t.Errorf("%s, with numbers as float64 (-want +got):\n%s", f.sentence, diff)
			}
		})
	}
}

// asFloats returns v with each integer as float64, or each float64 as int64.
func asFloats(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = asFloats(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = asFloats(e)
		}
		return out
	case int64:
		return float64(v)
	case float64:
		return int64(v)
	}
	return v
}
