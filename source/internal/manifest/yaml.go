package manifest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth bounds nesting. The deepest CRDs in use nest about 60 levels.
	maxDepth = 512
	// maxExpansion bounds what aliases may add to a file, in bytes and nodes.
	maxExpansion = 10 << 20
)

// CheckYAML returns an error when content is YAML that aliases or nesting make too large to expand. Content that is no
// YAML at all is none of its business: it returns nil.
func CheckYAML(file string, content []byte) error {
	expands := bytes.ContainsRune(content, '*') && bytes.ContainsRune(content, '&')
	if !expands && !mayNestDeep(content) {
		return nil
	}
	_, err := yamlDocuments(content)
	if e := (&Error{}); errors.As(err, &e) && (e.Msg == errExpansion || e.Msg == errDepth) {
		return inFile(file, err)
	}
	return nil
}

// mayNestDeep reports whether content may be nested too deeply, at the price of counting: each level takes a bracket or a
// column, or two levels one column where the items of a list stand below their key.
func mayNestDeep(content []byte) bool {
	brackets, column := 0, 0
	for _, c := range content {
		switch c {
		case '[', '{':
			brackets++
		case '\n':
			column = 0
			continue
		case ' ', '-', '?', ':':
			if column >= 0 {
				column++
			}
			if column >= maxDepth/4 {
				return true
			}
			continue
		}
		column = -1
	}
	return brackets >= maxDepth/2
}

var errDepth = fmt.Sprintf("nested more than %d levels deep", maxDepth)

const errExpansion = "aliases expand to too much data"

var yamlErrorLine = regexp.MustCompile(`^yaml: line (\d+): (.*)`)

func yamlDocuments(content []byte) ([]rawDocument, error) {
	var docs []rawDocument
	dec := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, yamlError(err, 1+bytes.Count(bytes.TrimSpace(content), []byte("\n")))
		}
		if len(doc.Content) == 0 || isNull(doc.Content[0]) {
			continue
		}
		root := doc.Content[0]
		if err := checkExpansion(root); err != nil {
			return nil, err
		}
		docs = append(docs, rawDocument{
			line:     root.Line,
			claims:   find(root, "apiVersion") != nil || find(root, "kind") != nil,
			value:    func() (any, error) { return convert(root) },
			itemLine: func(i int) int { return itemLine(root, i) },
		})
	}
}

