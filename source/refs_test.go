package source

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestATreeWithFilesOfOtherSources(t *testing.T) {
	values := commitTree(t, map[string]string{"prod/values.yaml": "of values", "prod/link.yaml": "-> values.yaml", "prod/out.yaml": "-> ../../chart/Chart.yaml", "secret": "s"})
	chart := commitTree(t, map[string]string{"chart/Chart.yaml": "of chart", "$values/prod/values.yaml": "not this one", "chart/in.yaml": "-> ../$values/secret", "$other/x": "own"})
	tree := chart.WithRefs(map[string]*Tree{"values": values})
	for name, want := range map[string]string{
		"chart/Chart.yaml": "of chart", "$values/prod/values.yaml": "of values", "$values/prod/link.yaml": "of values", "$other/x": "own",
	} {
		if got, err := tree.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("ReadFile(%s) = %s, %v, want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"$values/prod/out.yaml", "chart/in.yaml"} {
		if _, err := tree.ReadFile(name); err == nil || !strings.Contains(err.Error(), "leaves the repository") {
			t.Errorf("ReadFile(%s): %v, want that a link leaves the repository", name, err)
		}
	}
	if _, err := tree.ReadFile("$values/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for name, tc := range map[string]struct{ want, err string }{
		"$values/prod/values.yaml": {want: "$values/prod/values.yaml"},
		"$values/./prod//x":        {want: "$values/prod/x"},
		"$values/../chart/x":       {err: "leaves the repository"},
		"$typo/x":                  {err: "none of the Application's has the ref typo"},
		"values.yaml":              {},
	} {
		got, ok, err := tree.refPath(name)
		if got != tc.want || ok != strings.HasPrefix(name, "$") || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("refPath(%s) = %s, %t, %v, want %s and %q", name, got, ok, err, tc.want, tc.err)
		}
	}
}

func TestAFootprintSeesChangesInOtherSources(t *testing.T) {
	chart := commitTree(t, map[string]string{"chart/Chart.yaml": "c"})
	read := func(value, unread string) *Tree {
		return chart.WithRefs(map[string]*Tree{"values": commitTree(t, map[string]string{"prod/values.yaml": value, "dev/values.yaml": unread})})
	}
	tree := read("1", "1")
	rec := newRecorder()
	if _, err := tree.recorded(rec).ReadFile("$values/prod/values.yaml"); err != nil {
		t.Fatal(err)
	}
	f := NewFootprint(tree, rec.inputs())
	for name, tc := range map[string]struct {
		tree *Tree
		want bool
	}{
		"nothing":                  {tree, true},
		"a file that was not read": {read("1", "2"), true},
		"the file that was":        {read("2", "1"), false},
		"the other source is away": {chart, false},
	} {
		if got := f.Holds(t.Context(), tc.tree); got != tc.want {
			t.Errorf("a change of %s: Holds = %t, want %t", name, got, tc.want)
		}
	}
}
