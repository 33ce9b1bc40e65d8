package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trueup/trueup/source/internal/chart"
)

// lastFolder is where, beside the clones, it is noted what remotes were when their servers were asked last.
const lastFolder = "remotes"

// remotesOwner is whose the files of remotes are in the cache that they share with charts.
var remotesOwner = chart.Owner("remotes")

// LastKnown returns a view of the remotes in which nobody is asked for what the cache still has: each is what it was when
// its server was asked last, by this process or an earlier one.
func (r *Remotes) LastKnown() *Remotes {
	return &Remotes{repositories: r.repositories, allowed: r.allowed, auth: r.auth, maxAge: r.maxAge, found: map[string]*foundRemote{}, lastKnown: true}
}

// lastFile is where it is noted what a remote was: by a hash, since there may be a token in its URL.
func (r *clones) lastFile(ref remoteRef) string {
	sum := sha256.Sum256([]byte(ref.input()))
	return filepath.Join(r.dir, lastFolder, hex.EncodeToString(sum[:]))
}

// noteLast notes what a remote is, as long as a disk can be written: without it, a restart has to ask the server.
func (r *clones) noteLast(ref remoteRef, f *foundRemote) {
	what, name := f.hash, r.lastFile(ref)
	if ref.file != "" {
		sum := sha256.Sum256(f.file)
		what = hex.EncodeToString(sum[:])
		if !r.charts.store.Has(chart.Name(what, remotesOwner)) {
			if _, err := r.charts.store.Put(bytes.NewReader(f.file), remotesOwner, what, maxFileBytes+1); err != nil {
				return
			}
		}
	}
	if known, err := os.ReadFile(name); err == nil && string(known) == what {
		now := r.opts.Clock.Now()
		_ = os.Chtimes(name, now, now)
		return
	}
	_ = os.MkdirAll(filepath.Dir(name), 0o700)
	_ = os.WriteFile(name, []byte(what), 0o600) // one that is cut off names nothing
}

// readLast returns what a remote was, in f; false where that is no longer known.
func (r *Remotes) readLast(ref remoteRef, f *foundRemote, tree func(commit string) (*Tree, error)) bool {
	what, err := os.ReadFile(r.repositories.lastFile(ref))
	if err != nil {
		return false
	}
	if ref.file != "" {
		f.file, err = r.repositories.charts.store.Read(chart.Name(string(what), remotesOwner))
		f.hash = contentHash(entry{}, f.file)
		return err == nil
	}
	f.hash = string(what)
	f.tree, err = tree(f.hash)
	return err == nil
}

// pruneLast forgets what nobody has asked for during a while.
func (r *clones) pruneLast(unused time.Duration) error {
	notes, err := os.ReadDir(filepath.Join(r.dir, lastFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, n := range notes {
		if info, err := n.Info(); err == nil && r.opts.Clock.Since(info.ModTime()) > unused+time.Hour {
			errs = append(errs, os.Remove(filepath.Join(r.dir, lastFolder, n.Name())))
		}
	}
	return errors.Join(errs...)
}
