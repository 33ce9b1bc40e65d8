package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
)

func progressing(synced, healthy int, names ...string) *v1alpha1.Application {
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "trueup", Name: "shop"}}
	app.Status.Objects = v1alpha1.ObjectCounts{Total: 12, Synced: synced, Healthy: healthy}
	for _, name := range names {
		app.Status.Resources = append(app.Status.Resources, v1alpha1.ResourceStatus{
			ObjectReference: v1alpha1.ObjectReference{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name},
			Sync:            v1alpha1.Synced, Health: "Progressing", Reason: "RollingOut", Message: "0 of 1 replicas available",
		})
	}
	return app
}

func TestProgressElsewhereIsOneLineForEachChange(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out}
	p.show(progressing(3, 1, "a", "b"), "Running", true)
	p.show(progressing(3, 1, "a", "b"), "Running", true) // no news
	p.show(progressing(12, 11, "b"), "Synced, Progressing", true)
	p.show(progressing(12, 12), "Synced, Healthy", false)
	want := "trueup/shop: Running; 3 of 12 objects applied, 1 healthy; waiting for Deployment shop/a: Progressing: RollingOut: 0 of 1 replicas available (and 1 more)\n" +
		"trueup/shop: Synced, Progressing; 12 of 12 objects applied, 11 healthy; waiting for Deployment shop/b: Progressing: RollingOut: 0 of 1 replicas available\n" +
		"trueup/shop: Synced, Healthy\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestProgressOnATerminalStaysInPlace(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out, terminal: true}
	p.show(progressing(3, 1, "a", "b"), "Running", true)
	p.show(progressing(3, 1, "a", "b"), "Running", true) // no news
	p.show(progressing(12, 12), "Synced, Healthy", false)
	p.show(progressing(12, 0, strings.Fields(strings.Repeat("x ", 20))...), "Synced, Progressing", true)
	got := strings.Split(out.String(), "\n")
	want := []string{
		"trueup/shop: Running; 3 of 12 objects applied, 1 healthy",
		"  Deployment shop/a: Progressing: RollingOut: 0 of 1 replicas available",
		"  Deployment shop/b: Progressing: RollingOut: 0 of 1 replicas available",
		"\x1b[3A\r\x1b[Jtrueup/shop: Synced, Healthy",
		"\x1b[1A\r\x1b[Jtrueup/shop: Synced, Progressing; 12 of 12 objects applied, 0 healthy",
	}
	if d := cmp.Diff(want, got[:len(want)]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	out.Reset()
	p.width = 30
	p.show(progressing(3, 1, "a"), "Running", true)
	if d := cmp.Diff("\x1b[9A\r\x1b[Jtrueup/shop: Running; 3 of…\n  Deployment shop/a: Progres…\n", out.String()); d != "" {
		t.Errorf("lines that are too long: -want +got:\n%s", d)
	}
	if rest := got[len(want):]; len(rest) != 9 || rest[7] != "  and 13 more" {
		t.Errorf("a long list is cut, got %q", rest)
	}
}
