package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mountsRoot is where kustomize finds other repositories. Like repositoryRoot it is no real folder.
const mountsRoot = "/remotes/"

// A mount is a repository in the file system that kustomize sees.
type mount struct {
	root  string // with a slash at its end
	tree  *Tree
	label string // before a path in messages, "" for the repository that is rendered
}

// A place is a path in one of the repositories.
type place struct {
	*mount
	rel string
}

func (p place) String() string { return p.label + p.rel }

// mountPath matches the paths that kustomize finds other repositories by.
var mountPath = regexp.MustCompile(`^` + mountsRoot + `[0-9a-f]{16}(/|$)`)

// locate returns which repository a path of kustomize is in.
func (k *kustomizeFS) locate(name string) (place, error) {
	clean := filepath.ToSlash(filepath.Clean(name))
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.mounts {
		if clean+"/" == m.root {
			return place{m, ""}, nil
		}
		if rel, ok := strings.CutPrefix(clean, m.root); ok {
			return place{m, rel}, nil
		}
	}
	return place{}, fmt.Errorf("%s leaves the repository", name)
}

// find returns what a kustomization names. The build has to stop for what has not been fetched yet.
func (k *kustomizeFS) find(ref remoteRef) (*foundRemote, error) {
	remotes := k.tree.remotes
	if err := remotes.check(ref); err != nil {
		return nil, err
	}
	if err := k.pauses.fetched(ref.input(), func() { _, _ = remotes.find(k.ctx, ref) }); err != nil {
		return nil, err
	}
	return remotes.find(k.ctx, ref)
}

// mountRemote returns the path that kustomize finds a folder of another repository by.
func (k *kustomizeFS) mountRemote(ref remoteRef) (string, error) {
	found, err := k.find(ref)
	if err != nil {
		return "", err
	}
	if err := k.tree.rec.remote(ref.input(), found.hash, len(found.file)); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(ref.repo + "@" + found.hash))
	root := mountsRoot + hex.EncodeToString(sum[:8]) + "/"
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.mounts {
		if m.root == root {
			return root + ref.dir, nil
		}
	}
	// What is read of it and of the repository itself is bounded together. Its inputs are all told by its commit.
	rec := newRecorder()
	rec.within = k.tree.rec
	tree := found.tree.recorded(rec)
	tree.opener, tree.remotes = k.tree.opener, k.tree.remotes
	k.mounts = append(k.mounts, &mount{root, tree, fmt.Sprintf("%s@%.7s//", ref.repo, found.hash)})
	return root + ref.dir, nil
}

// mountFile returns the name in the folder dir that kustomize finds a file from a URL by.
func (k *kustomizeFS) mountFile(dir string, ref remoteRef) (string, error) {
	found, err := k.find(ref)
	if err != nil {
		return "", err
	}
	if err := k.tree.rec.remote(ref.input(), found.hash, len(found.file)); err != nil {
		return "", err
	}
	content, err := k.tree.opener.open(path.Base(RedactURL(ref.file)), found.file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(ref.file))
	name := "remote-" + hex.EncodeToString(sum[:8]) + "-" + path.Base(RedactURL(ref.file))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remoteFiles[path.Join(dir, name)] = remoteContent{content, RedactURL(ref.file)}
	return name, nil
}

// remoteContent is a file from a URL, as one of a folder.
type remoteContent struct {
	content []byte
	label   string
}

// remoteFile returns a file from a URL by the path that kustomize has for it.
func (k *kustomizeFS) remoteFile(name string) (remoteContent, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, ok := k.remoteFiles[filepath.ToSlash(filepath.Clean(name))]
	return f, ok
}

// localize returns a kustomization in which everything remote that may be is fetched, and named by where kustomize finds
// it. Content without anything remote is returned as it is.
func (k *kustomizeFS) localize(at place, content []byte) ([]byte, error) {
	var doc yaml.Node
	if k.tree.remotes == nil || !remoteAnywhere.Match(content) || yaml.Unmarshal(content, &doc) != nil || len(doc.Content) == 0 {
		return content, nil
	}
	l := &localizer{k: k, at: at, dir: path.Dir(at.root + at.rel)}
	switch err := l.kustomization(resolved(doc.Content[0])); {
	case err != nil:
		return nil, err
	case l.paused:
		return nil, errPaused
	case !l.changed:
		return content, nil
	}
	return yaml.Marshal(&doc)
}

