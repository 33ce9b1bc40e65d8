package sync

import (
	"maps"
	gosync "sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source/mask"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// appState is what the agent remembers of one Application between two looks. All of it can be made anew: a restart
// loses nothing but time.
type appState struct {
	mu       gosync.Mutex // guards what others than the worker that has the Application write
	snapshot *snapshot
	wakeAll  bool
	wakeIDs  map[diff.ID]bool
	ask      ask
	ended    map[types.UID]*Observed // objects of hooks as they were last, that are gone

	// The rest belongs to the worker that has the Application.

	steps      map[diff.ID]*Step // how each object stood at the last look
	looked     *snapshot         // what that look compared with
	generation int64             // of the spec at that look
	failures   map[diff.ID]*failure
	pauses     map[diff.ID]*pause
	values     map[diff.ID]string // versions of objects without managed fields whose values are as declared
	fights     map[fightKey]*fight
	remakes    map[diff.ID]*remake
	retry      retry
	checkedRun string                // the run of hooks whose writes and hooks have been checked
	begunHooks map[string]bool       // that this process has begun to make
	last       *v1alpha1.Application // as our last status patch answered
	unkept     bool                  // it was said that the API server drops a part of the status
	answered   string                // the last request that was answered, also where the status cannot hold that
	due        time.Time             // of the next full look
	cause      cause                 // why the Application is Degraded
	causeDue   time.Time             // when to look for it; zero for no need
	news       *rate.Limiter         // of what only the status tells
	newsDue    time.Time             // when to write what waits for it; zero where nothing does
	remembers  bool                  // what was fought about before a restart
}

// snapshot is what Git declares for one Application, as far as it is known. It is never changed once it is made.
type snapshot struct {
	source     string   // digest of the sources and destination it was made for
	commits    []string // of set, one for each source
	set        *DesiredSet
	footprints []footprint // of the renders that set is from
	versions   string      // of what the variables in set are from
	mask       *mask.Mask  // of what in set came from Secrets
	warnings   []string    // of the renders that set is from
	cluster    string      // digest of what the cluster serves, if it had a part in set
	stops      stops       // of renders of failed
	signatures []v1alpha1.SignatureStatus
	// republished says which charts changed under their version when commits last changed.
	republished []string
	fetchErr    error // why Git could not be read, last time
	verifyErr   error // why failed is not signed as it has to be
	// renderErr says why failed, a newer commit than those in use, gives no list of objects.
	renderErr error
	failed    string
	refresh   string // the refresh request that it answers
	request   string // the sync request for which Git was looked at
}

// revision is the commit that stands for all of them: the first.
func (s *snapshot) revision() string {
	if len(s.commits) == 0 {
		return ""
	}
	return s.commits[0]
}

// revisions are the commits of several sources; none where there is one source only.
func (s *snapshot) revisions() []string {
	if len(s.commits) < 2 {
		return nil
	}
	return s.commits
}

// failure is an object that could not be written.
type failure struct {
	err   error
	class apply.Class
	times int64
	until time.Time
}

// pause is an object that has changed while it was written.
type pause struct {
	wait  time.Duration
	until time.Time
	// refused says that what had not been checked was refused: it is checked next time, to learn why.
	refused bool
}

// retry is a sync that was refused as a whole.
type retry struct {
	times int64
	until time.Time
	err   error
}

// look takes in how all objects stand against a snapshot and a generation of the spec. It forgets failures of another
// state of Git or of another spec, and of objects that need nothing any longer.
func (s *appState) look(snap *snapshot, generation int64, steps map[diff.ID]*Step) {
	if s.looked == nil || s.looked.set != snap.set || s.generation != generation || unservable(s.steps) != unservable(steps) {
		s.retry = retry{}
		clear(s.failures)
	}
	for id := range s.failures {
		if step := steps[id]; step == nil || step.Op == OpNone {
			delete(s.failures, id)
		}
	}
	for id := range s.pauses {
		if step := steps[id]; step == nil || step.Op == OpNone {
			delete(s.pauses, id)
		}
	}
	s.looked, s.generation, s.steps = snap, generation, steps
}

// unservable counts the objects of kinds that are not served to us.
func unservable(steps map[diff.ID]*Step) int {
	n := 0
	for _, s := range steps {
		if s.unservable != nil {
			n++
		}
	}
	return n
}

func newAppState() *appState {
	return &appState{
		wakeAll: true, wakeIDs: map[diff.ID]bool{}, steps: map[diff.ID]*Step{},
		failures: map[diff.ID]*failure{}, pauses: map[diff.ID]*pause{}, values: map[diff.ID]string{}, fights: map[fightKey]*fight{}, remakes: map[diff.ID]*remake{},
		ended: map[types.UID]*Observed{}, begunHooks: map[string]bool{}, news: rate.NewLimiter(rate.Every(newsEvery), newsAtOnce),
	}
}

// wake marks objects to be looked at, or all of them when none is given.
func (s *appState) wake(ids ...diff.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(ids) == 0 {
		s.wakeAll = true
	}
	for _, id := range ids {
		s.wakeIDs[id] = true
	}
}

// take returns what is to be looked at, and the present snapshot, which may be nil.
func (s *appState) take() (snap *snapshot, all bool, ids map[diff.ID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap, all, ids = s.snapshot, s.wakeAll, s.wakeIDs
	s.wakeAll, s.wakeIDs = false, map[diff.ID]bool{}
	return snap, all, ids
}

// maxEnded bounds how many objects of hooks are remembered that are gone.
const maxEnded = 100

// hookGone takes in how the object of a hook was that is gone: the cluster may delete it as soon as it is done.
func (s *appState) hookGone(o *Observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) >= maxEnded {
		clear(s.ended)
	}
	s.ended[o.UID] = o
}

// endedHook returns how the object of a hook was last that was done when it went.
func (s *appState) endedHook(uid string) (*Observed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.ended[types.UID(uid)]
	return o, ok && (o.Health.Code == health.Healthy || o.Health.Code == health.Degraded)
}

// ask is a reason to ask Git anew: a push, or a person's word. What was asked since then is fresh enough, so that the
// many Applications of one repository ask once.
type ask struct {
	since            time.Time // zero where there is no reason
	refresh, request string    // the Application's annotations that had been seen by then
}

// askAnew notes that there may be something new in Git, or that somebody wants to know: app, as seen now.
func (s *appState) askAnew(now time.Time, app *v1alpha1.Application) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask.since = now
	if app != nil {
		s.ask.refresh, s.ask.request = app.Annotations[v1alpha1.AnnotationRefresh], app.Annotations[v1alpha1.AnnotationSync]
	}
}

// takeAsk returns the reason to ask Git anew, and forgets it.
func (s *appState) takeAsk() ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.ask
	s.ask.since = time.Time{}
	return a
}

func (s *appState) current() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot
}

func (s *appState) replace(snap *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot, s.wakeAll = snap, true
}

// states are the states of all Applications. Safe for concurrent use.
type states struct {
	mu   gosync.Mutex
	apps map[types.NamespacedName]*appState
}

func (s *states) of(app types.NamespacedName) *appState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.apps[app]
	if !ok {
		st = newAppState()
		s.apps[app] = st
	}
	return st
}

func (s *states) forget(app types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.apps, app)
}

func (s *states) all() map[types.NamespacedName]*appState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.apps)
}
