package diff

import (
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

func TestPathPatterns(t *testing.T) {
	container := append(field("spec", "containers"), fieldpath.KeyElement((*fieldpath.KeyByFields("name", "web"))...))
	port := append(field("spec", "ports"), fieldpath.KeyElement((*fieldpath.KeyByFields("port", 80, "protocol", "TCP"))...))
	losses := map[string]Loss{
		"replicas":   lossOf(Owner{}, "spec", "replicas"),
		"image":      {Path: append(container.Copy(), fieldpath.FieldNameElement("image")), Pointer: []string{"spec", "containers", "0", "image"}},
		"limits":     {Path: append(container.Copy(), field("resources", "limits")...), Pointer: []string{"spec", "containers", "0", "resources", "limits"}},
		"port":       {Path: append(port.Copy(), fieldpath.FieldNameElement("port")), Pointer: []string{"spec", "ports", "1", "port"}},
		"annotation": lossOf(Owner{}, "metadata", "annotations", "example.com/a.b"),
		"finalizer":  {Path: append(field("metadata", "finalizers"), fieldpath.ValueElement(value.NewValueInterface("x"))), Pointer: []string{"metadata", "finalizers", "0"}},
	}
	for pattern, want := range map[string]string{
		".spec":                                  "image limits port replicas",
		".spec.replicas":                         "replicas",
		".spec.repl":                             "",
		"/spec/replicas":                         "replicas",
		"/spec":                                  "image limits port replicas",
		"/spec/replicas/x":                       "",
		`.spec.containers[name="web"]`:           "image limits",
		`.spec.containers[name=web].image`:       "image",
		`.spec.containers[name="db"].image`:      "",
		`.spec.containers[*].image`:              "image",
		`.spec.*.image`:                          "",
		`.spec.*.*.image`:                        "image",
		`.*.replicas`:                            "replicas",
		`.spec.containers.image`:                 "",
		`/spec/containers/0/image`:               "image",
		`/spec/containers/1/image`:               "",
		`/spec/containers/*/image`:               "image",
		`/spec/*/*/resources`:                    "limits",
		`.spec.ports[protocol="TCP",port=80]`:    "port",
		`.spec.ports[port=80, protocol="TCP"]`:   "port",
		`.spec.ports[port=80]`:                   "",
		`.metadata.annotations.example.com/a.b`:  "annotation",
		`.metadata.annotations.example.com/a`:    "",
		`/metadata/annotations/example.com~1a.b`: "annotation",
		`.metadata.annotations`:                  "annotation",
		`.metadata.finalizers[="x"]`:             "finalizer",
		`.metadata.finalizers[*]`:                "finalizer",
	} {
		p, err := ParsePath(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		var got []string
		for _, name := range []string{"annotation", "finalizer", "image", "limits", "port", "replicas"} {
			if p.matches(losses[name]) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: want it to match %q, got %q", pattern, want, strings.Join(got, " "))
		}
	}
}

func TestPathsThatCannotBeReadSayWhy(t *testing.T) {
	for path, want := range map[string]string{
		"":                          "must begin with . (.spec.replicas) or / (/spec/replicas)",
		"spec.replicas":             "must begin with",
		".spec..replicas":           "an empty element before",
		".spec.":                    "an empty element",
		`.spec.containers[name="a`:  "no closing bracket",
		`.spec.containers[name=a]b`: "expected . or [ before",
	} {
		if _, err := ParsePath(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error that says %q, got %v", path, want, err)
		}
	}
}

func TestPoliciesSelectObjectsAndManagers(t *testing.T) {
	core, apps, all := "", "apps", "*"
	web := ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web-1"}
	service := ID{Kind: "Service", Namespace: "shop", Name: "web-1"}
	by := func(manager string) Loss { return lossOf(updater(manager), "spec", "a") }
	for name, c := range map[string]struct {
		policy Policy
		id     ID
		loss   Loss
		want   bool
	}{
		"an empty one matches everything":       {Policy{}, web, by("x"), true},
		"any group":                             {Policy{Group: &all}, service, by("x"), true},
		"the core group":                        {Policy{Group: &core}, service, by("x"), true},
		"the core group is not every group":     {Policy{Group: &core}, web, by("x"), false},
		"a group":                               {Policy{Group: &apps}, web, by("x"), true},
		"another group":                         {Policy{Group: &apps}, service, by("x"), false},
		"a kind":                                {Policy{Kind: "Deployment"}, web, by("x"), true},
		"another kind":                          {Policy{Kind: "Deploy"}, web, by("x"), false},
		"a glob of names":                       {Policy{Name: "web-*", Namespace: "sh?p"}, web, by("x"), true},
		"another namespace":                     {Policy{Namespace: "prod"}, web, by("x"), false},
		"a manager":                             {Policy{Managers: []string{"y", "x"}}, web, by("x"), true},
		"a glob of managers":                    {Policy{Managers: []string{"kubectl-*"}}, web, by("kubectl-edit"), true},
		"another manager":                       {Policy{Managers: []string{"y"}}, web, by("x"), false},
		"a manager, when the field was removed": {Policy{Managers: []string{"*"}}, web, by(""), false},
		"a path":                                {Policy{Paths: []PathPattern{{elements: []string{"spec", "a"}}}}, web, by("x"), true},
		"another path":                          {Policy{Paths: []PathPattern{{elements: []string{"spec", "b"}}}}, web, by("x"), false},
		"a malformed glob matches nothing but that": {Policy{Name: "[web"}, web, by("x"), false},
	} {
		if got := c.policy.Matches(c.id, c.loss); got != c.want {
			t.Errorf("%s: want %v, got %v", name, c.want, got)
		}
	}
}

func TestPolicyThatSelectsNothingInAnObjectIsAboutNothing(t *testing.T) {
	policies := []Policy{
		{Source: "selects", Select: func(c map[string]any) []PathPattern { return []PathPattern{PointerPattern("spec", "a")} }},
		{Source: "selects nothing", Select: func(map[string]any) []PathPattern { return nil }},
		{Source: "plain"},
	}
	got := selected(policies, map[string]any{})
	if len(got) != 2 || got[0].Source != "selects" || got[1].Source != "plain" {
		t.Errorf("got %+v", got)
	}
	if got[0].Matches(ID{}, lossOf(Owner{}, "spec", "b")) || !got[0].Matches(ID{}, lossOf(Owner{}, "spec", "a")) {
		t.Error("want the policy to be about .spec.a alone")
	}
	if len(policies[0].Paths) != 0 {
		t.Error("the policies given were changed")
	}
}
