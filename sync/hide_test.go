package sync

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source/mask"
)

func TestHideTakesOutTheValueBeforeToo(t *testing.T) {
	parse := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	live := parse(`{"data":{"a":"old-value","b":"plain","c":"new-value","gone":"x new-value"},
		"env":[{"name":"B","value":"b"},{"name":"A","value":"old-value"}],"args":["old-value","same","more"]}`)
	next := parse(`{"data":{"a":"new-value","b":"plain","c":"new-value","d":"to new-value"},
		"env":[{"name":"A","value":"new-value"},{"name":"B","value":"b"}],"args":["new-value","same"]}`)
	Change{mask: mask.New([]string{"new-value"})}.Hide(live, next)
	wantLive := parse(`{"data":{"a":"*** (before)","b":"plain","c":"***","gone":"x ***"},
		"env":[{"name":"B","value":"b"},{"name":"A","value":"*** (before)"}],"args":["*** (before)","same","more"]}`)
	wantNext := parse(`{"data":{"a":"*** (after)","b":"plain","c":"***","d":"to ***"},
		"env":[{"name":"A","value":"*** (after)"},{"name":"B","value":"b"}],"args":["*** (after)","same"]}`)
	if d := cmp.Diff(wantLive, live); d != "" {
		t.Errorf("live, -want +got:\n%s", d)
	}
	if d := cmp.Diff(wantNext, next); d != "" {
		t.Errorf("next, -want +got:\n%s", d)
	}
	// Neither has to be there.
	Change{mask: mask.New([]string{"new-value"})}.Hide(nil, parse(`{"a":{"b":["new-value"]}}`))
	left := parse(`{"a":{"b":["new-value"]}}`)
	Change{mask: mask.New([]string{"new-value"})}.Hide(left, nil)
	if raw, _ := json.Marshal(left.Object); strings.Contains(string(raw), "new-value") {
		t.Errorf("what would be deleted is shown: %s", raw)
	}
}
