package sync

import (
	"net/http"
	"strconv"
	"strings"
	gosync "sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// metrics are what the agent counts. Names and units follow Prometheus' conventions; labels are bounded by the number
// of Applications, repositories, kinds of answers and field managers.
type metrics struct {
	registry *prometheus.Registry

	objects    *prometheus.GaugeVec
	reconciles *prometheus.HistogramVec
	syncs      *prometheus.CounterVec
	syncTime   *prometheus.HistogramVec
	gitAsks    *prometheus.HistogramVec
	gitFetches *prometheus.HistogramVec
	renders    *prometheus.HistogramVec
	drift      *prometheus.CounterVec
	heals      *prometheus.CounterVec
	requests   *prometheus.CounterVec
	hooks      *prometheus.CounterVec
	syncHooks  *prometheus.CounterVec

	mu   gosync.Mutex
	seen map[types.NamespacedName]map[fightKey]bool // losses counted already
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), seen: map[types.NamespacedName]map[fightKey]bool{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	fast, slow := prometheus.ExponentialBuckets(0.0005, 4, 9), prometheus.ExponentialBuckets(0.01, 3, 10)
	m.objects = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "trueup_application_objects", Help: "Objects of an Application by sync status and health."}, []string{"namespace", "name", "sync", "health"})
	m.registry.MustRegister(m.objects, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.reconciles = histogram("trueup_reconcile_duration_seconds", "Passes of the loop over one Application.", fast, "result")
	m.syncs = counter("trueup_syncs_total", "Syncs that were to change something.", "namespace", "name", "result")
	m.syncTime = histogram("trueup_sync_duration_seconds", "Time of syncs that were to change something.", slow, "result")
	m.gitAsks = histogram("trueup_git_refs_duration_seconds", "Questions to Git servers for their references.", slow, "repository", "result")
	m.gitFetches = histogram("trueup_git_fetch_duration_seconds", "Fetches of objects from Git servers.", slow, "repository", "result")
	m.renders = histogram("trueup_render_duration_seconds", "Renders of a folder of a commit; one whose inputs did not change is none.", slow, "result")
	m.drift = counter("trueup_drift_total", "Declared fields found to be owned by somebody else, by field manager and decision.", "manager", "decision")
	m.heals = counter("trueup_healed_fields_total", "Fields taken back, by the field manager that had them.", "manager")
	m.requests = counter("trueup_api_requests_total", "Requests to the API server by verb and status code.", "verb", "code")
	m.hooks = counter("trueup_webhook_calls_total", "Calls of Git servers, by provider and the status code they were answered with.", "provider", "code")
	m.syncHooks = counter("trueup_sync_hooks_total", "Hooks of syncs that have ended.", "namespace", "name", "phase", "result")
	return m
}

func (m *metrics) hookRan(app types.NamespacedName, phase, result string) {
	m.syncHooks.WithLabelValues(app.Namespace, app.Name, phase, strings.ToLower(result)).Inc()
}

