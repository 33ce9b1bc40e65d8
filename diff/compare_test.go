package diff

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// observed is what the metadata of an object with these managed fields says; applied is the annotation, and WHOLE in
// it stands for the digest of our own entry.
func observed(t testing.TB, applied, lines string) Observed {
	t.Helper()
	entries := managed(t, lines)
	own := OwnFields(entries, manager)
	return Observed{
		Exists: true, Applied: ParseApplied(strings.ReplaceAll(applied, "WHOLE", own)), Fields: own, Touched: Touched(entries), Managed: entries,
	}
}

// from declares a configuration with the digest git.
func from(t testing.TB, manifest string) Desired {
	return Desired{Digest: "git", Config: func() (map[string]any, error) { return config(t, withKind(manifest)), nil }}
}

func TestCompare(t *testing.T) {
	const declared = `{spec: {replicas: 2, image: x}}`
	const whole = `trueup Apply {"f:spec": {"f:replicas": {}, "f:image": {}}}`
	const less = `trueup Apply {"f:spec": {"f:image": {}}}`
	scaledByHPA := less + "\nkube-controller-manager Update/scale {\"f:spec\": {\"f:replicas\": {}}}"
	web := Context{Object: ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}}
	autoscaled := web
	autoscaled.Autoscaler = "HorizontalPodAutoscaler shop/web"
	yields := func(path string, v Verdict) Context {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		c := web
		c.Policies = []Policy{{Verdict: v, Paths: []PathPattern{p}, Source: "spec.fieldPolicies[0]"}}
		return c
	}
	for name, c := range map[string]struct {
		observed Observed
		ctx      Context
		state    State
		losses   []string // path verdict
		extras   []string
		release  []string
		applied  string // what is left to apply, where it is not all
		forced   bool
	}{
		"not there":                   {observed: Observed{}, ctx: web, state: Missing},
		"in sync":                     {observed: observed(t, "git.WHOLE", whole), ctx: web, state: InSync},
		"in sync, and others touched": {observed: observed(t, "git.WHOLE", whole+"\nkubectl-label Update {\"f:metadata\": {\"f:labels\": {\"f:x\": {}}}}"), ctx: web, state: InSync},
		"Git has changed":             {observed: observed(t, "old.WHOLE", whole), ctx: web, state: Changed},
		"never applied":               {observed: observed(t, "", `kubectl-create Update {"f:spec": {"f:image": {}}}`), ctx: web, state: Changed, losses: []string{".spec.image Enforce", ".spec.replicas Enforce"}},
		"a field was taken":           {observed: observed(t, "git.whole", less+"\nkubectl-edit Update {\"f:spec\": {\"f:replicas\": {}}}"), ctx: web, state: Drifted, losses: []string{".spec.replicas Enforce"}, forced: true},
		"a field was removed": {
			observed: observed(t, "git.whole", `trueup Apply {"f:spec": {"f:replicas": {}}}`), ctx: web, state: Drifted, losses: []string{".spec.image Enforce"},
		},
		"a field was added":                     {observed: observed(t, "git.WHOLE", whole+"\nk9s Update {\"f:spec\": {\"f:paused\": {}}}"), ctx: web, state: Drifted, extras: []string{".spec.paused"}},
		"an autoscaler has taken the size":      {observed: observed(t, "git.whole", scaledByHPA), ctx: autoscaled, state: InSync, losses: []string{".spec.replicas Yield"}, applied: `{spec: {image: x}}`},
		"the autoscaler is gone":                {observed: observed(t, "git.WHOLE.0123456789abcdef0123", scaledByHPA), ctx: web, state: Drifted, losses: []string{".spec.replicas Enforce"}, forced: true},
		"a size was left to an autoscaler":      {observed: observed(t, "git.WHOLE.0123456789abcdef0123", scaledByHPA), ctx: autoscaled, state: InSync, losses: []string{".spec.replicas Yield"}, applied: `{spec: {image: x}}`},
		"another applier has taken a field":     {observed: observed(t, "git.whole", less+"\nflux Apply {\"f:spec\": {\"f:replicas\": {}}}"), ctx: web, state: Held, losses: []string{".spec.replicas Hold"}, applied: `{spec: {image: x}}`},
		"one field is held, another taken":      {observed: observed(t, "git.whole", "trueup Apply {\"f:x\": {}}\nflux Apply {\"f:spec\": {\"f:replicas\": {}}}\nk9s Update {\"f:spec\": {\"f:image\": {}}}"), ctx: web, state: Drifted, losses: []string{".spec.image Enforce", ".spec.replicas Hold"}, applied: `{spec: {image: x}}`, forced: true},
		"a fold that was cut off":               {observed: observed(t, "git.whole", `trueup Apply {"f:spec": {"f:replicas": {}, "f:image": {}, "f:paused": {}}}`), ctx: web, state: Drifted},
		"our own annotation is no surplus":      {observed: observed(t, "git.whole", `trueup Apply {"f:metadata": {"f:annotations": {"f:trueup.dev/applied": {}}}, "f:spec": {"f:image": {}}}`), ctx: autoscaled, state: InSync, losses: []string{".spec.replicas Yield"}, applied: `{spec: {image: x}}`},
		"Git has changed; an autoscaler is new": {observed: observed(t, "old.WHOLE", whole), ctx: autoscaled, state: Changed, release: []string{".spec.replicas"}, applied: `{spec: {image: x}}`},
		"in sync, though an autoscaler is new":  {observed: observed(t, "git.WHOLE", whole), ctx: autoscaled, state: InSync},
		"a policy that leaves a field to others, when something else is put right": {
			observed: observed(t, "git.whole", `trueup Apply {"f:spec": {"f:replicas": {}}}`), ctx: yields(".spec.replicas", Yield), state: Drifted, losses: []string{".spec.image Enforce"}, release: []string{".spec.replicas"}, applied: `{spec: {image: x}}`,
		},
		"a policy that enforces the size": {observed: observed(t, "old.WHOLE", whole), ctx: func() Context {
			c := yields(".spec.replicas", Enforce)
			c.Autoscaler = "HorizontalPodAutoscaler shop/web"
			return c
		}(), state: Changed},
		"the size has left Git": {
			observed: observed(t, "old.WHOLE", `trueup Apply {"f:spec": {"f:replicas": {}, "f:image": {}, "f:size": {}}}`), ctx: web, state: Changed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := from(t, declared)
			got, err := Compare(d, c.observed, c.ctx, manager)
			if err != nil {
				t.Fatal(err)
			}
			var losses, extras, release []string
			for _, l := range got.Losses {
				losses = append(losses, fmt.Sprintf("%s %s", l.Path, l.Verdict))
			}
			for _, e := range got.Extras {
				extras = append(extras, e.Path.String())
			}
			for _, p := range got.Release {
				release = append(release, p.String())
			}
			if d := cmp.Diff([]any{c.state, c.losses, c.extras, c.release, c.forced}, []any{got.State, losses, extras, release, got.Forced()}); d != "" {
				t.Errorf("comparison (-want +got):\n%s", d)
			}
			if got.Partial() != (c.applied != "") {
				t.Errorf("partial: %v", got.Partial())
			}
			full, _ := d.Config()
			want := full
			if c.applied != "" {
				want = config(t, withKind(c.applied))
			}
			if d := cmp.Diff(want, got.Apply(full)); d != "" {
				t.Errorf("what is applied (-want +got):\n%s", d)
			}
			if again, _ := d.Config(); !cmp.Equal(again, full) {
				t.Error("the configuration was changed")
			}
		})
	}
}

