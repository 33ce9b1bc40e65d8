package source

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	gosync "sync"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
)

// Bounds of what one commit may make the agent fetch.
const (
	maxSubmodules     = 100
	maxSubmoduleDepth = 5
)

// submodules are those of one commit of a repository.
type submodules struct {
	repositories *Repositories
	url          remoteURL // of the repository they are in
	root         gitFiles  // without submodules

	// urls returns the URL of each submodule by its path, as .gitmodules has them.
	urls func() (map[string]string, error)
}

func newSubmodules(r *Repositories, url remoteURL, root gitFiles) *submodules {
	s := &submodules{repositories: r, url: url, root: root}
	s.urls = gosync.OnceValues(s.readURLs)
	return s
}

func (s *submodules) readURLs() (map[string]string, error) {
	e, err := s.root.lstat(".gitmodules")
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	content, err := s.root.read(".gitmodules", e)
	if err != nil {
		return nil, err
	}
	modules := config.NewModules()
	if err := modules.Unmarshal(content); err != nil {
		return nil, errors.New("reading .gitmodules: it is malformed")
	}
	urls := map[string]string{}
	for _, m := range modules.Submodules {
		name, err := cleanPath(m.Path)
		if err != nil {
			return nil, fmt.Errorf("reading .gitmodules: %w", err)
		}
		if urls[name], err = s.absolute(m.URL); err != nil {
			return nil, fmt.Errorf("reading .gitmodules: submodule %s: %w", name, err)
		}
	}
	return urls, nil
}

// absolute returns a submodule's URL, which may be relative to that of the repository it is in.
func (s *submodules) absolute(raw string) (string, error) {
	if strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../") {
		u := s.url
		u.path = path.Join(u.path, raw)
		return u.raw(), nil
	}
	u, err := parseURL(raw)
	if err != nil {
		return "", err
	}
	if u.scheme == "file" && s.url.scheme != "file" {
		return "", errors.New("a repository must not name folders of this machine")
	}
	return raw, nil
}

// open returns the files of the submodule at a path, false if it is not in its clone.
func (s *submodules) open(name, commit string) (gitFiles, bool) {
	if s.repositories.submodules == nil {
		return gitFiles{}, false
	}
	urls, err := s.urls()
	if err != nil || urls[name] == "" {
		return gitFiles{}, false
	}
	repo, err := s.repositories.repository(urls[name])
	if err != nil {
		return gitFiles{}, false
	}
	files, err := s.repositories.files(repo, commit)
	return files, err == nil
}

// files returns the files of a commit that the clone has.
func (r *Repositories) files(repo *repository, commit string) (gitFiles, error) {
	root, err := repo.clone.rootOf(plumbing.NewHash(commit))
	if err != nil {
		return gitFiles{}, err
	}
	files := gitFiles{clone: &repo.clone, root: root}
	files.submodules = newSubmodules(r, repo.url, files)
	return files, nil
}

// fetchSubmodules makes sure that the clones of the submodules of a commit have them, and of their submodules.
func (r *Repositories) fetchSubmodules(ctx context.Context, url, commit string, depth int) error {
	if r.submodules == nil {
		return nil
	}
	repo, err := r.repository(url)
	if err != nil {
		return err
	}
	files, err := r.files(repo, commit)
	if err != nil {
		return err
	}
	urls, err := files.submodules.urls()
	if err != nil {
		return err
	}
	if len(urls) > maxSubmodules {
		return fmt.Errorf("the commit has more than %d submodules", maxSubmodules)
	}
	for name, sub := range urls {
		e, err := files.submodules.root.lstat(name)
		if isMissing(err) || (err == nil && e.kind != kindSubmodule) {
			continue // .gitmodules may name what is not there any more
		}
		if err != nil {
			return err
		}
		if depth == maxSubmoduleDepth {
			return fmt.Errorf("submodule %s: submodules are nested more than %d deep", name, maxSubmoduleDepth)
		}
		auth, err := r.submodules(ctx, sub)
		if err != nil {
			return fmt.Errorf("submodule %s: %w", name, err)
		}
		if _, err := r.resolve(ctx, sub, auth, e.hash, 0, depth+1); err != nil {
			return fmt.Errorf("submodule %s: %w", name, err)
		}
	}
	return nil
}
