package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// localSession reads a repository in a folder, as a server would serve it, without running git.
type localSession struct{ storage *filesystem.Storage }

func openLocal(dir string) (session, error) {
	gitDir, err := gitFolder(dir)
	if err != nil {
		return nil, err
	}
	storage := filesystem.NewStorage(osfs.New(gitDir), cache.NewObjectLRUDefault())
	config, err := storage.Config()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", gitDir, err)
	}
	if config.Raw.Section("extensions").Option("objectformat") == "sha256" {
		return nil, errSHA256
	}
	return &localSession{storage}, nil
}

// gitFolder returns the folder with the object database of the repository in dir: itself if it is bare, .git, or where
// the file .git points to in a linked worktree.
func gitFolder(dir string) (string, error) {
	for _, candidate := range []string{filepath.Join(dir, ".git"), dir} {
		info, err := os.Stat(candidate)
		if err != nil {
			continue
		}
		if !info.IsDir() {
			content, err := os.ReadFile(candidate)
			if err != nil {
				return "", err
			}
			target, ok := strings.CutPrefix(strings.TrimSpace(string(content)), "gitdir: ")
			if !ok {
				continue
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			if common, err := os.ReadFile(filepath.Join(target, "commondir")); err == nil {
				target = filepath.Join(target, strings.TrimSpace(string(common)))
			}
			candidate = target
		}
		if _, err := os.Stat(filepath.Join(candidate, "objects")); err == nil {
			return candidate, nil
		}
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: there is no folder %s", transport.ErrRepositoryNotFound, dir)
	}
	return "", fmt.Errorf("%w: %s is no Git repository", transport.ErrRepositoryNotFound, dir)
}

func (s *localSession) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	iter, err := s.storage.IterReferences()
	if err != nil {
		return nil, err
	}
	err = iter.ForEach(func(ref *plumbing.Reference) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ref.Type() != plumbing.HashReference {
			return nil
		}
		refs.References[ref.Name().String()] = ref.Hash()
		if tag, err := object.GetTag(s.storage, ref.Hash()); err == nil {
			if commit, err := tag.Commit(); err == nil {
				refs.Peeled[ref.Name().String()] = commit.Hash
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.advertiseHead(refs); err != nil {
		return nil, err
	}
	if len(refs.References) == 0 {
		return nil, transport.ErrEmptyRemoteRepository
	}
	return refs, nil
}

func (s *localSession) advertiseHead(refs *packp.AdvRefs) error {
	head, err := s.storage.Reference(plumbing.HEAD)
	if err != nil {
		return nil // a repository without HEAD can still be asked for branches
	}
	resolved, err := storer.ResolveReference(s.storage, plumbing.HEAD)
	if err != nil {
		return nil // HEAD names a branch without commits
	}
	hash := resolved.Hash()
	refs.Head = &hash
	if head.Type() == plumbing.SymbolicReference {
		return refs.Capabilities.Add(capability.SymRef, "HEAD:"+head.Target().String())
	}
	return nil
}

// UploadPack sends the wanted commits with their trees, and with their history if no depth is asked for. What the request says it has is not
// left out: copying it again costs less than finding out.
func (s *localSession) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	walk := objectWalk{ctx: ctx, storage: s.storage, seen: map[plumbing.Hash]bool{}}
	resp := packp.NewUploadPackResponse(req)
	deep := req.Depth.IsZero()
	for _, want := range req.Wants {
		commit, err := walk.tags(want)
		if err != nil {
			return nil, err
		}
		if err := walk.commits(commit, deep); err != nil {
			return nil, err
		}
		if !deep {
			resp.Shallows = append(resp.Shallows, commit)
		}
	}
	r, w := io.Pipe()
	go func() {
		_, err := packfile.NewEncoder(w, s.storage, false).Encode(walk.objects, 0)
		w.CloseWithError(err)
	}()
	out := packp.NewUploadPackResponseWithPackfile(req, r)
	out.ShallowUpdate = resp.ShallowUpdate
	return out, nil
}

func (s *localSession) Close() error { return s.storage.Close() }

// objectWalk collects the objects of commits, without their history.
type objectWalk struct {
	ctx     context.Context
	storage *filesystem.Storage
	seen    map[plumbing.Hash]bool
	objects []plumbing.Hash
}

func (w *objectWalk) add(h plumbing.Hash) (isNew bool) {
	if w.seen[h] {
		return false
	}
	w.seen[h] = true
	w.objects = append(w.objects, h)
	return true
}

// tags adds an annotated tag, and those that it is a tag of, and returns the commit at their end.
func (w *objectWalk) tags(want plumbing.Hash) (plumbing.Hash, error) {
	for {
		tag, err := object.GetTag(w.storage, want)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return want, nil
		}
		if err != nil {
			return want, fmt.Errorf("tag %s: %w", want, err)
		}
		w.add(want)
		want = tag.Target
	}
}

// commits adds a commit with its tree, and its ancestors if deep is set.
func (w *objectWalk) commits(want plumbing.Hash, deep bool) error {
	for todo := []plumbing.Hash{want}; len(todo) > 0; {
		h := todo[0]
		todo = todo[1:]
		if w.seen[h] {
			continue
		}
		c, err := object.GetCommit(w.storage, h)
		if errors.Is(err, plumbing.ErrObjectNotFound) && h != want {
			continue // the history of a shallow clone ends somewhere
		}
		if err != nil {
			return fmt.Errorf("commit %s: %w", h, err)
		}
		w.add(h)
		if err := w.tree(c.TreeHash); err != nil {
			return err
		}
		if deep {
			todo = append(todo, c.ParentHashes...)
		}
	}
	return nil
}

func (w *objectWalk) tree(h plumbing.Hash) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if !w.add(h) {
		return nil
	}
	t, err := object.GetTree(w.storage, h)
	if err != nil {
		return fmt.Errorf("tree %s: %w", h, err)
	}
	for _, e := range t.Entries {
		switch e.Mode {
		case filemode.Dir:
			if err := w.tree(e.Hash); err != nil {
				return err
			}
		case filemode.Submodule: // its commit is in another repository
		default:
			w.add(e.Hash)
		}
	}
	return nil
}