func TestWhatGitChangesIsForcedOnlyAsFarAsItMust(t *testing.T) {
	o := observed(t, "old.whole", `trueup Apply {"f:spec": {"f:b": {}}}
		kubectl-edit Update {"f:spec": {"f:a": {}}}
		flux Apply {"f:spec": {"f:b": {}}}`)
	d := from(t, `{spec: {a: 1, b: 2}}`)
	c, err := Compare(d, o, Context{}, manager)
	if err != nil || c.State != Changed || len(c.Losses) != 1 || c.Losses[0].Verdict != Enforce || c.Forced() {
		t.Fatalf("want the person's field to be a loss and no force yet, got %s, %+v, %v", c.State, c.Losses, err)
	}
	full, _ := d.Config()
	c, _, err = c.Contest(full, o, []Conflict{{".spec.a", updater("kubectl-edit")}, {".spec.b", applier("flux")}}, Context{}, manager)
	if err != nil || !c.Forced() || len(c.Losses) != 2 {
		t.Fatalf("want force now, and each field once; got %+v, %v", c.Losses, err)
	}
	if d := cmp.Diff(config(t, withKind(`{spec: {a: 1}}`)), c.Apply(full)); d != "" {
		t.Errorf("what is applied (-want +got):\n%s", d)
	}
}

