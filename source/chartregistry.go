package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	oci "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/trueup/trueup/source/internal/chart"
)

// Media types of the layer that a chart is in: what `helm push` writes, and what it wrote at first.
const (
	chartLayerType       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	legacyChartLayerType = "application/tar+gzip"
)

// Limits of what a registry answers with.
const (
	maxManifest = 4 << 20
	tagsPerPage = 1000
	maxTagPages = 100
	maxTags     = 50_000
	maxTag      = 128
)

// registryOf returns the client for a chart's repository in a registry.
func (c *charts) registryOf(a chartAccess, client *http.Client) (*oci.Repository, error) {
	repo, err := oci.NewRepository(path.Join(a.url.Host+a.url.Path, a.Name))
	if err != nil {
		return nil, fmt.Errorf("%s and the chart %s are no name of a repository in a registry", RedactURL(a.Repository), a.Name)
	}
	login := auth.Credential{AccessToken: a.auth.BearerToken, Username: a.auth.Username, Password: a.auth.Password}
	if u := a.server(); login == auth.EmptyCredential {
		login.Username, login.Password = u.username, u.password
	}
	if login.Password != "" {
		login.Username = cmp.Or(login.Username, "git") // registries that take a token do not care which
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	tokens := c.logins[a.key]
	if tokens == nil {
		tokens = auth.NewCache()
		remember(c.logins, a.key, tokens)
	}
	repo.Client = &auth.Client{Client: client, Cache: tokens, Credential: auth.StaticCredential(repo.Reference.Host(), login)}
	repo.PlainHTTP = a.auth.PlainHTTP
	repo.TagListPageSize, repo.TagListMaxPages = tagsPerPage, maxTagPages
	repo.MaxMetadataBytes = maxManifest
	return repo, nil
}

// askRegistry resolves a revision of a chart in a registry.
func (c *charts) askRegistry(ctx context.Context, a chartAccess, client *http.Client, revision string) (askedChart, error) {
	asked := askedChart{at: c.opts.Clock.Now()}
	repo, err := c.registryOf(a, client)
	if err != nil {
		return asked, err
	}
	version, pinned := splitChartRevision(revision)
	ref := digestPrefix + pinned
	if pinned == "" {
		if version, err = c.chooseTag(ctx, repo, version); err != nil {
			return asked, err
		}
		ref = tagOf(version)
	}
	manifest, named, err := c.manifest(ctx, a, repo, ref)
	if errors.Is(err, errdef.ErrNotFound) && pinned == "" {
		return asked, c.noSuchTag(ctx, repo, version, err)
	}
	if err != nil {
		return asked, err
	}
	layer, err := chartLayer(manifest)
	if err != nil {
		return asked, err
	}
	if err := c.fetchLayer(ctx, a, repo, layer); err != nil {
		return asked, err
	}
	if version == "" {
		version = versionOf(manifest)
	}
	asked.revision = chartRevision(version, named)
	return asked, nil
}

// tagOf returns the tag of a version: a tag has no +.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }

// chooseTag returns the version that is wanted. Nobody is asked where it names a tag and can be no range.
func (c *charts) chooseTag(ctx context.Context, repo *oci.Repository, wanted string) (string, error) {
	if chart.IsExact(wanted) || !chart.IsRange(wanted) {
		return wanted, nil
	}
	versions, err := tags(ctx, repo)
	if err != nil {
		return "", err
	}
	return chart.Choose(versions, wanted)
}

// tags returns the versions that a repository has.
func tags(ctx context.Context, repo *oci.Repository) ([]string, error) {
	var versions []string
	err := repo.Tags(ctx, "", func(page []string) error {
		for _, tag := range page {
			if len(tag) > maxTag {
				continue // it cannot be asked for
			}
			versions = append(versions, strings.ReplaceAll(tag, "_", "+"))
		}
		if len(versions) > maxTags {
			return fmt.Errorf("the repository has more than %d tags: name a version, and no range", maxTags)
		}
		return nil
	})
	return versions, err
}

// noSuchTag says what there is in place of a tag that there is not.
func (c *charts) noSuchTag(ctx context.Context, repo *oci.Repository, version string, missing error) error {
	versions, err := tags(ctx, repo)
	if err != nil {
		return missing
	}
	if _, err := chart.Choose(versions, version); err != nil {
		return err
	}
	return missing
}

// manifest returns the manifest that a tag or digest names, and its digest. It is fetched only if it is not known.
func (c *charts) manifest(ctx context.Context, a chartAccess, repo *oci.Repository, ref string) (manifest []byte, named string, err error) {
	start := c.opts.Clock.Now()
	defer func() { c.opts.OnRefs(RedactURL(a.Repository), c.opts.Clock.Since(start), err) }()
	desc, err := repo.Resolve(ctx, ref)
	var answer *errcode.ErrorResponse
	if err != nil && !errors.Is(err, errdef.ErrNotFound) && !errors.As(err, &answer) && ctx.Err() == nil {
		// Not all registries name the digest where they are asked for no more than that.
		var body io.ReadCloser
		if desc, body, err = repo.FetchReference(ctx, ref); err == nil {
			body.Close()
		}
	}
	if err != nil {
		return nil, "", err
	}
	if desc.Digest.Algorithm() != digest.SHA256 || desc.Size > maxManifest {
		return nil, "", fmt.Errorf("the registry has a manifest of %d bytes with the digest %.100s, which is not fetched", desc.Size, desc.Digest)
	}
	named = desc.Digest.Encoded()
	if manifest, err := c.store.Read(chart.Name(named, a.owner)); err == nil {
		return manifest, named, nil
	}
	body, err := repo.Manifests().Fetch(ctx, desc)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	manifest, err = content.ReadAll(body, desc)
	if errors.Is(err, content.ErrMismatchedDigest) || errors.Is(err, content.ErrTrailingData) {
		return nil, "", fmt.Errorf("%w: the registry sends another manifest than %s", chart.ErrDigest, desc.Digest)
	}
	if err != nil {
		return nil, "", err
	}
	_, err = c.store.PutBytes(manifest, a.owner)
	return manifest, named, err
}

// chartLayer returns the layer of a manifest that has the chart in it.
func chartLayer(manifest []byte) (ocispec.Descriptor, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("reading the manifest: %w", err)
	}
	var types []string
	for _, layer := range m.Layers {
		if layer.MediaType == chartLayerType || layer.MediaType == legacyChartLayerType {
			if err := layer.Digest.Validate(); err != nil || layer.Digest.Algorithm() != digest.SHA256 {
				return ocispec.Descriptor{}, fmt.Errorf("the manifest names the chart by %.100q, which is no SHA-256 digest", layer.Digest)
			}
			return layer, nil
		}
		types = append(types, fmt.Sprintf("%.100q", layer.MediaType))
	}
	return ocispec.Descriptor{}, fmt.Errorf("it is no chart: the manifest is a %.100q with layers %s, and none of them is a %q", m.MediaType, some(types), chartLayerType)
}