// resolved returns the node that an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

type localizer struct {
	k       *kustomizeFS
	at      place  // the kustomization
	dir     string // its folder, for kustomize
	changed bool
	paused  bool // for something that has to be fetched first
}

// kustomization goes through the fields that may name something remote.
func (l *localizer) kustomization(root *yaml.Node) error {
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		field, value := root.Content[i].Value, resolved(root.Content[i+1])
		var err error
		switch field {
		case "resources", "bases", "components":
			err = l.each(value, func(n *yaml.Node) error { return l.replace(field, n, true) })
		case "crds", "configurations", "patchesStrategicMerge":
			err = l.each(value, func(n *yaml.Node) error { return l.replace(field, n, false) })
		case "patches", "patchesJson6902", "replacements":
			err = l.each(value, func(n *yaml.Node) error { return l.fields(field, n, "path") })
		case "configMapGenerator", "secretGenerator":
			err = l.each(value, func(n *yaml.Node) error { return l.fields(field, n, "files", "envs", "env") })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *localizer) each(list *yaml.Node, f func(*yaml.Node) error) error {
	if list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, n := range list.Content {
		if err := f(resolved(n)); err != nil {
			return err
		}
	}
	return nil
}

func (l *localizer) fields(field string, item *yaml.Node, names ...string) error {
	for i := 0; item.Kind == yaml.MappingNode && i+1 < len(item.Content); i += 2 {
		value := resolved(item.Content[i+1])
		for _, name := range names {
			if item.Content[i].Value != name {
				continue
			}
			if err := l.replace(field+"."+name, value, false); err != nil {
				return err
			}
			if err := l.each(value, func(n *yaml.Node) error { return l.replace(field+"."+name, n, false) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace makes of a reference the path that kustomize finds it by.
func (l *localizer) replace(field string, n *yaml.Node, folders bool) error {
	if n.Kind != yaml.ScalarNode || strings.Contains(n.Value, "\n") {
		return nil
	}
	key, raw := "", strings.TrimSpace(n.Value)
	if before, after, ok := strings.Cut(raw, "="); ok && !remote.MatchString(raw) {
		key, raw = before+"=", after // key=path, as in the files of a generator
	}
	if !remote.MatchString(raw) {
		return nil
	}
	name, err := l.fetch(raw, folders)
	if errors.Is(err, errNotAllowed) {
		return nil // it stays as it is, and is refused as all that is remote
	}
	if errors.Is(err, errPaused) {
		l.paused = true
		return nil // the others of this kustomization are fetched with it
	}
	if err != nil {
		return fmt.Errorf("%s:%d: %s: fetching %s: %w", l.at, n.Line, field, RedactURL(raw), err)
	}
	if key == "" && strings.HasSuffix(field, "Generator.files") {
		key = path.Base(RedactURL(raw)) + "="
	}
	n.Value, n.Tag, n.Style, l.changed = key+name, "!!str", yaml.DoubleQuotedStyle, true
	return nil
}

func (l *localizer) fetch(raw string, folders bool) (string, error) {
	ref, err := parseRemoteRef(raw)
	if err != nil {
		return "", err
	}
	if err := l.k.countRemote(); err != nil {
		return "", err
	}
	if ref.file != "" {
		return l.k.mountFile(l.dir, ref)
	}
	if !folders {
		return "", fmt.Errorf("it is a repository, and a file is wanted here")
	}
	target, err := l.k.mountRemote(ref)
	if err != nil {
		return "", err
	}
	return filepath.Rel(l.dir, target)
}

func (k *kustomizeFS) countRemote() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.remoteCount++; k.remoteCount > maxRemotes {
		return fmt.Errorf("more than %d remote references are in one render", maxRemotes)
	}
	return nil
}
