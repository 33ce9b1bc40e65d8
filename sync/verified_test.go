package sync

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
)

// signer signs commits with a PGP key of its own.
type signer struct {
	t      testing.TB
	entity *openpgp.Entity
}

func newSigner(t testing.TB, name string) signer {
	t.Helper()
	entity, err := openpgp.NewEntity(name, "", strings.ToLower(name)+"@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, entity}
}

func (s signer) publicKey() string {
	s.t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.entity.Serialize(w); err != nil {
		s.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

// commit makes a commit on the default branch like the newest one there, with a signature, in its place.
func (s signer) commit(repo *gitserver.Repository, files map[string]string, message string) string {
	s.t.Helper()
	repo.Branch("unsigned", repo.Rev("main"))
	var changes []gitserver.Change
	for name, content := range files {
		changes = append(changes, gitserver.Change{Path: name, Content: content})
	}
	raw := repo.Git("cat-file", "commit", repo.CommitTo("unsigned", message, changes...)) + "\n"
	var signature bytes.Buffer
	if err := openpgp.ArmoredDetachSign(&signature, s.entity, strings.NewReader(raw), nil); err != nil {
		s.t.Fatal(err)
	}
	header, body, _ := strings.Cut(raw, "\n\n")
	signed := header + "\ngpgsig " + strings.ReplaceAll(strings.TrimSpace(signature.String()), "\n", "\n ") + "\n\n" + body
	cmd := exec.Command("git", "hash-object", "-t", "commit", "-w", "--stdin")
	cmd.Dir, cmd.Stdin = repo.Dir(), strings.NewReader(signed)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	commit := strings.TrimSpace(string(out))
	repo.Branch("main", commit)
	return commit
}

func verified(secret string, mode v1alpha1.VerifyMode) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) {
		app.Spec.Source.Verify = &v1alpha1.Verify{Mode: mode, SecretRef: v1alpha1.SecretReference{Name: secret}}
	}
}

func TestAnUnsignedCommitIsRefusedAndTheLastGoodOneRunsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := newSigner(t, "Ada"), newSigner(t, "Eve")
	w.secret("signers", "ada.asc", ada.publicKey())
	w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "unsigned")}, "first")
	w.app("shop", verified("signers", ""))
	app := w.until("shop", says(v1alpha1.ConditionVerified, "it is not signed"))
	if app.Status.Sync.Revision != "" || app.Status.Sync.FailedRevision != w.git.Rev("main") || condition(app, v1alpha1.ConditionFetched).Status != "True" {
		t.Errorf("nothing of it may be used, and it is said which commit is refused: %+v", app.Status)
	}

	good := ada.commit(w.git, map[string]string{"shop/settings.yaml": settings("settings", "good")}, "by Ada")
	app = w.until("shop", synced(good))
	fingerprint := fmt.Sprintf("PGP key %X", ada.entity.PrimaryKey.Fingerprint)
	if s := app.Status.Sync.Signatures; len(s) != 1 || s[0].Mode != "HEAD" || !strings.Contains(s[0].Signer, "Ada") || !strings.Contains(s[0].Signer, fingerprint) {
		t.Errorf("signatures: %+v, want Ada's with %s", s, fingerprint)
	}
	if c := condition(app, v1alpha1.ConditionVerified); c.Status != "True" || !strings.Contains(c.Message, "Ada") {
		t.Errorf("condition: %+v", c)
	}

	refuse := func(commit string, words ...string) {
		t.Helper()
		for range 2 { // the second time with an agent that remembers nothing
			app := w.until("shop", says(v1alpha1.ConditionVerified, append(words, good[:7]+" runs on")...))
			w.heals("settings")
			s := app.Status.Sync
			if s.Revision != good || s.FailedRevision != commit || s.Status != v1alpha1.OutOfSync || w.setting("settings") != "good" || len(s.Signatures) != 1 {
				t.Errorf("the last good revision runs on, got %+v", s)
			}
			w.stop()
			w.start()
		}
	}
	refuse(eve.commit(w.git, map[string]string{"shop/settings.yaml": settings("settings", "eve")}, "by Eve"), "no PGP key of the Secret made it")
	refuse(w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "nobody")}, "by nobody"), "it is not signed")

	// Keys are read anew with each look.
	byEve := eve.commit(w.git, map[string]string{"shop/settings.yaml": settings("settings", "eve")}, "by Eve")
	w.secret("signers", "ada.asc", ada.publicKey(), "eve.asc", eve.publicKey())
	w.until("shop", synced(byEve))
	w.kubectl("delete", "secret", "signers")
	w.until("shop", says(v1alpha1.ConditionVerified, "the keys of those who may sign", "Secret "+w.ns+"/signers", "not found"))
	w.kubectl("patch", "application", "shop", "--type=json", "-p", `[{"op":"remove","path":"/spec/source/verify"}]`)
	app = w.until("shop", synced(byEve))
	if c := condition(app, v1alpha1.ConditionVerified); c.Type != "" || app.Status.Sync.Signatures != nil {
		t.Errorf("nothing is verified any more, yet there are %+v and %+v", c, app.Status.Sync.Signatures)
	}
}

func TestSignedTagsAndSSHKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bundle, err := filepath.Abs("../source/testdata/signed/signed.bundle")
	if err != nil {
		t.Fatal(err)
	}
	w.git.Git("fetch", "--quiet", bundle, "refs/*:refs/*")
	w.Kubectl(t, "", "-n", w.ns, "create", "secret", "generic", "signers",
		"--from-file=allowed_signers=../source/testdata/signed/allowed_signers", "--from-file=ada.asc=../source/testdata/signed/ada.asc")
	at := func(revision string) func(*v1alpha1.Application) {
		return func(app *v1alpha1.Application) { app.Spec.Source.Path, app.Spec.Source.TargetRevision = "", revision }
	}
	w.app("ssh", at("ssh"), verified("signers", "HEAD"))
	w.app("tag", at("tag-of-unsigned"), verified("signers", "Tag"))
	w.app("both", at("tag-pgp"), verified("signers", "TagAndHEAD"))
	w.app("light", at("light"), verified("signers", "Tag"))
	for name, want := range map[string]v1alpha1.SignatureStatus{
		"ssh":  {Mode: "HEAD", Signer: "ada@example.com, SSH key SHA256:"},
		"tag":  {Mode: "Tag", Signer: "ada@example.com, SSH key SHA256:"},
		"both": {Mode: "TagAndHEAD", Signer: "Ada <ada@example.com>, PGP key "},
	} {
		w.until(name, func(app *v1alpha1.Application) error {
			s := app.Status.Sync
			if len(s.Signatures) != 1 || s.Signatures[0].Mode != want.Mode || !strings.HasPrefix(s.Signatures[0].Signer, want.Signer) {
				return fmt.Errorf("signatures: want %+v, got %+v", want, s.Signatures)
			}
			return nil
		})
	}
	w.until("light", says(v1alpha1.ConditionVerified, "it is no annotated tag"))
}
