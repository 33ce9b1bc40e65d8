package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trueup/trueup/source"
)

// renderOptions are the flags of render.
type renderOptions struct {
	namespace string
	revision  string
	root      string
	inputs    bool
	helm      source.Helm
	keys      []string // files
	remotes   []string // prefixes; nil is what the environment says
}

func newRenderCommand(c *cli) *cobra.Command {
	var opts renderOptions
	cmd := &cobra.Command{
		Use:     "render DIR|APP",
		Short:   "Print what Git declares, as YAML",
		GroupID: groupApps,
		Long: `Print the objects that a folder on disk or an Application's repository declares, as "kubectl kustomize" prints them.
Nothing is read from or written to the cluster but the Application and the credentials of its repository.

An argument that is a folder, has a "/" in it or begins with ".", is a folder; any other is the name of an Application.`,
		Example: `  trueup render deploy/overlays/prod
  trueup render shop --revision v1.2.0`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("say what to render: a folder or an Application\nSee '%s --help'", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			words, directive := c.completeApps(cmd, args, typed)
			if len(args) == 0 {
				directive = cobra.ShellCompDirectiveDefault // and files
			}
			return words, directive
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			rendered, err := opts.render(cmd, c, args[0])
			if err != nil {
				return err
			}
			return opts.write(cmd.OutOrStdout(), cmd.ErrOrStderr(), rendered)
		},
	}
	addNamespaceFlag(cmd, &opts.namespace, "", namespaceUsage)
	cmd.Flags().StringVar(&opts.revision, "revision", "", "of an Application: branch, tag, commit or range of versions (default: the commit it is compared with)")
	cmd.Flags().StringVar(&opts.root, "root", "", "of a folder: what may be read (default: the Git working tree around it, or the folder alone)")
	cmd.Flags().StringSliceVar(&opts.keys, "decryption-key", nil, "of a folder: file with age identities (*.agekey) or a PGP private key (*.asc) that opens files encrypted with SOPS; may be given several times")
	cmd.Flags().Var(list{&opts.remotes}, allowedRemotesFlag, allowedRemotesUsage+" (default: $TRUEUP_KUSTOMIZE_ALLOWED_REMOTES)")
	cmd.Flags().StringVar(&opts.helm.ReleaseName, "release-name", "", "of a chart in a folder: the name of its release (default \"release-name\")")
	cmd.Flags().StringVar(&opts.helm.Namespace, "release-namespace", "", "of a chart in a folder: the namespace of its release (default \"default\")")
	cmd.Flags().StringArrayVar(&opts.helm.ValueFiles, "values", nil, "of a chart in a folder: a file with values, relative to the chart")
	cmd.Flags().StringVar(&opts.helm.KubeVersion, "kube-version", "", "of a chart in a folder: the version of Kubernetes that it is for")
	cmd.Flags().StringArrayVar(&opts.helm.APIVersions, "api-versions", nil, "of a chart in a folder: what .Capabilities.APIVersions has besides Helm's own list")
	cmd.Flags().BoolVar(&opts.inputs, "inputs", false, "list what was read in place of the objects")
	return cmd
}

func (o renderOptions) render(cmd *cobra.Command, c *cli, arg string) (*source.Rendered, error) {
	if isFolder(arg) {
		if o.revision != "" || o.namespace != "" {
			return nil, errors.New("--revision and --namespace are for Applications, and " + arg + " is a folder")
		}
		rendered, err := o.renderDir(cmd.Context(), arg)
		if used := chartFlags(cmd); err == nil && rendered.Kind != source.KindHelm && len(used) > 0 {
			return nil, fmt.Errorf("%s: for a chart only, and %s is none: it has no Chart.yaml, or a kustomization renders it; leave that away", strings.Join(used, ", "), arg)
		}
		return rendered, err
	}
	if used := chartFlags(cmd); len(used) > 0 {
		return nil, fmt.Errorf("%s: for a chart in a folder, and there is no folder %s; of an Application, spec.source.helm says it", strings.Join(used, ", "), arg)
	}
	if o.root != "" || len(o.keys) > 0 {
		return nil, errors.New("--root and --decryption-key are for folders, and there is no folder " + arg)
	}
	cl, err := c.connect(cmd.ErrOrStderr())
	if err != nil {
		return nil, fmt.Errorf("there is no folder %s; looking for an Application of that name: %w", arg, err)
	}
	app, err := cl.findApp(cmd.Context(), o.namespace, arg)
	if err != nil {
		return nil, err
	}
	return cl.renderApp(cmd.Context(), app, o.revision, o.remotes)
}

