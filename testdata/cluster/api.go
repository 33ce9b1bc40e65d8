package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// pollInterval is the time between two looks at something that is about to change.
const pollInterval = 50 * time.Millisecond

// sleep returns after a while, and false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// apiClient is as much of a Kubernetes client as starting a cluster needs.
type apiClient struct {
	server, token string
	http          *http.Client
}

func newAPIClient(server, token string, ca *x509.Certificate) *apiClient {
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &apiClient{server: server, token: token, http: &http.Client{
		Timeout: 10 * time.Second,
		// Without keep-alive, no connection to a stopped server is tried again.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}}
}

// call sends body, unless it is nil, and decodes the answer into result, unless that is nil.
func (c *apiClient) call(ctx context.Context, method, path string, body, result any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encoding a request for %s: %w", path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("making a request for %s: %w", path, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "trueup-cluster")
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the answer to %s %s: %w", method, path, err)
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, bytes.TrimSpace(answer))
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("decoding the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// object is a Kubernetes object as JSON sees it.
type object = map[string]any

func node(name string) object {
	return object{"apiVersion": "v1", "kind": "Node", "metadata": object{
		"name":        name,
		"labels":      object{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"},
		"annotations": object{"node.alpha.kubernetes.io/ttl": "0", "kwok.x-k8s.io/node": "fake"},
	}}
}

// storageClass is the default class; kwok's stages provision and bind the claims of it.
func storageClass() object {
	return object{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": object{
		"name":        "kwok-volume",
		"annotations": object{"storageclass.kubernetes.io/is-default-class": "true"},
	}, "provisioner": "kwok.x-k8s.io/volume", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
}