// versionOf returns the version that a manifest has, "" if it says none.
func versionOf(manifest []byte) string {
	var m ocispec.Manifest
	if json.Unmarshal(manifest, &m) != nil || !chart.IsExact(m.Annotations[ocispec.AnnotationVersion]) {
		return ""
	}
	return m.Annotations[ocispec.AnnotationVersion]
}

func (c *charts) fetchLayer(ctx context.Context, a chartAccess, repo *oci.Repository, layer ocispec.Descriptor) error {
	if c.store.Has(chart.Name(layer.Digest.Encoded(), a.owner)) {
		return nil
	}
	if layer.Size > chart.MaxArchive {
		return fmt.Errorf("the archive has %d MiB, more than the %d MiB that one may have", layer.Size>>20, chart.MaxArchive>>20)
	}
	_, err := c.put(a, layer.Digest.Encoded(), func() (io.ReadCloser, error) { return repo.Blobs().Fetch(ctx, layer) })
	if err != nil {
		return fmt.Errorf("fetching the archive %s: %w", layer.Digest, err)
	}
	return nil
}

// fetchIndexedOCI fetches a version that the index of a repository says to be in a registry.
func (c *charts) fetchIndexedOCI(ctx context.Context, a chartAccess, u *url.URL, v chart.Version) (string, error) {
	name, tag, _ := strings.Cut(path.Base(u.Path), ":")
	in := a
	in.Repository = "oci://" + u.Host + path.Dir(u.Path)
	in.url = &url.URL{Scheme: "oci", Host: u.Host, Path: path.Dir(u.Path)}
	in.Name, in.key = name, a.key+" "+in.url.String()
	if !a.PassCredentials {
		in.auth = Auth{CA: a.auth.CA, Proxy: a.auth.Proxy}
	}
	client, err := newChartClient(a) // for whom the registry is another server
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	if s, ok := client.Transport.(*serverAuth); ok {
		client.Transport = s.Transport // the registry's client logs in
	}
	repo, err := c.registryOf(in, client)
	if err != nil {
		return "", err
	}
	manifest, _, err := c.manifest(ctx, in, repo, cmp.Or(tag, tagOf(v.Version)))
	if err != nil {
		return "", explainChart(err, in)
	}
	layer, err := chartLayer(manifest)
	if err != nil {
		return "", err
	}
	if found := layer.Digest.Encoded(); v.Digest != "" && v.Digest != found {
		return "", fmt.Errorf("%w: the index says sha256:%s of version %s, and the registry has sha256:%s", chart.ErrDigest, v.Digest, v.Version, found)
	}
	return layer.Digest.Encoded(), c.fetchLayer(ctx, in, repo, layer)
}
