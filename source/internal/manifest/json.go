package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// jsonDocuments reads a stream of JSON values. Unlike encoding/json it refuses keys that are given twice.
func jsonDocuments(content []byte) ([]rawDocument, error) {
	d := jsonReader{content: content, dec: json.NewDecoder(bytes.NewReader(content))}
	d.dec.UseNumber()
	var docs []rawDocument
	for {
		tok, err := d.dec.Token()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, d.errorf("invalid JSON: %s", err)
		}
		line := d.line()
		value, err := d.value(tok, 0)
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		object, _ := value.(map[string]any)
		_, hasVersion := object["apiVersion"]
		_, hasKind := object["kind"]
		docs = append(docs, rawDocument{
			line:   line,
			claims: hasVersion || hasKind,
			value:  func() (any, error) { return value, nil },
		})
	}
}

type jsonReader struct {
	content []byte
	dec     *json.Decoder

	counted  int64 // how far newlines were counted
	newlines int
}

// line returns the line the reader is on.
func (d *jsonReader) line() int {
	offset := d.dec.InputOffset()
	d.newlines += bytes.Count(d.content[d.counted:offset], []byte("\n"))
	d.counted = offset
	return 1 + d.newlines
}

func (d *jsonReader) errorf(format string, args ...any) error {
	return &Error{Line: d.line(), Msg: fmt.Sprintf(format, args...)}
}

func (d *jsonReader) next() (json.Token, error) {
	tok, err := d.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, d.errorf("invalid JSON: %s", err)
	}
	return tok, nil
}

func (d *jsonReader) value(tok json.Token, depth int) (any, error) {
	if depth > maxDepth {
		return nil, d.errorf("nested more than %d levels deep", maxDepth)
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			return d.object(depth)
		}
		return d.array(depth)
	case json.Number:
		if i, err := strconv.ParseInt(tok.String(), 10, 64); err == nil {
			return i, nil
		}
		f, err := tok.Float64()
		if err != nil {
			return nil, d.errorf("number out of range")
		}
		return f, nil
	default:
		return tok, nil
	}
}

func (d *jsonReader) object(depth int) (any, error) {
	m := map[string]any{}
	for {
		tok, err := d.next()
		if err != nil {
			return nil, err
		}
		if tok == json.Delim('}') {
			return m, nil
		}
		key := tok.(string) // the decoder lets nothing else through
		if _, twice := m[key]; twice {
			return nil, d.errorf("key %q is set twice", key)
		}
		if tok, err = d.next(); err != nil {
			return nil, err
		}
		if m[key], err = d.value(tok, depth+1); err != nil {
			return nil, err
		}
	}
}

func (d *jsonReader) array(depth int) (any, error) {
	list := []any{}
	for {
		tok, err := d.next()
		if err != nil {
			return nil, err
		}
		if tok == json.Delim(']') {
			return list, nil
		}
		v, err := d.value(tok, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}
