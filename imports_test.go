// Package trueup has no code of its own: its test holds the rules about which package may import which.
package trueup

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/trueup/trueup/"

// api is the package of types that every layer may use.
const api = "sync/v1alpha1"

// arrows are the layers that a layer may import besides itself and the API types. A package that belongs to none of
// these is not held to anything.
var arrows = map[string][]string{
	"cmd":    {"sync", "source", "diff", "apply", "health", "deploy"},
	"sync":   {"source", "diff", "apply", "health"},
	"source": {},
	"diff":   {},
	"apply":  {},
	"health": {},
	"deploy": {},
	api:      {},
}

// pure are the layers that take values and return values: what they may not import, and what of package time not call.
var (
	pure        = []string{"diff", "health"}
	impure      = []string{"context", "log", "os", "net", "k8s.io/client-go", "k8s.io/klog", "k8s.io/utils/clock"}
	clockOfTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

// uses is what one file of a package uses.
type uses struct {
	pkg     string // path below the module
	imports []string
	times   []string // names of package time
}

// layer returns the layer of a package of this module.
func layer(pkg string) string {
	if pkg == api {
		return api
	}
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

// wrong says what a file must not use.
func (u uses) wrong() []string {
	var wrong []string
	own := layer(u.pkg)
	allowed, held := arrows[own]
	for _, path := range u.imports {
		if pkg, inside := strings.CutPrefix(path, module); inside && held {
			if to := layer(pkg); to != own && to != api && !slices.Contains(allowed, to) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s", u.pkg, pkg))
			}
		}
		outside := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
		if slices.Contains(pure, own) && slices.ContainsFunc(impure, outside) {
			wrong = append(wrong, fmt.Sprintf("%s imports %s, and is to be pure", u.pkg, path))
		}
	}
	for _, name := range u.times {
		if slices.Contains(pure, own) && slices.Contains(clockOfTime, name) {
			wrong = append(wrong, fmt.Sprintf("%s uses time.%s, and is to be pure", u.pkg, name))
		}
	}
	return wrong
}

func TestWhichImportsAreWrong(t *testing.T) {
	for sentence, c := range map[string]struct {
		uses uses
		want []string
	}{
		"the command line may import everything":          {uses{pkg: "cmd/trueup", imports: []string{module + "sync", module + "source", module + "diff", module + "deploy", "k8s.io/client-go/rest"}}, nil},
		"the controller may import what it stands on":     {uses{pkg: "sync", imports: []string{module + "source", module + "diff", module + "apply", module + "health/why", module + api, "context"}}, nil},
		"the controller may not import the command line":  {uses{pkg: "sync", imports: []string{module + "cmd/trueup"}}, []string{"sync imports cmd/trueup"}},
		"what the controller stands on may not import it": {uses{pkg: "apply", imports: []string{module + "sync"}}, []string{"apply imports sync"}},
		"nor one another":                    {uses{pkg: "source", imports: []string{module + "health", module + "diff"}}, []string{"source imports health", "source imports diff"}},
		"everybody may import the API types": {uses{pkg: "diff", imports: []string{module + api}}, nil},
		"the API types import nothing of the product": {uses{pkg: api, imports: []string{module + "sync", module + "diff", "k8s.io/apimachinery/pkg/runtime"}},
			[]string{api + " imports sync", api + " imports diff"}},
		"a folder within a layer belongs to it": {uses{pkg: "health/internal/fields", imports: []string{module + "health/words", module + "apply"}},
			[]string{"health/internal/fields imports apply"}},
		"a pure package has no client, context, clock or logger": {
			uses{pkg: "diff", imports: []string{"context", "log/slog", "time", "k8s.io/client-go/dynamic", "k8s.io/apimachinery/pkg/runtime/schema"}, times: []string{"Now", "Time", "Duration"}},
			[]string{"diff imports context, and is to be pure", "diff imports log/slog, and is to be pure", "diff imports k8s.io/client-go/dynamic, and is to be pure",
				"diff uses time.Now, and is to be pure"}},
		"another may ask for the time": {uses{pkg: "source", imports: []string{"context", "time"}, times: []string{"Now"}}, nil},
	} {
		if d := cmp.Diff(c.want, c.uses.wrong()); d != "" {
			t.Errorf("%s: -want +got:\n%s", sentence, d)
		}
	}
}

func TestImportsGoOneWay(t *testing.T) {
	layers := map[string]bool{}
	for top := range arrows {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && entry.Name() == "testdata" {
				return fs.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			u, err := usesOf(path)
			if err != nil {
				return err
			}
			layers[layer(u.pkg)] = true
			for _, wrong := range u.wrong() {
				t.Errorf("%s: %s", path, wrong)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(layers) != len(arrows) {
		t.Errorf("of the %d layers only these have code: %v", len(arrows), layers)
	}
}

// usesOf reads what a file imports, and what it uses of package time.
func usesOf(path string) (uses, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return uses{}, err
	}
	u := uses{pkg: filepath.ToSlash(filepath.Dir(path))}
	clock := ""
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return uses{}, err
		}
		u.imports = append(u.imports, name)
		if name == "time" {
			if clock = "time"; spec.Name != nil {
				clock = spec.Name.Name
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && clock != "" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == clock {
				u.times = append(u.times, s.Sel.Name)
			}
		}
		return true
	})
	return u, nil
}
