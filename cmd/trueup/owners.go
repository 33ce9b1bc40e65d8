package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

func newOwnersCommand(c *cli) *cobra.Command {
	namespace, output := "", "text"
	cmd := &cobra.Command{
		Use:     "owners APP KIND/NAME",
		Short:   "Show who owns each field of an object, since when, and what is done about it",
		GroupID: groupApps,
		Long: `Show each field that Git declares of an object, and each that a person added: who owns it by the object's managed
fields, since when, and what the agent does about it. Ours is as Git declares it; Enforce is put back to what Git says;
Yield is left to its owner and counts as in sync; Hold is left to its owner and counts as out of sync. Beside it is the
rule that decides: "trueup explain policies" lists them.

A time is when the owner last wrote to the object. Write NAMESPACE/KIND/NAME where a name is in several namespaces.`,
		Example: `  trueup owners shop deployment/web
  trueup owners shop staging/deployment/web -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("say which Application, and which KIND/NAME of its objects\nSee '%s --help'", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: c.completeApps,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, app, err := c.openApp(cmd, namespace, args[0])
			if err != nil {
				return err
			}
			var owners *sync.Owners
			err = withRepositories(func(repositories *source.Repositories) (err error) {
				owners, err = sync.NewOwners(cmd.Context(), cl.Clients, repositories, app, func(objects []*sync.Desired) (*sync.Desired, error) {
					return cl.findDesired(objects, args[1])
				})
				return err
			})
			if err != nil {
				return err
			}
			if output == "json" {
				return writeOwnersJSON(cmd.OutOrStdout(), app, owners)
			}
			writeOwners(cmd.OutOrStdout(), c.palette(cmd.OutOrStdout()), app, owners)
			return nil
		},
	}
	addNamespaceFlag(cmd, &namespace, "", namespaceUsage)
	cmd.Flags().VarP(oneOf(&output, "text", "json"), "output", "o", "text or json")
	mustCompleteFlag(cmd, "output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// findDesired returns the object that [NAMESPACE/]KIND/NAME means. The error says what to type instead.
func (cl *cluster) findDesired(objects []*sync.Desired, arg string) (*sync.Desired, error) {
	ids := make([]diff.ID, len(objects))
	for i, d := range objects {
		ids[i] = d.ID
	}
	i, err := cl.findObject(ids, arg)
	if err != nil {
		return nil, err
	}
	return objects[i], nil
}

// writeOwners prints one line for each field, and what there is to know about all of them.
func writeOwners(w io.Writer, p palette, app *v1alpha1.Application, o *sync.Owners) {
	head := table{}
	head.add(cell{"Object", bold}, cell{text: o.Desired.ID.String()})
	head.add(cell{"Declared in", bold}, cell{text: o.Desired.Origin + " at " + shortRevision(o.Revision)})
	note, noteStyle := ownersNote(app, o)
	if note != "" {
		head.add(cell{"Note", bold}, cell{note, noteStyle})
	}
	head.write(w, p)
	if len(o.Fields) == 0 {
		return
	}
	fmt.Fprintln(w)
	fields := table{}
	fields.header("FIELD", "OWNER", "SINCE", "DECISION", "RULE", "WHY")
	for _, f := range o.Fields {
		since := ""
		if !f.Owner.Time.IsZero() {
			since = age(metav1.NewTime(f.Owner.Time))
		}
		fields.add(cell{text: f.Path.String()}, cell{text: ownerWords(f.Owner)}, cell{text: cmp.Or(since, "-")},
			cell{string(f.Verdict), verdictStyle(f.Verdict)}, cell{text: cmp.Or(f.Rule, "-")}, cell{text: f.Reason})
	}
	fields.write(w, p)
}

// ownersNote is what a person should know before reading about single fields.
func ownersNote(app *v1alpha1.Application, o *sync.Owners) (string, style) {
	enforced := false
	for _, f := range o.Fields {
		enforced = enforced || f.Verdict == diff.Enforce
	}
	switch policy := sync.PolicyOf(app.Spec.SyncPolicy); {
	case !o.Exists:
		return "it is not in the cluster: a sync creates it with every field that Git declares", yellow
	case o.Refused != "":
		return "it " + o.Refused, red
	case len(o.Fields) == 0:
		return "its API server keeps no managed fields: who owns what cannot be told", yellow
	case enforced && !policy.SelfHeal:
		return `self-heal is off: what is to be enforced waits for "trueup sync ` + app.Name + `"`, yellow
	}
	return "", plain
}

func verdictStyle(v diff.Verdict) style {
	switch v {
	case diff.Ours:
		return green
	case diff.Hold:
		return red
	case diff.Enforce:
		return yellow
	}
	return cyan
}

// ownerWords names an owner with how it wrote: kubectl (Update, scale).
func ownerWords(o diff.Owner) string {
	how := strings.Join(nonEmpty(o.Operation, o.Subresource), ", ")
	if o.Manager == "" || how == "" {
		return ownerName(o.Manager, "")
	}
	return o.Manager + " (" + how + ")"
}

// ownedField is a field for programs.
type ownedField struct {
	Path        string       `json:"path"`
	Manager     string       `json:"manager,omitempty"`
	Operation   string       `json:"operation,omitempty"`
	Subresource string       `json:"subresource,omitempty"`
	Since       *metav1.Time `json:"since,omitempty"`
	Decision    diff.Verdict `json:"decision"`
	Rule        string       `json:"rule,omitempty"`
	Reason      string       `json:"reason"`
}

func writeOwnersJSON(w io.Writer, app *v1alpha1.Application, o *sync.Owners) error {
	fields := []ownedField{}
	for _, f := range o.Fields {
		field := ownedField{
			Path: f.Path.String(), Manager: f.Owner.Manager, Operation: f.Owner.Operation, Subresource: f.Owner.Subresource,
			Decision: f.Verdict, Rule: f.Rule, Reason: f.Reason,
		}
		if !f.Owner.Time.IsZero() {
			t := metav1.NewTime(f.Owner.Time)
			field.Since = &t
		}
		fields = append(fields, field)
	}
	id := o.Desired.ID
	note, _ := ownersNote(app, o)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		Application string                   `json:"application"`
		Object      v1alpha1.ObjectReference `json:"object"`
		Origin      string                   `json:"origin"`
		Revision    string                   `json:"revision"`
		Exists      bool                     `json:"exists"`
		Note        string                   `json:"note,omitempty"`
		Fields      []ownedField             `json:"fields"`
	}{
		app.Namespace + "/" + app.Name, v1alpha1.ObjectReference{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name},
		o.Desired.Origin, o.Revision, o.Exists, note, fields,
	})
}
