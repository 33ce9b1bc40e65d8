package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// listTable has one row for each Application.
func listTable(apps []*v1alpha1.Application, wide bool) *table {
	t := &table{}
	names := []string{"NAMESPACE", "NAME", "SYNC", "HEALTH", "REVISION", "OBJECTS", "AGE"}
	if wide {
		names = append(names, "LAST SYNC", "REPOSITORY", "PATH", "TARGET")
	}
	t.header(append(names, "MESSAGE")...)
	for _, app := range apps {
		row := append([]cell{{text: app.Namespace}}, stateCells(app)...)
		row = append(row, cell{text: age(app.CreationTimestamp)})
		if wide {
			src := app.Spec.MainSource()
			row = append(row, cell{text: lastSync(app)}, cell{text: source.RedactURL(src.RepoURL)},
				cell{text: cmp.Or(src.Path, src.Chart, ".") + moreSources(app)}, cell{text: cmp.Or(src.TargetRevision, defaultTarget(src))})
		}
		t.add(append(row, cell{text: message(app)})...)
	}
	return t
}

// moreSources says behind the first source of an Application that there are others.
func moreSources(app *v1alpha1.Application) string {
	if n := len(app.Spec.Sources); n > 1 {
		return " and " + words.Count(n-1, "more source")
	}
	return ""
}

// defaultTarget is what a source follows that says nothing.
func defaultTarget(src *v1alpha1.Source) string {
	if src.Chart != "" {
		return "*"
	}
	return "HEAD"
}

// changeRow is a row that stands alone, below earlier ones.
func changeRow(app *v1alpha1.Application) []cell {
	row := append([]cell{{text: app.Namespace + "/"}}, stateCells(app)...)
	row[1].text, row = row[0].text+row[1].text, row[1:]
	return append(row, cell{text: message(app)})
}

func stateCells(app *v1alpha1.Application) []cell {
	st := app.Status
	sync := cmp.Or(st.Sync.Status, v1alpha1.SyncUnknown)
	health := cmp.Or(st.Health.Status, "Unknown")
	return []cell{
		{text: app.Name},
		{string(sync), syncStyle(sync)},
		{health, healthStyle(health)},
		{text: cmp.Or(shortRevision(st.Sync.Revision), "-")},
		{text: fmt.Sprintf("%d/%d", st.Objects.Synced, st.Objects.Total)},
	}
}

// message says in one line why an Application is not Ready, or that its status is not about the newest spec.
func message(app *v1alpha1.Application) string {
	switch ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady); {
	case app.DeletionTimestamp != nil && ready != nil && ready.Reason == v1alpha1.ReasonDeleting:
		return firstLine(ready.Message)
	case app.DeletionTimestamp != nil:
		return strings.Join(nonEmpty("being deleted", strings.Join(app.Finalizers, ", ")), ": waits until its finalizers are taken off: ")
	case app.Status.ObservedGeneration == 0:
		return "the agent has not looked at it yet"
	case isStale(app):
		return "the agent has not yet looked at the newest spec"
	case ready != nil && ready.Status != metav1.ConditionTrue:
		return firstLine(ready.Message)
	}
	return ""
}

// isStale reports whether the status is older than the spec.
func isStale(app *v1alpha1.Application) bool { return app.Status.ObservedGeneration < app.Generation }

func firstLine(text string) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if more {
		line += " …"
	}
	return line
}

func shortRevision(revision string) string { return v1alpha1.ShortRevision(revision) }

func lastSync(app *v1alpha1.Application) string {
	op := app.Status.OperationState
	switch {
	case op == nil:
		return "-"
	case op.FinishedAt == nil:
		return string(op.Phase)
	}
	return fmt.Sprintf("%s %s ago", op.Phase, age(*op.FinishedAt))
}

// age says how long ago t was, as kubectl does.
func age(t metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(time.Since(t.Time))
}
