package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Auth holds the credentials for one repository. The zero value has none. It never prints what it holds.
type Auth struct {
	Username, Password string // HTTP basic authentication; a token goes into Password. For SSH the login's password
	BearerToken        string // HTTP bearer authentication
	Identity           []byte // SSH private key, PEM
	IdentityPassword   string // of Identity, if it is encrypted
	KnownHosts         []byte // SSH host keys, as in a known_hosts file
	CA                 []byte // PEM certificates to trust besides the system's
	Proxy              string // URL of the proxy for HTTP and HTTPS; by default what the environment says
	PlainHTTP          bool   // talk to an OCI registry over http
	GitHubApp          *GitHubApp
	RedirectsWithin    []string // prefixes of URLs that HTTP servers may redirect to; none is anywhere
}

// authKeys are the keys that credentials are made of. They are those that Flux uses; proxy and insecureOCIForceHttp are
// Argo CD's.
var authKeys = []string{
	"username", "password", "bearerToken", "identity", "known_hosts", "ca.crt", "proxy",
	"githubAppID", "githubAppInstallationID", "githubAppPrivateKey", "githubAppBaseURL",
	plainHTTPKey,
}

const plainHTTPKey = "insecureOCIForceHttp"

// AuthFromSecret returns the credentials in a Secret's data: username and password, bearerToken, identity (with password,
// if it is encrypted) and known_hosts, ca.crt; githubAppID, githubAppInstallationID, githubAppPrivateKey and
// githubAppBaseURL; proxy; insecureOCIForceHttp. It is an error if there is none of them: whoever names a Secret wants it to count.
func AuthFromSecret(data map[string][]byte) (Auth, error) {
	if !slices.ContainsFunc(authKeys, func(key string) bool { return len(data[key]) > 0 }) {
		return Auth{}, fmt.Errorf("the Secret has none of the keys that hold credentials: set some of %s", strings.Join(authKeys, ", "))
	}
	a := Auth{
		Username:    string(data["username"]),
		Password:    string(data["password"]),
		BearerToken: string(data["bearerToken"]),
		Identity:    data["identity"],
		KnownHosts:  data["known_hosts"],
		CA:          data["ca.crt"],
		Proxy:       string(data["proxy"]),
	}
	if len(data["githubAppID"]) > 0 {
		a.GitHubApp = &GitHubApp{
			ID:             string(data["githubAppID"]),
			InstallationID: string(data["githubAppInstallationID"]),
			PrivateKey:     data["githubAppPrivateKey"],
			BaseURL:        string(data["githubAppBaseURL"]),
		}
		if a.GitHubApp.InstallationID == "" || len(a.GitHubApp.PrivateKey) == 0 {
			return Auth{}, errors.New("the Secret has the key githubAppID: it needs githubAppInstallationID and githubAppPrivateKey too")
		}
	}
	if err := a.plainHTTP(data); err != nil {
		return Auth{}, err
	}
	switch {
	case len(a.Identity) > 0 && len(a.KnownHosts) == 0:
		return Auth{}, errors.New("the Secret has the key identity but not known_hosts: add the host's key, as `ssh-keyscan HOST` prints it")
	case len(a.Identity) > 0:
		a.IdentityPassword, a.Password = a.Password, ""
	case a.BearerToken != "" && a.Password != "":
		return Auth{}, errors.New("the Secret has both the keys bearerToken and password: keep one of them")
	case a.Username != "" && a.Password == "":
		return Auth{}, errors.New("the Secret has the key username but not password")
	}
	return a, nil
}

func (a *Auth) plainHTTP(data map[string][]byte) (err error) {
	if text := string(data[plainHTTPKey]); text != "" {
		if a.PlainHTTP, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("the Secret's key %s must be true or false", plainHTTPKey)
		}
	}
	return nil
}

// IsZero reports whether there are no credentials, nor anything else to go by.
func (a Auth) IsZero() bool { return reflect.ValueOf(a).IsZero() }

const hidden = "credentials (hidden)"

func (a Auth) String() string { return hidden }

// GoString hides the credentials from %#v.
func (a Auth) GoString() string { return hidden }

// LogValue hides the credentials from log/slog.
func (a Auth) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalJSON hides the credentials from whatever logs values as JSON.
func (a Auth) MarshalJSON() ([]byte, error) { return json.Marshal(hidden) }

// fingerprint tells credentials apart without keeping them.
func (a Auth) fingerprint() string {
	type plain Auth // without the methods that hide
	raw, err := json.Marshal(plain(a))
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
