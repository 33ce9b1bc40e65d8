package apply

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Result is what became of one object.
type Result struct {
	// Answer is the object as the API server gave it back; nil where Err is set.
	Answer *unstructured.Unstructured
	Err    error
}

// DryRunAll checks all objects at once. done is called once for each as it is finished, concurrently; the answers are
// not kept, since together they are large.
func (w *Writer) DryRunAll(ctx context.Context, objects []*Object, done func(i int, r Result)) {
	w.each(len(objects), func(i int) {
		answer, err := w.DryRun(ctx, objects[i])
		done(i, Result{answer, err})
	})
}

// GetAll reads all objects at once and returns a result for each, in their order.
func (w *Writer) GetAll(ctx context.Context, objects []*unstructured.Unstructured) []Result {
	results := make([]Result, len(objects))
	w.each(len(objects), func(i int) {
		results[i].Answer, results[i].Err = w.Get(ctx, objects[i])
	})
	return results
}

// ApplyAll applies all objects, rank by rank, those of one rank at once. One that fails does not stop the others.
// After the rank of CustomResourceDefinitions it waits until they are established, within a bound.
// done is called once for each object as it is finished, concurrently.
func (w *Writer) ApplyAll(ctx context.Context, objects []*Object, done func(i int, r Result)) {
	for rank := range ranks {
		var index []int
		for i, o := range objects {
			if Rank(o.Config.GroupVersionKind().GroupKind()) == rank {
				index = append(index, i)
			}
		}
		answers := make([]*unstructured.Unstructured, len(index))
		w.each(len(index), func(m int) {
			answer, err := w.Apply(ctx, objects[index[m]])
			if rank == RankCRDs {
				answers[m] = answer
			}
			done(index[m], Result{answer, err})
		})
		if rank == RankCRDs {
			w.awaitEstablished(ctx, answers)
		}
	}
}

// each calls f for each index below n, as many at once as the Writer has slots for.
func (w *Writer) each(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(cap(w.slots), n) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// establishWithin bounds the wait for a CustomResourceDefinition; it takes well under a second on an idle API server.
const establishWithin = 30 * time.Second

// awaitEstablished waits until the kinds of the definitions that were just applied are served. One that does not get
// there in time is no error here: its custom resources will say that their kind is not served.
func (w *Writer) awaitEstablished(ctx context.Context, definitions []*unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(ctx, establishWithin)
	defer cancel()
	for _, crd := range definitions {
		if crd != nil {
			_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				return w.served(ctx, crd), nil
			})
		}
	}
}

// served reports whether a definition is established and discovery knows of it.
func (w *Writer) served(ctx context.Context, crd *unstructured.Unstructured) bool {
	if !established(crd) {
		live, err := w.Get(ctx, crd)
		if err != nil || !established(live) {
			return false
		}
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if version["served"] != true {
			continue
		}
		gvk := schema.GroupVersionKind{Group: group, Version: name, Kind: kind}
		if _, err := w.kinds.Of(gvk); err != nil {
			w.kinds.Reset()
			return false
		}
	}
	return true
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" {
			return fmt.Sprint(m["status"]) == "True"
		}
	}
	return false
}
