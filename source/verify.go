package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// ErrSignature says that a commit or tag is not signed by anyone who may.
var ErrSignature = errors.New("signature refused")

// A VerifyMode says what must be signed. The values are Flux's.
type VerifyMode string

const (
	VerifyHEAD       VerifyMode = "HEAD"       // the commit
	VerifyTag        VerifyMode = "Tag"        // the tag
	VerifyTagAndHEAD VerifyMode = "TagAndHEAD" // both
)

// Verification says what must be signed, and by whom.
type Verification struct {
	Mode           VerifyMode
	PGPKeys        []byte // armored public keys, one after another
	AllowedSigners []byte // SSH keys, as ssh-keygen's allowed signers file has them
}

// VerificationFromSecret returns the keys in a Secret's data: allowed_signers for SSH, any other key for PGP.
func VerificationFromSecret(mode VerifyMode, data map[string][]byte) (Verification, error) {
	v := Verification{Mode: mode}
	if !slices.Contains([]VerifyMode{VerifyHEAD, VerifyTag, VerifyTagAndHEAD}, mode) {
		return v, fmt.Errorf("verify.mode %q is none of HEAD, Tag, TagAndHEAD", mode)
	}
	for key, value := range data {
		if key == "allowed_signers" {
			v.AllowedSigners = value
			continue
		}
		if _, err := readKeyRing(value); err != nil {
			return v, fmt.Errorf("the Secret's key %s holds no armored PGP public key; SSH keys go into allowed_signers", key)
		}
		v.PGPKeys = append(append(v.PGPKeys, value...), '\n')
	}
	if len(v.PGPKeys) == 0 && len(v.AllowedSigners) == 0 {
		return v, errors.New("the Secret holds no public keys: nobody could sign")
	}
	return v, nil
}

// Verify returns who signed a revision that Resolve returned, or an error that wraps ErrSignature if that is nobody who
// may. It reads the local clone only.
func (r *Repositories) Verify(ctx context.Context, url string, rev Revision, v Verification) (signer string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	repo, err := r.repository(url)
	if err != nil {
		return "", err
	}
	var signers []string
	if v.Mode == VerifyTag || v.Mode == VerifyTagAndHEAD {
		signer, err := repo.clone.verifyTag(rev, v)
		if err != nil {
			return "", fmt.Errorf("verifying %s of %s: %w", rev.Ref, repo.url, err)
		}
		signers = append(signers, signer)
	}
	if v.Mode != VerifyTag {
		signer, err := repo.clone.verifyCommit(rev, v)
		if err != nil {
			return "", fmt.Errorf("verifying commit %s of %s: %w", rev.Commit, repo.url, err)
		}
		signers = append(signers, signer)
	}
	return strings.Join(slices.Compact(signers), ", "), nil
}

// raw returns an object as Git stores it.
func (c *clone) raw(kind plumbing.ObjectType, hash string) (content []byte, err error) {
	err = c.use(func(s *filesystem.Storage) error {
		o, err := s.EncodedObject(kind, plumbing.NewHash(hash))
		if err != nil {
			return ErrNotFetched
		}
		r, err := o.Reader()
		if err != nil {
			return c.markDamaged(err)
		}
		defer r.Close()
		content, err = io.ReadAll(io.LimitReader(r, maxFileBytes))
		return err
	})
	return content, err
}

func (c *clone) verifyCommit(rev Revision, v Verification) (string, error) {
	content, err := c.raw(plumbing.CommitObject, rev.Commit)
	if err != nil {
		return "", err
	}
	signed, signature := splitCommit(content)
	var commit object.Commit
	if err := decode(plumbing.CommitObject, content, &commit); err != nil {
		return "", err
	}
	return v.check(signed, signature, commit.Committer.When)
}

