package source

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// A Revision is what a branch, a tag, a range of tags or a commit stood for when the server was asked.
type Revision struct {
	Commit string
	Ref    string // refs/heads/… or refs/tags/…; "" for a commit
	Tag    string // the object of an annotated tag; "" if Ref is none
}

var (
	fullCommit  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	shortCommit = regexp.MustCompile(`^[0-9a-f]{7,39}$`)
)

// remoteRefs are the references of a repository.
type remoteRefs struct {
	adv     *packp.AdvRefs
	commits map[string]plumbing.Hash // by full name, annotated tags peeled
	head    string                   // the branch that HEAD is, "" if the server does not say
}

func newRemoteRefs(adv *packp.AdvRefs) *remoteRefs {
	r := &remoteRefs{adv: adv, commits: make(map[string]plumbing.Hash, len(adv.References))}
	for name, h := range adv.References {
		r.commits[name] = h
	}
	for name, h := range adv.Peeled {
		r.commits[name] = h
	}
	for _, ref := range adv.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(ref, "HEAD:"); ok {
			r.head = target
		}
	}
	return r
}

var errNoSuchRevision = errors.New("no such revision")

// lookup returns what a revision other than a commit stands for.
func (r *remoteRefs) lookup(revision string) (Revision, error) {
	if revision == "" || revision == "HEAD" {
		if r.adv.Head == nil {
			return Revision{}, errors.New("it has no default branch: name a branch in targetRevision")
		}
		return Revision{Commit: r.adv.Head.String(), Ref: r.head}, nil
	}
	// The order in which git looks names up.
	for _, name := range []string{revision, "refs/" + revision, "refs/tags/" + revision, "refs/heads/" + revision} {
		if _, ok := r.commits[name]; ok && strings.HasPrefix(name, "refs/") {
			return r.revision(name), nil
		}
	}
	if shortCommit.MatchString(revision) {
		for name, h := range r.commits {
			if strings.HasPrefix(h.String(), revision) {
				return r.revision(name), nil
			}
		}
	}
	return r.lookupRange(revision)
}

// lookupRange returns the highest tag in a semver range.
func (r *remoteRefs) lookupRange(revision string) (Revision, error) {
	constraint, err := semver.NewConstraint(revision)
	if err != nil {
		return Revision{}, errNoSuchRevision
	}
	var best *semver.Version
	var found string
	for name := range r.commits {
		tag, ok := strings.CutPrefix(name, "refs/tags/")
		if !ok {
			continue
		}
		v, err := semver.NewVersion(tag)
		if err != nil || !constraint.Check(v) {
			continue
		}
		// Of v1.0.0 and 1.0.0, or of two builds of a version, always take the same.
		if best == nil || v.GreaterThan(best) || (v.Equal(best) && name > found) {
			best, found = v, name
		}
	}
	if best == nil {
		return Revision{}, errNoSuchRevision
	}
	return r.revision(found), nil
}

// revision returns what a reference stands for.
func (r *remoteRefs) revision(ref string) Revision {
	rev := Revision{Commit: r.commits[ref].String(), Ref: ref}
	if _, annotated := r.adv.Peeled[ref]; annotated {
		rev.Tag = r.adv.References[ref].String()
	}
	return rev
}

// describe says what a missing revision may have meant.
func (r *remoteRefs) describe(revision string) string {
	var names []string
	for name := range r.commits {
		if short, ok := shortName(name); ok {
			names = append(names, short)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "it has no branches and no tags"
	}
	return "it has " + strings.Join(nearest(revision, names, 8), ", ")
}

func shortName(ref string) (string, bool) {
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		if short, ok := strings.CutPrefix(ref, prefix); ok {
			return short, true
		}
	}
	return "", false
}

func (r *remoteRefs) noSuchRevision(revision string) error {
	what := fmt.Sprintf("branch or tag %q does not exist", revision)
	switch _, err := semver.NewConstraint(revision); {
	case shortCommit.MatchString(revision) || fullCommit.MatchString(revision):
		what = fmt.Sprintf("commit %s does not exist", revision)
	case err == nil:
		what = fmt.Sprintf("no tag is in the version range %q", revision)
	}
	return fmt.Errorf("%w: %s: %s", ErrRevision, what, r.describe(revision))
}
