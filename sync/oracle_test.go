package sync

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// oracle drives one object with random changes of Git and random writes of others. After each it checks that the
// verdict from metadata is the verdict of the API server's dry-run, and after each sync that every field is what its
// owner, as decided, wants.
type oracle struct {
	t       testing.TB
	r       *rand.Rand
	subject subject
	name    string
	kinds   *apply.Kinds
	writer  *apply.Writer
	objects dynamic.ResourceInterface
	older   dynamic.ResourceInterface
	app     types.NamespacedName
	ns      string
	seed    uint64

	git        *Desired
	set        *DesiredSet
	policies   []diff.Policy
	autoscaler string
	adopting   bool

	history   []string
	untangled []fieldpath.Path // what the sync took away since it did not go together with Git
	*tally
}

// tally is what has been done with one kind.
type tally struct {
	steps         int
	foreignWrites int
	foreignTaken  int
	states        map[diff.State]int
	syncs         int
	refused       int
}

func (o *oracle) note(format string, args ...any) {
	o.history = append(o.history, fmt.Sprintf(format, args...))
}

// failf tells what is wrong, all that led to it, and how to see it again: each object has random numbers of its own.
func (o *oracle) failf(format string, args ...any) {
	o.t.Helper()
	config, _ := o.git.Config()
	live, _ := o.read()
	o.t.Fatalf("%s\nafter\n%s\nGit: %s\nlive: %s\npolicies: %+v autoscaler: %q adopting: %v\nagain: TRUEUP_SEED=%d TRUEUP_OBJECT=%s/%s", fmt.Sprintf(format, args...),
		strings.Join(o.history, "\n"), asJSON(config), asJSON(live), o.policies, o.autoscaler, o.adopting, o.seed, o.subject.gvk.Kind, o.name)
}

func (o *oracle) read() (*unstructured.Unstructured, error) {
	return o.objects.Get(o.t.Context(), o.name, metav1.GetOptions{})
}

// commit makes another configuration the one in Git.
func (o *oracle) commit() {
	u := &unstructured.Unstructured{Object: o.body()}
	u.SetGroupVersionKind(o.subject.gvk)
	u.SetName(o.name)
	if o.r.IntN(3) == 0 {
		u.SetLabels(map[string]string{"team": pick(o.r, "blue", "red")})
	}
	set, err := newDesiredSet([]source.Object{{Unstructured: u, File: "oracle.yaml", Line: 1}}, o.app, o.ns, o.kinds)
	if err != nil {
		o.t.Fatal(err)
	}
	o.set, o.git = set, set.Objects[0]
	o.note("Git: %s", o.git.json)
}

// change makes another policy.
func (o *oracle) change() {
	o.policies, o.autoscaler, o.adopting = nil, "", o.r.IntN(4) == 0
	if o.subject.scaled && o.r.IntN(2) == 0 {
		o.autoscaler = "HorizontalPodAutoscaler " + o.ns + "/scaler"
	}
	if o.r.IntN(2) == 0 {
		p := diff.Policy{Source: "test", Verdict: []diff.Verdict{diff.Yield, diff.Hold, diff.Enforce}[o.r.IntN(3)]}
		if o.r.IntN(2) == 0 {
			p.Managers = []string{pick(o.r, fieldManagers...)}
		}
		if config, err := o.git.Config(); err == nil && o.r.IntN(2) == 0 {
			var all []string
			for _, k := range sortedKeys(o.subject.body) {
				if _, ok := config[k]; ok {
					all = append(append(all, "/"+k), places("/"+k, config[k])...)
				}
			}
			if len(all) > 0 {
				path, err := diff.ParsePath(all[o.r.IntN(len(all))])
				if err != nil {
					o.t.Fatal(err)
				}
				p.Paths = []diff.PathPattern{path}
				o.note("policy on %+v", path)
			}
		}
		o.policies = []diff.Policy{p}
	}
	o.note("policies %+v, autoscaler %q, adopting %v", o.policies, o.autoscaler, o.adopting)
}

func (o *oracle) input() Input {
	return Input{App: o.app, New: true, Policy: Policy{Automated: true, SelfHeal: true, Adopt: o.adopting}, Context: func(d *Desired) diff.Context {
		return diff.Context{Object: d.ID, Policies: o.policies, Autoscaler: o.autoscaler, Adopting: o.adopting}
	}}
}

// step is one change of something, the check of the verdict, and now and then a sync.
func (o *oracle) step() {
	switch n := o.r.IntN(20); {
	case n == 0:
		o.change()
	case n < 4:
		o.commit()
	default:
		o.foreign()
	}
	o.check()
	if o.r.IntN(5) < 3 {
		o.sync()
	}
}

