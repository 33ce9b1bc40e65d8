package sops

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"filippo.io/age"
	agearmor "filippo.io/age/armor"
	"github.com/ProtonMail/go-crypto/openpgp"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/getsops/sops/v3/shamir"
)

// Keys are private keys. They may be used concurrently, and print nothing of what they are.
type Keys struct {
	id         string
	identities []age.Identity
	keyring    openpgp.EntityList
}

// NewKeys reads the keys in a Secret's data: age identities from keys that end with .agekey, PGP keys from those that end
// with .asc. It is an error if there is none.
func NewKeys(data map[string][]byte) (*Keys, error) {
	keys, sum := &Keys{}, sha256.New()
	for _, name := range slices.Sorted(maps.Keys(data)) {
		content := data[name]
		switch {
		case strings.HasSuffix(name, ".agekey"):
			identities, err := age.ParseIdentities(bytes.NewReader(content))
			if err != nil {
				// The library's errors may repeat the line.
				return nil, fmt.Errorf("its key %s holds no age identity: AGE-SECRET-KEY-1… on a line of its own", name)
			}
			keys.identities = append(keys.identities, identities...)
		case strings.HasSuffix(name, ".asc"):
			entities, err := readKeyring(content)
			if err != nil {
				return nil, fmt.Errorf("its key %s: %w", name, err)
			}
			keys.keyring = append(keys.keyring, entities...)
		default:
			continue
		}
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(content), content)
	}
	if len(keys.identities)+len(keys.keyring) == 0 {
		return nil, errors.New("it has no keys that decrypt: age identities in keys that end with .agekey, PGP private keys in keys that end with .asc")
	}
	keys.id = hex.EncodeToString(sum.Sum(nil))
	return keys, nil
}

// ID tells keys apart without telling them.
func (k *Keys) ID() string { return k.id }

func (k *Keys) String() string { return "keys (hidden)" }

// GoString hides the keys from %#v.
func (k *Keys) GoString() string { return k.String() }

// MarshalJSON hides the keys from whatever logs values as JSON.
func (k *Keys) MarshalJSON() ([]byte, error) { return []byte(`"keys (hidden)"`), nil }

func readKeyring(content []byte) (openpgp.EntityList, error) {
	entities, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(content))
	if err != nil {
		return nil, errors.New("it holds no PGP key in ASCII armor")
	}
	for _, e := range entities {
		switch {
		case e.PrivateKey == nil:
			return nil, errors.New("it is a public key, and only the private one decrypts: export it with gpg --export-secret-keys --armor")
		case e.PrivateKey.Encrypted:
			return nil, errors.New("it is protected by a passphrase: export it without one")
		}
	}
	return entities, nil
}

// maxDataKey bounds what is taken for a data key, which has 32 bytes, or 33 for a part of one.
const maxDataKey = 1 << 10

func (k *Keys) openAge(armored string) ([]byte, error) {
	r, err := age.Decrypt(agearmor.NewReader(strings.NewReader(armored)), k.identities...)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxDataKey))
}

func (k *Keys) openPGP(armored string) ([]byte, error) {
	block, err := pgparmor.Decode(strings.NewReader(armored))
	if err != nil {
		return nil, err
	}
	message, err := openpgp.ReadMessage(block.Body, k.keyring, nil, nil)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(message.UnverifiedBody, maxDataKey))
}

// dataKey returns the key that the values of a file are encrypted with: one of ours opens it, or enough of the parts that
// it is split into.
func (m *metadata) dataKey(keys *Keys) ([]byte, error) {
	groups := m.KeyGroups
	if len(groups) == 0 {
		groups = []keyGroup{m.keyGroup}
	}
	var parts [][]byte
	for _, g := range groups {
		if part := g.open(keys); part != nil {
			parts = append(parts, part)
		}
	}
	if len(groups) == 1 && len(parts) == 1 {
		return parts[0], nil
	}
	threshold := cmp.Or(m.ShamirThreshold, len(groups))
	if len(groups) == 1 || len(parts) < threshold {
		return nil, fmt.Errorf("none of the keys of spec.source.decryption decrypts it: it is encrypted for %s", describe(groups, threshold))
	}
	key, err := shamir.Combine(parts)
	if err != nil {
		return nil, errors.New("the parts of its data key do not fit together")
	}
	return key, nil
}

func (g keyGroup) open(keys *Keys) []byte {
	for _, k := range g.Age {
		if part, err := keys.openAge(k.Enc); err == nil {
			return part
		}
	}
	for _, k := range g.PGP {
		if part, err := keys.openPGP(k.Enc); err == nil {
			return part
		}
	}
	return nil
}

// describe says whose keys would open a file.
func describe(groups []keyGroup, threshold int) string {
	var all []string
	for _, g := range groups {
		var names []string
		for _, k := range g.Age {
			names = append(names, "age "+k.Recipient)
		}
		for _, k := range g.PGP {
			names = append(names, "PGP "+k.Fingerprint)
		}
		for _, service := range []struct {
			name string
			keys []any
		}{{"AWS KMS", g.KMS}, {"Google Cloud KMS", g.GCPKMS}, {"Azure Key Vault", g.AzureKV}, {"HashiCorp Vault", g.Vault}, {"Huawei Cloud KMS", g.HCKMS}} {
			if len(service.keys) > 0 {
				names = append(names, service.name+" (key services are not asked)")
			}
		}
		all = append(all, cmp.Or(strings.Join(names, ", "), "nobody"))
	}
	if len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%d of %d groups: %s", threshold, len(all), strings.Join(all, "; "))
}
