package why

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
)

// maxEvents is how many events a report shows.
const maxEvents = 10

// address is what differs between the events of alike pods.
var address = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// readEvent reads an event of v1 or of events.k8s.io/v1.
func readEvent(o fields.Map) Event {
	about := o.At("involvedObject")
	if about == nil {
		about = o.At("regarding")
	}
	group, _, found := strings.Cut(about.Str("apiVersion"), "/")
	if !found {
		group = ""
	}
	e := Event{
		Type: o.Str("type"), Reason: o.Str("reason"),
		Message: strings.TrimSpace(strings.TrimPrefix(cmp.Or(o.Str("message"), o.Str("note")), "(combined from similar events): ")),
		About:   Ref{Group: group, Kind: about.Str("kind"), Namespace: about.Str("namespace"), Name: about.Str("name")},
		Count:   max(1, o.Num("count"), o.Num("deprecatedCount"), o.At("series").Num("count")),
	}
	for _, at := range []string{
		o.At("series").Str("lastObservedTime"), o.Str("lastTimestamp"), o.Str("deprecatedLastTimestamp"), o.Str("eventTime"),
		o.Str("firstTimestamp"), o.At("metadata").Str("creationTimestamp"),
	} {
		if e.Time = parseTime(at); !e.Time.IsZero() {
			break
		}
	}
	return e
}

// latest returns the newest event about ref with one of the reasons that text occurs in; ok is false where there is none.
func (x *index) latest(ref Ref, text string, reasons ...string) (newest Event, ok bool) {
	for _, e := range x.events[ref] {
		if slices.Contains(reasons, e.Reason) && strings.Contains(e.Message, text) && (!ok || e.Time.After(newest.Time)) {
			newest, ok = e, true
		}
	}
	return newest, ok
}

// relevant returns the events about the chain's objects, oldest first: alike ones once, warnings before others where
// there are too many.
func (x *index) relevant(chain []Link) []Event {
	about := make(map[Ref]Ref) // each object of the chain, and the one that stands for it
	for _, link := range chain {
		about[link.Ref] = link.Ref
		for _, name := range link.Alike {
			alike := link.Ref
			alike.Name = name
			about[alike] = link.Ref
		}
	}
	merged := make(map[Event]Event)
	for of, ref := range about {
		for _, e := range x.events[of] {
			merge(merged, e, ref)
		}
	}
	all := make([]Event, 0, len(merged))
	for _, e := range merged {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Event) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), b.Time.Compare(a.Time), compareEvents(a, b))
	})
	all = all[:min(len(all), maxEvents)]
	slices.SortFunc(all, func(a, b Event) int { return cmp.Or(a.Time.Compare(b.Time), compareEvents(a, b)) })
	return all
}

// merge adds e to what was said alike of the object that ref stands for, and keeps the newest message.
func merge(merged map[Event]Event, e Event, ref Ref) {
	message := e.Message
	if e.About.Name != ref.Name {
		message = strings.ReplaceAll(message, e.About.Name, ref.Name)
	}
	key := Event{Type: e.Type, Reason: e.Reason, Message: address.ReplaceAllString(message, "IP"), About: ref}
	if e.Reason == "FailedCreate" || e.Reason == "SuccessfulCreate" {
		key.Message = "" // it has another pod's name each time
	}
	sum, seen := merged[key]
	newer := e.Time.Compare(sum.Time)
	if !seen || newer > 0 || newer == 0 && message < sum.Message {
		sum.Message, sum.Time = message, e.Time
	}
	sum.Type, sum.Reason, sum.About = e.Type, e.Reason, ref
	sum.Count += e.Count
	merged[key] = sum
}

func weight(e Event) int {
	if e.Type == "Warning" {
		return 1
	}
	return 0
}

func compareEvents(a, b Event) int {
	return cmp.Or(cmp.Compare(a.About.String(), b.About.String()), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}
