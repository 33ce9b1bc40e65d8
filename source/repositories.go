package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	gosync "sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
)

// Errors that callers tell apart. They are wrapped in what says more.
var (
	// ErrNotFetched says that a commit is not in the local clone, and that Resolve would fetch it.
	ErrNotFetched = errors.New("the commit is not in the local clone")
	// ErrRevision says that the repository has no such branch, tag or commit.
	ErrRevision = errors.New("revision not found")
	// ErrAuthentication says that the server wants other credentials than it was given.
	ErrAuthentication = errors.New("authentication failed")
)

// RepositoriesOptions configure Repositories. The zero value is ready for use.
type RepositoriesOptions struct {
	Timeout  time.Duration // of one conversation with a server; 2 minutes by default
	MaxBytes int64         // that one fetch may receive; 1 GiB by default
	Clock    clock.PassiveClock

	// Remotes are what kustomizations may name by URL; none by default.
	Remotes AllowedRemotes

	// OnRefs and OnFetch, if set, are called after each time a server was asked for its references or for objects. The
	// URL has no credentials. They must not block.
	OnRefs  func(url string, d time.Duration, err error)
	OnFetch func(url string, d time.Duration, err error)
}

// Repositories are bare clones, one for each repository however many use it, and archives of charts, below one folder. It may
// be used concurrently. What it finds in the folder it goes on with; the folder must not be used by two at a time.
type Repositories struct {
	*clones
	submodules SubmoduleAuth // nil switches submodules off
}

// SubmoduleAuth returns the credentials for a submodule. The URL comes from a repository, so an error is the way to
// refuse it; one of a folder of this machine is refused without asking. It may block.
type SubmoduleAuth func(ctx context.Context, url string) (Auth, error)

// WithSubmodules returns the same repositories for a caller who wants submodules too: Resolve fetches them, and in a
// Tree they are folders.
func (r *Repositories) WithSubmodules(auth SubmoduleAuth) *Repositories {
	return &Repositories{clones: r.clones, submodules: auth}
}

// clones are what all views of Repositories share.
type clones struct {
	dir    string
	opts   RepositoriesOptions
	tokens gitHubTokens

	remoteFiles remoteFiles
	charts      *charts

	mu    gosync.Mutex
	repos map[string]*repository
}

