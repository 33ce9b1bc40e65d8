package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// objectTree is the objects of one Application, with what their controllers made below them.
type objectTree struct {
	roots []*node
	notes []string // why the tree may not be whole
}

// node is one object of a tree.
type node struct {
	name     string
	created  metav1.Time
	sync     v1alpha1.SyncCode
	health   string
	message  string
	children []*node
}

// member is an object as the API server lists it; group and kind are those that were asked for.
type member struct {
	ref    v1alpha1.ObjectReference
	object metav1.Object
}

// newTree joins the managed objects with what the Application's status says of them, and with what they made.
// It asks nobody and changes nothing.
func newTree(app *v1alpha1.Application, judge *health.Judge, managed, made []member) *objectTree {
	tree := &objectTree{}
	states := make(map[v1alpha1.ObjectReference]v1alpha1.ResourceStatus)
	for _, r := range app.Status.Resources {
		states[r.ObjectReference] = r
	}
	byOwner := make(map[types.UID][]member)
	for _, m := range made {
		if owner := metav1.GetControllerOf(m.object); owner != nil {
			byOwner[owner.UID] = append(byOwner[owner.UID], m)
		}
	}
	for _, m := range managed {
		if !isTracked(app, m) {
			continue
		}
		n := &node{name: objectName(m.ref), created: m.object.GetCreationTimestamp(), children: children(m.object.GetUID(), judge, byOwner)}
		if m.object.GetAnnotations()[v1alpha1.AnnotationHookRun] != "" {
			if n.health = string(health.Progressing); isAtWork(app.Status.Hooks, m.ref) { // else the table of hooks says it all
				tree.roots = append(tree.roots, n)
			}
			continue
		}
		state, listed := states[m.ref]
		delete(states, m.ref)
		switch {
		case listed:
			n.apply(state)
		case app.Status.ResourcesOmitted == 0:
			n.sync, n.health = v1alpha1.Synced, string(health.Healthy)
		}
		tree.roots = append(tree.roots, n)
	}
	for _, state := range states { // not in the cluster
		n := &node{name: objectName(state.ObjectReference)}
		n.apply(state)
		tree.roots = append(tree.roots, n)
	}
	slices.SortFunc(tree.roots, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	if n := app.Status.ResourcesOmitted; n > 0 {
		tree.notes = append(tree.notes, fmt.Sprintf("%s not Synced and Healthy: the status has room for %d", words.Are(n, "more object"), v1alpha1.MaxResources))
	}
	return tree
}

// isAtWork reports whether an object is that of a hook that the sync waits for.
func isAtWork(run *v1alpha1.HooksStatus, ref v1alpha1.ObjectReference) bool {
	return run != nil && slices.ContainsFunc(run.Hooks, func(h v1alpha1.HookStatus) bool {
		return h.ObjectReference == ref && h.State == v1alpha1.PhaseRunning
	})
}

func (n *node) apply(state v1alpha1.ResourceStatus) {
	n.sync, n.health = state.Sync, state.Health
	n.message = reasonWords(state)
}

// reasonWords says why an object is not Synced and Healthy, beyond what its health says already.
func reasonWords(state v1alpha1.ResourceStatus) string {
	reason := state.Reason
	if reason == state.Health { // Missing, mostly
		reason = ""
	}
	return strings.Join(nonEmpty(reason, firstLine(state.Message)), ": ")
}

// isTracked reports whether the tracking annotation names both the Application and the object itself: a copy that
// somebody made by hand has the label, but is not the Application's.
func isTracked(app *v1alpha1.Application, m member) bool {
	return m.object.GetAnnotations()[v1alpha1.AnnotationTracking] == fmt.Sprintf("%s/%s:%s/%s:%s/%s",
		app.Namespace, app.Name, m.ref.Group, m.ref.Kind, m.ref.Namespace, m.ref.Name)
}

// children are the objects that owner controls, and what those control. Old ReplicaSets that have no Pods any more are
// left out where a newer one has some.
func children(owner types.UID, judge *health.Judge, byOwner map[types.UID][]member) []*node {
	var nodes []*node
	busy := false
	for _, m := range byOwner[owner] {
		n := &node{name: m.ref.Kind + " " + m.ref.Name, created: m.object.GetCreationTimestamp(), children: children(m.object.GetUID(), judge, byOwner)}
		if pod, ok := m.object.(*unstructured.Unstructured); ok {
			result := judge.Of(pod)
			n.health, n.message = string(result.Code), firstLine(result.Message)
		}
		busy = busy || len(n.children) > 0
		nodes = append(nodes, n)
	}
	if busy {
		nodes = slices.DeleteFunc(nodes, func(n *node) bool {
			return strings.HasPrefix(n.name, "ReplicaSet ") && len(n.children) == 0
		})
	}
	slices.SortFunc(nodes, func(a, b *node) int {
		return cmp.Or(b.created.Compare(a.created.Time), strings.Compare(a.name, b.name))
	})
	return nodes
}

func (t *objectTree) write(w io.Writer, p palette) {
	if len(t.roots) > 0 {
		fmt.Fprintln(w)
		tab := &table{}
		tab.header("OBJECT", "SYNC", "HEALTH", "AGE", "MESSAGE")
		addNodes(tab, t.roots, func(bool) (string, string) { return "", "" })
		tab.write(w, p)
	}
	for _, note := range t.notes {
		fmt.Fprintf(w, "\n%s\n", p.paint(yellow, note))
	}
}

// addNodes adds a row for each node and what is below it. lines returns what is drawn before the name of a node, and
// before the names below it.
func addNodes(tab *table, nodes []*node, lines func(last bool) (here, below string)) {
	for i, n := range nodes {
		here, below := lines(i == len(nodes)-1)
		tab.add(cell{text: here + n.name}, cell{string(n.sync), syncStyle(n.sync)}, cell{n.health, healthStyle(n.health)},
			cell{text: age(n.created)}, cell{text: n.message})
		addNodes(tab, n.children, func(last bool) (string, string) {
			if last {
				return below + "└─ ", below + "   "
			}
			return below + "├─ ", below + "│  "
		})
	}
}
