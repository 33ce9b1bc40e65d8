package source

import (
	"context"
	"path"
	"strings"
)

// A Footprint is what a render depended on: with it a commit that changes none of it is known to render to the same
// objects, without keeping those. It is never changed once it is made.
type Footprint struct {
	commit  string
	inputs  Inputs
	remotes []Input
	dirs    map[string]string // hash of the tree of each directory above an input
}

// NewFootprint returns the footprint of a render of tree that had the given inputs.
func NewFootprint(tree *Tree, inputs Inputs) *Footprint {
	f := &Footprint{commit: tree.name + tree.others, inputs: inputs, dirs: map[string]string{}}
	for _, in := range inputs {
		if in.Kind == InputRemote {
			f.remotes = append(f.remotes, in)
			continue
		}
		for dir := path.Dir(in.Path); ; dir = path.Dir(dir) {
			if _, known := f.dirs[dir]; known {
				break
			}
			f.dirs[dir] = tree.dirHash(dir)
			if dir == "." {
				break
			}
		}
	}
	return f
}

// HasRemotes reports whether a render depended on what is not in its tree, and may change with no commit to it.
func (f *Footprint) HasRemotes() bool { return len(f.remotes) > 0 }

// Holds reports whether a render of tree would give the same result: whether all inputs are the same in it. Below a
// directory that is the same as a whole nothing is looked at, so it costs little for a folder that the commits between did
// not touch. It blocks on the servers of what kustomizations name by URL, and only where they do.
func (f *Footprint) Holds(ctx context.Context, tree *Tree) bool {
	for _, in := range f.remotes {
		if tree.remotes == nil || !tree.remotes.holds(ctx, in) {
			return false
		}
	}
	if f.commit == tree.name+tree.others && tree.isCommit() {
		return true
	}
	same := "" // the directory found the same last, with a slash
	for _, in := range f.inputs {
		if in.Kind == InputRemote || same != "" && strings.HasPrefix(in.Path, same) {
			continue
		}
		name := in.Path
		if in.Kind == InputListing {
			name += "/" // it is in the folder itself
		}
		if dir, ok := f.sameAbove(tree, name); ok {
			same = dir + "/"
			continue
		}
		if !in.holds(tree) {
			return false
		}
	}
	return true
}

// sameAbove returns the topmost directory above name that is the same in tree as when the footprint was made.
func (f *Footprint) sameAbove(tree *Tree, name string) (string, bool) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		dir := name[:i]
		if hash := f.dirs[dir]; hash != "" && tree.dirHash(dir) == hash {
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
