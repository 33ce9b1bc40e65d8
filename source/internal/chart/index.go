package chart

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

// Limits of an index. The largest that are known have 20 MiB, and 2,000 versions of one chart.
const (
	MaxIndex      = 64 << 20
	maxJSON       = 16 << 20 // whose parts can be as large as it
	maxLine       = 4 << 20
	maxItem       = 1 << 20
	maxVersions   = 20_000
	maxChartNames = 20_000
	maxChartName  = 250
	maxURL        = 4 << 10
	maxListing    = 8 << 20 // all that is kept of one chart
	maxNesting    = 100
)

// A Version is one version of a chart, as an index has it.
type Version struct {
	Version string   `json:"version" yaml:"version"`
	Digest  string   `json:"digest" yaml:"digest"` // SHA-256 of the archive, in hex; "" if the index does not say
	URLs    []string `json:"urls" yaml:"urls"`
	Created string   `json:"created" yaml:"created"`
}

// Listing is what an index says of one chart.
type Listing struct {
	Versions []Version
	Names    []string // of all charts, where it has not the one that was looked for

	size int
}

// Size is how many bytes of memory the listing has, more or less.
func (l *Listing) Size() int { return l.size }

// ReadIndex returns what an index says of one chart. It reads line by line, and keeps no more than that chart's: an index
// of many megabytes, parsed as a whole, takes twenty times as much. So it has to be laid out as `helm repo index` and all
// servers that are known write it: as JSON, or as YAML with a line for each key. Versions that are no semantic versions are
// left out, as Helm does. The error names the line.
func ReadIndex(r io.Reader, chart string) (_ *Listing, err error) {
	defer func() {
		// It is hostile, and whoever reads it does so for others too.
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser panicked on it: %v", p)
		}
	}()
	within := tooLarge(r, MaxIndex)
	in := bufio.NewReader(within)
	if bom, err := in.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		_, _ = in.Discard(3)
	}
	out := &Listing{}
	if first, _ := in.Peek(1); string(first) == "{" {
		within.left, within.err = min(within.left, maxJSON), fmt.Errorf("it has more than the %d MiB that one in JSON may have", maxJSON>>20)
		err = out.readJSON(in, chart)
	} else {
		err = out.readYAML(in, chart)
	}
	if err != nil {
		return nil, err
	}
	if len(out.Versions) > 0 {
		out.Names = nil
	}
	for _, name := range out.Names {
		out.size += perString + len(name)
	}
	return out, nil
}

func tooLarge(r io.Reader, most int64) *limited {
	return &limited{r: r, left: most, err: fmt.Errorf("it has more than %d MiB", most>>20)}
}

func (l *Listing) add(v Version) error {
	if _, err := semver.NewVersion(v.Version); err != nil {
		return nil
	}
	v.Digest = strings.ToLower(strings.TrimPrefix(v.Digest, "sha256:"))
	if len(l.Versions) >= maxVersions {
		return fmt.Errorf("it has more than %d versions of one chart", maxVersions)
	}
	v.URLs = slices.Clone(v.URLs[:min(1, len(v.URLs))]) // the others are mirrors, which Helm does not ask either
	if len(v.URLs) > 0 && len(v.URLs[0]) > maxURL {
		return fmt.Errorf("the URL of version %s has more than %d KiB", v.Version, maxURL>>10)
	}
	// Neither is longer in an index that means it, and both are kept.
	v.Digest, v.Created = v.Digest[:min(len(v.Digest), 100)], v.Created[:min(len(v.Created), 100)]
	l.size += 5*perString + len(v.Version) + len(v.Digest) + len(v.Created) + len(strings.Join(v.URLs, ""))
	if l.size > maxListing {
		return fmt.Errorf("what it has of the chart's versions is more than %d MiB", maxListing>>20)
	}
	l.Versions = append(l.Versions, v)
	return nil
}

// perString is what a string takes besides its bytes.
const perString = 16

// name notes the name of a chart, unless it is too long for one.
func (l *Listing) name(chart string) {
	if len(l.Names) < maxChartNames && len(chart) <= maxChartName {
		l.Names = append(l.Names, strings.Clone(chart)) // and not the line that it is in
	}
}

// readYAML finds the lines of each version of the chart, and has those parsed.
func (l *Listing) readYAML(r io.Reader, chart string) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	b := block{listing: l, chart: chart}
	n := 0
	for lines.Scan() {
		n++
		if err := b.line(n, bytes.TrimRight(lines.Bytes(), "\r")); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading line %d: %w", n+1, err)
	}
	if !b.seen {
		return errors.New("it has no entries: it is no index of a chart repository")
	}
	return b.flush()
}

// A block goes through the lines of an index:
//
//	entries:
//	  nginx:
//	  - version: 1.2.3
//	    urls: …
//
// What is deeper than a line belongs to it; of two keys in a row, the second is no deeper than the first.
type block struct {
	listing *Listing
	chart   string

	seen    bool // there was a line entries:
	entries bool // these are lines below it
	names   int  // how deep the names of charts are; 0 before the first
	wanted  bool // these are lines of the chart
	dashes  int  // how deep its versions are; -1 before the first
	item    bytes.Buffer
	at      int // the line at which item begins
}

