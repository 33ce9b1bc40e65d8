package source

import (
	"crypto/sha1" // Git names objects by SHA-1; this is an identity, no signature.
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	gosync "sync"
)

// An InputKind says what a render learned from the tree at a path.
type InputKind string

const (
	InputFile    InputKind = "file"    // the content of a file
	InputListing InputKind = "listing" // the names and kinds in a directory
	InputLink    InputKind = "link"    // the target of a symbolic link
	InputKindOf  InputKind = "kind"    // what kind of thing there is
	InputMiss    InputKind = "miss"    // that there is nothing
	InputRemote  InputKind = "remote"  // what a URL led to: the commit of another repository, or the content of a file
)

// An Input is one fact about a tree that a render depended on. A render of a tree in which all its inputs hold gives the
// same result.
type Input struct {
	Path string
	Kind InputKind
	Hash string // of the content, as Git hashes it; of the names, for a listing; the kind; "" for a miss
}

// Inputs are sorted by path and hold each fact once.
type Inputs []Input

// A recorder notes what is read through a Tree and bounds it. A nil recorder does nothing.
type recorder struct {
	within *recorder // counts and bounds what is read through this one; nil for itself

	mu    gosync.Mutex
	seen  map[Input]struct{}
	bytes int64
	reads int
}

func newRecorder() *recorder { return &recorder{seen: map[Input]struct{}{}} }

func (r *recorder) inputs() Inputs {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make(Inputs, 0, len(r.seen))
	for in := range r.seen {
		list = append(list, in)
	}
	slices.SortFunc(list, func(a, b Input) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(string(a.Kind), string(b.Kind))
	})
	return list
}

func (r *recorder) add(in Input, size int) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	r.seen[in] = struct{}{}
	r.mu.Unlock()
	for r.within != nil {
		r = r.within
	}
	return r.count(size)
}

// counted returns how much has been read.
func (r *recorder) counted() (reads int, bytes int64) {
	if r == nil {
		return 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads, r.bytes
}

// uncount takes back what was read for nothing.
func (r *recorder) uncount(reads int, bytes int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads, r.bytes = r.reads-reads, r.bytes-bytes
}

func (r *recorder) count(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += int64(size)
	r.reads++
	if r.bytes > maxTotalBytes {
		return fmt.Errorf("more than %d MiB are read by one render", maxTotalBytes>>20)
	}
	if r.reads > maxReads {
		return fmt.Errorf("more than %d files and folders are read by one render", maxReads)
	}
	return nil
}

func (r *recorder) file(name string, e entry, content []byte) error {
	if r == nil {
		return nil
	}
	return r.add(Input{name, InputFile, contentHash(e, content)}, len(content))
}

func (r *recorder) link(name string, e entry, content []byte) error {
	if r == nil {
		return nil
	}
	return r.add(Input{name, InputLink, contentHash(e, content)}, 0)
}

func (r *recorder) listing(name string, entries []entry) error {
	if r == nil {
		return nil
	}
	return r.add(Input{name, InputListing, listingHash(entries)}, 0)
}

func (r *recorder) stat(name string, e entry) error {
	return r.add(Input{name, InputKindOf, string(e.kind)}, 0)
}

func (r *recorder) miss(name string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[Input{name, InputMiss, ""}] = struct{}{}
}

func (r *recorder) remote(name, hash string, size int) error {
	return r.add(Input{name, InputRemote, hash}, size)
}

func contentHash(e entry, content []byte) string {
	if e.hash != "" {
		return e.hash
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

func listingHash(entries []entry) string {
	h := sha1.New()
	for _, e := range entries {
		fmt.Fprintf(h, "%s\x00%s\x00", e.kind, e.name)
	}
	return hex.EncodeToString(h.Sum(nil))
}