// NewRepositories returns the repositories below dir, which is made when it is needed.
func NewRepositories(dir string, opts RepositoriesOptions) *Repositories {
	if opts.Timeout == 0 {
		opts.Timeout = 2 * time.Minute
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 1 << 30
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.OnRefs == nil {
		opts.OnRefs = func(string, time.Duration, error) {}
	}
	if opts.OnFetch == nil {
		opts.OnFetch = func(string, time.Duration, error) {}
	}
	c := &clones{dir: dir, opts: opts, tokens: gitHubTokens{clock: opts.Clock}, repos: map[string]*repository{}}
	c.charts = newCharts(filepath.Join(dir, chartsFolder), &c.opts, &c.tokens)
	return &Repositories{clones: c}
}

// A repository is one of Repositories. Its references are kept for each set of credentials, so that nobody learns from
// the cache what the server would not tell them.
type repository struct {
	url    remoteURL
	clone  clone
	opts   *RepositoriesOptions
	tokens *gitHubTokens

	used    time.Time // guarded by Repositories
	flights singleflight.Group
	mu      gosync.Mutex
	refs    map[string]askedRefs // by the fingerprint of the credentials
}

type askedRefs struct {
	refs *remoteRefs
	at   time.Time
}

func (r *clones) repository(rawURL string) (*repository, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	key := u.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	repo, ok := r.repos[key]
	if !ok {
		sum := sha256.Sum256([]byte(key))
		dir := filepath.Join(r.dir, hex.EncodeToString(sum[:16]))
		u.password = ""
		repo = &repository{url: u, clone: clone{dir: dir}, opts: &r.opts, tokens: &r.tokens, refs: map[string]askedRefs{}}
		r.repos[key] = repo
	}
	r.touch(repo)
	return repo, nil
}

// Resolve returns the commit that a revision of a repository stands for, and makes sure that the local clone has it.
//
// A revision is a branch, a tag, a full or short commit, a semver range of tags ("1.x", ">=1.2 <2"), or "HEAD" or "" for
// the default branch. The server is asked for its references unless it was asked with the same credentials less than
// maxAge ago, and for objects only if the commit is missing. Resolve blocks on the network until it is done, the timeout
// of the options passes or ctx is cancelled. Callers that ask for the same share one conversation.
func (r *Repositories) Resolve(ctx context.Context, url string, auth Auth, revision string, maxAge time.Duration) (Revision, error) {
	return r.resolve(ctx, url, auth, revision, maxAge, 0)
}

func (r *Repositories) resolve(ctx context.Context, url string, auth Auth, revision string, maxAge time.Duration, depth int) (Revision, error) {
	repo, err := r.repository(url)
	if err != nil {
		return Revision{}, err
	}
	// The credentials of a URL are this caller's, not the repository's.
	u, err := parseURL(url)
	if err != nil {
		return Revision{}, err
	}
	rev, err := repo.resolve(ctx, access{u, auth}, revision, maxAge)
	if err != nil {
		return Revision{}, fmt.Errorf("resolving revision %s of %s: %w", cmp.Or(revision, "HEAD"), u, explainRemote(err, u, auth))
	}
	if err := r.fetchSubmodules(ctx, url, rev.Commit, depth); err != nil {
		return Revision{}, fmt.Errorf("resolving revision %s of %s: %w", cmp.Or(revision, "HEAD"), u, err)
	}
	return rev, nil
}

// Tree returns the files of a commit from the local clone; the server need not be there. The error wraps ErrNotFetched
// when the clone does not have the commit.
func (r *Repositories) Tree(ctx context.Context, url, commit string) (*Tree, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	repo, err := r.repository(url)
	if err != nil {
		return nil, err
	}
	files, err := r.files(repo, commit)
	if err != nil {
		return nil, fmt.Errorf("reading commit %s of %s: %w", commit, repo.url, err)
	}
	return &Tree{repository: repo.url.String(), name: commit, files: files}, nil
}

// access is how one caller reaches a repository.
type access struct {
	url  remoteURL
	auth Auth
}

func (a access) key() string {
	// The URL as it was written: only the server knows whether /repo and /repo.git are the same.
	return fmt.Sprintf("%s %+v", a.auth.fingerprint(), a.url)
}

func (r *repository) resolve(ctx context.Context, a access, revision string, maxAge time.Duration) (Revision, error) {
	if fullCommit.MatchString(revision) && r.known(a) && r.clone.has(plumbing.NewHash(revision)) {
		return Revision{Commit: revision}, nil
	}
	refs, err := r.askRefs(ctx, a, maxAge)
	if err != nil {
		return Revision{}, err
	}
	rev := Revision{Commit: revision}
	if !fullCommit.MatchString(revision) {
		rev, err = refs.lookup(revision)
		if errors.Is(err, errNoSuchRevision) && shortCommit.MatchString(revision) {
			return r.resolveShort(ctx, a, refs, revision)
		}
		if errors.Is(err, errNoSuchRevision) {
			return Revision{}, refs.noSuchRevision(revision)
		}
		if err != nil {
			return Revision{}, err
		}
	}
	return rev, r.ensure(ctx, a, refs, rev)
}

// known reports whether the server has answered to these credentials before.
func (r *repository) known(a access) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.refs[a.key()]
	return ok
}

// askRefs returns the references of the repository, at most maxAge old.
func (r *repository) askRefs(ctx context.Context, a access, maxAge time.Duration) (*remoteRefs, error) {
	oldest := r.opts.Clock.Now().Add(-maxAge)
	r.mu.Lock()
	asked, ok := r.refs[a.key()]
	r.mu.Unlock()
	if ok && asked.at.After(oldest) {
		return asked.refs, nil
	}
	for {
		asked, err := share(ctx, &r.flights, r.opts.Timeout, "refs "+a.key(), func(ctx context.Context) (askedRefs, error) { return r.askNow(ctx, a) })
		if err != nil {
			return nil, err
		}
		// It may be the answer to what another caller asked before, too early for this one.
		if !asked.at.Before(oldest) {
			return asked.refs, nil
		}
	}
}

