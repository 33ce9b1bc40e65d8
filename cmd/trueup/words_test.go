package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync/v1alpha1"
)

func TestNearest(t *testing.T) {
	names := []string{"status", "sync", "shop", "shop-prod", "render"}
	for typed, want := range map[string][]string{
		"satus":  {"status"},
		"shpo":   {"shop"},
		"shop":   {"shop", "shop-prod"},
		"SYNC":   {"sync"},
		"ren":    {"render"},
		"banana": nil,
	} {
		if d := cmp.Diff(want, nearest(typed, names)); d != "" {
			t.Errorf("%s: -want +got:\n%s", typed, d)
		}
	}
}

func TestTableAlignsColouredCellsAndLeavesNoBlanksBehind(t *testing.T) {
	tab := table{indent: "  "}
	tab.header("NAME", "SYNC", "MESSAGE")
	tab.add(cell{text: "größer"}, cell{"Synced", green}, cell{})
	tab.add(cell{text: "x"}, cell{"OutOfSync", yellow}, cell{text: "why"})
	var out strings.Builder
	tab.write(&out, false)
	want := "  NAME    SYNC       MESSAGE\n  größer  Synced\n  x       OutOfSync  why\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	out.Reset()
	tab.write(&out, true)
	contains(t, out.String(), "größer  \x1b[32mSynced\x1b[0m\n", "x       \x1b[33mOutOfSync\x1b[0m  why\n")
}

func TestOldReplicaSetsAreHiddenBehindOnesWithPods(t *testing.T) {
	now := time.Now()
	made := func(kind, name, owner string, age time.Duration) member {
		controller := true
		return member{v1alpha1.ObjectReference{Kind: kind, Name: name}, &metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-age)),
			OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner), Controller: &controller}},
		}}
	}
	names := func(nodes []*node) []string {
		var list []string
		for _, n := range nodes {
			list = append(list, n.name)
		}
		return list
	}
	byOwner := map[types.UID][]member{
		"web":   {made("ReplicaSet", "old", "web", time.Hour), made("ReplicaSet", "new", "web", time.Minute)},
		"new":   {made("Pod", "p2", "new", time.Second), made("Pod", "p1", "new", time.Minute)},
		"stuck": {made("ReplicaSet", "empty", "stuck", time.Minute)},
	}
	web := children("web", testJudge(t), byOwner)
	if d := cmp.Diff([]string{"ReplicaSet new"}, names(web)); d != "" {
		t.Fatalf("with Pods: -want +got:\n%s", d)
	}
	if d := cmp.Diff([]string{"Pod p2", "Pod p1"}, names(web[0].children)); d != "" {
		t.Errorf("Pods: -want +got:\n%s", d)
	}
	if d := cmp.Diff([]string{"ReplicaSet empty"}, names(children("stuck", testJudge(t), byOwner))); d != "" {
		t.Errorf("without any Pods: -want +got:\n%s", d)
	}
}

func TestTreeOfATruncatedStatusClaimsNothing(t *testing.T) {
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "trueup", Name: "shop"}}
	managed := member{v1alpha1.ObjectReference{Kind: "ConfigMap", Namespace: "shop", Name: "a"}, &metav1.ObjectMeta{
		Namespace: "shop", Name: "a", Annotations: map[string]string{v1alpha1.AnnotationTracking: "trueup/shop:/ConfigMap:shop/a"},
	}}
	for omitted, want := range map[int]string{7: "7 more objects are not Synced and Healthy", 1: "1 more object is not Synced and Healthy"} {
		app.Status.ResourcesOmitted = omitted
		var out strings.Builder
		newTree(app, testJudge(t), []member{managed}, nil).write(&out, false)
		contains(t, out.String(), "ConfigMap shop/a", want)
		absent(t, out.String(), "Synced  Healthy")
	}
}

func testJudge(t *testing.T) *health.Judge {
	t.Helper()
	judge, err := health.NewJudge(nil, health.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return judge
}

func TestWarningsOfARenderAreShownBounded(t *testing.T) {
	app := &v1alpha1.Application{}
	show := func(status metav1.ConditionStatus, message string) string {
		app.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRendered, Status: status, Reason: "Rendered", Message: message}}
		var out strings.Builder
		describe(&out, false, app)
		return out.String()
	}
	contains(t, show(metav1.ConditionTrue, "3 objects; warning: a is old\nand more; warning: b is older"), "\nWarnings\n  a is old …\n  b is older\n")
	many := show(metav1.ConditionTrue, "3 objects"+strings.Repeat("; warning: a is old", 12))
	contains(t, many, "\n  and 2 more\n")
	if n := strings.Count(many, "a is old"); n != 10 {
		t.Errorf("%d warnings are shown, want 10", n)
	}
	absent(t, show(metav1.ConditionTrue, "3 objects"), "Warnings")
	absent(t, show(metav1.ConditionFalse, "no render; warning: none"), "Warnings")
}
