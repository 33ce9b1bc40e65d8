package helm

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// checkSchemas refuses a schema that would have the validator read other files or URLs.
func checkSchemas(dir string, c *chart.Chart) error {
	if len(c.Schema) > 0 {
		if err := checkSchema(path.Join(dir, "values.schema.json"), c.Schema); err != nil {
			return err
		}
	}
	for _, sub := range c.Dependencies() {
		if err := checkSchemas(path.Join(dir, "charts", sub.Name()), sub); err != nil {
			return err
		}
	}
	return nil
}

func checkSchema(file string, schema []byte) error {
	var parsed any
	if err := json.Unmarshal(schema, &parsed); err != nil {
		return fmt.Errorf("%s is no JSON: %w", file, err)
	}
	own := schemaTexts(parsed, "$id", "id")
	for _, ref := range schemaTexts(parsed, "$ref", "$dynamicRef", "$recursiveRef") {
		document, _, _ := strings.Cut(ref, "#")
		if document != "" && !slices.Contains(own, document) {
			return fmt.Errorf("%s: $ref %q is not in this file, and nothing else is read: copy it into the file and refer to it by #/…", file, ref)
		}
	}
	for _, meta := range schemaTexts(parsed, "$schema") {
		if !strings.HasPrefix(meta, "http://json-schema.org/") && !strings.HasPrefix(meta, "https://json-schema.org/") {
			return fmt.Errorf("%s: $schema %q is none of json-schema.org's, and no other is read", file, meta)
		}
	}
	return nil
}

// schemaTexts returns the texts at some keys, anywhere in a schema.
func schemaTexts(v any, keys ...string) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if text, ok := child.(string); ok && slices.Contains(keys, k) {
				out = append(out, strings.TrimSuffix(text, "#"))
			}
			out = append(out, schemaTexts(child, keys...)...)
		}
	case []any:
		for _, child := range v {
			out = append(out, schemaTexts(child, keys...)...)
		}
	}
	return out
}