func TestSizeThatLeavesGitIsHandedOver(t *testing.T) {
	o := observed(t, "old.WHOLE", `trueup Apply {"f:spec": {"f:replicas": {}, "f:image": {}, "f:paused": {}}}`)
	got, err := Compare(from(t, `{spec: {image: x}}`), o, Context{}, manager)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Release) != 1 || got.Release[0].String() != ".spec.replicas" {
		t.Errorf("want only the size to be handed over, any other field goes with its line; got %v", got.Release)
	}
}

func TestAFieldIsTakenFromNoneOfItsOwnersThatItIsLeftTo(t *testing.T) {
	o := observed(t, "git.whole", `kubectl Apply {"f:spec": {"f:image": {}}}
		tuner Update {"f:spec": {"f:image": {}}}`)
	for managers, want := range map[string]string{"tuner": "Yield tuner", "kubectl": "Yield kubectl", "another": "Enforce kubectl"} {
		ctx := Context{Policies: []Policy{{Verdict: Yield, Managers: []string{managers}}}}
		got, err := Compare(from(t, `{spec: {image: x}}`), o, ctx, manager)
		if err != nil || len(got.Losses) != 1 {
			t.Fatal(got.Losses, err)
		}
		if l := got.Losses[0]; fmt.Sprint(l.Verdict, " ", l.Owner.Manager) != want {
			t.Errorf("%s: got %s %s, want %s", managers, l.Verdict, l.Owner.Manager, want)
		}
	}
}

// A JSON pointer to a list item is about all below the item, also what Git does not declare there, or no longer.
func TestPointersReachWhatIsNotInGit(t *testing.T) {
	const web = `"k:{\"name\":\"web\"}"`
	o := observed(t, "old.WHOLE", `trueup Apply {"f:spec": {"f:containers": {`+web+`: {".": {}, "f:name": {}, "f:ports": {"k:{\"port\":53}": {".": {}, "f:port": {}}}}}, "f:paused": {}}}
		kubectl-edit Update {"f:spec": {"f:containers": {`+web+`: {"f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}}}}}, "f:minReady": {}}}`)
	for pointer, want := range map[string][2]string{
		"/spec/containers/0":       {`[.spec.containers[name="web"] .spec.containers[name="web"].name .spec.containers[name="web"].ports[port=53] .spec.containers[name="web"].ports[port=53].port]`, `[.spec.minReady]`},
		"/spec/containers/0/ports": {`[.spec.containers[name="web"].ports[port=53] .spec.containers[name="web"].ports[port=53].port]`, `[.spec.containers[name="web"].env[name="A"] .spec.minReady]`},
		"/spec/containers/1":       {`[]`, `[.spec.containers[name="web"].env[name="A"] .spec.minReady]`},
		"/spec/paused":             {`[.spec.paused]`, `[.spec.containers[name="web"].env[name="A"] .spec.minReady]`},
	} {
		path, err := ParsePath(pointer)
		if err != nil {
			t.Fatal(err)
		}
		ctx := Context{Policies: []Policy{{Verdict: Yield, Paths: []PathPattern{path}}}}
		got, err := Compare(from(t, `{spec: {containers: [{name: web, ports: []}]}}`), o, ctx, manager)
		if err != nil {
			t.Fatal(err)
		}
		release, extras := []string{}, []string{}
		for _, p := range got.Release {
			release = append(release, p.String())
		}
		for _, e := range got.Extras {
			extras = append(extras, e.Path.String())
		}
		slices.Sort(release)
		if d := cmp.Diff(want, [2]string{fmt.Sprint(release), fmt.Sprint(extras)}); d != "" {
			t.Errorf("%s: -want +got:\n%s", pointer, d)
		}
	}
}

