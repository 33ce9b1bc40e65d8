package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	gosync "sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/trueup/trueup/source/internal/chart"
)

// chartIndex is the index of a chart repository, as it was when the server was asked last. It is never changed.
type chartIndex struct {
	*indexContent
	validators
	at time.Time
}

// indexContent is one state of an index. The file is on disk, since it may be large and little of it is wanted.
type indexContent struct {
	blob string // its name in the cache

	mu gosync.Mutex // it is read for one chart at a time
}

// maxListings bounds the listings that are remembered, all together.
const maxListings = 32 << 20

// listings are what indexes have of charts, by the index's name in the cache and the chart's.
type listings struct {
	mu    gosync.Mutex
	known map[string]*chart.Listing
	size  int
}

func (l *listings) get(key string) *chart.Listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[key]
}

// remember forgets all others when they are too much together, which costs reading indexes again.
func (l *listings) remember(key string, listing *chart.Listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := len(key) + listing.Size()
	if l.size += size; l.known == nil || l.size > maxListings {
		l.known, l.size = map[string]*chart.Listing{}, size
	}
	l.known[key] = listing
}

// askRepository resolves a revision of a chart in a repository with an index.
func (c *charts) askRepository(ctx context.Context, a chartAccess, client *http.Client, revision string, oldest time.Time) (askedChart, error) {
	wanted, pinned := splitChartRevision(revision)
	if wanted == "" && pinned != "" {
		return askedChart{}, errors.New("only a registry finds a chart by its digest alone: write VERSION@" + digestPrefix + "DIGEST")
	}
	listing, at, err := c.listing(ctx, a, client, oldest)
	if err != nil {
		return askedChart{}, err
	}
	if len(listing.Names) > 0 && !slices.Contains(listing.Names, a.Name) {
		return askedChart{}, fmt.Errorf("%w: the repository has no such chart: it has %s", ErrRevision, strings.Join(nearest(a.Name, listing.Names, 8), ", "))
	}
	v, err := chooseIndexed(listing.Versions, wanted)
	if err != nil {
		return askedChart{}, err
	}
	digest := v.Digest
	if digest == "" || !c.store.Has(chart.Name(digest, a.owner)) {
		if digest, err = c.fetchIndexed(ctx, a, client, v); err != nil {
			return askedChart{}, err
		}
	}
	if pinned != "" && pinned != digest {
		return askedChart{}, fmt.Errorf("%w: version %s has the digest sha256:%s there, and sha256:%s is wanted: it was published anew", ErrRevision, v.Version, digest, pinned)
	}
	return askedChart{chartRevision(v.Version, digest), at}, nil
}

func chooseIndexed(versions []chart.Version, wanted string) (chart.Version, error) {
	names := make([]string, len(versions))
	for i, v := range versions {
		names[i] = v.Version
	}
	found, err := chart.Choose(names, wanted)
	if err != nil {
		return chart.Version{}, err
	}
	for _, v := range versions {
		if v.Version == found {
			return v, nil
		}
	}
	return chart.Version{}, err // not reached: it is one of them
}

// listing returns what the index has of a chart, and when the server was asked for it.
func (c *charts) listing(ctx context.Context, a chartAccess, client *http.Client, oldest time.Time) (*chart.Listing, time.Time, error) {
	for again := false; ; again = true {
		index, err := c.index(ctx, a, client, oldest)
		if err != nil {
			return nil, time.Time{}, err
		}
		listing, err := c.read(index.indexContent, a.Name)
		if err == nil {
			return listing, index.at, nil
		}
		if again || !errors.Is(err, chart.ErrNotStored) {
			return nil, time.Time{}, fmt.Errorf("reading %s: %w", RedactURL(indexURL(a.url).String()), err)
		}
		c.mu.Lock()
		delete(c.indexes, a.key)
		c.mu.Unlock()
	}
}

func (c *charts) read(content *indexContent, name string) (*chart.Listing, error) {
	content.mu.Lock()
	defer content.mu.Unlock()
	key := content.blob + " " + name
	if listing := c.listings.get(key); listing != nil {
		return listing, nil
	}
	f, err := c.store.Open(content.blob)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	listing, err := chart.ReadIndex(f, name)
	if err != nil {
		return nil, err
	}
	c.listings.remember(key, listing)
	return listing, nil
}

// index returns the index of a repository, asked for no earlier than oldest.
func (c *charts) index(ctx context.Context, a chartAccess, client *http.Client, oldest time.Time) (*chartIndex, error) {
	for {
		c.mu.Lock()
		known := c.indexes[a.key]
		c.mu.Unlock()
		if known != nil && known.at.After(oldest) {
			return known, nil
		}
		asked, err := share(ctx, &c.flights, c.opts.Timeout, "index "+a.key, func(ctx context.Context) (*chartIndex, error) {
			start := c.opts.Clock.Now()
			next, err := c.fetchIndex(ctx, a, client, known)
			c.opts.OnRefs(RedactURL(a.Repository), c.opts.Clock.Since(start), err)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				if known != nil {
					// What is on disk is not shown to anybody before the server has said again that it is as it was.
					c.indexes[a.key] = &chartIndex{indexContent: known.indexContent, validators: known.validators}
				}
				return nil, err
			}
			next.at = start
			remember(c.indexes, a.key, next)
			return next, nil
		})
		if err != nil {
			return nil, err
		}
		if !asked.at.Before(oldest) {
			return asked, nil
		}
	}
}

