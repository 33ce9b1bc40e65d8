package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Desired is one object as Git declares it.
type Desired struct {
	// Digest is the digest of the configuration.
	Digest string
	// Config returns the configuration; it is only called for objects that are not plainly in sync.
	// The result is not changed.
	Config func() (map[string]any, error)
}

// Observed is what the metadata of the live object says.
type Observed struct {
	Exists  bool
	Applied Applied
	// Fields is the digest of the fields we own now; see OwnFields.
	Fields string
	// Touched says that a person's tool has written to the object, so that it may have added fields.
	Touched bool
	// Managed are the managed fields. They may be left out where Whole holds for the observation alone: then a change
	// in Git is seen as such, but what to do about each field cannot be told.
	Managed []metav1.ManagedFieldsEntry
}

// Whole reports whether everything that was last applied is still ours, nothing was left to others and no person's
// tool added anything: then only a change in Git can bring the object out of sync.
func (o Observed) Whole() bool {
	return o.Exists && o.Applied.Left == "" && !o.Touched && o.Fields != "" && o.Fields == o.Applied.Fields
}

// Touched reports whether a person's tool has an entry among the managed fields from which additions are undone.
func Touched(entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return undone(claim{owner: ownerOf(&e)}) })
}

// State is how an object stands against Git.
type State string

const (
	InSync  State = "Synced"
	Missing State = "Missing" // not there
	Changed State = "Changed" // Git has another configuration than the one last applied
	Drifted State = "Drifted" // fields were taken or added, and are to be put right
	Held    State = "Held"    // fields were taken, and are left as they are
)

// Comparison is the result of Compare.
type Comparison struct {
	State State
	// Losses are the declared fields that somebody else owns, each with what to do about it.
	Losses []DecidedLoss
	// Extras are fields that people's tools added.
	Extras []Extra
	// Release are fields that we own and are about to stop applying, whose value must stay as it is.
	Release []fieldpath.Path

	ctx      Context // that it was decided in
	leaveOut [][]string
	emptied  [][]string // see Emptied
	forced   bool       // the API server has asked for it
}

// DecidedLoss is a loss and what to do about it.
type DecidedLoss struct {
	Loss
	Decision
}

// Compare tells how an object stands and what to do about each of its fields; manager is our own field manager.
// For an object in sync it allocates nothing and does not look at its configuration.
func Compare(d Desired, o Observed, c Context, manager string) (Comparison, error) {
	switch {
	case !o.Exists:
		return Comparison{State: Missing}, nil
	case o.Applied.Config == d.Digest && (o.Whole() || o.Unmanaged()):
		return Comparison{State: InSync}, nil
	case o.Unmanaged():
		return Comparison{State: Changed}, nil
	case o.Whole() && o.Managed == nil:
		return Comparison{State: Changed}, nil
	}
	config, err := d.Config()
	if err != nil {
		return Comparison{}, err
	}
	fields, err := ParseFields(o.Managed, manager)
	if err != nil {
		return Comparison{}, fmt.Errorf("comparing %s: %w", c.Object, err)
	}
	return compare(config, fields, c, change{git: d.Digest != o.Applied.Config, fields: o.Fields != o.Applied.Fields, left: o.Applied.Left}), nil
}

// change is what the digests alone say.
type change struct {
	git    bool   // Git has another configuration than the one last applied
	fields bool   // we own other fields than those that applying it gave us
	left   string // the digest of what was left to others then
}

func compare(config map[string]any, fields Fields, c Context, changed change) Comparison {
	c.Policies = selected(c.Policies, config)
	cmp := Comparison{State: InSync, ctx: c}
	held := false
	walked := walk(config, fields)
	for _, l := range walked.losses {
		d := l.decided(c)
		if d.Verdict != Enforce {
			if l.empty && l.Owner == (Owner{}) {
				continue // nobody's, and not ours to list: see maybeOurs
			}
			held = held || d.Verdict == Hold
			cmp.leaveOut = append(cmp.leaveOut, l.Pointer)
		}
		cmp.Losses = append(cmp.Losses, d)
	}
	leftOthers := changed.left != cmp.Left()
	cmp.Losses = slices.DeleteFunc(cmp.Losses, func(l DecidedLoss) bool { return l.Verdict == Enforce && l.maybeOurs(changed, leftOthers) })
	enforced := slices.ContainsFunc(cmp.Losses, func(l DecidedLoss) bool { return l.Verdict == Enforce })
	extras, stay := Extras(config, fields, c)
	cmp.Extras, held = extras, held || len(stay) > 0
	// Where no loss shows it: the last field of a map without a schema, whose own place is still ours.
	missing := changed.fields && (len(cmp.Losses) == 0 || walked.whole && isCustom(config) || len(fields.surplus(config)) > 0)
	cmp.Losses = append(cmp.Losses, stay...)
	switch {
	case changed.git:
		cmp.State = Changed
	case enforced, len(cmp.Extras) > 0, missing:
		cmp.State = Drifted
	case held:
		cmp.State = Held
	}
	if cmp.State == Changed || cmp.State == Drifted {
		cmp.release(config, fields, c)
	}
	return cmp
}

