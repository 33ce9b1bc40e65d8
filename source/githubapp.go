package source

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	gosync "sync"
	"time"

	"k8s.io/utils/clock"
)

// GitHubApp are the credentials of an installation of a GitHub App.
type GitHubApp struct {
	ID, InstallationID string
	PrivateKey         []byte // PEM
	BaseURL            string // of the API; https://api.github.com by default
}

func (GitHubApp) String() string { return hidden }

// GoString hides the credentials from %#v.
func (GitHubApp) GoString() string { return hidden }

// gitHubTokens exchanges the credentials of GitHub Apps for tokens, and keeps each until shortly before it expires.
type gitHubTokens struct {
	clock clock.PassiveClock

	mu     gosync.Mutex
	tokens map[string]gitHubToken // by the fingerprint of the credentials
}

type gitHubToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// authorize returns auth with a token in it if it is a GitHub App, and as it is otherwise. It may block on the network.
func (g *gitHubTokens) authorize(ctx context.Context, auth Auth) (Auth, error) {
	if auth.GitHubApp == nil {
		return auth, nil
	}
	key := auth.fingerprint()
	g.mu.Lock()
	token, ok := g.tokens[key]
	g.mu.Unlock()
	// GitHub's tokens live for an hour; a fetch that has begun must be able to end.
	if !ok || g.clock.Now().After(token.ExpiresAt.Add(-5*time.Minute)) {
		var err error
		if token, err = auth.requestToken(ctx, g.clock.Now()); err != nil {
			return Auth{}, fmt.Errorf("asking for a token of the GitHub App: %w", err)
		}
		g.mu.Lock()
		if g.tokens == nil {
			g.tokens = map[string]gitHubToken{}
		}
		g.tokens[key] = token
		g.mu.Unlock()
	}
	// All else that auth says counts as before: what is trusted, the proxy, and where redirects may lead.
	auth.GitHubApp, auth.BearerToken = nil, ""
	auth.Username, auth.Password = "x-access-token", token.Token
	return auth, nil
}

func (a Auth) requestToken(ctx context.Context, now time.Time) (gitHubToken, error) {
	app := a.GitHubApp
	jwt, err := app.jwt(now)
	if err != nil {
		return gitHubToken{}, err
	}
	tr, err := newTransport(a)
	if err != nil {
		return gitHubToken{}, err
	}
	defer tr.CloseIdleConnections()
	base := app.BaseURL
	if base == "" {
		base = "https://api.github.com"
	}
	endpoint := strings.TrimSuffix(base, "/") + "/app/installations/" + url.PathEscape(app.InstallationID) + "/access_tokens"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, nil)
	if err != nil {
		return gitHubToken{}, errors.New("the Secret's key githubAppBaseURL is no URL")
	}
	req.Header.Set("Authorization", "Bearer "+jwt)
	req.Header.Set("Accept", "application/vnd.github+json")
	// A redirect would take the authorization to wherever it says.
	client := &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return gitHubToken{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return gitHubToken{}, err
	}
	if resp.StatusCode != http.StatusCreated {
		return gitHubToken{}, fmt.Errorf("%w: the API answers %s: check the Secret's keys githubAppID, githubAppInstallationID and githubAppPrivateKey", ErrAuthentication, resp.Status)
	}
	var token gitHubToken
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&token); err != nil || token.Token == "" {
		return gitHubToken{}, errors.New("the API's answer has no token")
	}
	return token, nil
}

// jwt returns the signed claim to be the App, as GitHub wants it.
func (g *GitHubApp) jwt(now time.Time) (string, error) {
	key, err := parseRSAKey(g.PrivateKey)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": g.ID,
		"iat": now.Add(-time.Minute).Unix(), // clocks differ
		"exp": now.Add(5 * time.Minute).Unix(),
	})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errors.New("the Secret's key githubAppPrivateKey cannot sign")
	}
	return signed + "." + encode(signature), nil
}

func parseRSAKey(raw []byte) (*rsa.PrivateKey, error) {
	if block, _ := pem.Decode(raw); block != nil {
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return key, nil
		}
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := key.(*rsa.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, errors.New("the Secret's key githubAppPrivateKey is no RSA private key in PEM")
}
