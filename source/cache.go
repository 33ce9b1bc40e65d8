package source

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	gosync "sync"
)

// A Cache keeps what folders rendered to. It hands out a result again for any commit in which all inputs of that render
// are unchanged, so that a commit renders only the folders it touches. It may be used concurrently.
type Cache struct {
	max int64

	mu      gosync.Mutex
	size    int64
	entries map[cacheKey]*list.Element
	recent  *list.List // of *cached, the one used last in front
}

type cacheKey struct {
	repository string
	dir        string
	options    [sha256.Size]byte
}

type cached struct {
	key      cacheKey
	commit   string
	rendered *Rendered
	size     int64
	dirs     map[string]string // hash of the tree of each directory above an input
}

// NewCache returns a cache for results that were made of up to maxBytes of files. The results used longest ago go first.
func NewCache(maxBytes int64) *Cache {
	return &Cache{max: maxBytes, entries: map[cacheKey]*list.Element{}, recent: list.New()}
}

// Render returns what Render would, and whether it was there already. Failures are not kept.
func (c *Cache) Render(ctx context.Context, tree *Tree, dir string, opts Options) (rendered *Rendered, hit bool, err error) {
	key, err := newCacheKey(tree, dir, opts)
	if err != nil {
		return nil, false, err
	}
	if have := c.lookup(key); have != nil && have.holds(tree) {
		return have.rendered, true, nil
	}
	rendered, err = Render(ctx, tree, dir, opts)
	if err != nil {
		return nil, false, err
	}
	c.store(newCached(key, tree, rendered))
	return rendered, false, nil
}

func newCacheKey(tree *Tree, dir string, opts Options) (cacheKey, error) {
	raw, err := json.Marshal(opts)
	if err != nil {
		return cacheKey{}, fmt.Errorf("rendering %s: %w", dir, err)
	}
	return cacheKey{tree.repository, path.Clean("/" + dir), sha256.Sum256(raw)}, nil
}

func (c *Cache) lookup(key cacheKey) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached)
}

func (c *Cache) store(entry *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[entry.key]; ok {
		c.remove(old)
	}
	c.entries[entry.key] = c.recent.PushFront(entry)
	c.size += entry.size
	for c.size > c.max && c.recent.Len() > 0 {
		c.remove(c.recent.Back())
	}
}

func (c *Cache) remove(e *list.Element) {
	entry := c.recent.Remove(e).(*cached)
	delete(c.entries, entry.key)
	c.size -= entry.size
}

func newCached(key cacheKey, tree *Tree, rendered *Rendered) *cached {
	entry := &cached{key: key, commit: tree.name, rendered: rendered, size: rendered.bytes, dirs: map[string]string{}}
	for _, in := range rendered.Inputs {
		for dir := path.Dir(in.Path); ; dir = path.Dir(dir) {
			if _, known := entry.dirs[dir]; known {
				break
			}
			entry.dirs[dir] = tree.dirHash(dir)
			if dir == "." {
				break
			}
		}
	}
	return entry
}

// holds reports whether all inputs of the entry are the same in tree. Below a directory that is the same as a whole
// nothing is looked at, so it costs little for a folder that the commits between did not touch.
func (e *cached) holds(tree *Tree) bool {
	if e.commit == tree.name && tree.isCommit() {
		return true
	}
	same := "" // the directory found the same last, with a slash
	for _, in := range e.rendered.Inputs {
		if same != "" && strings.HasPrefix(in.Path, same) {
			continue
		}
		if dir, ok := e.sameAbove(tree, in.Path); ok {
			same = dir + "/"
			continue
		}
		if !in.holds(tree) {
			return false
		}
	}
	return true
}

// sameAbove returns the topmost directory above name that is the same in tree as when the entry was made.
func (e *cached) sameAbove(tree *Tree, name string) (string, bool) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		dir := name[:i]
		if hash := e.dirs[dir]; hash != "" && tree.dirHash(dir) == hash {
			return dir, true
		}
	}
	return "", false
}

// holds reports whether tree would tell a render the same at this path.
func (in Input) holds(tree *Tree) bool {
	e, err := tree.files.lstat(in.Path)
	switch in.Kind {
	case InputMiss:
		return isMissing(err)
	case InputKindOf:
		return err == nil && string(e.kind) == in.Hash
	case InputFile, InputLink:
		if err != nil || (e.kind == kindLink) != (in.Kind == InputLink) {
			return false
		}
		if e.hash != "" {
			return e.hash == in.Hash
		}
		content, err := tree.files.read(in.Path, e)
		return err == nil && contentHash(e, content) == in.Hash
	default:
		if err != nil || e.kind != kindDir {
			return false
		}
		entries, err := tree.files.readDir(in.Path)
		return err == nil && listingHash(entries) == in.Hash
	}
}