func (c *charts) fetchIndex(ctx context.Context, a chartAccess, client *http.Client, known *chartIndex) (*chartIndex, error) {
	u := indexURL(a.url)
	var have validators
	if known != nil && c.store.Has(known.blob) {
		have = known.validators
	}
	resp, err := get(ctx, client, u, have)
	if errors.Is(err, errUnchanged) {
		return &chartIndex{indexContent: known.indexContent, validators: have}, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	digest, err := c.store.Put(resp.Body, a.owner, "", chart.MaxIndex)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", RedactURL(u.String()), err)
	}
	blob := chart.Name(digest, a.owner)
	next := &chartIndex{validators: validatorsOf(resp)}
	switch {
	case known != nil && known.blob == blob:
		next.indexContent = known.indexContent
	case known != nil:
		c.store.Remove(known.blob)
		fallthrough
	default:
		next.indexContent = &indexContent{blob: blob}
	}
	return next, nil
}

const indexFile = "index.yaml"

// indexURL returns where the index of a repository is. What the URL asks with stays, as a token may be in it.
func indexURL(repository *url.URL) *url.URL {
	u := *repository
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+"/"+indexFile, ""
	return &u
}

// archiveURL returns where the index says that an archive is.
func archiveURL(repository *url.URL, v chart.Version) (*url.URL, error) {
	if len(v.URLs) == 0 {
		return nil, fmt.Errorf("the index has no URL for version %s", v.Version)
	}
	u, err := url.Parse(v.URLs[0])
	if err != nil {
		return nil, fmt.Errorf("the index has a malformed URL for version %s", v.Version)
	}
	if u.IsAbs() {
		return u, nil
	}
	base := *repository
	base.Path, base.RawPath, base.User = strings.TrimSuffix(base.Path, "/")+"/", "", nil
	abs := base.ResolveReference(u)
	if abs.RawQuery == "" {
		abs.RawQuery = repository.RawQuery
	}
	return abs, nil
}

// A loadedArchive is one that the index has no digest for.
type loadedArchive struct {
	digest string
	validators
}

// fetchIndexed fetches a version that the index has, and returns the digest of its archive.
func (c *charts) fetchIndexed(ctx context.Context, a chartAccess, client *http.Client, v chart.Version) (string, error) {
	u, err := archiveURL(a.url, v)
	if err != nil {
		return "", err
	}
	switch {
	case u.Scheme == "oci":
		return c.fetchIndexedOCI(ctx, a, u, v)
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return "", fmt.Errorf("the index has a URL for version %s that is not fetched, with the scheme %q", v.Version, u.Scheme)
	case u.Scheme == "http" && a.url.Scheme == "https" && v.Digest == "":
		return "", fmt.Errorf("the index has an http URL and no digest for version %s: nobody can tell whose archive it is", v.Version)
	}
	isOther := !SameServer(a.url.String(), u.String())
	if isOther && a.PassCredentials && (u.Scheme == "https" || a.url.Scheme == "http") {
		if client, err = newChartClient(a, u); err != nil {
			return "", err
		}
		defer client.CloseIdleConnections()
	}
	// Without a digest in the index, an entry that is as it was is asked for only if that costs no more than the question.
	key := a.key + " " + urlKey(u) + " " + v.Created
	c.mu.Lock()
	known := c.archives[key]
	c.mu.Unlock()
	if v.Digest != "" || !c.store.Has(chart.Name(known.digest, a.owner)) {
		known = loadedArchive{}
	} else if (known.validators == validators{}) {
		return known.digest, nil
	}
	next := known
	next.digest, err = c.put(a, v.Digest, func() (io.ReadCloser, error) {
		resp, err := get(ctx, client, u, known.validators)
		if err != nil {
			return nil, err
		}
		next.validators = validatorsOf(resp)
		return resp.Body, nil
	})
	switch {
	case errors.Is(err, errUnchanged):
		return known.digest, nil
	case isOther && !a.PassCredentials && errors.Is(err, transport.ErrAuthenticationRequired):
		return "", fmt.Errorf("%w: the index says that version %s is at %s, which asks for credentials and gets none: helm.passCredentials sends it the repository's", ErrAuthentication, v.Version, u.Host)
	case err != nil:
		return "", fmt.Errorf("fetching %s: %w", RedactURL(u.String()), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	remember(c.archives, key, next)
	return next.digest, nil
}
