package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// shownHistory is how many of the last syncs are shown.
const shownHistory = 5

// shownWarnings is how many warnings are shown: "trueup render" prints them all.
const shownWarnings = 10

// describe writes everything of an Application but its objects.
func describe(w io.Writer, p palette, app *v1alpha1.Application) {
	head := table{}
	for _, row := range headRows(app, p) {
		head.add(cell{row.label, bold}, cell{text: row.text})
	}
	head.write(w, p)
	for _, part := range []struct {
		title string
		table *table
	}{
		{"Conditions that are not met", conditionTable(app.Status.Conditions)},
		{"Warnings", warningTable(sync.Warnings(app))},
		{"Fields that others own", driftTable(app.Status.Drift, app.Status.DriftOmitted)},
		{"Hooks of the last sync", hookTable(app.Status.Hooks)},
		{"Last syncs", historyTable(app.Status.History)},
	} {
		if len(part.table.rows) > 0 {
			fmt.Fprintf(w, "\n%s\n", p.paint(bold, part.title))
			part.table.write(w, p)
		}
	}
}

// headRow is one line of the head; its text may be coloured already.
type headRow struct{ label, text string }

func headRows(app *v1alpha1.Application, p palette) []headRow {
	st := app.Status
	rows := append([]headRow{{"Application", app.Namespace + "/" + app.Name}}, sourceRows(app)...)
	if ns := app.Spec.Destination.Namespace; ns != "" {
		rows = append(rows, headRow{"Destination", "namespace " + ns})
	}
	state := cmp.Or(st.Sync.Status, v1alpha1.SyncUnknown)
	health := cmp.Or(st.Health.Status, "Unknown")
	rows = append(rows,
		headRow{"Policy", policyWords(app.Spec.SyncPolicy)},
		headRow{"Sync", join(p.paint(syncStyle(state), string(state)), syncWords(app))},
		headRow{"Health", join(p.paint(healthStyle(health), health), healthWords(st.Health))},
	)
	for _, sig := range st.Sync.Signatures {
		rows = append(rows, headRow{"Signed", strings.TrimSpace(fmt.Sprintf("%s %s by %s", sig.Source, sig.Mode, sig.Signer))})
	}
	if op := st.OperationState; op != nil {
		rows = append(rows, headRow{"Operation", join(p.paint(phaseStyle(op.Phase), string(op.Phase)), operationWords(op))})
	}
	if text := message(app); text != "" && !isConditionMessage(app, text) {
		rows = append(rows, headRow{"Message", text})
	}
	return rows
}

// sourceRows say where the Application comes from; of several sources, at which commit each of them is.
func sourceRows(app *v1alpha1.Application) []headRow {
	sources, _ := app.Spec.AllSources()
	if len(sources) == 1 {
		src := sources[0]
		if src.Chart != "" {
			return []headRow{{"Repository", source.RedactURL(src.RepoURL)}, {"Chart", chartWords(src)}}
		}
		return []headRow{
			{"Repository", source.RedactURL(src.RepoURL)},
			{"Path", cmp.Or(src.Path, ".") + " at " + cmp.Or(src.TargetRevision, "HEAD")},
		}
	}
	var rows []headRow
	for i, src := range sources {
		text := source.RedactURL(src.RepoURL) + sourceWords(src)
		if commits := app.Status.Sync.Revisions; len(commits) == len(sources) {
			text += ", which is " + shortRevision(commits[i])
		}
		rows = append(rows, headRow{fmt.Sprintf("Source %d", i), text})
	}
	return rows
}

// sourceWords say what of a repository a source is.
func sourceWords(src v1alpha1.Source) (text string) {
	if src.Chart != "" {
		return ", chart " + chartWords(src)
	}
	if src.IsRendered() {
		text += ", path " + cmp.Or(src.Path, ".")
	}
	if src.Ref != "" {
		text += ", as $" + src.Ref
	}
	return text + " at " + cmp.Or(src.TargetRevision, defaultTarget(&src))
}

func chartWords(src v1alpha1.Source) string {
	return src.Chart + ", version " + cmp.Or(src.TargetRevision, defaultTarget(&src))
}

// join joins what there is of texts, with commas.
func join(texts ...string) string { return strings.Join(nonEmpty(texts...), ", ") }

func policyWords(policy *v1alpha1.SyncPolicy) string {
	if policy == nil || policy.Automated == nil || policy.Automated.Enabled != nil && !*policy.Automated.Enabled {
		return `manual: "trueup sync" syncs`
	}
	words := []string{"automated"}
	if policy.Automated.Prune {
		words = append(words, "prune")
	}
	if policy.Automated.SelfHeal {
		words = append(words, "self-heal")
	}
	return strings.Join(words, ", ")
}

func syncWords(app *v1alpha1.Application) string {
	st := app.Status
	text := fmt.Sprintf("%d of %s", st.Objects.Synced, words.Count(st.Objects.Total, "object"))
	if st.Sync.Revision != "" {
		text += " with " + shortRevision(st.Sync.Revision)
	}
	if st.Sync.FailedRevision != "" {
		text += "; the newer " + shortRevision(st.Sync.FailedRevision) + " cannot be used"
	}
	return text
}

