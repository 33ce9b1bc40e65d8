package source

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const sshsigMagic = "SSHSIG"

// sshsig is a signature as ssh-keygen makes it (PROTOCOL.sshsig of OpenSSH).
type sshsig struct {
	Version       uint32
	PublicKey     []byte
	Namespace     string
	Reserved      string
	HashAlgorithm string
	Signature     []byte
}

// checkSSH returns the principals whose key made an SSH signature over a Git object.
func checkSSH(signed, armored, allowedSigners []byte, at time.Time) (string, error) {
	sig, err := parseSSHSig(armored)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSignature, err)
	}
	key, err := ssh.ParsePublicKey(sig.PublicKey)
	if err != nil {
		return "", fmt.Errorf("%w: its public key cannot be read", ErrSignature)
	}
	if err := sig.verify(key, signed); err != nil {
		return "", fmt.Errorf("%w: %w", ErrSignature, err)
	}
	principals, err := allowedSigner(allowedSigners, key, at)
	if err != nil {
		return "", err
	}
	return principals + ", SSH key " + ssh.FingerprintSHA256(key), nil
}

func parseSSHSig(armored []byte) (sshsig, error) {
	text := strings.TrimSpace(string(armored))
	text, ok1 := strings.CutPrefix(text, "-----BEGIN SSH SIGNATURE-----")
	text, ok2 := strings.CutSuffix(text, "-----END SSH SIGNATURE-----")
	blob, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	blob, ok3 := bytes.CutPrefix(blob, []byte(sshsigMagic))
	var sig sshsig
	if !ok1 || !ok2 || !ok3 || err != nil || ssh.Unmarshal(blob, &sig) != nil || sig.Version != 1 {
		return sshsig{}, errors.New("the SSH signature is malformed")
	}
	if sig.Namespace != "git" {
		return sshsig{}, errors.New("the SSH signature was not made for Git")
	}
	return sig, nil
}

func (s sshsig) verify(key ssh.PublicKey, signed []byte) error {
	var hash []byte
	switch s.HashAlgorithm {
	case "sha256":
		sum := sha256.Sum256(signed)
		hash = sum[:]
	case "sha512":
		sum := sha512.Sum512(signed)
		hash = sum[:]
	default:
		return errors.New("the SSH signature has an unknown hash")
	}
	var signature ssh.Signature
	if ssh.Unmarshal(s.Signature, &signature) != nil {
		return errors.New("the SSH signature is malformed")
	}
	if signature.Format == ssh.KeyAlgoRSA {
		return errors.New("the SSH signature is made with SHA-1")
	}
	message := append([]byte(sshsigMagic), ssh.Marshal(struct {
		Namespace, Reserved, HashAlgorithm string
		Hash                               []byte
	}{s.Namespace, s.Reserved, s.HashAlgorithm, hash})...)
	if key.Verify(message, &signature) != nil {
		return errors.New("the SSH signature is not of this content")
	}
	return nil
}

// allowedSigner returns the principals of the line of an allowed signers file that lets a key sign at a time.
func allowedSigner(file []byte, key ssh.PublicKey, at time.Time) (string, error) {
	reason := "no SSH key of allowed_signers made it"
	for n, line := range strings.Split(string(file), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		principals, rest, _ := strings.Cut(line, " ")
		have, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err != nil {
			return "", fmt.Errorf("allowed_signers, line %d: expected principals, options and a key", n+1)
		}
		if !bytes.Equal(have.Marshal(), key.Marshal()) {
			continue
		}
		why, err := refusedBy(options, at)
		if err != nil {
			return "", fmt.Errorf("allowed_signers, line %d: %w", n+1, err)
		}
		if why == "" {
			return principals, nil
		}
		reason = fmt.Sprintf("the SSH key of %s %s", principals, why)
	}
	return "", fmt.Errorf("%w: %s", ErrSignature, reason)
}

// refusedBy returns why the options of an allowed signer do not let it sign Git objects at a time, "" if they do.
func refusedBy(options []string, at time.Time) (string, error) {
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			if !slices.Contains(strings.Split(value, ","), "git") {
				return "may not sign for Git", nil
			}
		case "valid-after", "valid-before":
			limit, err := parseSignerTime(value)
			if err != nil {
				return "", err
			}
			if strings.EqualFold(name, "valid-after") && at.Before(limit) {
				return "was not valid yet", nil
			}
			if strings.EqualFold(name, "valid-before") && at.After(limit) {
				return "was not valid any more", nil
			}
		default:
			return "", fmt.Errorf("option %s is not supported", name)
		}
	}
	return "", nil
}

// parseSignerTime reads YYYYMMDD[HHMM[SS]][Z]. Times without a zone are in UTC here, so that they mean the same everywhere.
func parseSignerTime(s string) (time.Time, error) {
	digits := strings.TrimSuffix(s, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, digits); err == nil && len(layout) == len(digits) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time as YYYYMMDDHHMMSS", s)
}
