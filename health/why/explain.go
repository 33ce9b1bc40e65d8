package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/internal/fields"
)

const (
	maxCause  = 512 // bytes: the sentence becomes the message of an Application's health
	maxOthers = 5
)

// Explain returns the first loop that is stuck in the snapshot, seen at now. It changes nothing, never blocks, and says
// so where nothing is stuck.
func Explain(s Snapshot, now time.Time) Report {
	w := &walk{index: newIndex(s), app: s.Application, now: now, seen: make(map[Ref]bool)}
	w.application(s.Subject)
	w.report.Application = s.Application.Namespace + "/" + s.Application.Name
	w.report.Now = now
	w.report.Cause = fields.Clip(oneLine(w.report.Cause), maxCause)
	w.report.Events = w.relevant(w.report.Chain)
	return w.report
}

// walk goes down one chain, and writes the report on its way.
type walk struct {
	*index
	app    Application
	now    time.Time
	report Report
	seen   map[Ref]bool // owner references may form a ring
}

// link appends a loop that gets on, or at least is not what is stuck.
func (w *walk) link(ref Ref, since time.Time, format string, args ...any) *Link {
	w.report.Chain = append(w.report.Chain, Link{Ref: ref, Condition: fmt.Sprintf(format, args...), Since: since})
	return &w.report.Chain[len(w.report.Chain)-1]
}

// stuck ends the walk at the last link.
func (w *walk) stuck(next, format string, args ...any) {
	w.report.Cause, w.report.Next = fmt.Sprintf(format, args...), next
	w.report.Chain[len(w.report.Chain)-1].Stuck = true
}

// lookup is the command with which a person sees whether a repository answers.
func lookup(app Application) string {
	switch {
	case app.Chart == "":
		return "git ls-remote " + app.RepoURL
	case strings.HasPrefix(app.RepoURL, "oci://"):
		return "helm show chart " + app.RepoURL + "/" + app.Chart
	}
	return "helm show chart " + app.Chart + " --repo " + app.RepoURL
}

func (w *walk) application(subject Ref) {
	ref := Ref{Group: "trueup.dev", Kind: "Application", Namespace: w.app.Namespace, Name: w.app.Name}
	w.link(ref, time.Time{}, "%s", revision(w.app.Revision))
	w.report.Code = health.Degraded
	switch target, ok := w.choose(subject); {
	case subject == (Ref{}) && w.app.Fetch.Error != "":
		w.link(Ref{Kind: "Repository", Name: w.app.RepoURL}, w.app.Fetch.Since, "fetch: %s", w.app.Fetch.Error)
		w.stuck(lookup(w.app), "%s cannot be fetched: %s", w.app.RepoURL, w.app.Fetch.Error)
	case subject == (Ref{}) && w.app.Verify.Error != "":
		w.link(Ref{Kind: "Revision", Name: w.app.Revision}, w.app.Verify.Since, "verify: %s", w.app.Verify.Error)
		w.stuck("git verify-commit "+w.app.Revision, "revision %s is refused: %s", w.app.Revision, w.app.Verify.Error)
	case subject == (Ref{}) && w.app.Render.Error != "":
		w.link(Ref{Kind: "Revision", Name: w.app.Revision}, w.app.Render.Since, "render: %s", w.app.Render.Error)
		w.stuck("trueup render "+w.app.Name, "revision %s cannot be rendered: %s", w.app.Revision, w.app.Render.Error)
	case !ok:
		w.report.Code = health.Healthy
		w.report.Cause = fmt.Sprintf("every object of %s is healthy", ref)
		if w.app.OutOfSync != "" {
			w.report.Cause += ", and nothing is stuck; it is OutOfSync: " + w.app.OutOfSync
			w.report.Next = "trueup diff " + w.app.Name
		}
	default:
		w.managed(target)
		if subject == (Ref{}) {
			w.others(target)
		}
	}
}

// others lists what else is not healthy.
func (w *walk) others(target Managed) {
	for _, m := range w.app.Managed {
		inChain := slices.ContainsFunc(w.report.Chain, func(l Link) bool { return l.Ref == m.Ref })
		if m.Ref == target.Ref || inChain || m.Error != "" || m.Health.Code == health.Healthy || len(w.report.Others) == maxOthers {
			continue
		}
		w.report.Others = append(w.report.Others, Link{Ref: m.Ref, Condition: fmt.Sprintf("%s: %s", m.Health.Code, m.Health.Message)})
	}
}

func revision(r string) string {
	if r == "" {
		return "no revision yet"
	}
	return "at revision " + r
}

// choose returns the managed object to explain: the one that was asked for, or else the first that could not be applied,
// or else the worst, workloads first: what else is not healthy mostly waits for them.
func (w *walk) choose(subject Ref) (Managed, bool) {
	if subject != (Ref{}) {
		for _, m := range w.app.Managed {
			if m.Ref == subject {
				return m, true
			}
		}
		// Not declared, but owned by something that is: a Pod, a Job of a CronJob.
		m := Managed{Ref: subject, Health: health.Result{Code: health.Missing, Reason: "NotFound", Message: "not in the cluster"}}
		if o := w.byRef[subject]; o != nil {
			m.Health = o.health
		}
		return m, true
	}
	var worst *Managed
	for i := range w.app.Managed {
		m := &w.app.Managed[i]
		switch {
		case m.Error == "" && m.Health.Code == health.Healthy:
		case worst == nil || urgency(m) > urgency(worst):
			worst = m
		}
	}
	if worst == nil {
		return Managed{}, false
	}
	return *worst, true
}