func yamlError(err error, lines int) error {
	if m := yamlErrorLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		if strings.HasPrefix(m[2], "did not find expected") {
			line++ // the errors of the parser, unlike those of the scanner below it, count from 0
		}
		return &Error{Line: min(line, lines), Msg: "invalid YAML: " + m[2]}
	}
	return &Error{Msg: "invalid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// find returns the value of a key of a mapping, nil if there is none.
func find(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func itemLine(list *yaml.Node, i int) int {
	if items := find(list, "items"); items != nil && items.Kind == yaml.SequenceNode && i < len(items.Content) {
		return items.Content[i].Line
	}
	return list.Line
}

// checkExpansion returns an error when expanding the aliases below root would make it too large or endless, or when it
// is nested too deeply. It visits each node once.
func checkExpansion(root *yaml.Node) error {
	c := expansion{anchors: map[*yaml.Node]int{}}
	total, err := c.weigh(root, 0)
	if err != nil {
		return err
	}
	if total-c.plain > maxExpansion {
		return &Error{Line: root.Line, Msg: errExpansion}
	}
	return nil
}

type expansion struct {
	plain   int                // weight of the nodes as written
	anchors map[*yaml.Node]int // weight with aliases expanded; -1 while being weighed
}

func (c *expansion) weigh(n *yaml.Node, depth int) (int, error) {
	if depth > maxDepth {
		return 0, &Error{Line: n.Line, Msg: errDepth}
	}
	if n.Kind == yaml.AliasNode {
		w, ok := c.anchors[n.Alias]
		if !ok || w < 0 {
			return 0, &Error{Line: n.Line, Msg: fmt.Sprintf("anchor %q contains itself", n.Value)}
		}
		return w, nil
	}
	if n.Anchor != "" {
		c.anchors[n] = -1
	}
	own := 16 + len(n.Value)
	c.plain += own
	total := own
	for _, child := range n.Content {
		w, err := c.weigh(child, depth+1)
		if err != nil {
			return 0, err
		}
		// Saturate: a bomb overflows an int as easily as it does memory.
		total = min(total+w, math.MaxInt32)
	}
	if n.Anchor != "" {
		c.anchors[n] = total
	}
	return total, nil
}

// convert returns the value of a node as the Kubernetes API machinery would decode it.
func convert(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return convert(n.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, err := convert(item)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case yaml.MappingNode:
		return convertMapping(n)
	default:
		return convertScalar(n)
	}
}

func convertMapping(n *yaml.Node) (map[string]any, error) {
	m := make(map[string]any, len(n.Content)/2)
	lines := make(map[string]int, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		name, err := keyName(key)
		if err != nil {
			return nil, err
		}
		if first, twice := lines[name]; twice {
			return nil, &Error{Line: key.Line, Msg: fmt.Sprintf("key %q is already set on line %d", name, first)}
		}
		lines[name] = key.Line
		if m[name], err = convert(value); err != nil {
			return nil, err
		}
	}
	for _, value := range merges {
		if err := merge(m, value); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// merge adds the keys of a mapping, or of each of a list of mappings, that m does not have yet.
func merge(m map[string]any, n *yaml.Node) error {
	source := n
	if source.Kind == yaml.AliasNode {
		source = source.Alias
	}
	switch source.Kind {
	case yaml.SequenceNode:
		for _, item := range source.Content {
			if err := merge(m, item); err != nil {
				return err
			}
		}
		return nil
	case yaml.MappingNode:
		more, err := convertMapping(source)
		if err != nil {
			return err
		}
		for k, v := range more {
			if _, set := m[k]; !set {
				m[k] = v
			}
		}
		return nil
	}
	return &Error{Line: n.Line, Msg: "a merge key needs a mapping or a list of mappings"}
}

// keyName returns a mapping key as a string, the way kubectl makes strings of numbers and booleans.
func keyName(n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode {
		v, err := convertScalar(n)
		if err != nil {
			return "", err
		}
		switch v := v.(type) {
		case string:
			return v, nil
		case bool:
			return strconv.FormatBool(v), nil
		case int64:
			return strconv.FormatInt(v, 10), nil
		case float64:
			return strconv.FormatFloat(v, 'g', -1, 32), nil
		}
	}
	return "", &Error{Line: n.Line, Msg: "a mapping key must be a string"}
}

// convertScalar resolves a scalar. YAML 1.1 booleans and timestamps follow sigs.k8s.io/yaml: the former are booleans,
// the latter strings.
func convertScalar(n *yaml.Node) (any, error) {
	tag := n.ShortTag()
	if tag == "!!bool" || n.Style == 0 {
		switch n.Value {
		case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
			return true, nil
		case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
			return false, nil
		}
	}
	switch tag {
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, &Error{Line: n.Line, Msg: "invalid " + strings.TrimPrefix(tag, "!!")}
		}
		return normalNumber(n, v)
	case "!!binary":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return nil, &Error{Line: n.Line, Msg: "!!binary is not base64"}
		}
		return string(b), nil
	}
	return n.Value, nil
}

func normalNumber(n *yaml.Node, v any) (any, error) {
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case uint64:
		return float64(v), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, &Error{Line: n.Line, Msg: n.Value + " is no number that JSON can hold"}
		}
		return integral(v), nil
	}
	return v, nil
}

// integral returns v as an int64 if it is one, as a round trip through JSON would.
func integral(v float64) any {
	if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
		return int64(v)
	}
	return v
}
