package sops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds nesting, and maxValues what aliases may make of a file.
const (
	maxDepth  = 512
	maxValues = 1_000_000
)

// yamlIndent is that of sops.
const yamlIndent = 4

func loadYAML(content []byte) ([]document, error) {
	var docs []document
	r := &yamlReader{}
	for dec := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, errors.New("it is no YAML")
		}
		doc := document{line: 1}
		if len(node.Content) > 0 {
			doc.line = node.Content[0].Line
		}
		if doc.root, err = r.root(&node); err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
}

// yamlReader makes branches of nodes, with the comments in the order that SOPS has them in.
type yamlReader struct{ values int }

func commentItems(b branch, text string, inline bool) branch {
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			b = append(b, item{comment: &comment{line[1:], inline}})
		}
	}
	return b
}

func commentValues(list []any, text string, inline bool) []any {
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			list = append(list, comment{line[1:], inline})
		}
	}
	return list
}

func (r *yamlReader) root(n *yaml.Node) (branch, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		b := commentItems(branch{}, n.HeadComment, false)
		b = commentItems(b, n.LineComment, false)
		for _, child := range n.Content {
			inner, err := r.root(child)
			if err != nil {
				return nil, err
			}
			b = append(b, inner...)
		}
		return commentItems(b, n.FootComment, false), nil
	case yaml.MappingNode:
		return r.mapping(n, false, 0)
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return commentItems(branch{}, n.HeadComment, false), nil
		}
	}
	return nil, fmt.Errorf("line %d: a document is no mapping", n.Line)
}

func (r *yamlReader) mapping(n *yaml.Node, commentsDone bool, depth int) (branch, error) {
	b := branch{}
	if !commentsDone {
		b = commentItems(b, n.HeadComment, false)
		b = commentItems(b, n.LineComment, false)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			return nil, fmt.Errorf("line %d: a key is no string", key.Line)
		}
		if seen[key.Value] {
			return nil, fmt.Errorf("line %d: key %q is there twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		b = commentItems(b, key.HeadComment, false)
		b = commentItems(b, key.LineComment, false)
		flat := value.Kind == yaml.ScalarNode || value.Kind == yaml.AliasNode
		if flat {
			b = commentItems(b, value.HeadComment, false)
			b = commentItems(b, value.LineComment, true)
		}
		v, err := r.value(value, flat, depth+1)
		if err != nil {
			return nil, err
		}
		b = append(b, item{key: key.Value, value: v})
		if flat {
			b = commentItems(b, value.FootComment, false)
		}
		b = commentItems(b, key.FootComment, false)
	}
	if !commentsDone {
		b = commentItems(b, n.FootComment, false)
	}
	return b, nil
}

func (r *yamlReader) value(n *yaml.Node, commentsDone bool, depth int) (any, error) {
	if r.values++; r.values > maxValues || depth > maxDepth {
		return nil, fmt.Errorf("line %d: it has too many values, or nests them too deep", n.Line)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return r.mapping(n, commentsDone, depth)
	case yaml.SequenceNode:
		return r.sequence(n, commentsDone, depth)
	case yaml.AliasNode:
		return r.value(n.Alias, false, depth+1)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("line %d: a value is malformed", n.Line)
	}
	return v, nil
}

func (r *yamlReader) sequence(n *yaml.Node, commentsDone bool, depth int) (any, error) {
	var list []any
	if !commentsDone {
		list = commentValues(list, n.HeadComment, false)
		list = commentValues(list, n.LineComment, false)
	}
	for _, child := range n.Content {
		list = commentValues(list, child.HeadComment, false)
		list = commentValues(list, child.LineComment, true)
		v, err := r.value(child, true, depth+1)
		if err != nil {
			return nil, err
		}
		list = commentValues(append(list, v), child.FootComment, false)
	}
	if !commentsDone {
		list = commentValues(list, n.FootComment, false)
	}
	return list, nil
}

func emitYAML(docs []document) ([]byte, error) {
	var out bytes.Buffer
	for i, doc := range docs {
		if i > 0 {
			// Each document stays on its line, so that messages have the right one.
			for newLines(out.Bytes()) < doc.line-2 {
				out.WriteByte('\n')
			}
			out.WriteString("---\n")
		}
		enc := yaml.NewEncoder(&out)
		enc.SetIndent(yamlIndent)
		root := &yaml.Node{Kind: yaml.MappingNode}
		if err := writeBranch(root, doc.root); err != nil {
			return nil, err
		}
		if err := enc.Encode(&yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}); err != nil {
			return nil, errors.New("the result cannot be written as YAML")
		}
		if err := enc.Close(); err != nil {
			return nil, errors.New("the result cannot be written as YAML")
		}
	}
	return out.Bytes(), nil
}

// pending are comments that belong to what comes next.
type pending struct{ head, inline []string }

func (p *pending) add(c comment) {
	if c.inline {
		p.inline = append(p.inline, c.text)
	} else {
		p.head = append(p.head, c.text)
	}
}

// take moves comments to a field of a node.
func take(texts *[]string, to *string) {
	if len(*texts) == 0 {
		return
	}
	text := "#" + strings.Join(*texts, "\n#")
	if *to != "" {
		text = *to + "\n" + text
	}
	*to, *texts = text, nil
}

func writeBranch(to *yaml.Node, b branch) error {
	var p pending
	for _, it := range b {
		if it.comment != nil {
			p.add(*it.comment)
			continue
		}
		if len(to.Content) == 0 {
			take(&p.head, &to.HeadComment)
		}
		key := &yaml.Node{}
		if err := key.Encode(it.key); err != nil {
			return err
		}
		value, err := yamlNode(it.value)
		if err != nil {
			return err
		}
		take(&p.head, &key.HeadComment)
		take(&p.inline, &value.LineComment)
		to.Content = append(to.Content, key, value)
	}
	rest := append(p.head, p.inline...)
	if len(to.Content) == 0 {
		take(&rest, &to.HeadComment)
	} else {
		take(&rest, &to.Content[len(to.Content)-2].FootComment)
	}
	return nil
}

func writeList(to *yaml.Node, list []any) error {
	var p pending
	for _, v := range list {
		if c, ok := v.(comment); ok {
			p.add(c)
			continue
		}
		if len(to.Content) == 0 {
			take(&p.head, &to.HeadComment)
		}
		node, err := yamlNode(v)
		if err != nil {
			return err
		}
		take(&p.head, &node.HeadComment)
		take(&p.inline, &node.LineComment)
		to.Content = append(to.Content, node)
	}
	rest := append(p.head, p.inline...)
	if len(to.Content) == 0 {
		take(&rest, &to.HeadComment)
	} else {
		take(&rest, &to.Content[len(to.Content)-1].FootComment)
	}
	return nil
}

func yamlNode(v any) (*yaml.Node, error) {
	switch v := v.(type) {
	case branch:
		n := &yaml.Node{Kind: yaml.MappingNode}
		return n, writeBranch(n, v)
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		return n, writeList(n, v)
	case comment:
		return yamlNode(v.text)
	case time.Time, string, int, float64, bool, nil:
		n := &yaml.Node{}
		return n, n.Encode(v)
	}
	return nil, fmt.Errorf("a value of type %T cannot be in an encrypted file", v)
}
