package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/health"
)

// healthRules is a setting that is a list of health rules, written as YAML or JSON.
type healthRules struct{ rules *[]health.Rule }

func (r healthRules) Type() string { return "rules" }

func (r healthRules) String() string {
	if r.rules == nil || len(*r.rules) == 0 {
		return ""
	}
	text, err := yaml.Marshal(*r.rules)
	if err != nil {
		return err.Error() // not reached: a rule is nothing but strings
	}
	return string(text)
}

func (r healthRules) Set(text string) error {
	var rules []health.Rule
	if err := yaml.UnmarshalStrict([]byte(text), &rules); err != nil {
		return fmt.Errorf("must be a list of rules with group, kind, degraded, suspended, progressing, healthy and message: %s",
			strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	*r.rules = rules
	return nil
}

// setValue sets a setting that is no single value in the configuration file.
func (r healthRules) setValue(value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return r.Set(string(text))
}