func (b *block) line(n int, line []byte) error {
	body := bytes.TrimLeft(line, " ")
	depth := len(line) - len(body)
	if len(body) == 0 || body[0] == '#' {
		if b.wanted && b.item.Len() > 0 {
			return b.take(n, line)
		}
		return nil
	}
	if depth == 0 {
		return b.top(n, body)
	}
	if !b.entries {
		return nil
	}
	if b.names == 0 {
		b.names = depth
	}
	isItem := body[0] == '-' && (len(body) == 1 || body[1] == ' ')
	switch {
	case depth < b.names:
		return fmt.Errorf("line %d is indented less than what is before it", n)
	case depth == b.names && !isItem:
		return b.name(n, body)
	case !b.wanted:
		return nil
	case isItem && (b.dashes < 0 || depth == b.dashes):
		if err := b.flush(); err != nil {
			return err
		}
		b.dashes, b.at = depth, n
		line = bytes.Clone(line)
		line[depth] = ' '
	case b.item.Len() == 0:
		return fmt.Errorf("line %d: a list of versions is expected, one line for each key, as `helm repo index` writes it", n)
	}
	return b.take(n, line)
}

// top is a line that is not indented: a key of the index itself.
func (b *block) top(n int, body []byte) error {
	key, rest := splitKey(body)
	b.wanted = false
	if b.entries = key == "entries"; !b.entries {
		return b.flush()
	}
	b.seen, b.names = true, 0
	if rest != "" && rest != "{}" && rest != "null" {
		return layout(n)
	}
	return b.flush()
}

// name is a line with the name of a chart.
func (b *block) name(n int, body []byte) error {
	if err := b.flush(); err != nil {
		return err
	}
	key, rest := splitKey(body)
	b.listing.name(key)
	b.wanted, b.dashes = key == b.chart, -1
	if b.wanted && rest != "" && rest != "[]" && rest != "null" {
		return layout(n)
	}
	return nil
}

func layout(n int) error {
	return fmt.Errorf("line %d: it is not laid out as `helm repo index` writes it, one line for each key", n)
}

func (b *block) take(n int, line []byte) error {
	if b.item.Len()+len(line) > maxItem {
		return fmt.Errorf("line %d: the version that begins at line %d has more than %d KiB", n, b.at, maxItem>>10)
	}
	b.item.Write(line)
	b.item.WriteByte('\n')
	return nil
}

// flush parses the version whose lines have been taken.
func (b *block) flush() error {
	if b.item.Len() == 0 {
		return nil
	}
	var v Version
	err := yaml.Unmarshal(b.item.Bytes(), &v)
	b.item.Reset()
	if err != nil {
		return fmt.Errorf("the version that begins at line %d: %w", b.at, err)
	}
	return b.listing.add(v)
}

// splitKey returns the key of a line of YAML and what follows it, without comments. A key in quotes has none to escape.
func splitKey(body []byte) (key, rest string) {
	line := string(body)
	if q := line[0]; q == '"' || q == '\'' {
		if end := strings.IndexByte(line[1:], q); end >= 0 {
			key, line = line[1:1+end], line[end+2:]
			_, rest, _ = strings.Cut(line, ":")
		}
	} else if key, rest, _ = strings.Cut(line, ": "); rest == "" {
		key = strings.TrimSuffix(strings.TrimRight(key, " "), ":")
	}
	if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "#") {
		rest = ""
	}
	return strings.TrimSpace(key), rest
}

// readJSON goes through an index in JSON and decodes what is of the chart.
func (l *Listing) readJSON(r io.Reader, chart string) error {
	d := json.NewDecoder(r)
	seen := false
	err := eachKey(d, func(key string) error {
		if key != "entries" {
			return skipJSON(d)
		}
		seen = true
		return eachKey(d, func(name string) error {
			l.name(name)
			if name != chart {
				return skipJSON(d)
			}
			return l.readVersions(d)
		})
	})
	if err == nil && !seen {
		err = errors.New("it has no entries: it is no index of a chart repository")
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("at byte %d: %w", d.InputOffset(), err)
	}
	return nil
}

func (l *Listing) readVersions(d *json.Decoder) error {
	if t, err := d.Token(); err != nil || t == nil {
		return err
	} else if t != json.Delim('[') {
		return errors.New("a list of versions is expected")
	}
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if len(raw) > maxItem {
			return fmt.Errorf("a version has more than %d KiB", maxItem>>10)
		}
		var v Version
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
		if err := l.add(v); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// eachKey calls f for each key of an object; f reads its value.
func eachKey(d *json.Decoder, f func(key string) error) error {
	if t, err := d.Token(); err != nil || t == nil {
		return err
	} else if t != json.Delim('{') {
		return errors.New("an object is expected")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if err := f(key); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// skipJSON reads over one value, without keeping it.
func skipJSON(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		if depth > maxNesting {
			return fmt.Errorf("it is nested more than %d levels deep", maxNesting) // the decoder remembers each level
		}
	}
}
