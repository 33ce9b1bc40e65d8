package source

import (
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
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"reflect"
	"slices"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trueup/trueup/testdata/gitserver"
)

func TestServersThatAskForCredentials(t *testing.T) {
	const secret = "s3cr3t-value"
	basic := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: secret})
	bearer := gitserver.New(t, t.TempDir(), gitserver.Options{Token: secret})
	private := gitserver.New(t, t.TempDir(), gitserver.Options{TLS: true})
	secure := gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true})
	other := gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true})
	for _, repo := range []*gitserver.Repository{basic, bearer, private, secure} {
		repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	}
	withUser := func(url, userinfo string) string { return strings.Replace(url, "://", "://"+userinfo+"@", 1) }

	for name, tc := range map[string]struct {
		url  string
		auth Auth
		want string // of the error; "" for success
		is   error
	}{
		"basic":                          {url: basic.URL(), auth: Auth{Username: "ada", Password: secret}},
		"basic in the URL":               {url: withUser(basic.URL(), "ada:"+secret)},
		"a Secret goes before the URL":   {url: withUser(basic.URL(), "ada:wrong"), auth: Auth{Username: "ada", Password: secret}},
		"basic, none given":              {url: basic.URL(), want: "set the Secret's keys username and password", is: ErrAuthentication},
		"basic, wrong":                   {url: basic.URL(), auth: Auth{Username: "ada", Password: secret + "!"}, want: "does not take the Secret's keys username and password", is: ErrAuthentication},
		"basic, wrong in the URL":        {url: withUser(basic.URL(), "ada:"+secret+"x"), want: "authentication failed", is: ErrAuthentication},
		"bearer":                         {url: bearer.URL(), auth: Auth{BearerToken: secret}},
		"bearer, wrong":                  {url: bearer.URL(), auth: Auth{BearerToken: secret + "!"}, want: "bearerToken", is: ErrAuthentication},
		"a private CA":                   {url: private.URL(), auth: Auth{CA: private.CA()}},
		"a private CA, not given":        {url: private.URL(), want: "add its CA to the Secret's key ca.crt"},
		"a CA that is none":              {url: private.URL(), auth: Auth{CA: []byte("x")}, want: "ca.crt holds no PEM certificate"},
		"SSH":                            {url: secure.SSHURL(), auth: Auth{Identity: secure.Identity(), KnownHosts: secure.KnownHosts()}},
		"SSH, an unknown host":           {url: secure.SSHURL(), auth: Auth{Identity: secure.Identity(), KnownHosts: other.KnownHosts()}, want: "is not in known_hosts"},
		"SSH, a changed host key":        {url: secure.SSHURL(), auth: Auth{Identity: secure.Identity(), KnownHosts: asHost(secure, other)}, want: "is not the one in known_hosts"},
		"SSH, an identity without keys":  {url: secure.SSHURL(), auth: Auth{Identity: other.Identity(), KnownHosts: secure.KnownHosts()}, want: "does not take the Secret's key identity", is: ErrAuthentication},
		"SSH, an identity that is none":  {url: secure.SSHURL(), auth: Auth{Identity: []byte(secret), KnownHosts: secure.KnownHosts()}, want: "is no private key"},
		"SSH, no such repository":        {url: strings.Replace(secure.SSHURL(), "repo.git", "no.git", 1), auth: Auth{Identity: secure.Identity(), KnownHosts: secure.KnownHosts()}, want: "repository not found: check the URL"},
		"HTTP, no such repository":       {url: strings.Replace(private.URL(), "repo.git", "no.git", 1), auth: Auth{CA: private.CA()}, want: "repository not found: check the URL"},
		"a host that is not there":       {url: "https://no-such-host.invalid/a/b", want: "no-such-host.invalid cannot be looked up"},
		"a port that nobody listens on":  {url: "http://127.0.0.1:1/a/b", want: "127.0.0.1:1 cannot be reached"},
		"a folder that is not there":     {url: "file:///no/such/folder", want: "there is no folder /no/such/folder"},
		"a folder that is no repository": {url: "file://" + t.TempDir(), want: "is no Git repository"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SSH_AUTH_SOCK", "")
			r := NewRepositories(t.TempDir(), RepositoriesOptions{})
			_, err := r.Resolve(t.Context(), tc.url, tc.auth, "main", 0)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("Resolve: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("Resolve = %v, want %q", err, tc.want)
			case tc.is != nil && !errors.Is(err, tc.is):
				t.Errorf("Resolve = %v, want one that is %q", err, tc.is)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}

// asHost returns the key of another server as if it were known for this one.
func asHost(server, other *gitserver.Repository) []byte {
	host, _, _ := strings.Cut(string(server.KnownHosts()), " ")
	_, key, _ := strings.Cut(string(other.KnownHosts()), " ")
	return []byte(host + " " + key)
}

func TestTheCacheTellsNobodyWhatTheServerWouldNot(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "pw"})
	commit := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	if _, err := r.Resolve(t.Context(), repo.URL(), Auth{Username: "ada", Password: "pw"}, "main", 0); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"main", commit, commit[:10]} {
		if rev, err := r.Resolve(t.Context(), repo.URL(), Auth{}, revision, 1<<40); !errors.Is(err, ErrAuthentication) {
			t.Errorf("%s without credentials: %v, %v, want ErrAuthentication", revision, rev, err)
		}
	}
}

