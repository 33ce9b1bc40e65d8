package source

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trueup/trueup/testdata/gitserver"
)

// signedRepository serves testdata/signed/signed.bundle: commits and tags signed with gpg and ssh-keygen by ada, bob (RSA)
// and eve, each on a branch of its own.
func signedRepository(t *testing.T) *gitserver.Repository {
	t.Helper()
	bundle, err := filepath.Abs("testdata/signed/signed.bundle")
	if err != nil {
		t.Fatal(err)
	}
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	repo.Git("fetch", "--quiet", bundle, "refs/*:refs/*")
	return repo
}

func readTestdata(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "signed", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// tamper adds a commit with the signature of another on a branch.
func tamper(t *testing.T, repo *gitserver.Repository, from, branch string) {
	t.Helper()
	raw := repo.Git("cat-file", "commit", from) + "\n"
	cmd := exec.Command("git", "hash-object", "-t", "commit", "-w", "--stdin")
	cmd.Dir, cmd.Stdin = repo.Dir(), strings.NewReader(strings.Replace(raw, "signed", "Signed", 1))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	repo.Branch(branch, string(bytes.TrimSpace(out)))
}

func TestVerify(t *testing.T) {
	repo := signedRepository(t)
	tamper(t, repo, "pgp", "pgp-tampered")
	tamper(t, repo, "ssh", "ssh-tampered")
	repo.Git("update-ref", "refs/tags/renamed", repo.Git("rev-parse", "refs/tags/tag-pgp"))
	pgp, eve, ssh := readTestdata(t, "ada.asc"), readTestdata(t, "eve.asc"), readTestdata(t, "allowed_signers")
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	for name, tc := range map[string]struct {
		revision string
		v        Verification
		signer   string // "" if it is refused
		err      string
	}{
		"a commit by PGP":                {"pgp", Verification{Mode: VerifyHEAD, PGPKeys: pgp}, "Ada <ada@example.com>, PGP key ", ""},
		"a commit by one of several":     {"pgp", Verification{Mode: VerifyHEAD, PGPKeys: append(append([]byte{}, eve...), pgp...)}, "Ada <ada@example.com>, PGP key ", ""},
		"a commit by another PGP key":    {"pgp-eve", Verification{Mode: VerifyHEAD, PGPKeys: pgp}, "", "no PGP key of the Secret made it"},
		"a commit by SSH":                {"ssh", Verification{Mode: VerifyHEAD, AllowedSigners: ssh}, "ada@example.com, SSH key SHA256:", ""},
		"a commit by an RSA key":         {"ssh-rsa", Verification{Mode: VerifyHEAD, AllowedSigners: ssh}, "bob@example.com,robert@example.com, SSH key SHA256:", ""},
		"a commit before its time":       {"ssh-eve", Verification{Mode: VerifyHEAD, AllowedSigners: ssh}, "", "the SSH key of late@example.com was not valid yet"},
		"a commit by an unknown SSH key": {"ssh", Verification{Mode: VerifyHEAD, AllowedSigners: []byte("# nobody\n")}, "", "no SSH key of allowed_signers made it"},
		"an unsigned commit":             {"main", Verification{Mode: VerifyHEAD, PGPKeys: pgp, AllowedSigners: ssh}, "", "it is not signed"},
		"a changed commit by PGP":        {"pgp-tampered", Verification{Mode: VerifyHEAD, PGPKeys: pgp}, "", "no PGP key of the Secret made it"},
		"a changed commit by SSH":        {"ssh-tampered", Verification{Mode: VerifyHEAD, AllowedSigners: ssh}, "", "not of this content"},
		"PGP, and only SSH is given":     {"pgp", Verification{Mode: VerifyHEAD, AllowedSigners: ssh}, "", "the Secret has no PGP key"},
		"SSH, and only PGP is given":     {"ssh", Verification{Mode: VerifyHEAD, PGPKeys: pgp}, "", "has no key allowed_signers"},
		"a tag by PGP":                   {"tag-pgp", Verification{Mode: VerifyTag, PGPKeys: pgp}, "Ada <ada@example.com>, PGP key ", ""},
		"a tag by SSH":                   {"tag-ssh", Verification{Mode: VerifyTag, AllowedSigners: ssh}, "ada@example.com, SSH key SHA256:", ""},
		"a tag of an unsigned commit":    {"tag-of-unsigned", Verification{Mode: VerifyTag, AllowedSigners: ssh}, "ada@example.com", ""},
		"both, and the commit is not":    {"tag-of-unsigned", Verification{Mode: VerifyTagAndHEAD, AllowedSigners: ssh}, "", "it is not signed"},
		"both":                           {"tag-pgp", Verification{Mode: VerifyTagAndHEAD, PGPKeys: pgp}, "Ada <ada@example.com>, PGP key ", ""},
		"an unsigned tag":                {"tag-unsigned", Verification{Mode: VerifyTag, PGPKeys: pgp}, "", "it is not signed"},
		"a lightweight tag":              {"light", Verification{Mode: VerifyTag, PGPKeys: pgp}, "", "it is no annotated tag"},
		"a branch, by tag":               {"pgp", Verification{Mode: VerifyTag, PGPKeys: pgp}, "", "it is no annotated tag"},
		"a tag under another name":       {"renamed", Verification{Mode: VerifyTag, PGPKeys: pgp}, "", "what is signed is the tag tag-pgp"},
		"signers that cannot be read":    {"ssh", Verification{Mode: VerifyHEAD, AllowedSigners: []byte("# a\nada junk\n")}, "", "allowed_signers, line 2"},
		"a certificate authority":        {"ssh", Verification{Mode: VerifyHEAD, AllowedSigners: bytes.Replace(ssh, []byte(`namespaces="git"`), []byte("cert-authority"), 1)}, "", "option cert-authority is not supported"},
		"a key for other things":         {"ssh", Verification{Mode: VerifyHEAD, AllowedSigners: bytes.Replace(ssh, []byte(`"git"`), []byte(`"file"`), 1)}, "", "may not sign for Git"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, url := range []string{repo.URL(), repo.FileURL()} {
				rev, err := r.Resolve(t.Context(), url, Auth{}, tc.revision, 0)
				if err != nil {
					t.Fatal(err)
				}
				signer, err := r.Verify(t.Context(), url, rev, tc.v)
				if tc.signer != "" && (err != nil || !strings.HasPrefix(signer, tc.signer)) {
					t.Errorf("Verify = %q, %v, want %q", signer, err, tc.signer)
				}
				if tc.signer == "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
					t.Errorf("Verify = %q, %v, want %q", signer, err, tc.err)
				}
				configured := strings.Contains(tc.err, "line 2") || strings.Contains(tc.err, "option")
				if tc.signer == "" && errors.Is(err, ErrSignature) == configured {
					t.Errorf("Verify = %v: ErrSignature is %t", err, !configured)
				}
			}
		})
	}
}

func TestVerificationFromSecret(t *testing.T) {
	pgp, ssh := readTestdata(t, "ada.asc"), readTestdata(t, "allowed_signers")
	v, err := VerificationFromSecret(VerifyHEAD, map[string][]byte{"ada.asc": pgp, "eve.asc": readTestdata(t, "eve.asc"), "allowed_signers": ssh})
	if err != nil || !bytes.Equal(v.AllowedSigners, ssh) || bytes.Count(v.PGPKeys, []byte("BEGIN PGP")) != 2 {
		t.Errorf("VerificationFromSecret = %v, %v", v, err)
	}
	for name, tc := range map[string]struct {
		mode VerifyMode
		data map[string][]byte
		want string
	}{
		"no such mode":   {"head", map[string][]byte{"a": pgp}, `verify.mode "head" is none of`},
		"nothing":        {VerifyTag, nil, "holds no public keys"},
		"something else": {VerifyTag, map[string][]byte{"id.pub": []byte("ssh-ed25519 AAAA")}, "key id.pub holds no armored PGP public key"},
	} {
		if _, err := VerificationFromSecret(tc.mode, tc.data); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
