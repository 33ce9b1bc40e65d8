package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
)

// Exit codes of health and why.
const (
	healthNotWell = 1
	healthFailed  = 2
)

// healthOptions are the flags of health.
type healthOptions struct {
	files     []string
	recursive bool
	output    string
	rules     string
}

func newHealthCommand(c *cli) *cobra.Command {
	var opts healthOptions
	cmd := &cobra.Command{
		Use:     "health -f FILE|DIR|-",
		Short:   "Judge the health of manifests, without a cluster",
		GroupID: groupApps,
		Long: `Judge the health of objects in files as the agent judges them in a cluster, and say which rule decided. Nothing is
asked of any cluster: what counts is the status that the manifests have.

The exit code is 0 when every object is Healthy, 1 when one is not, and 2 for any error.`,
		Example: `  kubectl get deployments,pods -A -o yaml | trueup health -f -
  trueup health -f backup/ -R -o json
  trueup health -f widget.yaml --rules my-rules.yaml    # try rules of your own`,
		Annotations: map[string]string{failureCode: fmt.Sprint(healthFailed)},
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return opts.run(cmd.InOrStdin(), cmd.OutOrStdout(), c.palette(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().StringArrayVarP(&opts.files, "filename", "f", nil, "file, folder, or - for standard input; may be repeated")
	cmd.Flags().BoolVarP(&opts.recursive, "recursive", "R", false, "also read the folders below a folder")
	cmd.Flags().VarP(oneOf(&opts.output, "json"), "output", "o", "json: one line for each object")
	cmd.Flags().StringVar(&opts.rules, "rules", "", "file with health rules to ask first, as in the agent's configuration")
	mustCompleteFlag(cmd, "output", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// judgement is what is said about one object.
type judgement struct {
	File      string `json:"file"`
	Line      int    `json:"line,omitempty"`
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	health.Result
}

func (o healthOptions) run(in io.Reader, out io.Writer, p palette) error {
	judge, err := o.judge()
	if err != nil {
		return err
	}
	objects, err := o.read(in)
	if err != nil {
		return err
	}
	judgements := make([]judgement, len(objects))
	for i, obj := range objects {
		judgements[i] = judgement{
			File: obj.File, Line: obj.Line, Group: obj.GroupVersionKind().Group, Kind: obj.GetKind(),
			Namespace: obj.GetNamespace(), Name: obj.GetName(), Result: judge.Of(obj.Unstructured),
		}
	}
	if err := o.write(out, p, judgements); err != nil {
		return err
	}
	if slices.ContainsFunc(judgements, func(j judgement) bool { return j.Code != health.Healthy }) {
		return &exitError{code: healthNotWell}
	}
	return nil
}

func (o healthOptions) judge() (*health.Judge, error) {
	var rules []health.Rule
	if o.rules != "" {
		text, err := os.ReadFile(o.rules)
		if err != nil {
			return nil, fmt.Errorf("reading health rules: %w", err)
		}
		if err := (healthRules{&rules}).Set(string(text)); err != nil {
			return nil, fmt.Errorf("reading health rules of %s: %w", o.rules, err)
		}
	}
	judge, err := health.NewJudge(rules, health.Options{})
	if wrong, ok := errors.AsType[*health.RuleError](err); ok {
		return nil, fmt.Errorf("reading health rules of %s: [%d].%s: %w", o.rules, wrong.Index, wrong.Field, wrong.Err)
	}
	return judge, err
}

// read returns the objects of all files, in the order in which they are given.
func (o healthOptions) read(in io.Reader) ([]source.Object, error) {
	if len(o.files) == 0 {
		return nil, errors.New("say what to judge with -f: a file, a folder, or - for standard input")
	}
	var all []source.Object
	for _, name := range o.files {
		objects, err := o.readOne(in, name)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no Kubernetes object in %s", orList(o.files))
	}
	return all, nil
}

func (o healthOptions) readOne(in io.Reader, name string) ([]source.Object, error) {
	if name == "-" {
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return source.Parse("-", content)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading manifests: %w", err)
	case info.IsDir():
		return o.readFolder(name)
	}
	return readManifest(name)
}

// readFolder reads the files of a folder by name. Those that are no manifests are left out, and kustomizations too: they
// are no objects.
func (o healthOptions) readFolder(dir string) ([]source.Object, error) {
	var all []source.Object
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("reading manifests: %w", err)
		case entry.IsDir() && name != dir && !o.recursive:
			return filepath.SkipDir
		case entry.IsDir() || !isManifestName(entry.Name()):
			return nil
		}
		objects, err := readManifest(name)
		all = append(all, objects...)
		return err
	})
	return all, err
}

func isManifestName(name string) bool {
	if name == "kustomization.yaml" || name == "kustomization.yml" {
		return false
	}
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

func readManifest(name string) ([]source.Object, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	return source.Parse(name, content)
}

func (o healthOptions) write(out io.Writer, p palette, judgements []judgement) error {
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		for _, j := range judgements {
			if err := encoder.Encode(j); err != nil {
				return err
			}
		}
		return nil
	}
	t := &table{}
	t.header("FILE", "OBJECT", "HEALTH", "RULE", "MESSAGE")
	for _, j := range judgements {
		object := j.Kind + " " + j.Name
		if j.Namespace != "" {
			object = j.Kind + " " + j.Namespace + "/" + j.Name
		}
		t.add(cell{text: j.File}, cell{text: object}, cell{string(j.Code), healthStyle(string(j.Code))}, cell{text: j.Rule}, cell{text: firstLine(j.Message)})
	}
	t.write(out, p)
	return nil
}
