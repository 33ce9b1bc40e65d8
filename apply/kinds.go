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

	asking sync.Mutex // held while the API server is asked

	mu      sync.Mutex
	kinds   map[schema.GroupVersionKind]Kind
	failed  map[schema.GroupVersion]error
	stale   bool
	resets  int
	askedAt time.Time

	version   string // of the API server, "" before it was asked
	versionAt time.Time
	served    *Served // of kinds and version; nil where it is to be made anew

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
	k.stale, k.resets = true, k.resets+1
}

// Of returns how gvk is served. What is known is answered at once, and asked again beside that. The error is a *meta.NoKindMatchError when no API server serves it, or says that the
// group could not be asked. It may ask the API server, and blocks while it does.
func (k *Kinds) Of(gvk schema.GroupVersionKind) (Kind, error) {
	kind, err, fresh := k.known(gvk)
	switch {
	case fresh:
		return kind, err
	case err == nil:
		if k.asking.TryLock() { // else somebody asks already
			k.asking.Unlock()
			go func() { _ = k.ask() }() // a slow answer must not hold up what is known
		}
		return kind, nil
	}
	if askErr := k.ask(); askErr != nil {
		return Kind{}, askErr
	}
	kind, err, _ = k.known(gvk)
	return kind, err
}

// Gone asks the API server anew, and reports whether it answers that it does not serve gvk. It blocks while it does.
func (k *Kinds) Gone(gvk schema.GroupVersionKind) bool {
	k.Reset()
	if k.ask() != nil {
		return false
	}
	_, err, _ := k.known(gvk)
	return meta.IsNoMatchError(err)
}

// known answers from what was asked last; fresh is false where it is time to ask again.
func (k *Kinds) known(gvk schema.GroupVersionKind) (kind Kind, err error, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kind, known := k.kinds[gvk]
	switch {
	case known:
		return kind, nil, !k.stale
	case k.failed[gvk.GroupVersion()] != nil:
		err = fmt.Errorf("discovering %s: %w", gvk.GroupVersion(), k.failed[gvk.GroupVersion()])
	default:
		err = &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return Kind{}, err, !k.stale && k.clock.Since(k.askedAt) < askAgain
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

// ask asks the API server, one at a time; whoever has waited for another's question takes its answer.
func (k *Kinds) ask() error {
	asked := k.clock.Now()
	k.asking.Lock()
	defer k.asking.Unlock()
	k.mu.Lock()
	answered, resets := !k.stale && k.askedAt.After(asked), k.resets
	k.mu.Unlock()
	if answered {
		return nil
	}
	_, lists, err := k.client.ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return fmt.Errorf("discovering the API server's kinds: %w", err)
	}
	k.take(parse(lists), partial, resets)
	return nil
}

// take keeps an answer, and what was known of the groups that did not answer. It is stale already where Reset was called
// since the question.
func (k *Kinds) take(kinds map[schema.GroupVersionKind]Kind, partial *discovery.ErrGroupDiscoveryFailed, resets int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = nil
	if partial != nil {
		k.failed = partial.Groups
		for gvk, kind := range k.kinds {
			if _, failed := partial.Groups[gvk.GroupVersion()]; failed {
				kinds[gvk] = kind
			}
		}
	}
	k.kinds, k.stale, k.askedAt, k.served = kinds, k.resets != resets, k.clock.Now(), nil
	status := make(map[schema.GroupKind]bool, len(kinds))
	for gvk, kind := range kinds {
		status[gvk.GroupKind()] = status[gvk.GroupKind()] || kind.HasStatus
	}
	k.status.Store(&status)
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