func TestWholeObservationWithoutManagedFieldsIsEnough(t *testing.T) {
	o := Observed{Exists: true, Applied: Applied{Config: "git", Fields: "own"}, Fields: "own"}
	unread := Desired{Digest: "git", Config: func() (map[string]any, error) { return nil, errors.New("the configuration was read") }}
	if got, err := Compare(unread, o, Context{}, manager); err != nil || got.State != InSync {
		t.Errorf("want Synced, got %s, %v", got.State, err)
	}
	unread.Digest = "new"
	if got, err := Compare(unread, o, Context{}, manager); err != nil || got.State != Changed {
		t.Errorf("want Changed, got %s, %v", got.State, err)
	}
	o.Touched = true
	if _, err := Compare(unread, o, Context{}, manager); err == nil {
		t.Error("want the error of the configuration")
	}
}

func TestEmptyListsAreNeverMissed(t *testing.T) {
	const declared = `{spec: {env: [], image: x}}`
	for name, c := range map[string]struct {
		managed, applied string
		want             State
	}{
		"nobody has anything of it":        {`trueup Apply {"f:spec": {"f:image": {}}}`, "git.WHOLE.0123456789abcdef0123", InSync},
		"somebody owns it empty":           {"trueup Apply {\"f:spec\": {\"f:image\": {}}}\noperator Update {\"f:spec\": {\"f:env\": {}}}\nkubectl-label Update {\"f:metadata\": {\"f:labels\": {}}}", "git.WHOLE", InSync},
		"it was left, and is ours to take": {"trueup Apply {\"f:spec\": {\"f:image\": {}}}\noperator Update {\"f:spec\": {\"f:env\": {}}}", "git.WHOLE.0123456789abcdef0123", Drifted},
		"it is missing with more":          {`trueup Apply {"f:metadata": {"f:labels": {"f:a": {}}}}`, "git.whole", Drifted},
	} {
		got, err := Compare(from(t, declared), observed(t, c.applied, c.managed), Context{}, manager)
		if err != nil || got.State != c.want {
			t.Errorf("%s: want %s, got %s, %v, %v", name, c.want, got.State, got.Losses, err)
		}
	}
}

// What was left to others is no news where the same is left to them now.
func TestEmptyListsAreNotMissedBesideWhatIsLeftToOthers(t *testing.T) {
	c := Context{Object: ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, Autoscaler: "HorizontalPodAutoscaler shop/web"}
	d := from(t, `{spec: {env: [], image: x, replicas: 2}}`)
	const lines = `trueup Apply {"f:spec": {"f:image": {}}}
		kube-controller-manager Update/scale {"f:spec": {"f:replicas": {}}}
		kubectl-edit Update {"f:spec": {"f:env": {}}}`
	first, err := Compare(d, observed(t, "git.WHOLE.0123456789abcdef0123", lines), c, manager)
	if err != nil || first.State != Drifted || first.Left() == "" {
		t.Fatalf("what else was left may have been the list: want it put back, got %s, %v", first.State, err)
	}
	if got, err := Compare(d, observed(t, "git.WHOLE."+first.Left(), lines), c, manager); err != nil || got.State != InSync {
		t.Errorf("it was put back: want no more of it, got %s, %v, %v", got.State, got.Losses, err)
	}
	c.Autoscaler = ""
	if got, err := Compare(d, observed(t, "git.WHOLE."+first.Left(), lines), c, manager); err != nil || got.State != Drifted || got.Left() != "" {
		t.Errorf("nothing is left to others any more: want %s, got %s, %v", Drifted, got.State, err)
	}
}

