package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"regexp"
	"strings"
	gosync "sync"
	"time"
	"weak"

	"golang.org/x/sync/singleflight"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/trueup/trueup/source/internal/chart"
)

// A Chart is one in a chart repository or an OCI registry, by its name.
type Chart struct {
	Repository string // https://…, http://…, oci://registry/path, or registry/path for the same
	Name       string
	// PassCredentials sends the repository's credentials to other servers too, where its index says that archives are there.
	PassCredentials bool
}

// chartsFolder is where, beside the clones, archives of charts and indexes of repositories are kept.
const chartsFolder = "charts"

// charts are what all views of Repositories share of chart repositories and registries.
type charts struct {
	store   *chart.Store
	opts    *RepositoriesOptions
	tokens  *gitHubTokens
	flights singleflight.Group

	mu       gosync.Mutex
	asked    map[string]askedChart  // by what was asked for, and with which credentials
	indexes  map[string]*chartIndex // by URL and credentials
	archives map[string]loadedArchive
	logins   map[string]auth.Cache // tokens of registries, by URL and credentials
	unpacked map[string]weak.Pointer[chart.Archive]

	listings listings
}

type askedChart struct {
	revision string
	at       time.Time
}

// maxRemembered bounds each of what charts remember; beyond it all is forgotten, which costs requests and nothing else.
const maxRemembered = 10_000

func remember[T any](m map[string]T, key string, v T) {
	if len(m) >= maxRemembered {
		clear(m)
	}
	m[key] = v
}

func newCharts(dir string, opts *RepositoriesOptions, tokens *gitHubTokens) *charts {
	return &charts{
		store: chart.NewStore(dir, opts.Clock), opts: opts, tokens: tokens,
		asked: map[string]askedChart{}, indexes: map[string]*chartIndex{}, archives: map[string]loadedArchive{},
		logins: map[string]auth.Cache{}, unpacked: map[string]weak.Pointer[chart.Archive]{},
	}
}

// chartAccess is how one caller reaches a chart.
type chartAccess struct {
	Chart
	url  *url.URL // of the repository, with scheme https, http or oci
	auth Auth     // what to log in with
	key  string   // tells repositories and credentials apart
	// owner is whose the blobs in the cache are: of those with this key.
	owner string
}

// server is the repository's URL as the functions that know those of Git take it.
func (a chartAccess) server() remoteURL {
	password, _ := a.url.User.Password()
	return remoteURL{scheme: a.url.Scheme, host: a.url.Host, path: a.url.Path, username: a.url.User.Username(), password: password}
}

var chartName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

func (c Chart) access(auth Auth) (chartAccess, error) {
	u, err := url.Parse(ChartURL(c.Repository))
	switch {
	case err != nil:
		return chartAccess{}, fmt.Errorf("the chart repository's URL %q is malformed", RedactURL(c.Repository))
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "oci":
		return chartAccess{}, fmt.Errorf("the chart repository's URL %q: scheme %s is not supported: use https, http or oci", RedactURL(c.Repository), u.Scheme)
	case u.Host == "":
		return chartAccess{}, fmt.Errorf("the chart repository's URL %q has no host", RedactURL(c.Repository))
	case !chartName.MatchString(c.Name):
		return chartAccess{}, fmt.Errorf("%q is no name of a chart", c.Name)
	}
	key := fmt.Sprintf("%s %t %s", auth.fingerprint(), c.PassCredentials, u)
	return chartAccess{Chart: c, url: u, auth: auth, key: key, owner: chart.Owner(key)}, nil
}

// ChartURL returns the URL of a chart repository: with oci:// if it has no scheme, as Argo CD writes registries.
func ChartURL(repository string) string {
	if strings.Contains(repository, "://") {
		return repository
	}
	return "oci://" + repository
}

// chartRevision names a chart by its version and its digest; the latter alone where the version is not known.
func chartRevision(version, digest string) string {
	if version == "" {
		return digestPrefix + digest
	}
	return version + "@" + digestPrefix + digest
}

const digestPrefix = "sha256:"

// splitChartRevision returns what chartRevision was made of; the digest is "" where it names none.
func splitChartRevision(revision string) (version, digest string) {
	if digest, ok := strings.CutPrefix(revision, digestPrefix); ok {
		return "", digest
	}
	version, digest, _ = strings.Cut(revision, "@"+digestPrefix)
	return version, digest
}

// ResolveChart returns the version and digest that a revision of a chart stands for, as VERSION@sha256:DIGEST, and makes
// sure that its archive is in the cache. The digest is that of the archive, and in a registry that of the manifest.
//
// A revision is a version, a range of versions, "" for the highest version that is no prerelease, in a registry also a tag
// or sha256:DIGEST, or what ResolveChart has returned. The server is asked which there are unless it was asked with the same
// credentials less than maxAge ago, and for what its digest names only if that is not there. ResolveChart blocks on the
// network until it is done, the timeout of the options passes or ctx is cancelled. Callers that ask for the same share one
// conversation.
func (r *Repositories) ResolveChart(ctx context.Context, c Chart, auth Auth, revision string, maxAge time.Duration) (Revision, error) {
	a, err := c.access(auth)
	if err != nil {
		return Revision{}, err
	}
	found, err := r.charts.resolve(ctx, a, revision, maxAge)
	if err != nil {
		return Revision{}, fmt.Errorf("resolving version %s of chart %s in %s: %w", cmp.Or(revision, "*"), c.Name, RedactURL(c.Repository), explainChart(err, a))
	}
	return Revision{Commit: found}, nil
}