func healthWords(h v1alpha1.HealthStatus) string {
	if h.LastTransitionTime == nil {
		return firstLine(h.Message)
	}
	since := "since " + age(*h.LastTransitionTime)
	if h.Message == "" {
		return since
	}
	return since + ": " + firstLine(h.Message)
}

func operationWords(op *v1alpha1.OperationState) string {
	when := "since " + age(op.StartedAt)
	if op.FinishedAt != nil {
		when = age(*op.FinishedAt) + " ago"
	}
	if op.Retries > 0 {
		when += ", after " + words.Count(op.Retries, "failure")
	}
	if op.Message == "" {
		return when
	}
	return when + ": " + strings.TrimSpace(op.Message)
}

func phaseStyle(phase v1alpha1.Phase) style {
	switch phase {
	case v1alpha1.PhaseSucceeded:
		return green
	case v1alpha1.PhaseFailed:
		return red
	}
	return cyan
}

// isUnmet reports whether a condition is shown. Ready sums up the others, so it is not.
func isUnmet(c metav1.Condition) bool {
	return c.Status != metav1.ConditionTrue && c.Type != v1alpha1.ConditionReady
}

// isConditionMessage reports whether text is shown with a condition anyway.
func isConditionMessage(app *v1alpha1.Application, text string) bool {
	return slices.ContainsFunc(app.Status.Conditions, func(c metav1.Condition) bool {
		return isUnmet(c) && firstLine(c.Message) == text
	})
}

func conditionTable(conditions []metav1.Condition) *table {
	t := &table{indent: "  "}
	for _, c := range conditions {
		if !isUnmet(c) {
			continue
		}
		lines := strings.Split(strings.TrimSpace(c.Message), "\n")
		t.add(cell{text: c.Type}, cell{string(c.Status), red}, cell{text: c.Reason}, cell{text: lines[0]})
		for _, line := range lines[1:] {
			t.add(cell{}, cell{}, cell{}, cell{text: line})
		}
	}
	return t
}

func warningTable(warnings []string) *table {
	t := &table{indent: "  "}
	for _, w := range warnings[:min(shownWarnings, len(warnings))] {
		t.add(cell{text: firstLine(w)})
	}
	if more := len(warnings) - shownWarnings; more > 0 {
		t.add(cell{text: fmt.Sprintf("and %d more", more)})
	}
	return t
}

// driftTable reads: Deployment shop/web .spec.replicas ← kubectl (scale) 3m ago  Enforce  put back: …
func driftTable(drift []v1alpha1.FieldDrift, omitted int) *table {
	t := &table{indent: "  "}
	for _, d := range drift {
		owner := ownerName(d.Manager, d.Subresource)
		if d.Time != nil {
			owner += " " + age(*d.Time) + " ago"
		}
		t.add(cell{text: objectName(d.ObjectReference)}, cell{text: d.Path + " ← " + owner},
			cell{d.Decision, yellow}, cell{text: d.Reason})
	}
	if omitted > 0 {
		t.add(cell{text: fmt.Sprintf("and %d more", omitted)})
	}
	return t
}

// hookTable reads: PreSync  Job shop/migrate  Failed  0 of 1 pods succeeded …
func hookTable(run *v1alpha1.HooksStatus) *table {
	t := &table{indent: "  "}
	if run == nil {
		return t
	}
	for _, h := range run.Hooks {
		text := firstLine(h.Message)
		switch {
		case h.State == v1alpha1.PhaseRunning:
			text = strings.Join(nonEmpty("since "+age(h.StartedAt)+", until "+h.Deadline.UTC().Format("2006-01-02 15:04 MST"), text), ": ")
		case h.FinishedAt != nil:
			text = strings.Join(nonEmpty(age(*h.FinishedAt)+" ago", text), ": ")
		}
		t.add(cell{text: h.Phase}, cell{text: objectName(h.ObjectReference)}, cell{string(h.State), phaseStyle(h.State)}, cell{text: text})
	}
	return t
}

// ownerName names who has a field.
func ownerName(manager, subresource string) string {
	if subresource != "" {
		return manager + " (" + subresource + ")"
	}
	return cmp.Or(manager, "unknown")
}

func historyTable(history []v1alpha1.SyncRecord) *table {
	t := &table{indent: "  "}
	for _, r := range history[:min(shownHistory, len(history))] {
		t.add(cell{text: age(r.FinishedAt) + " ago"}, cell{text: shortRevision(r.Revision)},
			cell{string(r.Result), phaseStyle(r.Result)}, cell{text: r.InitiatedBy},
			cell{text: strings.Join(nonEmpty(changes(r), firstLine(r.Message)), ": ")})
	}
	return t
}

// changes says what a sync did, without the noughts.
func changes(r v1alpha1.SyncRecord) string {
	var words []string
	for _, c := range []struct {
		n    int
		word string
	}{{r.Created, "created"}, {r.Updated, "updated"}, {r.Healed, "healed"}, {r.Pruned, "pruned"}, {r.Failed, "failed"}} {
		if c.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	return strings.Join(words, ", ")
}

func nonEmpty(texts ...string) []string {
	var kept []string
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

// objectName is how an object is written for people: Deployment shop/web.
func objectName(ref v1alpha1.ObjectReference) string {
	if ref.Namespace == "" {
		return ref.Kind + " " + ref.Name
	}
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name
}