func TestARedirectToAnotherHostGetsNoCredentials(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	var seen []string
	repo.Intercept(func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			seen = append(seen, req.Header.Get("Authorization"))
			git.ServeHTTP(w, req)
		})
	})
	front := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "pw"})
	front.Intercept(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, strings.Replace(repo.URL(), "/repo.git", req.URL.RequestURI(), 1), http.StatusFound)
		})
	})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	if _, err := r.Resolve(t.Context(), front.URL(), Auth{Username: "ada", Password: "pw"}, "main", 0); err != nil {
		t.Fatal(err)
	}
	if len(seen) == 0 || strings.Join(seen, "") != "" {
		t.Errorf("Authorization headers at the other host: %q, want none of several requests", seen)
	}
}

func TestAuthFromSecret(t *testing.T) {
	data := func(kv ...string) map[string][]byte {
		m := map[string][]byte{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = []byte(kv[i+1])
		}
		return m
	}
	for name, tc := range map[string]struct {
		data map[string][]byte
		want Auth
		err  string
	}{
		"nothing":                      {data: data(), err: "none of the keys that hold credentials: set some of username, password, bearerToken, identity, known_hosts, ca.crt, proxy, githubAppID, githubAppInstallationID, githubAppPrivateKey, githubAppBaseURL"},
		"basic":                        {data: data("username", "a", "password", "b"), want: Auth{Username: "a", Password: "b"}},
		"bearer":                       {data: data("bearerToken", "a"), want: Auth{BearerToken: "a"}},
		"an SSH key":                   {data: data("identity", "a", "known_hosts", "b"), want: Auth{Identity: []byte("a"), KnownHosts: []byte("b")}},
		"an encrypted SSH key":         {data: data("identity", "a", "known_hosts", "b", "password", "c"), want: Auth{Identity: []byte("a"), KnownHosts: []byte("b"), IdentityPassword: "c"}},
		"a CA":                         {data: data("ca.crt", "a"), want: Auth{CA: []byte("a")}},
		"an SSH key without host keys": {data: data("identity", "a"), err: "not known_hosts"},
		"a GitHub App": {
			data: data("githubAppID", "1", "githubAppInstallationID", "2", "githubAppPrivateKey", "k", "githubAppBaseURL", "https://x"),
			want: Auth{GitHubApp: &GitHubApp{ID: "1", InstallationID: "2", PrivateKey: []byte("k"), BaseURL: "https://x"}},
		},
		"half a GitHub App":               {data: data("githubAppID", "1"), err: "githubAppInstallationID and githubAppPrivateKey too"},
		"a proxy":                         {data: data("proxy", "http://p:1"), want: Auth{Proxy: "http://p:1"}},
		"a username without password":     {data: data("username", "a"), err: "username but not password"},
		"both a token and a password":     {data: data("username", "a", "password", "b", "bearerToken", "c"), err: "both the keys bearerToken and password"},
		"keys of others are left alone":   {data: data("identity.pub", "x", "other", "y", "username", "a", "password", "b"), want: Auth{Username: "a", Password: "b"}},
		"keys of others alone":            {data: data("identity.pub", "x", "url", "y", "password", ""), err: "none of the keys"},
		"a password alone is fine (PATs)": {data: data("password", "b"), want: Auth{Password: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := AuthFromSecret(tc.data)
			if (tc.err == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestGitHubApp(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "x-access-token", Password: "tok-1"})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked = append(asked, req.Method+" "+req.URL.Path)
		if err := checkJWT(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "), &key.PublicKey, "42", clock.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(gitHubToken{Token: "tok-1", ExpiresAt: clock.Now().Add(time.Hour)})
	}))
	t.Cleanup(api.Close)
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	app := &GitHubApp{ID: "42", InstallationID: "7", PrivateKey: private, BaseURL: api.URL}
	r := NewRepositories(t.TempDir(), RepositoriesOptions{Clock: clock})
	resolve := func(app *GitHubApp) error {
		_, err := r.Resolve(t.Context(), repo.URL(), Auth{GitHubApp: app}, "main", 0)
		return err
	}
	for range 3 {
		if err := resolve(app); err != nil {
			t.Fatal(err)
		}
	}
	clock.SetTime(clock.Now().Add(56 * time.Minute))
	if err := resolve(app); err != nil {
		t.Fatal(err)
	}
	want := "POST /app/installations/7/access_tokens"
	if diff := cmp.Diff([]string{want, want}, asked); diff != "" {
		t.Errorf("one token while it lives, another before it expires (-want +got):\n%s", diff)
	}
	if err := resolve(&GitHubApp{ID: "43", InstallationID: "7", PrivateKey: private, BaseURL: api.URL}); !errors.Is(err, ErrAuthentication) {
		t.Errorf("another App: %v, want ErrAuthentication", err)
	}
	if err := resolve(&GitHubApp{ID: "42", InstallationID: "7", PrivateKey: []byte("SECRET"), BaseURL: api.URL}); err == nil || !strings.Contains(err.Error(), "githubAppPrivateKey is no RSA private key") {
		t.Errorf("no key: %v", err)
	}
}

// TestAGitHubAppKeepsWhatElseTheSecretSays guards where redirects may lead, above all.
func TestAGitHubAppKeepsWhatElseTheSecretSays(t *testing.T) {
	auth := Auth{GitHubApp: &GitHubApp{ID: "42"}, CA: []byte("ca"), Proxy: "http://proxy", RedirectsWithin: []string{"https://git.example.com/org"}}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	tokens := gitHubTokens{clock: clock, tokens: map[string]gitHubToken{auth.fingerprint(): {Token: "tok-1", ExpiresAt: clock.Now().Add(time.Hour)}}}
	got, err := tokens.authorize(t.Context(), auth)
	want := auth
	want.GitHubApp, want.Username, want.Password = nil, "x-access-token", "tok-1"
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %s, %v: redirects within %q", got, err, got.RedirectsWithin)
	}
}

