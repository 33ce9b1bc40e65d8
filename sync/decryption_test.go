package sync

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// sealed returns a file that SOPS has encrypted, or a key for it: see testdata/oracles/sops at the root.
func sealed(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "source", "internal", "sops", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func decrypted(secret string) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) {
		app.Spec.Source.Decryption = &v1alpha1.Decryption{Provider: "sops", SecretRef: v1alpha1.SecretReference{Name: secret}}
	}
}

func TestEncryptedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{
		"shop/login.yaml":    sealed(t, "a-Secret-sealed-login.yaml"),
		"shop/settings.yaml": sealed(t, "a-ConfigMap-sealed-settings.yaml"),
	}, "first")
	w.app("shop")
	w.until("shop", says(v1alpha1.ConditionRendered, "shop/login.yaml is encrypted with SOPS", "spec.source.decryption"))
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"source":{"decryption":{"provider":"sops","secretRef":{"name":"sops-keys"}}}}}`)
	w.until("shop", says(v1alpha1.ConditionRendered, "reading the keys of spec.source.decryption from Secret "+w.ns+"/sops-keys"))
	w.secret("sops-keys", "test.agekey", sealed(t, "test.agekey"))
	w.until("shop", says(v1alpha1.ConditionRendered, "decrypting shop/settings.yaml: none of the keys of spec.source.decryption decrypts it: it is encrypted for PGP"))
	w.secret("sops-keys", "test.agekey", sealed(t, "test.agekey"), "test.asc", sealed(t, "test.asc"))
	w.until("shop", synced(commit))
	for _, get := range [][]string{
		{"secret", "login", "-o", "go-template={{.data.user | base64decode}} {{.data.password | base64decode}}"},
		{"configmap", "settings", "-o", "go-template=anna {{.data.token}}"},
	} {
		if got := w.kubectl(append([]string{"get"}, get...)...); got != "anna analytical-engine" {
			t.Errorf("%v: got %s", get, got)
		}
	}
	// An edit in the cluster is healed, and nobody is told from or to what.
	w.kubectl("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"token":"difference"}}`)
	w.until("shop", func(app *v1alpha1.Application) error {
		if got := w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.token}"); got != "analytical-engine" {
			return fmt.Errorf("the token is %s", got)
		}
		return synced(commit)(app)
	})
	w.hidesEverywhere("analytical-engine", "AGE-SECRET-KEY", "PRIVATE KEY")
}

// The API server repeats what it refuses.
func TestWhatWasDecryptedIsNotShownWhereItIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.Commit(map[string]string{"shop/refused.yaml": sealed(t, "a-Service-sealed-refused.yaml")}, "first")
	w.secret("sops-keys", "test.agekey", sealed(t, "test.agekey"))
	w.app("shop", decrypted("sops-keys"))
	w.until("shop", says(v1alpha1.ConditionApplied, "protocol", "***"))
	w.hidesEverywhere("analytical-engine")
}
