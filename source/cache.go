package source

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
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
	key       cacheKey
	rendered  *Rendered
	size      int64
	footprint *Footprint
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
	if have := c.lookup(key); have != nil && have.footprint.Holds(tree) {
		return have.rendered, true, nil
	}
	rendered, err = Render(ctx, tree, dir, opts)
	if err != nil {
		return nil, false, err
	}
	c.store(&cached{key: key, rendered: rendered, size: rendered.bytes, footprint: NewFootprint(tree, rendered.Inputs)})
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
