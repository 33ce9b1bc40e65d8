package why

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people: the sentence, the chain, the events, what else is not healthy and the command to type next.
func (r Report) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Cause)
	r.writeChain(&b)
	r.writeEvents(&b)
	r.writeOthers(&b)
	if r.Next != "" {
		fmt.Fprintf(&b, "\nNEXT\n  %s\n", r.Next)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r Report) writeChain(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "CHAIN\tAGE\tCONDITION\n")
	for depth, link := range r.Chain {
		condition := oneLine(link.Condition)
		if link.Stuck {
			condition += "  <- stuck here"
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\n", strings.Repeat("  ", depth), link.title(), r.age(link.Since), condition)
		for _, note := range link.Notes {
			fmt.Fprintf(w, "\t\t  %s\n", oneLine(note))
		}
	}
	w.Flush()
}

// title returns "Deployment shop/web", or "20 Pods shop/web-1, web-2 …".
func (l Link) title() string {
	if len(l.Alike) < 2 {
		return l.Ref.String()
	}
	shown := l.Alike[:min(len(l.Alike), 2)]
	title := fmt.Sprintf("%d %ss %s/%s", len(l.Alike), l.Kind, l.Namespace, strings.Join(shown, ", "))
	if len(l.Alike) > len(shown) {
		title += " …"
	}
	return title
}

func (r Report) writeEvents(b *strings.Builder) {
	if len(r.Events) == 0 {
		return
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "EVENTS\tTYPE\tREASON\tABOUT\tMESSAGE\n")
	for _, e := range r.Events {
		message := oneLine(e.Message)
		if e.Count > 1 {
			message += fmt.Sprintf(" (%d times)", e.Count)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.age(e.Time), e.Type, e.Reason, e.About, message)
	}
	w.Flush()
}

func (r Report) writeOthers(b *strings.Builder) {
	if len(r.Others) == 0 {
		return
	}
	b.WriteString("\nALSO NOT HEALTHY\n")
	for _, other := range r.Others {
		fmt.Fprintf(b, "  %s  %s\n", other.Ref, oneLine(other.Condition))
	}
}

// age returns how long ago something was, or "-" where that is not known.
func (r Report) age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return roughly(r.Now.Sub(since))
}

func oneLine(s string) string { return cmp.Or(strings.Join(strings.Fields(s), " "), "-") }