// Applying an item without one of its keys makes another item.
func TestKeysOfItemsAreNeverLeftOut(t *testing.T) {
	const declared = `{spec: {ports: [{port: 53, protocol: UDP, name: dns}]}}`
	const item = `"k:{\"port\":53,\"protocol\":\"UDP\"}"`
	path, err := ParsePath("/spec/ports/0/protocol")
	if err != nil {
		t.Fatal(err)
	}
	c := Context{Policies: []Policy{{Verdict: Yield, Paths: []PathPattern{path}, Source: "test"}}}
	for name, lines := range map[string]string{
		"ours":            `trueup Apply {"f:spec": {"f:ports": {` + item + `: {".": {}, "f:port": {}, "f:protocol": {}, "f:name": {}}}}}`,
		"somebody else's": `trueup Apply {"f:spec": {"f:ports": {` + item + `: {".": {}, "f:port": {}, "f:name": {}}}}}` + "\n" + `operator Update {"f:spec": {"f:ports": {` + item + `: {"f:protocol": {}}}}}`,
	} {
		got, err := Compare(from(t, declared), observed(t, "other.WHOLE", lines), c, manager)
		if err != nil || got.Partial() || len(got.Release) != 0 {
			t.Errorf("%s: want nothing left out or handed over, got %+v, %v", name, got, err)
		}
		whole, err := ParsePath(".spec.ports")
		if err != nil {
			t.Fatal(err)
		}
		c := Context{Policies: []Policy{{Verdict: Yield, Paths: []PathPattern{whole}, Source: "test"}}}
		d := from(t, declared)
		got, err = Compare(d, observed(t, "other.WHOLE", lines), c, manager)
		config, _ := d.Config()
		if left := got.Apply(config); err != nil || left["spec"] != nil {
			t.Errorf("%s: the whole list is left to others, but %v is applied, %v", name, left, err)
		}
	}
}

func TestFieldsOfMapsWithoutASchema(t *testing.T) {
	const declared = `{spec: {values: {image: {tag: x}}}}`
	const emptied = `trueup Apply {"f:spec": {"f:values": {"f:image": {}}}}`
	for name, c := range map[string]struct {
		managed, applied string
		want             State
		losses           int
	}{
		"ours":               {`trueup Apply {"f:spec": {"f:values": {"f:image": {".": {}, "f:tag": {}}}}}`, "git.WHOLE.0123456789abcdef0123", InSync, 0},
		"the last was taken": {emptied + "\n" + `operator Update {"f:spec": {"f:values": {"f:image": {"f:tag": {}}}}}`, "git.whole", Drifted, 1},
		"the last is gone":   {emptied, "git.whole", Drifted, 0},
		"owned as a whole":   {emptied, "git.WHOLE.0123456789abcdef0123", InSync, 0},
		"in another version": {emptied + "\n" + `operator@v2 Update {"f:spec": {"f:values": {"f:image": {"f:tag": {}}}}}`, "git.WHOLE.0123456789abcdef0123", InSync, 0},
	} {
		got, err := Compare(from(t, declared), observed(t, c.applied, c.managed), Context{}, manager)
		if err != nil || got.State != c.want || len(got.Losses) != c.losses {
			t.Errorf("%s: want %s, got %s, %v, %v", name, c.want, got.State, got.Losses, err)
		}
	}
}

func TestContestedFieldsAreDecidedAsIfTheyWereLost(t *testing.T) {
	const declared = `{spec: {a: 1, b: 2, c: 3}}`
	o := observed(t, "old.WHOLE", `trueup Apply {"f:spec": {"f:a": {}, "f:b": {}, "f:c": {}}}
		operator Update {"f:spec": {"f:a": {}}}
		flux Apply {"f:spec": {"f:b": {}}}`)
	d := from(t, declared)
	c, err := Compare(d, o, Context{}, manager)
	if err != nil || len(c.Losses) != 0 || c.Forced() {
		t.Fatalf("what is ours too is not lost, got %+v, %v", c.Losses, err)
	}
	full, _ := d.Config()
	contested := func(conflicts ...Conflict) (Comparison, []DecidedLoss) {
		t.Helper()
		next, unknown, err := c.Contest(full, o, conflicts, Context{}, manager)
		if err != nil {
			t.Fatal(err)
		}
		return next, unknown
	}

	next, unknown := contested(Conflict{".spec.a", updater("operator")}, Conflict{".spec.b", applier("flux")})
	if len(unknown) != 0 || !next.Forced() || next.Losses[0].Verdict != Enforce || next.Losses[1].Verdict != Hold {
		t.Errorf("want the operator's field enforced and the applier's held, got %+v, %v", next.Losses, unknown)
	}
	if want := times; !next.Losses[1].Owner.Time.After(want) {
		t.Errorf("want to know since when the applier has it, got %v", next.Losses[1].Owner)
	}
	if d := cmp.Diff(config(t, withKind(`{spec: {a: 1, c: 3}}`)), next.Apply(full)); d != "" {
		t.Errorf("what is applied (-want +got):\n%s", d)
	}
	if c.Forced() || c.Partial() {
		t.Error("the comparison given was changed")
	}

	next, unknown = contested(Conflict{".spec.a", updater(BeforeFirst)})
	if len(unknown) != 0 || !next.Forced() || next.Partial() {
		t.Errorf("want what nobody is known to have enforced, got %+v, %v", next.Losses, unknown)
	}

	next, unknown = contested(Conflict{".spec.z", applier("flux")})
	if len(unknown) != 1 || next.Forced() || next.Partial() {
		t.Errorf("want an applier's field under another name not to be taken, got %+v, %v", next.Losses, unknown)
	}
}

