package source

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSaysWhereEachObjectIs(t *testing.T) {
	objects, err := Parse("all.yaml", []byte("# two\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.GetName()+" "+o.Place())
	}
	if d := cmp.Diff([]string{"a all.yaml:2", "b all.yaml:9"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if none, err := Parse("values.yaml", []byte("replicas: 2\n")); none != nil || err != nil {
		t.Errorf("a file that is no manifest: got %v, %v", none, err)
	}
	if _, err := Parse("bad.yaml", []byte("apiVersion: v1\nkind: [\n")); err == nil || !strings.HasPrefix(err.Error(), "bad.yaml:") {
		t.Errorf("a broken file: got %v", err)
	}
}
