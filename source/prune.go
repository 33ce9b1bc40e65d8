package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// touch notes on disk, where the next process finds it, when a clone was used.
func (r *clones) touch(repo *repository) {
	if now := r.opts.Clock.Now(); now.Sub(repo.used) > time.Hour {
		// There may be no folder yet, and at worst the clone is fetched again.
		_ = os.Chtimes(repo.clone.dir, now, now)
		repo.used = now
	}
}

// Prune removes the clones and charts that nobody has used for a while, by this process or an earlier one, and returns how
// many. It makes the others wait while it does, for as long as removing files takes.
func (r *clones) Prune(unused time.Duration) (removed int, err error) {
	removed, err = r.pruneClones(unused)
	charts, chartsErr := r.charts.store.Prune(unused)
	return removed + charts, errors.Join(err, chartsErr, r.pruneLast(unused))
}

func (r *clones) pruneClones(unused time.Duration) (removed int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := map[string]bool{}
	for key, repo := range r.repos {
		if r.opts.Clock.Since(repo.used) <= unused+time.Hour {
			used[repo.clone.dir] = true
		} else {
			delete(r.repos, key)
		}
	}
	dirs, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var errs []error
	for _, d := range dirs {
		dir := filepath.Join(r.dir, d.Name())
		info, err := d.Info()
		if err != nil || d.Name() == chartsFolder || d.Name() == lastFolder || used[strings.TrimSuffix(dir, newSuffix)] || r.opts.Clock.Since(info.ModTime()) <= unused+time.Hour {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(append(errs, err)...)
}
