package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
)

// Auth holds the credentials for one repository. The zero value has none. It never prints what it holds.
type Auth struct {
	Username, Password string // HTTP basic authentication; a token goes into Password. For SSH the login's password
	BearerToken        string // HTTP bearer authentication
	Identity           []byte // SSH private key, PEM
	IdentityPassword   string // of Identity, if it is encrypted
	KnownHosts         []byte // SSH host keys, as in a known_hosts file
	CA                 []byte // PEM certificates to trust besides the system's
}

// AuthFromSecret returns the credentials in a Secret's data. The keys are those that Flux uses: username and password,
// bearerToken, identity (with password, if it is encrypted) and known_hosts, ca.crt.
func AuthFromSecret(data map[string][]byte) (Auth, error) {
	a := Auth{
		Username:    string(data["username"]),
		Password:    string(data["password"]),
		BearerToken: string(data["bearerToken"]),
		Identity:    data["identity"],
		KnownHosts:  data["known_hosts"],
		CA:          data["ca.crt"],
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
	h := sha256.New()
	for _, part := range [][]byte{
		[]byte(a.Username), []byte(a.Password), []byte(a.BearerToken), a.Identity, []byte(a.IdentityPassword), a.KnownHosts, a.CA,
	} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
