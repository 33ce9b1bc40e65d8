package sync

import (
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
)

func TestASourceThatCannotBeReadAfterAnotherOneSaysWhatBecomesOfThat(t *testing.T) {
	l := &look{app: &v1alpha1.Application{}}
	if got, want := l.notYet("fetched"), "nothing has been fetched yet"; got != want {
		t.Errorf("a new Application: want %q, got %q", want, got)
	}
	l.app.Status.Sync.Revision = "3f2a1b7c0000"
	want := "nothing has been fetched since the source changed or the agent started; what is there of commit 3f2a1b7 stays as it is, and is not healed"
	if got := l.notYet("fetched"); got != want {
		t.Errorf("another source before: want %q, got %q", want, got)
	}
}

func TestWhatIsOutOfSyncIsNamed(t *testing.T) {
	object := func(name string, sync v1alpha1.SyncCode, health string) v1alpha1.ResourceStatus {
		return v1alpha1.ResourceStatus{
			ObjectReference: v1alpha1.ObjectReference{Kind: "ConfigMap", Namespace: "shop", Name: name}, Sync: sync, Health: health, Message: name + " says",
		}
	}
	revisions := v1alpha1.SyncStatus{Revision: "3f2a1b7c0000", FailedRevision: "99887766550000"}
	for sentence, c := range map[string]struct {
		status v1alpha1.ApplicationStatus
		want   string
	}{
		"what is only not healthy is left out": {
			v1alpha1.ApplicationStatus{
				Resources: []v1alpha1.ResourceStatus{object("sick", v1alpha1.Synced, "Degraded"), object("held", v1alpha1.OutOfSync, "Healthy")},
				Objects:   v1alpha1.ObjectCounts{Total: 5, Synced: 4, OutOfSync: 1},
			},
			"ConfigMap shop/held: held says",
		},
		"others are counted, also those that are not listed": {
			v1alpha1.ApplicationStatus{
				Resources: []v1alpha1.ResourceStatus{object("held", v1alpha1.OutOfSync, "Healthy")}, ResourcesOmitted: 3,
				Objects: v1alpha1.ObjectCounts{Total: 5, Synced: 2, OutOfSync: 2, Unknown: 1},
			},
			"ConfigMap shop/held: held says (and 2 more objects)",
		},
		"none of them is listed": {
			v1alpha1.ApplicationStatus{
				Resources: []v1alpha1.ResourceStatus{object("sick", v1alpha1.Synced, "Degraded")}, ResourcesOmitted: 3,
				Objects: v1alpha1.ObjectCounts{Total: 5, Synced: 3, OutOfSync: 2},
			},
			"2 objects not as Git declares",
		},
		"all is in sync but a newer commit is broken": {
			v1alpha1.ApplicationStatus{Sync: revisions, Objects: v1alpha1.ObjectCounts{Total: 5, Synced: 5}},
			"commit 3f2a1b7 is in the cluster; the newer commit 9988776 cannot be used",
		},
	} {
		if got := outOfSyncMessage(&c.status); got != c.want {
			t.Errorf("%s: want %q, got %q", sentence, c.want, got)
		}
	}
}
