package helm

import (
	"errors"
	"regexp"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"

	"github.com/trueup/trueup/source/mask"
)

var (
	// location is where Helm's errors say that it happened: chart/templates/x.yaml:3:14.
	location = regexp.MustCompile(`([\w.-]+/(?:[^\s:()"]+/)*[^\s:()"]+):(\d+)(?::\d+)?`)
	// quotedTemplate is the text of a template that the function tpl was given. It may be the data of a Secret.
	quotedTemplate = regexp.MustCompile(`(?s)((?:cannot parse template|tpl function execution for)) "(?:[^"\\]|\\.)*"`)
	secretTemplate = regexp.MustCompile(`(?m)^\s*kind:\s*["']?Secret\b`)
	secretName     = regexp.MustCompile(`(?i)pass|secret|token|key|cred|private|auth`)
)

// explain returns what to tell of a template that failed: the place with the path of the file in the repository, and no
// value that may be a Secret's.
func (r *renderer) explain(err error) error {
	text := err.Error()
	template := ""
	if m := location.FindStringSubmatch(text); m != nil {
		template = r.template(m[1])
	}
	text = location.ReplaceAllStringFunc(text, func(at string) string {
		m := location.FindStringSubmatch(at)
		if r.template(m[1]) == "" && !strings.HasPrefix(m[1], r.chart.Name()+"/") {
			return at
		}
		return r.place(m[1]) + ":" + m[2]
	})
	return r.hide(template, errors.New(text))
}

// hide takes out of an error what may be the data of a Secret: values with a telling name, and where it comes from the
// template of a Secret, all values.
func (r *renderer) hide(template string, err error) error {
	text := quotedTemplate.ReplaceAllString(err.Error(), `$1 (a text)`)
	all := secretTemplate.MatchString(template)
	hidden := secrets(nil, r.given, all)
	hidden = secrets(hidden, r.chart.Values, all)
	if values, ok := r.top["Values"]; ok {
		hidden = secrets(hidden, asMap(values), all)
	}
	return errors.New(strings.Join(strings.Fields(mask.New(hidden).Text(text)), " "))
}

// secrets appends the texts below v that may be secret.
func secrets(out []string, v any, all bool) []string {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			out = secrets(out, child, all || secretName.MatchString(k))
		}
	case []any:
		for _, child := range v {
			out = secrets(out, child, all)
		}
	case string:
		if all && len(v) > 3 {
			out = append(out, v)
		}
	}
	return out
}

func asMap(v any) any {
	if values, ok := v.(common.Values); ok {
		return values.AsMap()
	}
	return v
}
