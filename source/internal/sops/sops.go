// Package sops decrypts files that Mozilla's SOPS has encrypted, with age and PGP keys that it is given. Start reading at
// Decrypt.
//
// The format is read here, and not by the library of SOPS, because that one brings the clients of five clouds into the
// program with it. Nothing is executed and nothing is asked over the network; files whose data key only a cloud's key
// service has are refused. No error repeats what a file or a key contains.
package sops

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
)

// ErrEncrypted says that a file is encrypted and that there is nothing to decrypt it with.
var ErrEncrypted = errors.New("the file is encrypted with SOPS")

// Plain is what an encrypted file has in it.
type Plain struct {
	Content []byte
	// Secrets are the texts that were encrypted, each line of them for itself too. What Kubernetes needs to know an object
	// by is left out: apiVersion, kind and metadata.
	Secrets []string
}

// Files are kept in one of these formats.
type format string

const (
	formatYAML   format = "YAML"
	formatJSON   format = "JSON"
	formatDotenv format = "dotenv"
	formatBinary format = "binary"
	formatINI    format = "INI"
)

// formatOf returns in which format SOPS has written a file: as its name says, else whole files become a JSON object.
func formatOf(name string) format {
	switch path.Ext(name) {
	case ".yaml", ".yml":
		return formatYAML
	case ".json":
		return formatJSON
	case ".env":
		return formatDotenv
	case ".ini":
		return formatINI
	}
	return formatBinary
}

// IsEncrypted reports whether a file is encrypted. It costs next to nothing for one that is not.
func IsEncrypted(name string, content []byte) bool {
	f := sniff(name, content)
	if f == "" || f == formatINI {
		return f != ""
	}
	_, meta, err := load(f, content)
	return err == nil && meta != nil
}

// sniff returns the format of a file that may be encrypted, "" for one that is not.
func sniff(name string, content []byte) format {
	if !bytes.Contains(content, []byte(cipherPrefix)) || !bytes.Contains(content, []byte("sops")) {
		return ""
	}
	f := formatOf(name)
	text := bytes.TrimSpace(content)
	switch {
	case f == formatINI && !bytes.Contains(content, []byte("[sops]")):
		return ""
	case f != formatBinary && f != formatDotenv:
		return f
	case bytes.HasPrefix(text, []byte("{")):
		return formatBinary
	case bytes.Contains(content, []byte("\nsops_mac=")):
		return formatDotenv
	case f == formatBinary && bytes.Contains(content, []byte("\nsops:")):
		return formatYAML
	}
	return ""
}

// Decrypt returns what an encrypted file has in it, in the format that `sops decrypt` prints it in; the documents of a YAML
// file stay on the lines they were on where they fit. It is checked that nobody has changed the file since it was
// encrypted. Without keys the error is ErrEncrypted.
func Decrypt(name string, content []byte, keys *Keys) (*Plain, error) {
	if keys == nil {
		return nil, ErrEncrypted
	}
	f := sniff(name, content)
	if f == formatINI {
		return nil, errors.New("INI files are not decrypted: encrypt it with sops --input-type binary")
	}
	docs, meta, err := load(f, content)
	if err != nil {
		return nil, err
	}
	if meta == nil {
		return nil, errors.New("it has no SOPS metadata")
	}
	key, err := meta.dataKey(keys)
	if err != nil {
		return nil, err
	}
	d := &decryption{meta: meta, key: key}
	if err := d.run(docs); err != nil {
		return nil, err
	}
	out, err := emit(f, docs)
	if err != nil {
		return nil, err
	}
	return &Plain{Content: out, Secrets: d.secrets}, nil
}

// load returns the documents of a file and its metadata, which is nil for a file that is not encrypted.
func load(f format, content []byte) ([]document, *metadata, error) {
	var docs []document
	var err error
	switch f {
	case formatYAML:
		docs, err = loadYAML(content)
	case formatDotenv:
		docs, err = loadDotenv(content)
	default:
		docs, err = loadJSON(content)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading it as %s: %w", f, err)
	}
	meta, err := takeMetadata(f, docs)
	return docs, meta, err
}

func emit(f format, docs []document) ([]byte, error) {
	switch f {
	case formatYAML:
		return emitYAML(docs)
	case formatDotenv:
		return emitDotenv(docs)
	case formatBinary:
		for _, it := range docs[0].root {
			if text, ok := it.value.(string); ok && it.key == "data" && len(docs[0].root) == 1 {
				return []byte(text), nil
			}
		}
	}
	return emitJSON(docs)
}

// lines returns a text, and each of its lines that says something.
func lines(text string) []string {
	out := []string{text}
	if !strings.Contains(text, "\n") {
		return out
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); len(line) >= 4 {
			out = append(out, line)
		}
	}
	return out
}
