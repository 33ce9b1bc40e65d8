// Package helm renders a chart with Helm's own engine to what `helm template` prints. It works in a child process, since
// a template is a program: see package sandbox. Start reading at Request, which is what the parent sends, and at render,
// which is what the child does.
package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/trueup/trueup/source/internal/sandbox"
)

// A Request says what to render. Paths are those of the Files that come with it.
type Request struct {
	Chart      string   // the folder of the chart
	Packaged   bool     // it comes from an archive, so nothing can be added to it
	Values     []Values // besides the chart's own; later ones win
	Parameters []Parameter
	// FileParameters set a value to the content of a file.
	FileParameters []Parameter

	ReleaseName string
	Namespace   string
	// KubeVersion and APIVersions are what templates find in .Capabilities; "" and nil for what `helm template` takes.
	// APIVersions replace Helm's own list where OnlyAPIVersions is set, and are added to it where it is not.
	KubeVersion     string
	APIVersions     []string
	OnlyAPIVersions bool

	SkipCRDs             bool
	SkipSchemaValidation bool
}

// Named returns the files that the request names by itself.
func (r Request) Named() []string {
	var names []string
	for _, v := range r.Values {
		names = append(names, v.File)
	}
	for _, p := range r.FileParameters {
		names = append(names, p.Value)
	}
	return names
}

// Values are those in a file, and then those in a text. Either may be "".
type Values struct{ File, YAML string }

// A Parameter sets one value, by its path as --set has it.
type Parameter struct {
	Name  string
	Value string // or the path of a file
	// ForceString makes it a string also where it looks like something else, as --set-string does.
	ForceString bool
}

// An Answer is what a chart renders to.
type Answer struct {
	Name, Version string     // of the chart
	Documents     []Document // hooks and tests among them
	// Cluster says that KubeVersion or APIVersions may have had a part in it.
	Cluster bool
}

// A Document is one document of YAML, turned into JSON: an object or a list of them.
type Document struct {
	File string // of the chart, relative to Files
	Line int    // 0 where the template does not tell
	JSON json.RawMessage
	// Random are JSON pointers to values that were different when the chart was rendered once more. One that is "" means
	// all of it: even which object it is.
	Random []string `json:",omitempty"`
}

const worker = "helm"

var _ = func() (none struct{}) { sandbox.Register(worker, work); return }()

func work(request []byte, files sandbox.Files) ([]byte, error) {
	var req Request
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	answer, err := render(req, files)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// Limits of one chart. Most take a tenth of a second and 20 MB.
var Limits = sandbox.Limits{Time: 20 * time.Second, Memory: 256 << 20, Output: 64 << 20}

// Render has a child process render a chart. It blocks until it is done, and no longer than Limits say. The error names
// the file of the chart, and the line where there is one.
func Render(ctx context.Context, req Request, files sandbox.Files) (*Answer, error) {
	request, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	content, err := sandbox.Run(ctx, worker, request, files, Limits)
	if err != nil {
		return nil, err
	}
	var answer Answer
	if err := json.Unmarshal(content, &answer); err != nil {
		return nil, fmt.Errorf("reading the renderer's answer: %w", err)
	}
	return &answer, nil
}