func TestApplyLeavesOutListItemsInAnyOrder(t *testing.T) {
	full := config(t, withKind(`{spec: {list: [a, b, c, d, e, f, g, h, i, j, k, l], map: {x: {z: 1}}}}`))
	out := [][]string{{"spec", "list", "2"}, {"spec", "list", "10"}, {"spec", "map", "x", "z"}, {"spec", "list", "0"}, {"spec", "gone"}, {"spec", "list", "99"}, {"spec", "list", "x"}}
	want := config(t, withKind(`{spec: {list: [b, d, e, f, g, h, i, j, l]}}`))
	for range 3 {
		c := Comparison{leaveOut: slices.Clone(out)}
		if d := cmp.Diff(want, c.Apply(full)); d != "" {
			t.Errorf("what is applied (-want +got):\n%s", d)
		}
		slices.Reverse(out)
		out = append(out[3:], out[:3]...)
	}
	if d := cmp.Diff(config(t, withKind(`{spec: {list: [a, b, c, d, e, f, g, h, i, j, k, l], map: {x: {z: 1}}}}`)), full); d != "" {
		t.Errorf("the configuration was changed (-want +got):\n%s", d)
	}
}

func TestItemThatCannotBeToldFromOthersIsNotForced(t *testing.T) {
	o := observed(t, "git.whole", `trueup Apply {"f:spec": {"f:other": {}}}
		kubectl-edit Update {"f:spec": {"f:image": {}}}
		flux Apply {"f:spec": {"f:keyed": {'k:{"name":"a","zone":"east"}': {".": {}, "f:name": {}}}}}`)
	c, err := Compare(from(t, `{spec: {image: x, other: y, keyed: [{name: a}]}}`), o, Context{}, manager)
	if err != nil || c.State != Drifted || len(c.Losses) != 2 || c.Forced() || c.Partial() {
		t.Errorf("want it applied whole and without force, since the item may be another applier's, got %+v, %v", c, err)
	}
}

func TestLastFieldOfAMapWithoutASchemaIsMissedBesideWhatIsHeld(t *testing.T) {
	const entries = `trueup@VERSION Apply {"f:spec": {"f:free": {}}}
		flux@VERSION Apply {"f:spec": {"f:image": {}}}`
	for version, want := range map[string]State{"example.com/v1": Drifted, "apps/v1": Held, "networking.k8s.io/v1": Held} {
		for applied, want := range map[string]State{"git.other": want, "git.WHOLE.0123456789abcdef0123": Held} {
			d := Desired{Digest: "git", Config: func() (map[string]any, error) {
				return config(t, `{apiVersion: `+version+`, kind: X, spec: {image: x, free: {deep: 1}}}`), nil
			}}
			c, err := Compare(d, observed(t, applied, strings.ReplaceAll(entries, "VERSION", version)), Context{}, manager)
			if err != nil || c.State != want {
				t.Errorf("%s, applied %s: want %s, got %s, %v", version, applied, want, c.State, err)
			}
		}
	}
}

