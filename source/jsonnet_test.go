package source

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const configMapJsonnet = `function(name='web', replicas=1) {
  apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name }, data: { replicas: '' + replicas },
}
`

func TestJsonnetFilesOfADirectory(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		opts  Jsonnet
		want  string
	}{
		"an object": {
			files: map[string]string{"app/web.jsonnet": `{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' + 1 } }`},
			want:  "ConfigMap a1 app/web.jsonnet",
		},
		"a list, in the order of the files, null left out": {
			files: map[string]string{
				"app/b.jsonnet": `[{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: n } } for n in ['x', 'y']] + [null]`,
				"app/a.yaml":    configMap("first", "1"),
				"app/c.json":    `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}}`,
			},
			want: "ConfigMap first app/a.yaml:1\nConfigMap x app/b.jsonnet\nConfigMap y app/b.jsonnet\nConfigMap last app/c.json:1",
		},
		"a List": {
			files: map[string]string{"app/web.jsonnet": `{ apiVersion: 'v1', kind: 'List', items: [{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'in-list' } }] }`},
			want:  "ConfigMap in-list app/web.jsonnet",
		},
		"arguments": {
			files: map[string]string{"app/web.jsonnet": configMapJsonnet},
			opts:  Jsonnet{TLAs: []JsonnetVar{{Name: "name", Value: "from-tla"}, {Name: "replicas", Value: "1 + 1", Code: true}}},
			want:  "ConfigMap from-tla app/web.jsonnet",
		},
		"external variables": {
			files: map[string]string{"app/web.jsonnet": `{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: std.extVar('name') + std.extVar('n') } }`},
			opts:  Jsonnet{ExtVars: []JsonnetVar{{Name: "name", Value: "x"}, {Name: "n", Value: "2 * 3", Code: true}}},
			want:  "ConfigMap x6 app/web.jsonnet",
		},
		"imports: beside the file, above it, from a library, as text": {
			files: map[string]string{
				"app/web.jsonnet":             `local l = import 'lib.libsonnet', v = import 'vendored/v.libsonnet'; l.make(v.name + std.stripChars(importstr '../name.txt', '\n'))`,
				"app/lib.libsonnet":           `{ make(name):: (import '../common/make.libsonnet')(name) }`,
				"common/make.libsonnet":       `function(name) { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name } }`,
				"vendor/vendored/v.libsonnet": `{ name: 'vendored-' }`,
				"name.txt":                    "text\n",
			},
			opts: Jsonnet{Libs: []string{"vendor"}},
			want: "ConfigMap vendored-text app/web.jsonnet",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Render(t.Context(), commitTree(t, tt.files), "app", Options{Directory: Directory{Jsonnet: tt.opts}})
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, o := range got.Objects {
				lines = append(lines, o.GetKind()+" "+o.GetName()+" "+o.Place())
			}
			if d := cmp.Diff(tt.want, strings.Join(lines, "\n")); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestWhatAJsonnetFileReadsIsItsInput(t *testing.T) {
	files := map[string]string{
		"app/web.jsonnet":     `(import 'x.libsonnet')('a')`,
		"lib/x.libsonnet":     `function(name) { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name } }`,
		"lib/other.libsonnet": `{}`,
	}
	opts := Options{Directory: Directory{Jsonnet: Jsonnet{Libs: []string{"lib"}}}}
	tree := commitTree(t, files)
	got, err := Render(t.Context(), tree, "app", opts)
	if err != nil {
		t.Fatal(err)
	}
	footprint := NewFootprint(tree, got.Inputs)
	for name, tt := range map[string]struct {
		file, content string
		holds         bool
	}{
		"the file":                            {"app/web.jsonnet", `{}`, false},
		"what it imports":                     {"lib/x.libsonnet", `{}`, false},
		"what would be imported in its place": {"app/x.libsonnet", `{}`, false},
		"a library that it does not import":   {"lib/other.libsonnet", `{a: 1}`, true},
	} {
		changed := map[string]string{}
		for k, v := range files {
			changed[k] = v
		}
		changed[tt.file] = tt.content
		if footprint.Holds(t.Context(), commitTree(t, changed)) != tt.holds {
			t.Errorf("%s: Holds is %t, want %t", name, !tt.holds, tt.holds)
		}
	}
}

func TestBadJsonnetIsAnErrorWithItsPlace(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		opts  Jsonnet
		want  string
	}{
		"syntax":             {map[string]string{"app/web.jsonnet": "{\n  a: 1,\n  b: ]\n}"}, Jsonnet{}, `app/web.jsonnet:3: Unexpected: "]"`},
		"an error":           {map[string]string{"app/web.jsonnet": "{\n  a: error 'no ' + 'way',\n}"}, Jsonnet{}, "app/web.jsonnet:2: no way"},
		"in what it imports": {map[string]string{"app/web.jsonnet": "import '../lib/x.libsonnet'", "lib/x.libsonnet": "\n\n{ a: [1][3] }"}, Jsonnet{}, "lib/x.libsonnet:3: "},
		"in the library":     {map[string]string{"app/web.jsonnet": "{\n\n a: std.parseJson('{') }"}, Jsonnet{}, "app/web.jsonnet:3: "},
		"a missing import":   {map[string]string{"app/web.jsonnet": "\nimport 'x.libsonnet'"}, Jsonnet{Libs: []string{"vendor"}}, "app/web.jsonnet:2: import of x.libsonnet: there is no such file in app, vendor"},
		"a missing variable": {map[string]string{"app/web.jsonnet": "\nstd.extVar('stage')"}, Jsonnet{}, "app/web.jsonnet:2: Undefined external variable: stage"},
		"a native function":  {map[string]string{"app/web.jsonnet": "\nstd.native('exec')('id')"}, Jsonnet{}, "app/web.jsonnet:2: "},
		"an import that climbs out of the repository":    {map[string]string{"app/web.jsonnet": "\nimport '../../secret.json'"}, Jsonnet{}, "app/web.jsonnet:2: import of ../../secret.json: ../secret.json leaves the repository"},
		"an absolute import":                             {map[string]string{"app/web.jsonnet": "\nimportstr '/etc/passwd'"}, Jsonnet{}, "app/web.jsonnet:2: import of the absolute path /etc/passwd: only files of the repository are read"},
		"an import through a link out of the repository": {map[string]string{"app/web.jsonnet": "\nimportstr 'passwd'", "app/passwd": "-> /etc/passwd"}, Jsonnet{}, "app/passwd is a symbolic link that leaves the repository"},
		"a library out of the repository":                {map[string]string{"app/web.jsonnet": "{}"}, Jsonnet{Libs: []string{"../lib"}}, "directory.jsonnet.libs: ../lib leaves the repository"},
		"an absolute library":                            {map[string]string{"app/web.jsonnet": "{}"}, Jsonnet{Libs: []string{"/lib"}}, "directory.jsonnet.libs: /lib must be relative to the root of the repository"},
		"no object":                                      {map[string]string{"app/web.jsonnet": "{ a: 1 }"}, Jsonnet{}, "app/web.jsonnet: what it evaluates to is no Kubernetes object: it has no apiVersion and no kind"},
		"a nested list":                                  {map[string]string{"app/web.jsonnet": "[null, [1]]"}, Jsonnet{}, "app/web.jsonnet: item 2 of the list it evaluates to is no Kubernetes object: it must be an object, or a flat list of objects"},
		"an object without a name":                       {map[string]string{"app/web.jsonnet": "[{ apiVersion: 'v1', kind: 'ConfigMap' }]"}, Jsonnet{}, "app/web.jsonnet: item 1 of the list it evaluates to: ConfigMap without metadata.name"},
		"a kustomization":                                {map[string]string{"app/web.jsonnet": "{ apiVersion: 'kustomize.config.k8s.io/v1beta1', kind: 'Kustomization', metadata: { name: 'x' } }"}, Jsonnet{}, "app/web.jsonnet is a kustomization below a plain folder"},
		"endless recursion":                              {map[string]string{"app/web.jsonnet": "\nlocal f(x) = f(x + 1) + 1; f(0)"}, Jsonnet{}, "max stack frames exceeded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), commitTree(t, tt.files), "app", Options{Directory: Directory{Jsonnet: tt.opts}})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "root:") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// A program that does not end, or takes all memory, is stopped; meanwhile and after it others render.
func TestAnEndlessJsonnetFileIsStopped(t *testing.T) {
	bombs := map[string]string{
		"an endless loop": `local f(x) = if x < 0 then x else f(x + 1) tailstrict; f(0)`,
		"an endless list": `local double(x, n) = if n == 0 then x else double(x + x, n - 1) tailstrict; std.length(double('0123456789', 34))`,
		"a large list":    `std.foldl(function(a, b) a + a, std.range(1, 40), [1, 2, 3, 4])`,
	}
	good := commitTree(t, map[string]string{"app/web.jsonnet": `{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'good' } }`})
	for name, program := range bombs {
		t.Run(name, func(t *testing.T) {
			tree := commitTree(t, map[string]string{"app/bomb.jsonnet": program})
			done := make(chan error, 1)
			start := time.Now()
			go func() {
				_, err := Render(t.Context(), tree, "app", Options{})
				done <- err
			}()
			if got, err := Render(t.Context(), good, "app", Options{}); err != nil || len(got.Objects) != 1 {
				t.Errorf("beside it: got %v, %v", got, err)
			}
			err := <-done
			if err == nil || !strings.Contains(err.Error(), "the renderer was stopped at app/bomb.jsonnet") {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); took > 40*time.Second {
				t.Errorf("it took %s", took)
			}
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			if mem.HeapAlloc > 200<<20 {
				t.Errorf("the heap has %d MiB", mem.HeapAlloc>>20)
			}
		})
	}
}