func (c *charts) resolve(ctx context.Context, a chartAccess, revision string, maxAge time.Duration) (string, error) {
	_, pinned := splitChartRevision(revision)
	key := a.key + " " + a.Name + " " + revision
	oldest := c.opts.Clock.Now().Add(-maxAge)
	c.mu.Lock()
	asked := c.asked[key]
	c.mu.Unlock()
	// Nothing can be published anew under a digest.
	if _, digest := splitChartRevision(asked.revision); (pinned != "" || asked.at.After(oldest)) && c.has(a, digest) {
		return asked.revision, nil
	}
	for {
		asked, err := share(ctx, &c.flights, c.opts.Timeout, key, func(ctx context.Context) (askedChart, error) { return c.ask(ctx, a, key, revision, oldest) })
		if err != nil {
			return "", err
		}
		// It may be the answer to what another caller asked before, too early for this one.
		if !asked.at.Before(oldest) {
			return asked.revision, nil
		}
	}
}

// ask asks the server, and fetches what is missing.
func (c *charts) ask(ctx context.Context, a chartAccess, key, revision string, oldest time.Time) (askedChart, error) {
	login, err := c.tokens.authorize(ctx, a.auth)
	if err != nil {
		return askedChart{}, err
	}
	a.auth = login
	client, err := newChartClient(a)
	if err != nil {
		return askedChart{}, err
	}
	defer client.CloseIdleConnections()
	var asked askedChart
	if a.url.Scheme == "oci" {
		asked, err = c.askRegistry(ctx, a, client, revision)
	} else {
		asked, err = c.askRepository(ctx, a, client, revision, oldest)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(explainChart(err, a), ErrAuthentication) {
		// Whoever may not read it any more does not go on with what they once read.
		maps.DeleteFunc(c.asked, func(key string, _ askedChart) bool { return strings.HasPrefix(key, a.key+" ") })
	}
	if err != nil {
		delete(c.asked, key)
		return askedChart{}, err
	}
	remember(c.asked, key, asked)
	return asked, nil
}

// has reports whether the archive of a chart is in the cache, by the digest in its revision.
func (c *charts) has(a chartAccess, digest string) bool {
	_, err := c.archiveOf(a, digest)
	return err == nil
}

// archiveOf returns the digest of an archive that is in the cache, by the digest in a revision.
func (c *charts) archiveOf(a chartAccess, digest string) (string, error) {
	if a.url.Scheme == "oci" {
		content, err := c.store.Read(chart.Name(digest, a.owner))
		if err != nil {
			return "", err
		}
		layer, err := chartLayer(content)
		if err != nil {
			return "", err
		}
		digest = layer.Digest.Encoded()
	}
	if !c.store.Has(chart.Name(digest, a.owner)) {
		return "", chart.ErrNotStored
	}
	return digest, nil
}

// ChartTree returns the files of a chart from the cache, in a folder that is called as the chart; the server need not be
// there. The revision is what ResolveChart returned. The error wraps ErrNotFetched when the cache does not have it.
func (r *Repositories) ChartTree(ctx context.Context, c Chart, revision string) (*Tree, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a, err := c.access(Auth{})
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("chart %s %s of %s", c.Name, revision, RedactURL(c.Repository))
	archive, owner, err := r.charts.find(a, revision)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, notFetched(err))
	}
	folder := path.Base(c.Name)
	files := archiveFiles{folder: folder, digest: archive, load: gosync.OnceValues(func() (*chart.Archive, error) {
		unpacked, err := r.charts.unpack(archive, owner)
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", what, notFetched(err))
		}
		return unpacked, nil
	})}
	return &Tree{repository: RedactURL(c.Repository), name: revision, chart: folder, files: files}, nil
}

// find returns the digest of the archive of a revision, and an owner of it. Whoever has a revision has been given it, so it
// is not asked whose it is.
func (c *charts) find(a chartAccess, revision string) (archive, owner string, err error) {
	_, digest := splitChartRevision(revision)
	err = chart.ErrNotStored
	for _, a.owner = range c.store.Owners(digest) {
		if archive, err = c.archiveOf(a, digest); err == nil {
			return archive, a.owner, nil
		}
	}
	return "", "", err
}

// missingChart is an ErrNotFetched that does not speak of commits.
type missingChart struct{ error }

func (m missingChart) Is(target error) bool { return target == ErrNotFetched }

func notFetched(err error) error {
	if errors.Is(err, chart.ErrNotStored) {
		return missingChart{err}
	}
	return err
}

// unpack returns an archive unpacked, as long as anybody has it the same one to all.
func (c *charts) unpack(digest, owner string) (*chart.Archive, error) {
	c.mu.Lock()
	known := c.unpacked[digest]
	c.mu.Unlock()
	if a := known.Value(); a != nil {
		return a, nil
	}
	a, err, _ := c.flights.Do("unpack "+digest, func() (any, error) {
		f, err := c.store.Open(chart.Name(digest, owner))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return chart.Unpack(f)
	})
	if err != nil {
		return nil, err
	}
	archive := a.(*chart.Archive)
	c.mu.Lock()
	defer c.mu.Unlock()
	remember(c.unpacked, digest, weak.Make(archive))
	return archive, nil
}

// put keeps an archive, and tells how long fetching it took.
func (c *charts) put(a chartAccess, want string, open func() (io.ReadCloser, error)) (digest string, err error) {
	start := c.opts.Clock.Now()
	defer func() {
		if !errors.Is(err, errUnchanged) {
			c.opts.OnFetch(RedactURL(a.Repository), c.opts.Clock.Since(start), err)
		}
	}()
	body, err := open()
	if err != nil {
		return "", err
	}
	defer body.Close()
	return c.store.Put(body, a.owner, want, chart.MaxArchive)
}