// chartFlags are the flags on the command line that say how a chart is rendered.
func chartFlags(cmd *cobra.Command) (used []string) {
	for _, name := range []string{"values", "release-name", "release-namespace", "kube-version", "api-versions"} {
		if cmd.Flags().Changed(name) {
			used = append(used, "--"+name)
		}
	}
	return used
}

func isFolder(arg string) bool {
	if strings.HasPrefix(arg, ".") || strings.Contains(arg, "/") || filepath.IsAbs(arg) {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.IsDir()
}

func (o renderOptions) renderDir(ctx context.Context, dir string) (*source.Rendered, error) {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("rendering %s: there is no such folder: name one that is there, or an Application by its name alone", dir)
	case err != nil:
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	case !info.IsDir():
		return nil, fmt.Errorf("rendering %s: it is a file: name the folder that it is in, %s", dir, filepath.Dir(dir))
	}
	dir, err := realPath(dir)
	if err != nil {
		return nil, err
	}
	root, err := realPath(cmp.Or(o.root, workingTree(dir)))
	if err != nil {
		return nil, fmt.Errorf("rendering %s: --root: %w", dir, err)
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("rendering %s: it is not below the root %s", dir, root)
	}
	keys, err := readKeys(o.keys)
	if err != nil {
		return nil, err
	}
	tree, closer, err := source.OpenDir(root)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	var rendered *source.Rendered
	err = withRemotes(o.remotes, func(repositories *source.Repositories) error {
		tree := tree.WithRemotes(repositories.Remotes(nil, time.Minute))
		rendered, err = source.Render(ctx, tree, filepath.ToSlash(rel), source.Options{Decryption: keys, Helm: o.helm})
		return err
	})
	return rendered, err
}

// readKeys reads files with private keys, which are named like the keys of a Secret.
func readKeys(files []string) (*source.DecryptionKeys, error) {
	if len(files) == 0 {
		return nil, nil
	}
	data := map[string][]byte{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the key: %w", err)
		}
		if ext := filepath.Ext(file); ext != ".agekey" && ext != ".asc" {
			return nil, fmt.Errorf("reading the key %s: its name must end with .agekey, or with .asc for PGP", file)
		}
		data[file] = content
	}
	keys, err := source.DecryptionKeysFromSecret(data)
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %s", strings.TrimPrefix(err.Error(), "its key ")) // a Secret's key is a file here
	}
	return keys, nil
}

// realPath makes a path absolute and follows its links, as the shell's user sees it.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// workingTree returns the folder with a .git around dir, or dir itself.
func workingTree(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

func (o renderOptions) write(out, errOut io.Writer, rendered *source.Rendered) error {
	for _, warning := range rendered.Warnings {
		fmt.Fprintln(errOut, "warning:", warning)
	}
	if o.inputs {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, in := range rendered.Inputs {
			fmt.Fprintf(w, "%s\t%s\n", in.Kind, cmp.Or(in.Path, "."))
		}
		return w.Flush()
	}
	if rendered.Empty != "" {
		fmt.Fprintln(errOut, "warning: nothing to print:", rendered.Empty)
	}
	return source.WriteYAML(out, rendered.Objects)
}
