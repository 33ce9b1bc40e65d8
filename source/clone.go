package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	gosync "sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	objectCacheBytes = 16 << 20
	maxCachedTrees   = 20_000
	maxHaves         = 8 // commits that a fetch tells the server it has
)

// A clone is the object database of one repository on disk: the commits that were asked for, without their history
// unless it was needed. go-git's storage is not safe for concurrent use, so every read takes the lock.
type clone struct {
	dir     string
	fetchMu gosync.Mutex // one fetch at a time

	mu      gosync.Mutex
	storage *filesystem.Storage // nil: not open
	trees   map[plumbing.Hash][]entry
	damaged bool            // something that must be there could not be read: make the clone anew
	recent  []plumbing.Hash // commits fetched, the latest last
}

func newStorage(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(objectCacheBytes),
		filesystem.Options{ExclusiveAccess: true})
}

// use calls f with the storage, while nobody else has it.
func (c *clone) use(f func(*filesystem.Storage) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storage == nil {
		c.storage = newStorage(c.dir)
		c.trees = map[plumbing.Hash][]entry{}
		if c.recent == nil {
			// What an earlier process fetched. At worst it fetches again.
			c.recent, _ = c.storage.Shallow()
			c.recent = latest(c.recent)
		}
	}
	return f(c.storage)
}

// has reports whether a commit is there, with its root.
func (c *clone) has(commit plumbing.Hash) bool {
	_, err := c.rootOf(commit)
	return err == nil
}

// rootOf returns the root tree of a commit. ErrNotFetched says that the commit is not there.
func (c *clone) rootOf(commit plumbing.Hash) (root plumbing.Hash, err error) {
	err = c.use(func(s *filesystem.Storage) error {
		if c.damaged {
			return ErrNotFetched
		}
		o, err := object.GetCommit(s, commit)
		if err != nil {
			c.damaged = !errors.Is(err, plumbing.ErrObjectNotFound)
			return ErrNotFetched
		}
		if _, err := s.EncodedObject(plumbing.TreeObject, o.TreeHash); err != nil {
			c.damaged = true
			return ErrNotFetched
		}
		root = o.TreeHash
		return nil
	})
	return root, err
}

// markDamaged makes the next Resolve fetch into a clone made anew.
func (c *clone) markDamaged(err error) error {
	c.damaged = true
	return fmt.Errorf("%w: the local clone is damaged and will be made anew: %w", ErrNotFetched, err)
}

// tree returns the entries of a tree object.
func (c *clone) tree(h plumbing.Hash) (entries []entry, err error) {
	err = c.use(func(s *filesystem.Storage) error {
		var ok bool
		if entries, ok = c.trees[h]; ok {
			return nil
		}
		t, err := object.GetTree(s, h)
		if err != nil {
			return c.markDamaged(err)
		}
		entries = treeEntries(t)
		if len(c.trees) >= maxCachedTrees {
			clear(c.trees)
		}
		c.trees[h] = entries
		return nil
	})
	return entries, err
}

// blob returns the content of a blob, unless it is larger than a file may be.
func (c *clone) blob(name string, h plumbing.Hash) (content []byte, err error) {
	err = c.use(func(s *filesystem.Storage) error {
		size, err := s.EncodedObjectSize(h)
		if err != nil {
			return c.markDamaged(err)
		}
		if size > maxFileBytes {
			return tooLarge(name, size)
		}
		o, err := s.EncodedObject(plumbing.BlobObject, h)
		if err != nil {
			return c.markDamaged(err)
		}
		r, err := o.Reader()
		if err != nil {
			return c.markDamaged(err)
		}
		defer r.Close()
		if content, err = io.ReadAll(r); err != nil {
			return c.markDamaged(err)
		}
		return nil
	})
	return content, err
}

// find returns the commits whose hash starts with prefix.
func (c *clone) find(prefix string) (commits []plumbing.Hash, err error) {
	err = c.use(func(s *filesystem.Storage) error {
		raw := plumbing.NewHash(prefix + "0000000000000000000000000000000000000000"[len(prefix):])
		hashes, err := s.HashesWithPrefix(raw[:len(prefix)/2])
		if err != nil {
			return err
		}
		for _, h := range hashes {
			if h.String()[:len(prefix)] != prefix {
				continue
			}
			if _, err := object.GetCommit(s, h); err == nil {
				commits = append(commits, h)
			}
		}
		return nil
	})
	return commits, err
}

// fetch gets commits from the server: each without its history (deep: with all of it). It blocks on the network. A clone
// that is damaged or has become a heap of packs is made anew beside the old one, which serves until then.
func (c *clone) fetch(ctx context.Context, sess session, refs *packp.AdvRefs, wants []plumbing.Hash, deep bool, maxBytes int64) error {
	dir, anew, err := c.prepare()
	if err != nil {
		return err
	}
	if anew {
		wants = c.withRecentTips(refs, wants)
	}
	if err := receive(ctx, sess, refs, request{dir, wants, c.haves(anew), deep, maxBytes}); err != nil {
		return err
	}
	return c.reopen(dir, wants)
}

// A request is what one fetch asks for.
type request struct {
	dir      string // of the clone that takes it
	wants    []plumbing.Hash
	haves    []plumbing.Hash
	deep     bool
	maxBytes int64
}