var workloads = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod", "Rollout"}

// urgency orders what to look at first.
func urgency(m *Managed) int {
	rank := slices.Index([]health.Code{health.Healthy, health.Suspended, health.Progressing, health.Unknown, health.Missing, health.Degraded}, m.Health.Code)
	n := 2 * rank
	if slices.Contains(workloads, m.Kind) {
		n++
	}
	switch {
	case m.Error != "":
		n += 100
	case m.Hook != "":
		n += 50 // the sync waits for it
	}
	return n
}

func (w *walk) managed(m Managed) {
	w.report.Subject, w.report.Code = m.Ref, m.Health.Code
	o := w.byRef[m.Ref]
	switch {
	case m.Error != "":
		w.refused(m)
	case o == nil && m.Hook != "":
		w.link(m.Ref, m.Since, "%s", m.Health.Message)
		w.stuck("trueup sync "+w.app.Name, "the %s hook %s failed: %s", m.Hook, m.Ref, m.Health.Message)
	case o == nil:
		w.link(m.Ref, m.Since, "%s", m.Health.Message)
		w.stuck("trueup sync "+w.app.Name+" --dry-run", "%s is declared and not in the cluster", m.Ref)
	case o.health.Code == health.Healthy:
		w.report.Code = health.Healthy
		w.link(o.Ref, time.Time{}, "%s", o.health.Message)
		w.report.Cause = fmt.Sprintf("%s is healthy: %s", o.Ref, o.health.Message)
	default:
		w.report.Code = o.health.Code
		w.object(o)
	}
}

// refused ends at the apply loop. Objects that are refused for the same reason are counted, not listed.
func (w *walk) refused(m Managed) {
	others := 0
	for _, other := range w.app.Managed {
		if other.Error != "" && other.Ref != m.Ref {
			others++
		}
	}
	w.report.Code = health.Degraded
	w.link(m.Ref, m.Since, "apply: %s", m.Error)
	next := "trueup sync " + w.app.Name + " --dry-run"
	if m.Reason == "Conflict" {
		next = fmt.Sprintf("trueup owners %s %s/%s", w.app.Name, m.Kind, m.Ref.Name)
	}
	verb := map[string]string{"Forbidden": "may not be applied", "Conflict": "is in conflict with another owner"}[m.Reason]
	w.stuck(next, "%s %s: %s%s", m.Ref, cmp.Or(verb, "is refused by the API server"), m.Error, andMore(others, "object"))
}

func andMore(n int, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (and 1 more " + what + ")"
	}
	return fmt.Sprintf(" (and %d more %ss)", n, what)
}

// object goes on at an object that is not healthy.
func (w *walk) object(o *object) {
	if w.seen[o.Ref] {
		return
	}
	w.seen[o.Ref] = true
	if !o.deleted().IsZero() && o.Kind != "Namespace" && o.Kind != "Pod" {
		w.deletion(o)
		return
	}
	switch o.Group + "/" + o.Kind {
	case "apps/Deployment":
		w.deployment(o)
	case "apps/ReplicaSet", "/ReplicationController":
		w.replicaSet(o)
	case "apps/StatefulSet":
		w.statefulSet(o)
	case "apps/DaemonSet":
		w.daemonSet(o)
	case "batch/Job":
		w.job(o)
	case "batch/CronJob":
		w.cronJob(o)
	case "/Pod":
		w.pods(o, []*object{o}, 1)
	case "/PersistentVolumeClaim":
		w.claim(o)
	case "autoscaling/HorizontalPodAutoscaler":
		w.autoscaler(o)
	case "/Namespace":
		w.namespace(o)
	default:
		w.generic(o)
	}
}

// deletion ends at an object that is being deleted.
func (w *walk) deletion(o *object) {
	finalizers := join(o.metadata.List("finalizers"))
	w.link(o.Ref, o.deleted(), "being deleted, finalizers: %s", finalizers)
	w.stuck(get(o.Ref)+" -o jsonpath='{.metadata.finalizers}'",
		"%s is being deleted and waits for the controllers of its finalizers: %s", o.Ref, finalizers)
}

// join returns the strings of a list, separated by commas.
func join(list []any) string {
	var names []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			names = append(names, s)
		}
	}
	return strings.Join(names, ", ")
}

func get(r Ref) string      { return kubectl("get", r) }
func describe(r Ref) string { return kubectl("describe", r) }

func kubectl(verb string, r Ref) string {
	kind := strings.ToLower(r.Kind)
	if r.Group != "" {
		kind += "." + r.Group
	}
	if r.Namespace == "" {
		return fmt.Sprintf("kubectl %s %s %s", verb, kind, r.Name)
	}
	return fmt.Sprintf("kubectl %s -n %s %s %s", verb, r.Namespace, kind, r.Name)
}