// oracleSteps are how many steps are made of all kinds together where no time is set.
const oracleSteps = 500

// lifetime is after how many steps an object with a new name is driven.
const lifetime = 30

// soak is how long the oracle runs and with which random numbers.
type soak struct {
	seed     uint64
	duration time.Duration
	object   string // the only one to drive, as Kind/name; "" for all
}

// soakOf reads TRUEUP_SOAK, for how long to run, with another seed each time; TRUEUP_SEED, which repeats a run; and
// TRUEUP_OBJECT, which repeats what was done to one object of it.
func soakOf(t *testing.T) soak {
	s := soak{seed: 1, object: os.Getenv("TRUEUP_OBJECT")}
	var err error
	if v := os.Getenv("TRUEUP_SOAK"); v != "" {
		s.seed = uint64(time.Now().UnixNano())
		if s.duration, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv("TRUEUP_SEED"); v != "" {
		if s.seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// The test makes the same changes for the same seed; see soakOf for how to set it.
func TestSoakVerdictFromMetadataIsThatOfADryRun(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	clients, err := NewClients(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	run := soakOf(t)
	t.Logf("TRUEUP_SEED=%d", run.seed)
	ns := cluster.Namespace(t)
	group := ns + ".example.com"
	cluster.Kubectl(t, gadgets(group), "apply", "-f", "-")
	t.Cleanup(func() {
		_, _ = cluster.TryKubectl(context.Background(), "", "delete", "crd", "gadgets."+group, "--wait=false")
	})
	cluster.Kubectl(t, "", "wait", "--for=condition=Established", "crd/gadgets."+group, "--timeout=30s")
	kinds := apply.NewKinds(clients.Kube.Discovery(), clock.RealClock{})
	all := subjects(group)
	// As many kinds are driven at once as there are processors.
	each := run.duration * time.Duration(runtime.GOMAXPROCS(0)) / time.Duration(len(all))
	var total atomic.Int64
	t.Cleanup(func() { t.Logf("%d steps in all", total.Load()) })
	for _, s := range all {
		t.Run(s.gvk.Kind, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, clients, kinds, ns, s, run.seed)
			if kind, n, _ := strings.Cut(run.object, "/oracle-"); kind != "" {
				if n, err := strconv.Atoi(n); kind == s.gvk.Kind && err == nil {
					o.drive(t, n, lifetime)
				}
				return
			}
			deadline := time.Now().Add(each)
			for n := 0; o.steps < oracleSteps/len(all)+1 || time.Now().Before(deadline); n++ {
				// A soak goes on with the next object, to find more.
				if !o.drive(t, n, lifetime) && run.duration == 0 {
					break
				}
			}
			total.Add(int64(o.steps))
			t.Logf("%d steps, %d syncs, %d of %d foreign writes taken, %d syncs refused, verdicts %v", o.steps, o.syncs, o.foreignTaken, o.foreignWrites, o.refused, o.states)
			if o.foreignTaken*5 < o.foreignWrites || o.refused*2 > o.syncs {
				t.Error("too much of it was refused to say anything")
			}
		})
	}
}

func newOracle(t testing.TB, clients *Clients, kinds *apply.Kinds, ns string, s subject, seed uint64) *oracle {
	o := &oracle{
		t: t, seed: seed, subject: s, kinds: kinds, ns: ns, tally: &tally{states: map[diff.State]int{}},
		app:    types.NamespacedName{Namespace: ns, Name: "oracle"},
		writer: apply.NewWriter(clients.Dynamic, kinds, v1alpha1.FieldManager, 4),
	}
	resource := func(version string) dynamic.ResourceInterface {
		gvk := s.gvk
		gvk.Version = version
		kind, err := kinds.Of(gvk)
		if err != nil {
			t.Fatal(err)
		}
		return clients.Dynamic.Resource(kind.Resource).Namespace(ns)
	}
	o.objects = resource(s.gvk.Version)
	if s.older != "" {
		o.older = resource(s.older)
	}
	return o
}

// drive makes steps with the nth object, of which a failure ends only this one.
func (o *oracle) drive(t *testing.T, n, steps int) bool {
	return t.Run(strconv.Itoa(n), func(t *testing.T) {
		one := *o
		h := fnv.New64()
		fmt.Fprintf(h, "%s/%d", o.subject.gvk.Kind, n)
		one.t, one.r, one.name = t, rand.New(rand.NewPCG(o.seed, h.Sum64())), fmt.Sprintf("oracle-%d", n)
		one.commit()
		if one.r.IntN(3) > 0 {
			one.sync()
		}
		for range steps {
			one.steps++
			one.step()
		}
		_, _ = one.remove("")
	})
}