// receive writes what a server sends for a request into a clone.
func receive(ctx context.Context, sess session, refs *packp.AdvRefs, r request) error {
	storage := newStorage(r.dir)
	defer storage.Close()
	shallow, err := storage.Shallow()
	if err != nil {
		return err
	}
	req, err := r.packRequest(refs, shallow)
	if err != nil {
		return err
	}
	resp, err := sess.UploadPack(ctx, req)
	if err != nil {
		return err
	}
	defer resp.Close()
	// The boundary is written first: should we die in between, a commit that is not there is taken for one without
	// history, which is harmless. The other way round, the server would be told of history that is not there.
	if err := storage.SetShallow(newShallow(shallow, resp.ShallowUpdate)); err != nil {
		return err
	}
	limited := &limitedReader{r: demux(req.Capabilities, resp), left: r.maxBytes}
	if err := packfile.UpdateObjectStorage(storage, limited); err != nil {
		if limited.left <= 0 {
			return fmt.Errorf("the server sends more than %d MiB", r.maxBytes>>20)
		}
		return err
	}
	return nil
}

// maxPacks is how many fetches a clone takes before it is made anew: each adds a pack, and each read looks into all.
const maxPacks = 50

// newSuffix names the folder of a clone that is made anew.
const newSuffix = ".new"

// prepare returns the folder that the next fetch goes into: the clone's, or a new one beside it if that is damaged or
// has too many packs.
func (c *clone) prepare() (dir string, anew bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	packs, err := filepath.Glob(filepath.Join(c.dir, "objects", "pack", "*.pack"))
	if err != nil {
		return "", false, err
	}
	// What fetches that were cut off left behind.
	rests, err := filepath.Glob(filepath.Join(c.dir, "objects", "pack", "tmp_*"))
	if err != nil {
		return "", false, err
	}
	for _, f := range rests {
		if err := os.Remove(f); err != nil {
			return "", false, err
		}
	}
	dir, anew = c.dir, c.damaged || len(packs) >= maxPacks
	if anew {
		dir = c.dir + newSuffix
		if err := os.RemoveAll(dir); err != nil {
			return "", false, err
		}
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, anew, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", false, err
	}
	return dir, anew, newStorage(dir).Init()
}

// withRecentTips adds the commits that were fetched lately and that the server still offers, so that a clone made anew
// for one branch has the others too.
func (c *clone) withRecentTips(refs *packp.AdvRefs, wants []plumbing.Hash) []plumbing.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	tips := newRemoteRefs(refs).tips()
	for _, h := range c.recent {
		if slices.Contains(tips, h) && !slices.Contains(wants, h) {
			wants = append(slices.Clip(wants), h)
		}
	}
	return wants
}

// reopen makes what was received in dir visible.
func (c *clone) reopen(dir string, fetched []plumbing.Hash) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storage != nil {
		c.storage.Close()
		c.storage = nil
	}
	if dir != c.dir {
		if err := os.RemoveAll(c.dir); err != nil {
			return err
		}
		if err := os.Rename(dir, c.dir); err != nil {
			return err
		}
		c.recent, c.damaged = nil, false
	}
	for _, h := range fetched { // a tag among them is no commit to have, and is left out by haves
		c.recent = append(slices.DeleteFunc(c.recent, func(r plumbing.Hash) bool { return r == h }), h)
	}
	c.recent = latest(c.recent)
	return nil
}

func latest(commits []plumbing.Hash) []plumbing.Hash {
	return commits[max(0, len(commits)-maxHaves):]
}

// haves returns commits that are there for certain: the server leaves out what they have in common with what is wanted.
func (c *clone) haves(anew bool) []plumbing.Hash {
	if anew {
		return nil
	}
	var haves []plumbing.Hash
	_ = c.use(func(s *filesystem.Storage) error {
		for _, h := range c.recent {
			if _, err := object.GetCommit(s, h); err == nil {
				haves = append(haves, h)
			}
		}
		return nil
	})
	return haves
}

func (r request) packRequest(refs *packp.AdvRefs, shallow []plumbing.Hash) (*packp.UploadPackRequest, error) {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	req.Wants = r.wants
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	if r.deep || !refs.Capabilities.Supports(capability.Shallow) {
		// Nothing is said of what is there already: of commits without history the server could not send the history.
		return req, nil
	}
	if err := req.Capabilities.Set(capability.Shallow); err != nil {
		return nil, err
	}
	req.Depth = packp.DepthCommits(1)
	req.Haves = r.haves
	for _, h := range r.haves {
		if slices.Contains(shallow, h) {
			req.Shallows = append(req.Shallows, h)
		}
	}
	return req, nil
}

// isOther reports whether there is something other than a commit by this hash.
func (c *clone) isOther(h plumbing.Hash) bool {
	return c.use(func(s *filesystem.Storage) error {
		o, err := s.EncodedObject(plumbing.AnyObject, h)
		if err == nil && o.Type() == plumbing.CommitObject {
			return plumbing.ErrInvalidType
		}
		return err
	}) == nil
}

func newShallow(have []plumbing.Hash, update packp.ShallowUpdate) []plumbing.Hash {
	out := slices.DeleteFunc(slices.Clone(have), func(h plumbing.Hash) bool {
		return slices.Contains(update.Unshallows, h)
	})
	for _, h := range update.Shallows {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

func demux(caps *capability.List, r io.Reader) io.Reader {
	switch {
	case caps.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case caps.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	}
	return r
}

// limitedReader fails, rather than ends, when more is read than it has left.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, transport.ErrEmptyUploadPackRequest
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