// isCustom reports whether config is of a custom resource, as far as its group tells: the built-in kinds have no maps
// without a schema.
func isCustom(config map[string]any) bool {
	version, _ := config["apiVersion"].(string)
	group, _, _ := strings.Cut(version, "/")
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// maybeOurs reports whether an empty list that is to be as Git declares it need not be a loss: one with keys, or a set, is
// never listed as ours. It is taken for lost when something is missing that applying gave us, or when it may have been left
// to its owner then, and putting it back does no harm.
func (l Loss) maybeOurs(changed change, leftOthers bool) bool {
	return l.empty && (changed.git || !changed.fields && (!leftOthers || l.Owner == (Owner{})))
}

// surplus returns the fields of ours that config does not declare. They are there after a change that was cut off half way.
func (f Fields) surplus(config map[string]any) []fieldpath.Path {
	if f.own == nil {
		return nil
	}
	var paths []fieldpath.Path
	for p := range f.own.All() {
		if !left(p) && !f.declared(config, p) {
			paths = append(paths, p.Copy())
		}
	}
	return paths
}

// Forced reports whether putting the object right takes fields from somebody. Where Git has changed, that is only known
// once the API server has said which fields it does not give us without force: force would take all, also those which
// others apply as we do. The same holds where only the API server can tell whose a list item is. See Contest.
func (c Comparison) Forced() bool {
	unsure := slices.ContainsFunc(c.Losses, func(l DecidedLoss) bool { return l.unsure })
	return c.forced || !unsure && c.State == Drifted && slices.ContainsFunc(c.Losses, func(l DecidedLoss) bool { return l.Verdict == Enforce && l.Owner.Manager != "" })
}

// Conflict is a field that the API server did not give us without force.
type Conflict struct {
	Path  string // as managed fields write it
	Owner Owner  // without a time
}

// Contest returns c with the fields of conflicts decided about too, as if they were lost: they are others' as well as
// ours and Git changes their value, or their owner shows in no managed field. unknown are those that cannot be left to
// their owner, since managed fields name them in another version of the API than config is written in.
func (c Comparison) Contest(config map[string]any, o Observed, conflicts []Conflict, ctx Context, manager string) (_ Comparison, unknown []DecidedLoss, err error) {
	fields, err := ParseFields(o.Managed, manager)
	if err != nil {
		return c, nil, fmt.Errorf("comparing %s: %w", ctx.Object, err)
	}
	ctx.Policies = selected(ctx.Policies, config)
	c.Losses, c.leaveOut = slices.Clip(c.Losses), slices.Clip(c.leaveOut)
	for _, conflict := range conflicts {
		l := fields.contested(config, conflict)
		d := l.decided(ctx)
		if !slices.ContainsFunc(c.Losses, func(have DecidedLoss) bool { return have.Path.Equals(l.Path) }) {
			c.Losses = append(c.Losses, d)
		}
		c.forced = c.forced || d.Verdict == Enforce
		switch {
		case d.Verdict == Enforce:
		case len(l.Pointer) > 0:
			c.leaveOut = append(c.leaveOut, l.Pointer)
		default:
			unknown = append(unknown, d)
		}
	}
	return c, unknown, nil
}

// contested finds the field that a conflict is about, and its owner.
func (f Fields) contested(config map[string]any, conflict Conflict) Loss {
	l := Loss{Owner: conflict.Owner}
	for _, c := range f.foreign {
		untimed := c.owner
		untimed.Time = time.Time{}
		if untimed != conflict.Owner {
			continue
		}
		l.Owner = c.owner
		c.set.Iterate(func(p fieldpath.Path) {
			if l.Path == nil && p.String() == conflict.Path {
				l.Path = p.Copy()
			}
		})
		if l.Path != nil {
			l.Pointer, _ = f.pointer(config, l.Path)
			return l
		}
	}
	l.Path = fieldpath.Path{fieldpath.FieldNameElement(strings.TrimPrefix(conflict.Path, "."))}
	return l
}

// Partial reports whether some declared fields are left to others.
func (c Comparison) Partial() bool { return len(c.leaveOut) > 0 }

// Left returns the digest of the declared fields that are left to others, "" for none.
func (c Comparison) Left() string {
	if len(c.leaveOut) == 0 {
		return ""
	}
	pointers := slices.Clone(c.leaveOut)
	slices.SortFunc(pointers, comparePointers)
	var text []byte
	for _, p := range slices.CompactFunc(pointers, slices.Equal) {
		text = fmt.Appendf(text, "%q\n", p)
	}
	return Digest(text)
}

// Apply returns the configuration to apply: config less what is left to others. config is not changed.
func (c Comparison) Apply(config map[string]any) map[string]any {
	if len(c.leaveOut) == 0 {
		return config
	}
	out := config
	// From the end, so that taking out a list item does not move the ones before it.
	pointers := slices.Clone(c.leaveOut)
	slices.SortFunc(pointers, func(a, b []string) int { return -comparePointers(a, b) })
	for _, p := range pointers {
		if v, keep := without(out, p); keep {
			out = v.(map[string]any)
		}
	}
	return out
}

// Leaving is what becomes of a field of ours that Git or a policy gives up.
type Leaving struct{ Field, Becomes, Why string }

// Leavings says which fields keep their value when they are given up, and which are removed; see release.
var Leavings = []Leaving{
	{".spec.replicas that leaves Git", "keeps its value", "a workload would else fall to one replica, which is what the API server makes of none"},
	{".spec.replicas, once an autoscaler targets the workload", "keeps its value", "the autoscaler has it from there"},
	{"a field that a policy now yields", "keeps its value", "whoever it is left to has it from there"},
	{"any other field that leaves Git", "is removed", "as server-side apply does: taking a line out means just that"},
}

// release finds the fields that are ours and are to be handed over with their value:
// the size of a workload when its line leaves Git or an autoscaler arrives, and what a policy now leaves to others.
// Every other field that leaves Git is removed, as server-side apply does: taking a line out means just that.
func (c *Comparison) release(config map[string]any, fields Fields, ctx Context) {
	if fields.own == nil {
		return
	}
	for p := range fields.own.All() {
		pointer, ok := fields.pointer(config, p)
		if undeclared := !ok && IsReplicas(p); !undeclared && !handsOver(Loss{Path: p, Pointer: fields.way(config, p)}, ctx) {
			continue
		}
		c.Release = append(c.Release, p.Copy())
		if ok {
			c.leaveOut = append(c.leaveOut, pointer)
		}
	}
}

// handsOver reports whether a field that is ours is left to whoever comes: by a policy that names it and no managers, or
// to an autoscaler. As in the chain, policies come first.
func handsOver(leaf Loss, ctx Context) bool {
	if isMark(leaf.Path) {
		return false
	}
	if isKey(leaf.Path) {
		leaf = itemOf(leaf)
	}
	for _, p := range ctx.Policies {
		switch {
		case !p.Matches(ctx.Object, leaf):
		case p.Verdict != Yield:
			return false
		case len(p.Paths) > 0:
			return true
		}
	}
	return ctx.Autoscaler != "" && IsReplicas(leaf.Path)
}

// comparePointers orders list indexes as numbers.
func comparePointers(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		if isIndex(x) && isIndex(y) && len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
}

// without returns a copy of v that lacks what pointer leads to, and keep=false when nothing is left of it.
// Only the way to it is copied.
func without(v any, pointer []string) (_ any, keep bool) {
	if len(pointer) == 0 {
		return nil, false
	}
	switch at := v.(type) {
	case map[string]any:
		child, ok := at[pointer[0]]
		if !ok {
			return v, true
		}
		out := make(map[string]any, len(at))
		for k, x := range at {
			out[k] = x
		}
		if rest, keep := without(child, pointer[1:]); keep {
			out[pointer[0]] = rest
		} else {
			delete(out, pointer[0])
		}
		return out, len(out) > 0
	case []any:
		i, err := strconv.Atoi(pointer[0])
		if err != nil || i < 0 || i >= len(at) {
			return v, true
		}
		out := slices.Clone(at)
		if rest, keep := without(at[i], pointer[1:]); keep {
			out[i] = rest
		} else {
			out = slices.Delete(out, i, i+1)
		}
		return out, len(out) > 0
	}
	return v, true
}
