package sops

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/google/go-cmp/cmp"
)

// The files in testdata were encrypted by the library of SOPS: see testdata/sops at the root.

func testKeys(t testing.TB, names ...string) *Keys {
	t.Helper()
	data := map[string][]byte{}
	for _, name := range names {
		data[name] = read(t, name)
	}
	keys, err := NewKeys(data)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// sealed returns the encrypted files of testdata by the case they are of, and the name that each has in a repository.
func sealed(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*-sealed-*")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	out := map[string]string{}
	for _, f := range files {
		base := filepath.Base(f)
		_, name, _ := strings.Cut(base, "-sealed-")
		out[base] = name
	}
	return out
}

func TestDecrypt(t *testing.T) {
	keys := testKeys(t, "test.agekey", "test.asc")
	for base, name := range sealed(t) {
		t.Run(base, func(t *testing.T) {
			content := read(t, base)
			if !IsEncrypted(name, content) {
				t.Error("IsEncrypted says no")
			}
			plain, err := Decrypt(name, content, keys)
			if err != nil {
				t.Fatal(err)
			}
			want := read(t, strings.Replace(base, "-sealed-", "-plain-", 1))
			if d := cmp.Diff(string(want), string(plain.Content)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if IsEncrypted(name, plain.Content) {
				t.Error("IsEncrypted says yes of what was decrypted")
			}
			if _, err := Decrypt(name, content, nil); err != ErrEncrypted {
				t.Errorf("without keys: %v", err)
			}
		})
	}
}

func TestSecretsOfAFile(t *testing.T) {
	plain, err := Decrypt("secret.yaml", read(t, "all-values-of-YAML-sealed-secret.yaml"), testKeys(t, "test.agekey"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Opaque", "anna", "s3cret: #1", "a line\nanother line\n", "a line", "another line", "1", "2.5", "x", "er"}
	if d := cmp.Diff(want, plain.Secrets); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Whatever of a file is changed, it is refused, and no error repeats what is in it.
func TestAChangedFileIsRefused(t *testing.T) {
	keys := testKeys(t, "test.agekey", "test.asc")
	changes := map[string]struct {
		file     string
		old, new string // a regular expression, and what the first match becomes
		want     string
	}{
		"a value that is not encrypted":              {"only-the-data-of-a-Secret-sealed-secret.yaml", `name: login`, "name: other", "its MAC does not fit"},
		"a value more":                               {"only-the-data-of-a-Secret-sealed-secret.yaml", `type: Opaque`, "type: Opaque\nmore: true", "its MAC does not fit"},
		"a value less":                               {"only-the-data-of-a-Secret-sealed-secret.yaml", `type: Opaque\n`, "", "its MAC does not fit"},
		"a plain value in place of an encrypted one": {"only-the-data-of-a-Secret-sealed-secret.yaml", `user: ENC\[[^\]]*\]`, "user: s3cret", "stringData.user cannot be decrypted"},
		"a number in place of an encrypted one":      {"only-the-data-of-a-Secret-sealed-secret.yaml", `user: ENC\[[^\]]*\]`, "user: 1", "stringData.user is not encrypted, and should be"},
		"an encrypted value moved":                   {"only-the-data-of-a-Secret-sealed-secret.yaml", `user: ENC`, "login: ENC", "stringData.login cannot be decrypted"},
		"an encrypted value made less":               {"only-the-data-of-a-Secret-sealed-secret.yaml", `user: ENC\[[^\]]*\]`, `user: ""`, "its MAC does not fit"},
		"another type":                               {"only-the-data-of-a-Secret-sealed-secret.yaml", `type:str\]`, "type:int]", "stringData.user cannot be decrypted"},
		"the rule":                                   {"only-the-data-of-a-Secret-sealed-secret.yaml", `encrypted_regex: .*`, "encrypted_regex: ^data$", "its MAC does not fit"},
		"the time":                                   {"only-the-data-of-a-Secret-sealed-secret.yaml", `lastmodified: "20`, `lastmodified: "19`, "its MAC cannot be read"},
		"no MAC of encrypted values alone":           {"a-MAC-over-encrypted-values-sealed-secret.yaml", `mac_only_encrypted: true`, `mac_only_encrypted: false`, "its MAC does not fit"},
		"two rules":                                  {"only-the-data-of-a-Secret-sealed-secret.yaml", `encrypted_regex:`, "unencrypted_suffix: x\n    encrypted_regex:", "more than one rule"},
		"a value of a dotenv file":                   {"a-dotenv-file-sealed-secret.env", `USER=ENC\[AES256_GCM,data:..`, "USER=ENC[AES256_GCM,data:AA", "USER cannot be decrypted"},
		"a value of JSON":                            {"JSON-sealed-secret.json", `data:..`, "data:AA", "a cannot be decrypted"},
		"a byte of a binary file":                    {"a-binary-file-sealed-key.pem", `data:....`, "data:AAAA", "data cannot be decrypted"},
	}
	for name, tt := range changes {
		t.Run(name, func(t *testing.T) {
			content := string(read(t, tt.file))
			loc := regexp.MustCompile(tt.old).FindStringIndex(content)
			if loc == nil {
				t.Fatalf("there is no %s in\n%s", tt.old, content)
			}
			content = content[:loc[0]] + tt.new + content[loc[1]:]
			_, file, _ := strings.Cut(tt.file, "-sealed-")
			_, err := Decrypt(file, []byte(content), keys)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "anna") {
				t.Errorf("the error repeats what is in the file: %v", err)
			}
		})
	}
}

func TestOtherKeysDoNotDecrypt(t *testing.T) {
	tests := map[string]struct{ file, key, want string }{
		"a PGP key for an age file":    {"JSON-sealed-secret.json", "test.asc", "none of the keys of spec.source.decryption decrypts it: it is encrypted for age age1"},
		"an age key for a PGP file":    {"a-dotenv-file-sealed-secret.env", "test.agekey", "it is encrypted for PGP "},
		"one of two groups, in YAML":   {"a-key-in-two-parts-sealed-secret.yaml", "test.asc", "it is encrypted for 2 of 2 groups: age age1"},
		"one of two groups, in dotenv": {"a-dotenv-file-with-two-groups-sealed-secret.env", "test.agekey", "it is encrypted for 2 of 2 groups: age age1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, file, _ := strings.Cut(tt.file, "-sealed-")
			_, err := Decrypt(file, read(t, tt.file), testKeys(t, tt.key))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	content := regexp.MustCompile(`(?s)    age:.*    lastmodified`).ReplaceAllString(string(read(t, "all-values-of-YAML-sealed-secret.yaml")),
		"    kms:\n        - arn: arn:aws:kms:x\n          enc: AAAA\n    lastmodified")
	if _, err := Decrypt("secret.yaml", []byte(content), testKeys(t, "test.agekey")); err == nil || !strings.Contains(err.Error(), "encrypted for AWS KMS (key services are not asked)") {
		t.Errorf("got %v\n%s", err, content)
	}
}

func TestNewKeys(t *testing.T) {
	agekey, asc := read(t, "test.agekey"), read(t, "test.asc")
	keys := testKeys(t, "test.agekey", "test.asc")
	if again := testKeys(t, "test.agekey", "test.asc"); again.ID() != keys.ID() || keys.ID() == testKeys(t, "test.agekey").ID() {
		t.Error("the ID does not tell keys apart")
	}
	raw, err := keys.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprintf("%v %+v %#v %s", keys, keys, keys, raw); strings.Contains(all, "AGE-SECRET") || strings.Contains(all, "PRIVATE") {
		t.Errorf("it prints %s", all)
	}
	entities, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(asc))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		data map[string][]byte
		want string
	}{
		"nothing":             {nil, "it has no keys that decrypt"},
		"keys of other names": {map[string][]byte{"identity": agekey, "age.txt": agekey}, "it has no keys that decrypt"},
		"no age identity":     {map[string][]byte{"x.agekey": []byte("s3cret")}, "its key x.agekey holds no age identity"},
		"an age plugin":       {map[string][]byte{"x.agekey": []byte("AGE-PLUGIN-YUBIKEY-1QGZ")}, "its key x.agekey holds no age identity"},
		"no PGP key":          {map[string][]byte{"x.asc": []byte("s3cret")}, "its key x.asc: it holds no PGP key in ASCII armor"},
		"a public key":        {map[string][]byte{"x.asc": armored(t, openpgp.PublicKeyType, entities[0].Serialize)}, "its key x.asc: it is a public key"},
	}
	if err := entities[0].EncryptPrivateKeys([]byte("passphrase"), nil); err != nil {
		t.Fatal(err)
	}
	locked := armored(t, openpgp.PrivateKeyType, func(w io.Writer) error {
		return entities[0].SerializePrivateWithoutSigning(w, nil)
	})
	tests["a passphrase"] = struct {
		data map[string][]byte
		want string
	}{map[string][]byte{"x.asc": locked}, "its key x.asc: it is protected by a passphrase"}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewKeys(tt.data)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func armored(t *testing.T, kind string, write func(io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatIsNotEncrypted(t *testing.T) {
	for name, content := range map[string]string{
		"a.yaml":     "kind: ConfigMap\n",
		".sops.yaml": "creation_rules:\n- age: age1xyz\n",
		"doc.yaml":   "text: the sops key has ENC[AES256_GCM,...]\n",
		"doc.md":     "sops: writes ENC[AES256_GCM,data:…]\n",
		"list.yaml":  "- sops: ENC[AES256_GCM,data:a]\n",
		"half.json":  `{"sops": {"x": "ENC[AES256_GCM,"}}`,
		"bad.json":   `{"sops": "ENC[AES256_GCM,"`,
	} {
		if IsEncrypted(name, []byte(content)) {
			t.Errorf("%s is taken for encrypted", name)
		}
	}
	if !IsEncrypted("a.ini", []byte("[a]\nb = ENC[AES256_GCM,data:x]\n[sops]\nmac = ENC[AES256_GCM,x]\n")) {
		t.Error("an INI file is not taken for encrypted")
	}
	if _, err := Decrypt("a.ini", []byte("[sops]\nmac = ENC[AES256_GCM,x]\n"), testKeys(t, "test.agekey")); err == nil || !strings.Contains(err.Error(), "INI files are not decrypted") {
		t.Errorf("got %v", err)
	}
}

func FuzzDecrypt(f *testing.F) {
	for base, name := range sealed(f) {
		f.Add(name, read(f, base))
	}
	keys := testKeys(f, "test.agekey")
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		if _, err := Decrypt(name, content, keys); err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error repeats a secret: %v", err)
		}
	})
}
