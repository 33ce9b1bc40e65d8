package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	gosync "sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source/internal/manifest"
	"github.com/trueup/trueup/source/internal/sops"
	"github.com/trueup/trueup/source/mask"
)

// DecryptionKeys are the private keys that open files encrypted with SOPS. They never print what they are.
type DecryptionKeys = sops.Keys

// DecryptionKeysFromSecret returns the keys in a Secret's data, whose keys are named as for Flux: age identities end with
// .agekey, PGP private keys in ASCII armor with .asc. It is an error if there is none.
func DecryptionKeysFromSecret(data map[string][]byte) (*DecryptionKeys, error) {
	return sops.NewKeys(data)
}

// An opener decrypts what a render reads, and remembers what nobody may see.
type opener struct {
	keys *DecryptionKeys // nil: an encrypted file is an error

	mu      gosync.Mutex
	secrets map[string]bool
}

// A sealedError says that a file is encrypted and cannot be read.
type sealedError struct {
	error
	content []byte // as it is in the repository
}

func (e *sealedError) Unwrap() error { return e.error }

// open returns the content of a file, decrypted if it is encrypted. A nil opener leaves all as it is.
func (o *opener) open(name string, content []byte) ([]byte, error) {
	if o == nil || !sops.IsEncrypted(name, content) {
		return content, nil
	}
	// Aliases that expand without end are refused before anything follows them.
	if err := manifest.CheckYAML(name, content); err != nil {
		return nil, err
	}
	plain, err := sops.Decrypt(name, content, o.keys)
	if errors.Is(err, sops.ErrEncrypted) {
		err = fmt.Errorf("%s is encrypted with SOPS, and is never applied like that: name the Secret with its keys in spec.source.decryption (trueup render DIR: --decryption-key)", name)
		return nil, &sealedError{err, content}
	}
	if err != nil {
		return nil, &sealedError{fmt.Errorf("decrypting %s: %w", name, err), content}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, secret := range plain.Secrets {
		o.secrets[secret] = true
	}
	return plain.Content, nil
}

// texts returns what was decrypted.
func (o *opener) texts() []string {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.secrets))
}

// hide takes out of an error what was decrypted: the libraries that read it repeat what they do not understand.
func (o *opener) hide(err error) error { return mask.New(o.texts()).Error(err) }

// checkOpened returns an error for an object that is still encrypted: one that stands in a file with others, or that a
// kustomization or a template has copied.
func checkOpened(objects []Object) error {
	for _, o := range objects {
		if mac, _, _ := unstructured.NestedString(o.Object, "sops", "mac"); mac != "" {
			return fmt.Errorf("%s: %s %s is still encrypted with SOPS: keep it in a file of its own, as sops writes it", o.Place(), o.GetKind(), o.GetName())
		}
	}
	return nil
}
