package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// statusOptions are the flags of status.
type statusOptions struct {
	namespace string
	output    string
	watch     bool
}

func newStatusCommand(c *cli) *cobra.Command {
	opts := statusOptions{output: "text"}
	cmd := &cobra.Command{
		Use:     "status [APP]",
		Short:   "Show all Applications, or one with its objects",
		GroupID: groupApps,
		Example: `  trueup status                  # all Applications
  trueup status shop             # one: its drift, its history and the tree of its objects
  trueup status shop --watch     # and again whenever it changes
  trueup status -o json          # for programs`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeApps,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.connect(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			v := &statusView{cl: cl, out: cmd.OutOrStdout(), palette: c.palette(cmd.OutOrStdout()), opts: opts}
			if len(args) == 0 {
				return v.all(cmd.Context())
			}
			app, err := cl.findApp(cmd.Context(), opts.namespace, args[0])
			if err != nil {
				return err
			}
			return v.one(cmd.Context(), app)
		},
	}
	addNamespaceFlag(cmd, &opts.namespace, "", namespaceUsage)
	cmd.Flags().VarP(oneOf(&opts.output, "text", "wide", "json", "yaml"), "output", "o", "text, wide, json or yaml")
	cmd.Flags().BoolVarP(&opts.watch, "watch", "w", false, "go on, and show each change")
	return cmd
}

// statusView shows Applications in one of the output formats.
type statusView struct {
	cl      *cluster
	out     io.Writer
	palette palette
	opts    statusOptions
	last    map[string]string // what was last shown of each Application, by namespace/name
}

// all shows the Applications of a namespace, or of all.
func (v *statusView) all(ctx context.Context) error {
	apps, err := v.cl.listApps(ctx, v.opts.namespace)
	if err != nil {
		return err
	}
	if v.opts.watch {
		return v.cl.follow(ctx, v.opts.namespace, "", func(apps []*v1alpha1.Application) (bool, error) {
			return false, v.again(ctx, apps, v.writeList)
		})
	}
	pointers := make([]*v1alpha1.Application, len(apps))
	for i := range apps {
		pointers[i] = &apps[i]
	}
	if len(apps) == 0 && v.forPeople() {
		fmt.Fprintln(v.out, v.nothingYet(ctx))
		return nil
	}
	return v.writeList(ctx, v.out, pointers)
}

// nothingYet says what to do where there is no Application.
func (v *statusView) nothingYet(ctx context.Context) string {
	if v.opts.namespace != "" {
		return "There is no Application in namespace " + v.opts.namespace + "."
	}
	const repo = `or try a repository from here: "trueup agent --repo URL --path DIR"`
	agent, err := v.cl.otherAgent(ctx, "")
	if err != nil || agent == "" { // there is none, or the user may not see it
		return `There is no Application yet. Install the agent with "trueup install" if that is not done, and create an Application in its namespace;
` + repo + "."
	}
	return `There is no Application yet. The agent looks for them in namespace ` + agent + `; a first one is made so,
` + repo + `:

kubectl apply -f - <<'END'
apiVersion: trueup.dev/v1alpha1
kind: Application
metadata:
  name: shop
  namespace: ` + agent + `
spec:
  source:
    repoURL: https://github.com/example/shop.git
    path: overlays/production
  destination:
    namespace: shop
  syncPolicy:
    automated: {prune: true, selfHeal: true}
    syncOptions: [CreateNamespace=true]
END`
}

// one shows one Application.
func (v *statusView) one(ctx context.Context, app *v1alpha1.Application) error {
	describe := func(ctx context.Context, w io.Writer, apps []*v1alpha1.Application) error {
		return v.writeOne(ctx, w, apps[0])
	}
	if !v.opts.watch {
		return describe(ctx, v.out, []*v1alpha1.Application{app})
	}
	return v.cl.followOne(ctx, app, func(app *v1alpha1.Application) (bool, error) {
		return false, v.again(ctx, []*v1alpha1.Application{app}, describe)
	})
}

func (v *statusView) forPeople() bool { return v.opts.output == "text" || v.opts.output == "wide" }

// again shows Applications that may have changed: on a terminal the whole view in place of the one before, elsewhere
// only what changed, below.
func (v *statusView) again(ctx context.Context, apps []*v1alpha1.Application, write func(context.Context, io.Writer, []*v1alpha1.Application) error) error {
	if v.forPeople() && isTerminal(v.out) {
		var page bytes.Buffer // written at once, so that it does not flicker
		page.WriteString("\x1b[H\x1b[2J\x1b[3J")
		if err := write(ctx, &page, apps); err != nil {
			return err
		}
		_, err := page.WriteTo(v.out)
		return err
	}
	if v.last == nil {
		v.last = make(map[string]string)
	}
	there := make(map[string]bool)
	for _, app := range apps {
		key := app.Namespace + "/" + app.Name
		there[key] = true
		text, err := v.line(app)
		if err != nil {
			return err
		}
		if v.last[key] != text {
			v.last[key] = text
			fmt.Fprint(v.out, text)
		}
	}
	for key := range v.last {
		if !there[key] {
			delete(v.last, key)
			if v.forPeople() {
				fmt.Fprintf(v.out, "%s deleted\n", key)
			}
		}
	}
	return nil
}

// line is what is appended when an Application has changed.
func (v *statusView) line(app *v1alpha1.Application) (string, error) {
	var b bytes.Buffer
	if !v.forPeople() {
		err := v.encode(&b, forOutput(app))
		return b.String(), err
	}
	t := table{}
	t.add(changeRow(app)...)
	t.write(&b, v.palette)
	return b.String(), nil
}

func (v *statusView) writeList(_ context.Context, w io.Writer, apps []*v1alpha1.Application) error {
	if v.forPeople() {
		listTable(apps, v.opts.output == "wide").write(w, v.palette)
		return nil
	}
	list := v1alpha1.ApplicationList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ApplicationList"},
		Items:    []v1alpha1.Application{},
	}
	for _, app := range apps {
		list.Items = append(list.Items, *forOutput(app))
	}
	return v.encode(w, list)
}

func (v *statusView) writeOne(ctx context.Context, w io.Writer, app *v1alpha1.Application) error {
	if !v.forPeople() {
		return v.encode(w, forOutput(app))
	}
	tree, err := v.cl.tree(ctx, app)
	if err != nil {
		return err
	}
	describe(w, v.palette, app)
	tree.write(w, v.palette)
	return nil
}

// forOutput returns a copy as kubectl prints it: with its kind, without managed fields.
func forOutput(app *v1alpha1.Application) *v1alpha1.Application {
	app = app.DeepCopy()
	app.SetGroupVersionKind(v1alpha1.ApplicationKind)
	app.ManagedFields = nil
	return app
}

func (v *statusView) encode(w io.Writer, value any) error {
	if v.opts.output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(value)
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	if v.opts.watch {
		data = append([]byte("---\n"), data...)
	}
	_, err = w.Write(data)
	return err
}