func (m *metrics) hooked(provider string, code int) {
	m.hooks.WithLabelValues(provider, strconv.Itoa(code)).Inc()
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

func (m *metrics) reconciled(d time.Duration, err error) {
	m.reconciles.WithLabelValues(result(err)).Observe(d.Seconds())
}

func (m *metrics) asked(repository string, d time.Duration, err error) {
	m.gitAsks.WithLabelValues(repository, result(err)).Observe(d.Seconds())
}

func (m *metrics) fetched(repository string, d time.Duration, err error) {
	m.gitFetches.WithLabelValues(repository, result(err)).Observe(d.Seconds())
}

func (m *metrics) rendered(d time.Duration, err error) {
	m.renders.WithLabelValues(result(err)).Observe(d.Seconds())
}

func (m *metrics) synced(app types.NamespacedName, d time.Duration, err error) {
	m.syncs.WithLabelValues(app.Namespace, app.Name, result(err)).Inc()
	m.syncTime.WithLabelValues(result(err)).Observe(d.Seconds())
}

// managers bounds the values of the label manager: names of field managers are chosen by whoever writes.
const managers = 200

func managerLabel(o diff.Owner) string {
	if o.Manager == "" {
		return "removed"
	}
	return o.Manager[:min(len(o.Manager), managers)]
}

func (m *metrics) healed(c diff.Comparison) {
	for _, l := range c.Losses {
		if l.Verdict == diff.Enforce {
			m.heals.WithLabelValues(managerLabel(l.Owner)).Inc()
		}
	}
	for _, e := range c.Extras {
		m.heals.WithLabelValues(managerLabel(e.Owner)).Inc()
	}
}

// state takes in how an Application stands now, and counts each loss that was not there before.
func (m *metrics) state(app types.NamespacedName, steps map[diff.ID]*Step) {
	counts := map[[2]string]int{}
	losses := map[fightKey]bool{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range steps {
		counts[[2]string{string(s.Sync), string(s.Health.Code)}]++
		for _, l := range s.Comparison.Losses {
			m.lost(app, losses, fightKey{s.ID, l.Path.String(), l.Owner.Manager}, managerLabel(l.Owner), string(l.Verdict))
		}
		for _, e := range s.Comparison.Extras {
			m.lost(app, losses, fightKey{s.ID, e.Path.String(), e.Owner.Manager}, managerLabel(e.Owner), string(diff.Enforce))
		}
	}
	m.seen[app] = losses
	m.objects.DeletePartialMatch(prometheus.Labels{"namespace": app.Namespace, "name": app.Name})
	for k, n := range counts {
		m.objects.WithLabelValues(app.Namespace, app.Name, k[0], k[1]).Set(float64(n))
	}
}

func (m *metrics) lost(app types.NamespacedName, now map[fightKey]bool, key fightKey, manager, decision string) {
	now[key] = true
	if !m.seen[app][key] {
		m.drift.WithLabelValues(manager, decision).Inc()
	}
}

func (m *metrics) forget(app types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, app)
	labels := prometheus.Labels{"namespace": app.Namespace, "name": app.Name}
	m.objects.DeletePartialMatch(labels)
	m.syncs.DeletePartialMatch(labels)
	m.syncHooks.DeletePartialMatch(labels)
}

// watchApplications reports each Application with its state as trueup_application_info, read when it is asked for.
func (m *metrics) watchApplications(list func() []*v1alpha1.Application) {
	m.registry.MustRegister(&applicationInfo{list: list, desc: prometheus.NewDesc("trueup_application_info",
		"One for each Application, with its state.", []string{"namespace", "name", "repository", "revision", "sync", "health"}, nil)})
}

type applicationInfo struct {
	list func() []*v1alpha1.Application
	desc *prometheus.Desc
}

func (a *applicationInfo) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

func (a *applicationInfo) Collect(ch chan<- prometheus.Metric) {
	for _, app := range a.list() {
		s := app.Status
		sync, code := s.Sync.Status, s.Health.Status
		if sync == "" {
			sync = v1alpha1.SyncUnknown
		}
		if code == "" {
			code = string(health.Unknown)
		}
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, 1,
			app.Namespace, app.Name, source.RedactURL(app.Spec.MainSource().RepoURL), s.Sync.ShortRevision, string(sync), code)
	}
}

// countRequests counts what goes through next.
func (m *metrics) countRequests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		code := "none"
		if err == nil {
			code = strconv.Itoa(response.StatusCode)
		}
		m.requests.WithLabelValues(verb(r), code).Inc()
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// verb names a request as audit logs do, and tells dry-runs apart.
func verb(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && q.Get("watch") != "":
		return "watch"
	case r.Method == http.MethodGet:
		return "get"
	case r.Method == http.MethodPatch && q.Get("dryRun") != "":
		return "dry-run"
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.ApplyPatchType):
		return "apply"
	case r.Method == http.MethodPatch:
		return "patch"
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	case r.Method == http.MethodDelete:
		return "delete"
	}
	return "other"
}
