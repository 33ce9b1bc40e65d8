package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// forgetful is an API server that keeps no managed fields: an apply sets what it lists, and nobody knows who did.
type forgetful struct {
	group string

	mu      gosync.Mutex
	version int
	objects map[string]map[string]any
	applies int
	changed chan struct{} // closed and made anew with each change
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ours := strings.CutPrefix(r.URL.Path, "/apis/"+f.group+"/v1")
	if !ours {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); {
	case path == "":
		reply(w, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f.group + "/v1", "resources": []any{
			map[string]any{"name": "gadgets", "singularName": "gadget", "namespaced": true, "kind": "Gadget", "verbs": []string{"get", "list", "watch", "patch", "delete"}},
		}})
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r)
	case len(parts) == 1 || len(parts) == 3:
		f.list(w)
	case r.Method == http.MethodPatch:
		f.patch(w, r, parts[1], parts[3])
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		if o := f.objects[parts[3]]; o != nil {
			reply(w, o)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		reply(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": parts[3] + " not found"})
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (f *forgetful) list(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items := []any{}
	for _, o := range f.objects {
		items = append(items, o)
	}
	reply(w, map[string]any{"kind": "GadgetList", "apiVersion": f.group + "/v1", "metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version)}, "items": items})
}

func (f *forgetful) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "" { // not offered: the client lists
		w.WriteHeader(http.StatusUnprocessableEntity)
		reply(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422})
		return
	}
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	for {
		f.mu.Lock()
		changed := f.changed
		for _, o := range f.objects {
			version, _ := strconv.Atoi(o["metadata"].(map[string]any)["resourceVersion"].(string))
			if version > since {
				_ = encoder.Encode(map[string]any{"type": "MODIFIED", "object": o})
			}
		}
		since = f.version
		f.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *forgetful) patch(w http.ResponseWriter, r *http.Request, namespace, name string) {
	raw, _ := io.ReadAll(r.Body)
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	metadata := o["metadata"].(map[string]any)
	metadata["namespace"], metadata["uid"] = namespace, "uid-of-"+name
	if r.URL.Query().Get("dryRun") == "" {
		f.applies++
		f.store(name, o)
	} else if have := f.objects[name]; have != nil {
		metadata["resourceVersion"] = have["metadata"].(map[string]any)["resourceVersion"]
	}
	reply(w, o)
}

func (f *forgetful) store(name string, o map[string]any) {
	f.version++
	o["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.version)
	f.objects[name] = o
	close(f.changed)
	f.changed = make(chan struct{})
}

// edit changes the size of a gadget behind everybody's back.
func (f *forgetful) edit(name string, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, _ := json.Marshal(f.objects[name])
	var o map[string]any
	_ = json.Unmarshal(raw, &o)
	o["spec"].(map[string]any)["size"] = size
	f.store(name, o)
}

func (f *forgetful) state(name string) (size any, applies int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.objects[name]; o != nil {
		size = o["spec"].(map[string]any)["size"]
	}
	return size, f.applies
}

func TestAPIWithoutManagedFieldsIsComparedByValue(t *testing.T) {
	w := newIdleWorld(t, kubetest.Shared(t))
	api := &forgetful{group: w.ns + ".example.com", version: 1, objects: map[string]map[string]any{}, changed: make(chan struct{})}
	w.AggregatedAPI(t, api.group, "v1", api)
	w.Kubectl(t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s-gadgets, labels: {trueup.dev/aggregate-to-managed: "true"}}, rules: [{apiGroups: [%[2]s], resources: ["*"], verbs: [get, list, watch, create, patch, delete]}]}`, w.ns, api.group), "apply", "-f", "-")
	t.Cleanup(func() { _, _ = w.TryKubectl(context.Background(), "", "delete", "clusterrole", w.ns+"-gadgets") })
	w.git.Commit(map[string]string{"shop/gadget.yaml": "{apiVersion: " + api.group + "/v1, kind: Gadget, metadata: {name: web}, spec: {size: 3}}"}, "first")
	w.app("shop")
	w.start()
	t.Cleanup(w.stop) // before its server goes
	named := func(app *v1alpha1.Application) error {
		if r := app.Status.Resources; app.Status.Sync.Status != v1alpha1.Synced || len(r) != 1 || r[0].Reason != reasonByValue {
			return fmt.Errorf("want Synced and the object named, got %s and %+v", app.Status.Sync.Status, r)
		}
		return nil
	}
	w.until("shop", named)

	api.edit("web", 7)
	kubetest.Eventually(t, patience, func() error {
		if size, _ := api.state("web"); fmt.Sprint(size) != "3" {
			return fmt.Errorf("size is %v", size)
		}
		return nil
	})
	w.until("shop", named)

	// In sync nothing is written, whatever happens around it.
	_, before := api.state("web")
	for range 5 {
		seen := w.passes()
		w.controller.wakeAll()
		kubetest.Eventually(t, patience, func() error {
			if w.passes() <= seen {
				return fmt.Errorf("not looked at yet")
			}
			return nil
		})
	}
	if _, after := api.state("web"); after != before {
		t.Errorf("an object in sync was applied %d times", after-before)
	}

	// Who changes it without end is not fought without end, and that is told.
	stop := w.repeat(20*time.Millisecond, func(_ context.Context, i int) { api.edit("web", 10+i) })
	w.until("shop", reasonOf("web", "Held", "contested: it was written and has changed again"))
	if _, after := api.state("web"); after-before > tripObjectAfter {
		t.Errorf("it was applied %d times, want at most %d", after-before, tripObjectAfter)
	}
	stop()

	// What is not put back is told as well.
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"syncPolicy":null}}`)
	w.ask("once more")
	w.until("shop", named)
	api.edit("web", 7)
	w.until("shop", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.OutOfSync {
			return fmt.Errorf("want OutOfSync, got %s", app.Status.Sync.Status)
		}
		return reasonOf("web", "Drifted", "its values are not those in Git")(app)
	})
}