func (r *repository) askNow(ctx context.Context, a access) (askedRefs, error) {
	start := r.opts.Clock.Now()
	refs, err := r.listRefs(ctx, a)
	r.opts.OnRefs(r.url.String(), r.opts.Clock.Since(start), err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		// Whoever may not read it any more does not go on with what they once read.
		delete(r.refs, a.key())
		return askedRefs{}, err
	}
	r.refs[a.key()] = askedRefs{refs, start}
	return r.refs[a.key()], nil
}

func (r *repository) listRefs(ctx context.Context, a access) (*remoteRefs, error) {
	sess, err := r.dial(ctx, a)
	if err != nil {
		return nil, err
	}
	defer sess.Close()
	adv, err := sess.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, err
	}
	return newRemoteRefs(adv), nil
}

func (r *repository) dial(ctx context.Context, a access) (session, error) {
	auth, err := r.tokens.authorize(ctx, a.auth)
	if err != nil {
		return nil, err
	}
	return dial(ctx, a.url, auth)
}

// ensure fetches a commit if the clone does not have it.
func (r *repository) ensure(ctx context.Context, a access, refs *remoteRefs, rev Revision) error {
	commit, want := plumbing.NewHash(rev.Commit), plumbing.NewHash(rev.Commit)
	have := r.clone.has(commit)
	if rev.Tag != "" {
		// A tag brings its commit along.
		want = plumbing.NewHash(rev.Tag)
		have = have && r.clone.isOther(want)
	}
	if have {
		return nil
	}
	err := r.fetch(ctx, a, []plumbing.Hash{want}, false)
	if err == nil && r.clone.has(commit) {
		return nil
	}
	if err == nil && r.clone.isOther(commit) {
		return fmt.Errorf("%w: %s is no commit", ErrRevision, cmp.Or(rev.Ref, rev.Commit))
	}
	if rev.Ref != "" || ctx.Err() != nil {
		if err == nil {
			err = fmt.Errorf("the server does not send commit %s", commit)
		}
		return err
	}
	// Servers need not send a commit that no reference points to. Then its history has to come with what does.
	if err := r.fetch(ctx, a, refs.tips(), true); err != nil {
		return err
	}
	if !r.clone.has(commit) {
		return refs.noSuchRevision(rev.Commit)
	}
	return nil
}

// tips returns the commits that branches and tags point to, each once.
func (r *remoteRefs) tips() []plumbing.Hash {
	tips := map[plumbing.Hash]struct{}{}
	for name, h := range r.commits {
		if _, ok := shortName(name); ok {
			tips[h] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(tips))
}

// resolveShort finds a commit by the beginning of its hash, in the clone or else in all of the history.
func (r *repository) resolveShort(ctx context.Context, a access, refs *remoteRefs, prefix string) (Revision, error) {
	commits, err := r.clone.find(prefix)
	if err == nil && len(commits) == 0 {
		if err := r.fetch(ctx, a, refs.tips(), true); err != nil {
			return Revision{}, err
		}
		commits, err = r.clone.find(prefix)
	}
	switch {
	case err != nil:
		return Revision{}, err
	case len(commits) == 0:
		return Revision{}, refs.noSuchRevision(prefix)
	case len(commits) > 1:
		return Revision{}, fmt.Errorf("%w: %d commits start with %s: write more of it", ErrRevision, len(commits), prefix)
	}
	return Revision{Commit: commits[0].String()}, nil
}

func (r *repository) fetch(ctx context.Context, a access, wants []plumbing.Hash, deep bool) error {
	key := fmt.Sprintf("fetch %s %v %t", a.key(), wants, deep)
	_, err := share(ctx, &r.flights, r.opts.Timeout, key, func(ctx context.Context) (struct{}, error) {
		r.clone.fetchMu.Lock()
		defer r.clone.fetchMu.Unlock()
		start := r.opts.Clock.Now()
		err := r.fetchNow(ctx, a, wants, deep)
		r.opts.OnFetch(r.url.String(), r.opts.Clock.Since(start), err)
		return struct{}{}, err
	})
	return err
}

func (r *repository) fetchNow(ctx context.Context, a access, wants []plumbing.Hash, deep bool) error {
	sess, err := r.dial(ctx, a)
	if err != nil {
		return err
	}
	defer sess.Close()
	adv, err := sess.AdvertisedReferencesContext(ctx)
	if err != nil {
		return err
	}
	return r.clone.fetch(ctx, sess, adv, wants, deep, r.opts.MaxBytes)
}
