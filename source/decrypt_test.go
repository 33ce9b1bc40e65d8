package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sealedFile returns a file that SOPS has encrypted: see the root's testdata/oracles/sops.
func sealedFile(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("internal/sops/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func decryptionKeys(t testing.TB) *DecryptionKeys {
	t.Helper()
	keys, err := DecryptionKeysFromSecret(map[string][]byte{
		"test.agekey": []byte(sealedFile(t, "test.agekey")),
		"test.asc":    []byte(sealedFile(t, "test.asc")),
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

const (
	sealedSecret = "only-the-data-of-a-Secret-sealed-secret.yaml"
	sealedDotenv = "a-dotenv-file-sealed-secret.env"
	sealedBinary = "a-binary-file-sealed-key.pem"
)

func TestEncryptedFilesAreRenderedDecrypted(t *testing.T) {
	files := map[string]string{
		"plain/secret.yaml": sealedFile(t, sealedSecret),
		"plain/values.yaml": sealedFile(t, "aliases-sealed-alias.yaml"), // no manifest
		"kustomize/kustomization.yaml": `
resources: [secret.yaml]
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator:
- {name: settings, envs: [secret.env]}
secretGenerator:
- {name: key, files: [key.pem]}
patches:
- path: patch.yaml
`,
		"kustomize/secret.yaml": sealedFile(t, sealedSecret),
		"kustomize/secret.env":  sealedFile(t, sealedDotenv),
		"kustomize/key.pem":     sealedFile(t, sealedBinary),
		"kustomize/patch.yaml":  "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {more: x}\n",
	}
	tree := commitTree(t, files)
	opts := Options{Decryption: decryptionKeys(t)}
	got, err := Render(t.Context(), tree, "plain", opts)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"user": "anna", "password": "s3cret: #1", "empty": "", "several": "a line\nanother line\n"}
	if d := cmp.Diff(want, got.Objects[0].Object["stringData"]); d != "" || got.Objects[0].Place() != "plain/secret.yaml:2" {
		t.Errorf("at %s, -want +got:\n%s", got.Objects[0].Place(), d)
	}
	if _, still := got.Objects[0].Object["sops"]; still || len(got.Objects) != 1 {
		t.Errorf("got %v", got.Objects)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "values.yaml is left out") {
		t.Errorf("warnings: %v", got.Warnings)
	}
	if !slices.Contains(got.Secrets, "s3cret: #1") || !slices.Contains(got.Secrets, "another line") || slices.Contains(got.Secrets, "login") {
		t.Errorf("secrets: %q", got.Secrets)
	}
	got, err = Render(t.Context(), tree, "kustomize", opts)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]map[string]any{}
	for _, o := range got.Objects {
		byName[o.GetName()] = o.Object
	}
	want["more"] = "x"
	if d := cmp.Diff(want, byName["login"]["stringData"]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff(map[string]any{"USER": "anna", "PASSWORD": "s3cret = 1", "EMPTY": "", "LINES": `a\nb`}, byName["settings"]["data"]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff(map[string]any{"key.pem": "LS0tLS1CRUdJTiBLRVktLS0tLQoAAcOpCg=="}, byName["key"]["data"]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestAnEncryptedFileIsNeverRenderedAsItIs(t *testing.T) {
	secret := sealedFile(t, sealedSecret)
	other, err := DecryptionKeysFromSecret(map[string][]byte{"test.asc": []byte(sealedFile(t, "test.asc"))})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		files map[string]string
		keys  *DecryptionKeys
		want  string
	}{
		"in a folder":                   {map[string]string{"app/secret.yaml": secret}, nil, "app/secret.yaml is encrypted with SOPS, and is never applied like that: name the Secret with its keys in spec.source.decryption"},
		"as a resource":                 {map[string]string{"app/secret.yaml": secret, "app/kustomization.yaml": "resources: [secret.yaml]\n"}, nil, "app/secret.yaml is encrypted with SOPS"},
		"as a generator's file":         {map[string]string{"app/key.pem": sealedFile(t, sealedBinary), "app/kustomization.yaml": "configMapGenerator: [{name: x, files: [key.pem]}]\n"}, nil, "app/key.pem is encrypted with SOPS"},
		"as a generator's environment":  {map[string]string{"app/.env": sealedFile(t, sealedDotenv), "app/kustomization.yaml": "configMapGenerator: [{name: x, envs: [.env]}]\n"}, nil, "app/.env is encrypted with SOPS"},
		"with another's key":            {map[string]string{"app/secret.yaml": secret}, other, "decrypting app/secret.yaml: none of the keys of spec.source.decryption decrypts it"},
		"beside another document":       {map[string]string{"app/all.yaml": configMap("a", "1") + "---\n" + secret}, decryptionKeys(t), "app/all.yaml:9: Secret login is still encrypted with SOPS: keep it in a file of its own"},
		"a patch that is none any more": {map[string]string{"app/secret.yaml": strings.Replace(secret, "name: login", "name: other", 1)}, decryptionKeys(t), "decrypting app/secret.yaml: its MAC does not fit"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), commitTree(t, tt.files), "app", Options{Decryption: tt.keys})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// Libraries that read what was decrypted repeat in their errors what they do not understand.
func TestNoErrorRepeatsWhatWasDecrypted(t *testing.T) {
	for name, kustomization := range map[string]string{
		"a patch that is no YAML":        "resources: [cm.yaml]\npatches: [{path: key.pem, target: {kind: ConfigMap}}]\n",
		"a resource that is none":        "resources: [secret.env]\n",
		"a strategic merge that is none": "resources: [cm.yaml]\npatchesStrategicMerge: [secret.env]\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), commitTree(t, map[string]string{
				"kustomization.yaml": kustomization, "cm.yaml": configMap("a", "1"),
				"key.pem": sealedFile(t, sealedBinary), "secret.env": sealedFile(t, sealedDotenv),
				"secret.yaml": sealedFile(t, sealedSecret),
			}), "", Options{Decryption: decryptionKeys(t)})
			if err == nil {
				t.Fatal("no error")
			}
			for _, secret := range []string{"s3cret", "anna", "BEGIN KEY"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error has %q in it: %v", secret, err)
				}
			}
		})
	}
}

func TestErrorsAreFreeOfSecretsInAnyForm(t *testing.T) {
	o := &opener{secrets: map[string]bool{`pass"word\1`: true, "two  words": true, "line\none": true, "at": true}}
	err := o.hide(errors.New(`that says pass"word\1, ` + fmt.Sprintf("%q, ", `pass"word\1`) + "two words, two  words, line\none, line one, cGFzcyJ3b3JkXDE=, " + `"line\none"`))
	if want := `that says ***, "***", ***, ***, ***, ***, ***, "***"`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestALongErrorIsShortenedAfterSecretsAreTakenOut(t *testing.T) {
	secret := strings.Repeat("s3cret-", 100)
	o := &opener{secrets: map[string]bool{secret: true}}
	long := errors.New(strings.Repeat("x", maxErrorBytes-700) + secret + strings.Repeat("y", maxErrorBytes) + secret)
	if text := shorten(o.hide(long)).Error(); strings.Contains(text, "s3cret") || !strings.HasSuffix(text, "yyy***") || len(text) > maxErrorBytes+len(" … ") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if short := errors.New("short"); shorten(short) != short {
		t.Error("a short error is changed")
	}
}
