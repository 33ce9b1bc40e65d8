// Package sops holds Trueup's reading of encrypted files against the library of SOPS itself, which brings the clients of
// several clouds with it.
package sops

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	mathrand "math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	sopslib "github.com/getsops/sops/v3"
	"github.com/getsops/sops/v3/aes"
	sopsage "github.com/getsops/sops/v3/age"
	"github.com/getsops/sops/v3/cmd/sops/common"
	"github.com/getsops/sops/v3/cmd/sops/formats"
	"github.com/getsops/sops/v3/config"
	"github.com/getsops/sops/v3/pgp"
	"github.com/getsops/sops/v3/shamir"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/trueup/trueup/source"
)

// fixtures are files encrypted by the library, which the tests of the main module read. TRUEUP_FIXTURES=1 writes them.
const fixtures = "../../../source/internal/sops/testdata"

// keys are a pair of each kind.
type keys struct {
	age *age.X25519Identity
	pgp *openpgp.Entity
}

func newKeys(t *testing.T) keys {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	entity, err := openpgp.NewEntity("Test", "", "test@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys{identity, entity}
}

func (k keys) secret(t *testing.T) map[string][]byte {
	t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.PrivateKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.pgp.SerializePrivate(w, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"test.agekey": []byte("# a comment\n" + k.age.String() + "\n"), "test.asc": out.Bytes()}
}

func (k keys) ageKey(t *testing.T, dataKey []byte) *sopsage.MasterKey {
	t.Helper()
	key, err := sopsage.MasterKeyFromRecipient(k.age.Recipient().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Encrypt(dataKey); err != nil {
		t.Fatal(err)
	}
	return key
}

func (k keys) pgpKey(t *testing.T, dataKey []byte) *pgp.MasterKey {
	t.Helper()
	var out bytes.Buffer
	a, err := armor.Encode(&out, "PGP MESSAGE", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openpgp.Encrypt(a, []*openpgp.Entity{k.pgp}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(dataKey); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	key := pgp.NewMasterKeyFromFingerprint(fmt.Sprintf("%X", k.pgp.PrimaryKey.Fingerprint))
	key.EncryptedKey = out.String()
	return key
}

// encrypt returns what sops makes of a file, and what `sops decrypt` makes of that.
func (k keys) encrypt(t *testing.T, name string, plain []byte, meta sopslib.Metadata, groups string) (sealed, opened []byte) {
	t.Helper()
	dataKey := make([]byte, 32)
	if _, err := rand.Read(dataKey); err != nil {
		t.Fatal(err)
	}
	switch groups {
	case "age":
		meta.KeyGroups = []sopslib.KeyGroup{{k.ageKey(t, dataKey)}}
	case "pgp":
		meta.KeyGroups = []sopslib.KeyGroup{{k.pgpKey(t, dataKey)}}
	case "2 of 2":
		parts, err := shamir.Split(dataKey, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		meta.ShamirThreshold = 2
		meta.KeyGroups = []sopslib.KeyGroup{{k.ageKey(t, parts[0])}, {k.pgpKey(t, parts[1])}}
	}
	meta.Version = "3.13.3"
	if meta.EncryptedSuffix+meta.EncryptedRegex+meta.UnencryptedRegex+meta.EncryptedCommentRegex+meta.UnencryptedCommentRegex == "" {
		meta.UnencryptedSuffix = sopslib.DefaultUnencryptedSuffix // as the command does
	}
	store := common.StoreForFormat(formats.FormatForPath(name), config.NewStoresConfig())
	branches, err := store.LoadPlainFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	tree := sopslib.Tree{Branches: branches, Metadata: meta, FilePath: name}
	if err := common.EncryptTree(common.EncryptTreeOpts{Tree: &tree, Cipher: aes.NewCipher(), DataKey: dataKey}); err != nil {
		t.Fatal(err)
	}
	if sealed, err = store.EmitEncryptedFile(tree); err != nil {
		t.Fatal(err)
	}
	loaded, err := store.LoadEncryptedFile(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loaded.Decrypt(dataKey, aes.NewCipher()); err != nil {
		t.Fatal(err)
	}
	if opened, err = store.EmitPlainFile(loaded.Branches); err != nil {
		t.Fatal(err)
	}
	return sealed, opened
}

// ours returns what Trueup reads of an encrypted file: as a file of a generator, which is taken byte by byte.
func ours(t *testing.T, secret map[string][]byte, name string, sealed []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, name), sealed)
	write(t, filepath.Join(dir, "kustomization.yaml"), []byte("generatorOptions: {disableNameSuffixHash: true}\nsecretGenerator:\n- name: all\n  files: [content="+name+"]\n"))
	decryption, err := source.DecryptionKeysFromSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := source.RenderDir(t.Context(), dir, ".", source.Options{Decryption: decryption})
	if err != nil {
		t.Fatalf("%v\n%s", err, sealed)
	}
	data := rendered.Objects[0].Object["data"].(map[string]any)
	raw, err := base64.StdEncoding.DecodeString(data["content"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

const secretYAML = `# above all
apiVersion: v1
kind: Secret # the kind
metadata:
  # the name
  name: login
type: Opaque
stringData:
  # who
  user: anna # inline
  password: "s3cret: #1"
  empty: ""
  several: |
    a line
    another line
  # the end
list: [1, 2.5, true, null, "x", 2020-01-02T03:04:05Z, {deep: [er]}]
open_unencrypted: {port: 8080, ratio: 0.5, on: true}
`

var cases = map[string]struct {
	file, content string
	meta          sopslib.Metadata
	groups        string
}{
	"all values of YAML":            {"secret.yaml", secretYAML, sopslib.Metadata{}, "age"},
	"only the data of a Secret":     {"secret.yaml", secretYAML, sopslib.Metadata{EncryptedRegex: "^(data|stringData)$"}, "age"},
	"all but what a regex names":    {"secret.yaml", secretYAML, sopslib.Metadata{UnencryptedRegex: "^(apiVersion|kind|metadata|type)$"}, "pgp"},
	"keys with a suffix":            {"secret.yaml", secretYAML, sopslib.Metadata{EncryptedSuffix: "word"}, "age"},
	"what a comment asks for":       {"secret.yaml", secretYAML, sopslib.Metadata{EncryptedCommentRegex: "who|inline"}, "age"},
	"all but what a comment spares": {"secret.yaml", secretYAML, sopslib.Metadata{UnencryptedCommentRegex: "who"}, "age"},
	"a MAC over encrypted values":   {"secret.yaml", secretYAML, sopslib.Metadata{EncryptedRegex: "^stringData$", MACOnlyEncrypted: true}, "age"},
	"a key in two parts":            {"secret.yaml", secretYAML, sopslib.Metadata{}, "2 of 2"},
	"a Secret":                      {"login.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {user: anna, password: analytical-engine}\n", sopslib.Metadata{EncryptedRegex: "^(data|stringData)$"}, "age"},
	"a ConfigMap":                   {"settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {token: analytical-engine}\n", sopslib.Metadata{EncryptedRegex: "^data$"}, "pgp"},
	"a Service":                     {"refused.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 80, protocol: analytical-engine}]}\n", sopslib.Metadata{EncryptedRegex: "^protocol$"}, "age"},
	"aliases":                       {"alias.yaml", "a: &a {x: 1, y: [b]}\nb: *a\nc:\n  - *a\n", sopslib.Metadata{}, "age"},
	"JSON":                          {"secret.json", `{"a": 1, "b": [true, null, 2.5, "x"], "c": {"d": "é <&>", "e": {}, "f": []}}`, sopslib.Metadata{}, "age"},
	"a dotenv file":                 {"secret.env", "# who\nUSER=anna\nPASSWORD=s3cret = 1\nEMPTY=\nLINES=a\\nb\n", sopslib.Metadata{}, "pgp"},
	"a dotenv file with two groups": {"secret.env", "USER=anna\n", sopslib.Metadata{}, "2 of 2"},
	"a binary file":                 {"key.pem", "-----BEGIN KEY-----\n\x00\x01é\n", sopslib.Metadata{}, "age"},
}

func TestAFileIsReadAsSopsDecryptsIt(t *testing.T) {
	k := newKeys(t)
	secret := k.secret(t)
	if os.Getenv("TRUEUP_FIXTURES") != "" {
		for name, content := range secret {
			write(t, filepath.Join(fixtures, name), content)
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sealed, want := k.encrypt(t, c.file, []byte(c.content), c.meta, c.groups)
			got := ours(t, secret, c.file, sealed)
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("-sops +trueup:\n%s\n%s", d, sealed)
			}
			if os.Getenv("TRUEUP_FIXTURES") != "" {
				base := filepath.Join(fixtures, strings.ReplaceAll(name, " ", "-")+"-")
				write(t, base+"sealed-"+c.file, sealed)
				write(t, base+"plain-"+c.file, want)
			}
		})
	}
}

func TestDocumentsAreReadAsSopsDecryptsThem(t *testing.T) {
	k := newKeys(t)
	sealed, want := k.encrypt(t, "a.yaml", []byte("a: 1\n---\nb: [x]\n---\nc: {d: e}\n"), sopslib.Metadata{}, "age")
	got := ours(t, k.secret(t), "a.yaml", sealed)
	if d := cmp.Diff(values(t, want), values(t, got)); d != "" {
		t.Errorf("-sops +trueup:\n%s", d)
	}
}

func values(t *testing.T, content []byte) (all []any) {
	t.Helper()
	for dec := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var v any
		if err := dec.Decode(&v); err != nil {
			return all
		}
		all = append(all, v)
	}
}

func TestAnyTreeIsReadAsSopsDecryptsIt(t *testing.T) {
	k := newKeys(t)
	secret := k.secret(t)
	for seed := range int64(200) {
		r := mathrand.New(mathrand.NewSource(seed))
		plain, err := yaml.Marshal(map[string]any{"root": randomValue(r, 0), "more": randomValue(r, 1), "s": randomText(r)})
		if err != nil {
			t.Fatal(err)
		}
		metas := []sopslib.Metadata{{}, {EncryptedRegex: "a"}, {UnencryptedRegex: "b"}, {MACOnlyEncrypted: true, EncryptedSuffix: "c"}}
		sealed, want := k.encrypt(t, "any.yaml", plain, metas[r.Intn(len(metas))], "age")
		if got := ours(t, secret, "any.yaml", sealed); !bytes.Equal(want, got) {
			t.Fatalf("seed %d: -sops +trueup:\n%s\n%s", seed, cmp.Diff(string(want), string(got)), sealed)
		}
	}
}

func randomText(r *mathrand.Rand) string {
	const letters = "abc \n:#'\"-é{[%&*0"
	runes := []rune(letters)
	var out strings.Builder
	for range r.Intn(12) {
		out.WriteRune(runes[r.Intn(len(runes))])
	}
	// The YAML library does not read again all that it writes with white space at the ends.
	return strings.TrimSpace(out.String())
}

func randomValue(r *mathrand.Rand, depth int) any {
	n := 8
	if depth > 4 {
		n = 6
	}
	switch r.Intn(n) {
	case 0:
		return r.Int63()
	case 1:
		return r.NormFloat64()
	case 2:
		return r.Intn(2) == 0
	case 3:
		return nil
	case 4, 5:
		return randomText(r)
	case 6:
		list := []any{}
		for range r.Intn(4) {
			list = append(list, randomValue(r, depth+1))
		}
		return list
	}
	m := map[string]any{}
	for range 1 + r.Intn(4) {
		m[randomText(r)+string(rune('a'+r.Intn(3)))] = randomValue(r, depth+1)
	}
	return m
}
