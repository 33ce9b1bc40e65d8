package helm

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"

	"github.com/trueup/trueup/source/internal/sandbox"
	"github.com/trueup/trueup/source/mask"
)

// values merges what was given besides the chart's own values, as `helm template` merges --values, --set, --set-string
// and --set-file.
func values(req Request, files sandbox.Files) (map[string]any, error) {
	merged := map[string]any{}
	for _, source := range req.Values {
		if source.File != "" {
			content, err := files.ReadFile(source.File)
			if err != nil {
				return nil, err
			}
			v, err := loader.LoadValues(bytes.NewReader(content))
			if err != nil {
				return nil, fmt.Errorf("reading the values in %s: %w", source.File, err)
			}
			merged = loader.MergeMaps(merged, v)
		}
		v, err := loader.LoadValues(strings.NewReader(source.YAML))
		if err != nil {
			return nil, fmt.Errorf("reading the values in the chart's options: %w", err)
		}
		merged = loader.MergeMaps(merged, v)
	}
	for _, force := range []bool{false, true} {
		parse := strvals.ParseInto
		if force {
			parse = strvals.ParseIntoString
		}
		for _, p := range req.Parameters {
			if p.ForceString != force {
				continue
			}
			if err := parse(p.Name+"="+escapeCommas(p.Value), merged); err != nil {
				return nil, fmt.Errorf("setting helm.parameters %s: %w", p.Name, mask.New([]string{p.Value}).Error(err))
			}
		}
	}
	for _, p := range req.FileParameters {
		read := func(name []rune) (any, error) {
			content, err := files.ReadFile(string(name))
			return string(content), err
		}
		if err := strvals.ParseIntoFile(p.Name+"="+escapeCommas(p.Value), merged, read); err != nil {
			return nil, fmt.Errorf("setting helm.fileParameters %s: %w", p.Name, err)
		}
	}
	return merged, nil
}

var bareComma = regexp.MustCompile(`(\\*),`)

// escapeCommas keeps a parameter that has commas in it one parameter, except for a list in braces. This is how Argo CD
// hands parameters to Helm.
func escapeCommas(value string) string {
	if strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") {
		return value
	}
	return bareComma.ReplaceAllStringFunc(value, func(comma string) string {
		if len(comma)%2 == 0 { // an odd number of backslashes and the comma: escaped
			return comma
		}
		return comma[:len(comma)-1] + `\,`
	})
}
