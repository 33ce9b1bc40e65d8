package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// exitError ends the program with a code of its own; without err everything has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// explain says what to do about an error of the API server where the error itself does not.
func explain(err error) error {
	var at *url.Error
	switch {
	case isNotInstalled(err):
		return errors.New(`trueup is not installed in this cluster: run "trueup install"`)
	case apierrors.IsUnauthorized(err):
		return errors.New("the API server does not accept these credentials: log in again, or choose another context with --context")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w\nYour user lacks this permission: ask whoever runs the cluster, or choose another context with --context", err)
	case errors.As(err, &at) && !errors.Is(err, context.Canceled):
		host := at.URL
		if u, parseErr := url.Parse(at.URL); parseErr == nil {
			host = u.Host
		}
		if utilnet.IsConnectionRefused(err) {
			return fmt.Errorf("nothing answers at %s: is the cluster up, and is this the right context?", host)
		}
		return fmt.Errorf("asking the API server at %s: %w", host, at.Err)
	}
	return err
}

// isNotInstalled reports whether err says that the API server does not know Applications.
func isNotInstalled(err error) bool {
	var noMatch *meta.NoKindMatchError
	if errors.As(err, &noMatch) {
		return noMatch.GroupKind == v1alpha1.ApplicationKind.GroupKind()
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	// A missing object has its name and no cause; an unknown path of the API has a cause.
	return details != nil && details.Group == v1alpha1.GroupVersion.Group && len(details.Causes) > 0
}

// explainFlag adds to an unknown flag the one that may have been meant.
func explainFlag(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return fmt.Errorf("%w%s\nSee '%s --help'", err, didYouMean("--"+unknown.GetSpecifiedName(), names), cmd.CommandPath())
}

// didYouMean returns "; did you mean X?" for the names that are near what was typed, or nothing.
func didYouMean(typed string, names []string) string {
	near := nearest(typed, names)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", orList(near))
}

// nearest returns at most three of the names that one may have meant, the nearest first.
func nearest(typed string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	bound := max(2, len(typed)/3)
	for _, name := range names {
		d := levenshtein.ComputeDistance(strings.ToLower(typed), strings.ToLower(name))
		if d > bound && strings.HasPrefix(name, typed) {
			d = bound
		}
		if d <= bound {
			near = append(near, candidate{name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var result []string
	for _, c := range near[:min(3, len(near))] {
		result = append(result, c.name)
	}
	return result
}

// orList joins words as English does: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
