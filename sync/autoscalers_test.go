package sync

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/testdata/kubetest"
)

// installKEDA brings the kind of KEDA's autoscalers.
func (w *world) installKEDA() {
	w.t.Helper()
	w.Kubectl(w.t, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scaledobjects.keda.sh}
spec:
  group: keda.sh
  scope: Namespaced
  names: {kind: ScaledObject, plural: scaledobjects, singular: scaledobject}
  versions:
    - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, "apply", "--server-side", "-f", "-")
	w.kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=30s")
}

// TestAutoscalersThatArriveWakeWhoeverWaits: from the moment at which a kind of autoscalers is served until they are listed
// nothing is known, and nobody else wakes an Application that was looked at meanwhile.
func TestAutoscalersThatArriveWakeWhoeverWaits(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	clients := w.agentClients()
	kinds := apply.NewKinds(clients.Kube.Discovery(), clock.RealClock{})
	var settled atomic.Int32
	a := newAutoscalers(clients, kinds, func(diff.ID) {}, func() { settled.Add(1) })
	watched := func(definitions bool, want int) {
		t.Helper()
		kubetest.Eventually(t, patience, func() error {
			a.watch(t.Context(), func(string) bool { return definitions })
			ok, err := a.ready()
			if got := int(settled.Load()); !ok || got < want {
				return fmt.Errorf("ready: %t, %v; told %d times, want %d", ok, err, got, want)
			}
			return nil
		})
	}
	watched(false, 1)
	w.installKEDA()
	kinds.Reset()
	told := int(settled.Load())
	watched(true, told+1)
}

// TestAutoscalersThatAreNotInstalledAreNotAskedFor: in a cluster without KEDA each question would be answered with all kinds
// of the cluster, for ever.
func TestAutoscalersThatAreNotInstalledAreNotAskedFor(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	clients := w.agentClients()
	now := clocktesting.NewFakePassiveClock(time.Now())
	a := newAutoscalers(clients, apply.NewKinds(clients.Kube.Discovery(), now), func(diff.ID) {}, func() {})
	questions := func() int {
		mark := w.AuditMark(t)
		a.watch(t.Context(), func(string) bool { return false })
		now.SetTime(now.Now().Add(time.Hour))
		return len(w.AuditEvents(t, mark, func(e kubetest.AuditEvent) bool {
			return e.User == "system:serviceaccount:"+w.ns+":trueup" && strings.HasPrefix(e.URI, "/api") && e.Resource == ""
		}))
	}
	if got := questions(); got == 0 {
		t.Error("what is built in is asked for once, but nothing was")
	}
	if got := questions(); got != 0 {
		t.Errorf("questions of an agent that watches all that is there: %d", got)
	}
}
