package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// Kind is how one kind is served.
type Kind struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
	// HasStatus says that status is a subresource: what a manifest has under status is dropped by the API server.
	HasStatus bool
	// Watchable says that objects of the kind can be listed and watched.
	Watchable bool
}

// Kinds knows which kinds the API server serves. It asks at the first need, again after Reset, and again when a kind
// is not known, but then at most once in a while. A group whose API server does not answer keeps what was known of it:
// its kinds are never taken as gone. Safe for concurrent use.
type Kinds struct {
	client discovery.DiscoveryInterface
	clock  clock.PassiveClock

	mu      sync.Mutex
	kinds   map[schema.GroupVersionKind]Kind
	failed  map[schema.GroupVersion]error
	stale   bool
	askedAt time.Time

	status atomic.Pointer[map[schema.GroupKind]bool] // whether the kinds of the last answer have a status
}

// askAgain is the shortest time between two questions because of an unknown kind.
const askAgain = 10 * time.Second

// NewKinds returns Kinds that has asked nothing yet.
func NewKinds(client discovery.DiscoveryInterface, clock clock.PassiveClock) *Kinds {
	return &Kinds{client: client, clock: clock, stale: true}
}

// Reset forgets that the answer is fresh: the next Of asks the API server again.
func (k *Kinds) Reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stale = true
}

// Of returns how gvk is served. The error is a *meta.NoKindMatchError when no API server serves it, or says that the
// group could not be asked. It may ask the API server, and blocks while it does.
func (k *Kinds) Of(gvk schema.GroupVersionKind) (Kind, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kind, known := k.kinds[gvk]
	if k.stale || !known && k.clock.Since(k.askedAt) >= askAgain {
		if err := k.ask(); err != nil && !known {
			return Kind{}, err
		}
		kind, known = k.kinds[gvk]
	}
	if known {
		return kind, nil
	}
	if err := k.failed[gvk.GroupVersion()]; err != nil {
		return Kind{}, fmt.Errorf("discovering %s: %w", gvk.GroupVersion(), err)
	}
	return Kind{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// HasStatus returns whether objects of a kind have a status, in any version, as the last answer of the API server said;
// known is false where it said nothing of the kind. It never blocks.
func (k *Kinds) HasStatus(gk schema.GroupKind) (has, known bool) {
	if status := k.status.Load(); status != nil {
		has, known = (*status)[gk]
	}
	return has, known
}

// All returns all kinds that can be watched, each in the version that its group prefers.
func (k *Kinds) All() ([]schema.GroupVersionKind, error) {
	lists, err := k.client.ServerPreferredResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, fmt.Errorf("discovering the API server's kinds: %w", err)
	}
	var all []schema.GroupVersionKind
	for gvk, kind := range parse(lists) {
		if kind.Watchable {
			all = append(all, gvk)
		}
	}
	return all, nil
}

func (k *Kinds) ask() error {
	k.askedAt = k.clock.Now()
	_, lists, err := k.client.ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return fmt.Errorf("discovering the API server's kinds: %w", err)
	}
	kinds := parse(lists)
	k.failed = nil
	if partial != nil {
		k.failed = partial.Groups
		for gvk, kind := range k.kinds {
			if _, failed := partial.Groups[gvk.GroupVersion()]; failed {
				kinds[gvk] = kind
			}
		}
	}
	k.kinds, k.stale = kinds, false
	status := make(map[schema.GroupKind]bool, len(kinds))
	for gvk, kind := range kinds {
		status[gvk.GroupKind()] = status[gvk.GroupKind()] || kind.HasStatus
	}
	k.status.Store(&status)
	return nil
}

func parse(lists []*metav1.APIResourceList) map[schema.GroupVersionKind]Kind {
	kinds := map[schema.GroupVersionKind]Kind{}
	status := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // nothing of a malformed group can be addressed
		}
		for _, r := range list.APIResources {
			name, sub := splitSubresource(r.Name)
			switch {
			case sub == "status":
				status[gv.WithResource(name)] = true
			case sub == "" && r.Kind != "":
				kinds[gv.WithKind(r.Kind)] = Kind{
					Resource:   gv.WithResource(r.Name),
					Namespaced: r.Namespaced,
					Watchable:  has(r.Verbs, "list") && has(r.Verbs, "watch"),
				}
			}
		}
	}
	for gvk, kind := range kinds {
		kind.HasStatus = status[kind.Resource]
		kinds[gvk] = kind
	}
	return kinds
}

func splitSubresource(name string) (resource, sub string) {
	resource, sub, _ = strings.Cut(name, "/")
	return resource, sub
}

func has(verbs metav1.Verbs, verb string) bool { return slices.Contains(verbs, verb) }
