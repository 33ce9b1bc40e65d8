package v1alpha1

import (
	"fmt"
	"strings"
)

// AllSources returns the sources, one or several, and what to call each in messages: nothing where there is only one.
// They must not be changed.
func (s *ApplicationSpec) AllSources() (sources []Source, names []string) {
	if len(s.Sources) == 0 {
		return []Source{s.Source}, []string{""}
	}
	for i := range s.Sources {
		names = append(names, fmt.Sprintf("sources[%d]", i))
	}
	return s.Sources, names
}

// IsRendered reports whether a source gives objects; one that only has a ref does not.
func (s *Source) IsRendered() bool { return s.Ref == "" || s.Path != "" }

// MainSource is the source that stands for all of them where there is room for one: the first.
func (s *ApplicationSpec) MainSource() *Source {
	if len(s.Sources) == 0 {
		return &s.Source
	}
	return &s.Sources[0]
}

// ShortRevision returns as much of a revision as people need: seven characters of a commit, the version of a chart, or the
// beginning of its digest where the version is not known.
func ShortRevision(revision string) string {
	const digest = "sha256:"
	if version, _, ok := strings.Cut(revision, "@"+digest); ok {
		return version
	}
	n := 7
	if strings.HasPrefix(revision, digest) {
		n += len(digest)
	}
	return revision[:min(n, len(revision))]
}
