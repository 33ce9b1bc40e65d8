package chartserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// ChartLayer is the media type of a chart's archive.
const ChartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// Push pushes an archive to the registry as `helm push` does, and returns the digest of its manifest. A layer type other than
// ChartLayer is for what is no chart.
func (s *Server) Push(name, version string, archive []byte, layerType ...string) (digest string) {
	s.t.Helper()
	ctx := context.Background()
	store := memory.New()
	push := func(mediaType string, content []byte) ocispec.Descriptor {
		desc, err := oras.PushBytes(ctx, store, mediaType, content)
		must(err)
		return desc
	}
	mediaType := append(layerType, ChartLayer)[0]
	config := push("application/vnd.cncf.helm.config.v1+json", []byte(`{"name":"`+name+`","version":"`+version+`"}`))
	manifest, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{
		ConfigDescriptor: &config, Layers: []ocispec.Descriptor{push(mediaType, archive)},
		ManifestAnnotations: map[string]string{ocispec.AnnotationVersion: version, ocispec.AnnotationCreated: "2026-01-02T03:04:05Z"},
	})
	must(err)
	tag := strings.ReplaceAll(version, "+", "_")
	must(store.Tag(ctx, manifest, tag))
	repo, err := remote.NewRepository(strings.TrimPrefix(s.OCIURL(), "oci://") + "/" + name)
	must(err)
	repo.PlainHTTP = !s.opts.TLS
	transport := &http.Transport{}
	if s.opts.TLS {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(s.CA())
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	defer transport.CloseIdleConnections()
	repo.Client = &auth.Client{
		Client:     &http.Client{Transport: transport},
		Credential: auth.StaticCredential(s.addr, auth.Credential{Username: s.opts.Username, Password: s.opts.Password}),
	}
	if _, err := oras.Copy(ctx, store, tag, repo, tag, oras.DefaultCopyOptions); err != nil {
		s.t.Fatal(err)
	}
	s.Requests()
	return manifest.Digest.Encoded()
}