func (c *clone) verifyTag(rev Revision, v Verification) (string, error) {
	if rev.Tag == "" {
		return "", fmt.Errorf("%w: it is no annotated tag, and no other reference can be signed: set verify.mode to HEAD, or targetRevision to a signed tag", ErrSignature)
	}
	content, err := c.raw(plumbing.TagObject, rev.Tag)
	if err != nil {
		return "", err
	}
	var tag object.Tag
	if err := decode(plumbing.TagObject, content, &tag); err != nil {
		return "", err
	}
	// A signature is for the name too: an old tag must not pass for a new one.
	if "refs/tags/"+tag.Name != rev.Ref || tag.Target.String() != rev.Commit {
		return "", fmt.Errorf("%w: what is signed is the tag %s of commit %s", ErrSignature, tag.Name, tag.Target)
	}
	signed, signature := splitTag(content)
	return v.check(signed, signature, tag.Tagger.When)
}

func decode(kind plumbing.ObjectType, content []byte, into object.Object) error {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	if _, err := o.Write(content); err != nil {
		return err
	}
	return into.Decode(o)
}

// splitCommit returns what is signed of a commit, and the signature.
func splitCommit(content []byte) (signed, signature []byte) {
	header, message, _ := bytes.Cut(content, []byte("\n\n"))
	in := false
	for line := range bytes.Lines(append(slices.Clone(header), '\n')) {
		switch {
		case bytes.HasPrefix(line, []byte("gpgsig ")):
			in = true
			signature = append(signature, line[len("gpgsig "):]...)
		case in && line[0] == ' ':
			signature = append(signature, line[1:]...)
		default:
			in = false
			signed = append(signed, line...)
		}
	}
	return append(append(signed, '\n'), message...), signature
}

// splitTag returns what is signed of a tag, and the signature after it.
func splitTag(content []byte) (signed, signature []byte) {
	for _, begin := range []string{"\n-----BEGIN PGP SIGNATURE-----\n", "\n-----BEGIN SSH SIGNATURE-----\n"} {
		if i := bytes.LastIndex(content, []byte(begin)); i >= 0 {
			return content[:i+1], content[i+1:]
		}
	}
	return content, nil
}

// check returns who made a signature at a time.
func (v Verification) check(signed, signature []byte, at time.Time) (string, error) {
	switch {
	case len(signature) == 0:
		return "", fmt.Errorf("%w: it is not signed", ErrSignature)
	case bytes.HasPrefix(signature, []byte("-----BEGIN SSH SIGNATURE-----")):
		if len(v.AllowedSigners) == 0 {
			return "", fmt.Errorf("%w: it is signed by SSH, and the Secret has no key allowed_signers", ErrSignature)
		}
		return checkSSH(signed, signature, v.AllowedSigners, at)
	case bytes.HasPrefix(signature, []byte("-----BEGIN PGP SIGNATURE-----")):
		return v.checkPGP(signed, signature)
	}
	return "", fmt.Errorf("%w: the signature is neither PGP's nor SSH's", ErrSignature)
}

func (v Verification) checkPGP(signed, signature []byte) (string, error) {
	if len(v.PGPKeys) == 0 {
		return "", fmt.Errorf("%w: it is signed by PGP, and the Secret has no PGP key", ErrSignature)
	}
	ring, err := readKeyRing(v.PGPKeys)
	if err != nil {
		return "", errors.New("the PGP keys cannot be read")
	}
	entity, err := openpgp.CheckArmoredDetachedSignature(ring, bytes.NewReader(signed), bytes.NewReader(signature), nil)
	if err != nil {
		return "", fmt.Errorf("%w: no PGP key of the Secret made it: %w", ErrSignature, err)
	}
	name := fmt.Sprintf("PGP key %X", entity.PrimaryKey.Fingerprint)
	if id := entity.PrimaryIdentity(); id != nil {
		name = id.Name + ", " + name
	}
	return name, nil
}

// readKeyRing reads armored keys, one block after another.
func readKeyRing(armored []byte) (openpgp.EntityList, error) {
	const end = "-----END PGP PUBLIC KEY BLOCK-----"
	var ring openpgp.EntityList
	for rest := armored; len(bytes.TrimSpace(rest)) > 0; {
		i := bytes.Index(rest, []byte(end))
		if i < 0 {
			return nil, errors.New("no PGP public key block")
		}
		keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(rest[:i+len(end)]))
		if err != nil {
			return nil, err
		}
		ring, rest = append(ring, keys...), rest[i+len(end):]
	}
	if len(ring) == 0 {
		return nil, errors.New("no PGP public key block")
	}
	return ring, nil
}
