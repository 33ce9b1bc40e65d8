package chart

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// ErrVersion says that there is no such version.
var ErrVersion = errors.New("version not found")

// Choose returns which of several versions is wanted, as Helm chooses: the one of that very name, or else the highest one
// in a range; of prereleases only those that the range asks for. "" is the range of all. It is an ErrVersion, which says
// what there is, if there is none.
func Choose(versions []string, wanted string) (string, error) {
	if slices.Contains(versions, wanted) {
		return wanted, nil
	}
	constraint, err := semver.NewConstraint(orAny(wanted))
	if err != nil {
		return "", fmt.Errorf("%w: there is no version %q, and it is no range of versions: %s", ErrVersion, wanted, describe(versions))
	}
	var best *semver.Version
	var found string
	for _, name := range versions {
		v, err := semver.NewVersion(name)
		if err != nil || !constraint.Check(v) {
			continue
		}
		// Of v1.0.0 and 1.0.0, or of two builds of a version, always take the same.
		if best == nil || v.GreaterThan(best) || v.Equal(best) && name > found {
			best, found = v, name
		}
	}
	if best == nil {
		return "", fmt.Errorf("%w: there is no version %s: %s", ErrVersion, orAny(wanted), describe(versions))
	}
	return found, nil
}

// IsExact reports whether a version is one and no range, so that nobody has to be asked which there are.
func IsExact(version string) bool {
	_, err := semver.StrictNewVersion(version)
	return err == nil
}

// IsRange reports whether a version may stand for several; a name that is no version at all is none.
func IsRange(version string) bool {
	_, err := semver.NewConstraint(orAny(version))
	return err == nil
}

func orAny(version string) string {
	if version == "" {
		return "*"
	}
	return version
}

// describe lists versions, the highest first.
func describe(versions []string) string {
	const most = 8
	var parsed []*semver.Version
	for _, name := range versions {
		if v, err := semver.NewVersion(name); err == nil {
			parsed = append(parsed, v)
		}
	}
	if len(parsed) == 0 {
		return "it has no versions"
	}
	slices.SortFunc(parsed, func(a, b *semver.Version) int { return b.Compare(a) })
	var names []string
	for _, v := range parsed[:min(most, len(parsed))] {
		names = append(names, v.Original())
	}
	if n := len(parsed) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return "it has " + strings.Join(names, ", ")
}
