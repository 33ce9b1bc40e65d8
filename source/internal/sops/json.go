package sops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

func loadJSON(content []byte) ([]document, error) {
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.UseNumber()
	v, err := jsonValue(dec, 0)
	if err != nil {
		return nil, err
	}
	root, ok := v.(branch)
	if !ok {
		return nil, errors.New("it is no JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return []document{{root, 1}}, nil
}

var errJSON = errors.New("it is no JSON")

func jsonValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it nests more than %d levels deep", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, errJSON
	}
	switch token := token.(type) {
	case json.Number:
		if n, err := token.Int64(); err == nil {
			return int(n), nil
		}
		f, err := token.Float64()
		if err != nil {
			return nil, errors.New("a number is too large")
		}
		return f, nil
	case json.Delim:
		if token == '[' {
			return jsonList(dec, depth)
		}
		return jsonObject(dec, depth)
	}
	return token, nil
}

func jsonList(dec *json.Decoder, depth int) (any, error) {
	list := []any{}
	for dec.More() {
		v, err := jsonValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errJSON
	}
	return list, nil
}

func jsonObject(dec *json.Decoder, depth int) (any, error) {
	b := branch{}
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, errJSON
		}
		v, err := jsonValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		b = append(b, item{key: key, value: v})
	}
	if _, err := dec.Token(); err != nil {
		return nil, errJSON
	}
	return b, nil
}

func emitJSON(docs []document) ([]byte, error) {
	var flat, out bytes.Buffer
	if err := writeJSON(&flat, docs[0].root); err != nil {
		return nil, err
	}
	if err := json.Indent(&out, flat.Bytes(), "", "\t"); err != nil {
		return nil, errors.New("the result cannot be written as JSON")
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func writeJSON(out *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case branch:
		out.WriteByte('{')
		comma := ""
		for _, it := range v {
			if it.comment != nil {
				continue
			}
			out.WriteString(comma)
			comma = ","
			if err := writeJSON(out, it.key); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := writeJSON(out, it.value); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	case []any:
		out.WriteByte('[')
		comma := ""
		for _, child := range v {
			if _, ok := child.(comment); ok {
				continue
			}
			out.WriteString(comma)
			comma = ","
			if err := writeJSON(out, child); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return errors.New("the result cannot be written as JSON")
	}
	out.Write(raw)
	return nil
}

func loadDotenv(content []byte) ([]document, error) {
	root := branch{}
	for i, line := range strings.Split(string(content), "\n") {
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "":
		case line[0] == '#':
			root = append(root, item{comment: &comment{text: line[1:]}})
		case !ok:
			return nil, fmt.Errorf("line %d has no =", i+1)
		default:
			root = append(root, item{key: key, value: strings.ReplaceAll(value, `\n`, "\n")})
		}
	}
	return []document{{root, 1}}, nil
}

func emitDotenv(docs []document) ([]byte, error) {
	var out bytes.Buffer
	for _, it := range docs[0].root {
		if it.comment != nil {
			fmt.Fprintf(&out, "#%s\n", it.comment.text)
			continue
		}
		value := ""
		switch v := it.value.(type) {
		case string:
			value = strings.ReplaceAll(v, "\n", `\n`)
		case int:
			value = strconv.Itoa(v)
		case bool:
			value = strconv.FormatBool(v)
		case time.Time:
			value = v.Format(time.RFC3339)
		default:
			return nil, fmt.Errorf("%s has a value that a dotenv file cannot have", it.key)
		}
		fmt.Fprintf(&out, "%s=%s\n", it.key, value)
	}
	return out.Bytes(), nil
}
