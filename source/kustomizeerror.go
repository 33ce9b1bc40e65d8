package source

import (
	"cmp"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/trueup/trueup/source/internal/manifest"
	"github.com/trueup/trueup/source/mask"
)

// kustomizeContent matches where kustomize's messages repeat what a file says. It may be the data of a Secret.
var kustomizeContent = regexp.MustCompile("(?s)" + strings.Join([]string{
	"( with config): `.*?`",
	`(literal sources) \[.*?\](?:: |$)`,
	`(invalid literal source) .*, expected`,
	`(invalid utf8 bytes) : .*`,
	`(must specify one of patch and path) in\n.*`,
	`(patch and path can't be set at the same time)\n.*`,
	`\[(patch): .*?"\]`,
	`(must specify a target for (?:JSON )?patch) .*`,
	`(decoding) .*`,
	`((?:roleRef|apiGroup|kind) cannot be found in) .*`,
	`(empty item at .* in object) .*`,
}, "|"))

// explain returns what to tell of a failed build: the reason why a read was refused, or the place of invalid YAML, if
// that is what failed it; else kustomize's words, in one line and without what files contain.
func (k *kustomizeFS) explain(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refused != nil {
		return k.refused
	}
	text := err.Error()
	if strings.Contains(text, "yaml: ") || strings.Contains(text, "MalformedYAML") {
		if bad := k.invalidYAML(); bad != nil {
			return bad
		}
	}
	text = kustomizeContent.ReplaceAllString(text, "$1$2$3$4$5$6$7$8$9$10$11")
	text = mask.New(k.literals).Text(text)
	for _, m := range k.mounts {
		text = regexp.MustCompile(`(\.\./)*(\.\.)?`+regexp.QuoteMeta(m.root)).ReplaceAllLiteralString(text, m.label)
	}
	for name, f := range k.remoteFiles {
		text = strings.ReplaceAll(text, path.Base(name), f.label)
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}

// invalidYAML returns the first file that was read and is no YAML, although its name says so.
func (k *kustomizeFS) invalidYAML() error {
	names := make([]string, 0, len(k.read))
	for name := range k.read {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare)
	for _, name := range names {
		switch path.Ext(name) {
		case ".yaml", ".yml", ".json", "":
			if err := manifest.CheckSyntax(name, k.read[name]); err != nil {
				return err
			}
		}
	}
	return nil
}