const liveWeb = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: u, finalizers: [first, second]},
	spec: {replicas: 5, paused: true, ports: [{port: 80, protocol: TCP, name: http}, {port: 83, protocol: TCP, name: more}], selector: {app: web}}}`

func TestExtract(t *testing.T) {
	port := append(field("spec", "ports"), fieldpath.KeyElement((*fieldpath.KeyByFields("port", 80, "protocol", "TCP"))...))
	live := &unstructured.Unstructured{Object: config(t, liveWeb)}
	got := Extract(live, []fieldpath.Path{
		field("spec", "replicas"), field("spec", "gone"), append(port.Copy(), field("name")...), port, append(port.Copy(), field("name")...), field("spec", "selector"),
		append(field("metadata", "finalizers"), fieldpath.ValueElement(smdString("second"))),
	})
	want := config(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, finalizers: [second]},
		spec: {replicas: 5, ports: [{port: 80, protocol: TCP, name: http}], selector: {app: web}}}`)
	if d := cmp.Diff(want, got.Object); d != "" {
		t.Errorf("configuration (-want +got):\n%s", d)
	}
	if d := cmp.Diff(config(t, liveWeb), live.Object); d != "" {
		t.Errorf("the live object was changed (-want +got):\n%s", d)
	}
}

func TestRestoreShowsWhatHealingMakes(t *testing.T) {
	declared := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, image: x, ports: [{port: 80, name: web}, {port: 81}]}}`
	live := &unstructured.Unstructured{Object: config(t, strings.Replace(liveWeb, "replicas: 5", "replicas: 5, image: y", 1))}
	o := observed(t, "git.whole", `trueup@apps/v1 Apply {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}}
		kubectl-edit@apps/v1 Update {"f:spec": {"f:replicas": {}, "f:paused": {}, "f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}, 'k:{"port":83,"protocol":"TCP"}': {".": {}, "f:port": {}}}}}
		flux@apps/v1 Apply {"f:spec": {"f:image": {}}}`)
	live.SetManagedFields(o.Managed)
	c, err := Compare(from(t, declared), o, Context{}, manager)
	if err != nil {
		t.Fatal(err)
	}
	want := config(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: u, finalizers: [first, second]},
		spec: {replicas: 2, image: y, ports: [{port: 80, protocol: TCP, name: web}, {port: 81}], selector: {app: web}}}`)
	full := config(t, declared)
	got, err := c.Restore(full, live, manager)
	if err != nil {
		t.Fatal(err)
	}
	got.SetManagedFields(nil)
	if d := cmp.Diff(want, got.Object); d != "" {
		t.Errorf("restored (-want +got):\n%s", d)
	}
	if d := cmp.Diff(config(t, declared), full); d != "" {
		t.Errorf("the configuration was changed (-want +got):\n%s", d)
	}
}

func TestAppliedIsReadAsItWasWritten(t *testing.T) {
	for _, a := range []Applied{{Config: "a", Fields: "b"}, {Config: "a", Fields: "b", Left: Digest([]byte("left"))}, {Config: Digest([]byte("x")), Fields: PendingApplied}} {
		if got := ParseApplied(a.String()); got != a {
			t.Errorf("%q: got %+v, want %+v", a.String(), got, a)
		}
	}
	for _, s := range []string{"", "wrong", "a.b.c", "a.b.partial.x", "a.b.Partial", "null"} {
		if got := ParseApplied(s); got != (Applied{}) {
			t.Errorf("%q: want nothing, got %+v", s, got)
		}
	}
}

func TestOwnFieldsAreThoseOfOurApply(t *testing.T) {
	mine := managed(t, `trueup Apply {"f:a": {}}`)
	for name, c := range map[string]struct {
		lines string
		want  string
	}{
		"none":                      {"", ""},
		"others'":                   {`kubectl Update {"f:a": {}}`, ""},
		"an update by our name":     {`trueup Update {"f:a": {}}`, ""},
		"an apply to a subresource": {`trueup Apply/status {"f:a": {}}`, ""},
		"ours":                      {"kubectl Update {\"f:b\": {}}\ntrueup Apply {\"f:a\": {}}", OwnFields(mine, manager)},
	} {
		if got := OwnFields(managed(t, c.lines), manager); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}