func checkJWT(token string, key *rsa.PublicKey, iss string, now time.Time) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("no JWT")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature); err != nil {
		return err
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claims struct {
		Iss      string
		Iat, Exp int64
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		return err
	}
	if claims.Iss != iss || claims.Iat > now.Unix() || claims.Exp < now.Unix() || claims.Exp > now.Add(10*time.Minute).Unix() {
		return fmt.Errorf("claims %+v", claims)
	}
	return nil
}

func TestAProxyIsUsed(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "pw"})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	var mu gosync.Mutex
	var through []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		through = append(through, req.URL.Path+" "+req.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}).ServeHTTP(w, req)
	}))
	t.Cleanup(proxy.Close)
	auth := Auth{Username: "ada", Password: "pw", Proxy: strings.Replace(proxy.URL, "://", "://user:SECRET@", 1)}
	if _, err := NewRepositories(t.TempDir(), RepositoriesOptions{}).Resolve(t.Context(), repo.URL(), auth, "main", 0); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:SECRET"))
	if want := []string{"/repo.git/info/refs " + basic, "/repo.git/info/refs " + basic, "/repo.git/git-upload-pack " + basic}; !slices.Equal(through, want) {
		t.Errorf("through the proxy: %q, want %q", through, want)
	}
	proxy.Close()
	_, err := NewRepositories(t.TempDir(), RepositoriesOptions{}).Resolve(t.Context(), repo.URL(), auth, "main", 0)
	if err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("with the proxy away: %v", err)
	}
}

func TestAuthNeverPrints(t *testing.T) {
	a := Auth{Username: "SECRET", Password: "SECRET", BearerToken: "SECRET", Identity: []byte("SECRET"), IdentityPassword: "SECRET", CA: []byte("SECRET"), Proxy: "SECRET", GitHubApp: &GitHubApp{PrivateKey: []byte("SECRET")}}
	raw, err := json.Marshal(struct{ A Auth }{a})
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "auth", a)
	for _, s := range []string{
		fmt.Sprint(a), fmt.Sprintf("%v %+v %#v %s %q", a, a, a, a, a), fmt.Sprintf("%+v", struct{ A Auth }{a}), fmt.Sprintf("%v", &a), string(raw), logged.String(),
	} {
		if strings.Contains(s, "SECRET") || strings.Contains(s, "83 69 67") || strings.Contains(s, "U0VDUkVU") {
			t.Errorf("credentials are printed: %s", s)
		}
	}
}
