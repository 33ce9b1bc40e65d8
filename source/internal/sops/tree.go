package sops

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A document is one of a file's. Values are string, int, float64, bool, time.Time, nil, branch or []any, which may have
// comments in it.
type document struct {
	root branch
	line int // where it begins
}

// A branch is a mapping in its order, with the comments between its items.
type branch []item

type item struct {
	comment *comment // if set, the item is one
	key     string
	value   any
}

type comment struct {
	text   string // without the #
	inline bool
}

// decryption is one run over the documents of a file, in which every value is looked at in order.
type decryption struct {
	meta    *metadata
	key     []byte
	mac     hash.Hash
	secrets []string
}

// macOnlyEncrypted begins the MAC of files that have only what is encrypted in it: SHA-256 of "sops".
var macOnlyEncrypted, _ = base64.StdEncoding.DecodeString("ij/SrVTOZlJ7EDTz0Ue+CwuXWzv0T3LG/a3sgXbyfWk=")

// run decrypts documents in place, and checks that they are what was encrypted.
func (d *decryption) run(docs []document) error {
	d.mac = sha512.New()
	if d.meta.MACOnlyEncrypted {
		d.mac.Write(macOnlyEncrypted)
	}
	for _, doc := range docs {
		if err := d.branch(doc.root, nil, nil); err != nil {
			return err
		}
	}
	want, err := d.open(d.meta.MAC, d.meta.LastModified)
	if err != nil {
		return errors.New("its MAC cannot be read: the file was changed after it was encrypted")
	}
	mac, _ := want.(string)
	if !hmac.Equal([]byte(mac), fmt.Appendf(nil, "%X", d.mac.Sum(nil))) {
		return errors.New("its MAC does not fit: the file was changed after it was encrypted; change it with sops edit")
	}
	return nil
}

// above are the comments that stand above a value, for each level that it is in.
type above [][]string

func (d *decryption) branch(b branch, path []string, comments above) error {
	comments = append(slices.Clip(comments), nil)
	last := &comments[len(comments)-1]
	for i := range b {
		it := &b[i]
		if it.comment != nil {
			*last = append(*last, it.comment.text)
			if err := d.comment(it.comment, path, comments); err != nil {
				return err
			}
			continue
		}
		var err error
		if it.value, err = d.value(it.value, append(slices.Clip(path), it.key), comments); err != nil {
			return err
		}
		*last = nil
	}
	return nil
}

func (d *decryption) list(list []any, path []string, comments above) error {
	comments = append(slices.Clip(comments), nil)
	last := &comments[len(comments)-1]
	for i, v := range list {
		if c, ok := v.(comment); ok {
			*last = append(*last, c.text)
			if err := d.comment(&c, path, comments); err != nil {
				return err
			}
			list[i] = c
			continue
		}
		var err error
		if list[i], err = d.value(v, path, comments); err != nil {
			return err
		}
		if _, ok := list[i].(comment); !ok {
			*last = nil
		}
	}
	return nil
}

// comment decrypts a comment. One that cannot be was written by hand, or before comments were encrypted; it is in no MAC.
func (d *decryption) comment(c *comment, path []string, comments above) error {
	if !d.encrypted(path, comments, true) {
		return nil
	}
	switch plain, err := d.open(c.text, aad(path)); text := plain.(type) {
	case string:
		if err == nil {
			c.text = text
		}
	case comment:
		*c = text
	}
	return nil
}

func (d *decryption) value(v any, path []string, comments above) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case branch:
		return v, d.branch(v, path, comments)
	case []any:
		return v, d.list(v, path, comments)
	}
	encrypted := d.encrypted(path, comments, false)
	if encrypted {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s is not encrypted, and should be", strings.Join(path, "."))
		}
		var err error
		if v, err = d.open(text, aad(path)); err != nil {
			return nil, fmt.Errorf("%s cannot be decrypted: the file was changed after it was encrypted", strings.Join(path, "."))
		}
		d.note(v, path)
	}
	if _, ok := v.(comment); !ok && (encrypted || !d.meta.MACOnlyEncrypted) {
		raw, err := macBytes(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
		}
		d.mac.Write(raw)
	}
	return v, nil
}

func aad(path []string) string { return strings.Join(path, ":") + ":" }

// note remembers what was encrypted.
func (d *decryption) note(v any, path []string) {
	switch path[0] {
	case "apiVersion", "kind", "metadata":
		return
	}
	switch v := v.(type) {
	case string:
		if v != "" {
			d.secrets = append(d.secrets, lines(v)...)
		}
	case int, float64:
		raw, _ := macBytes(v)
		d.secrets = append(d.secrets, string(raw))
	}
}

// encrypted reports whether the rule of the file wants a value to be encrypted.
func (d *decryption) encrypted(path []string, comments above, isComment bool) bool {
	m := d.meta
	switch {
	case m.UnencryptedSuffix != "":
		return !slices.ContainsFunc(path, func(key string) bool { return strings.HasSuffix(key, m.UnencryptedSuffix) })
	case m.EncryptedSuffix != "":
		return slices.ContainsFunc(path, func(key string) bool { return strings.HasSuffix(key, m.EncryptedSuffix) })
	case m.UnencryptedRegex != "":
		return !slices.ContainsFunc(path, m.rule.MatchString)
	case m.EncryptedRegex != "":
		return slices.ContainsFunc(path, m.rule.MatchString)
	case m.UnencryptedCommentRegex != "":
		return !slices.ContainsFunc(comments, func(level []string) bool { return slices.ContainsFunc(level, m.rule.MatchString) })
	}
	for i, level := range comments {
		if isComment && i == len(comments)-1 {
			level = level[:len(level)-1] // the comment that asks for encryption is not encrypted itself
		}
		if slices.ContainsFunc(level, m.rule.MatchString) {
			return true
		}
	}
	return false
}

const cipherPrefix = "ENC[AES256_GCM,"

var cipherText = regexp.MustCompile(`^ENC\[AES256_GCM,data:(.+),iv:(.+),tag:(.+),type:(.+)\]`)

// open decrypts one text, which stands at a place that it was bound to.
func (d *decryption) open(text, place string) (any, error) {
	if text == "" {
		return "", nil
	}
	parts := cipherText.FindStringSubmatch(text)
	if parts == nil {
		return nil, errors.New("not encrypted")
	}
	var raw [3][]byte
	for i := range raw {
		var err error
		if raw[i], err = base64.StdEncoding.DecodeString(parts[i+1]); err != nil {
			return nil, err
		}
	}
	block, err := aes.NewCipher(d.key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, len(raw[1]))
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, raw[1], append(raw[0], raw[2]...), []byte(place))
	if err != nil {
		return nil, err
	}
	return typed(string(plain), parts[4])
}

func typed(text, kind string) (any, error) {
	switch kind {
	case "str", "bytes":
		return text, nil
	case "int":
		return strconv.Atoi(text)
	case "float":
		return strconv.ParseFloat(text, 64)
	case "bool":
		return strconv.ParseBool(text)
	case "time":
		var t time.Time
		err := t.UnmarshalText([]byte(text))
		return t, err
	case "comment":
		return comment{text: text}, nil
	}
	return nil, errors.New("unknown type")
}

// macBytes returns what the MAC has of a value.
func macBytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return []byte(v), nil
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	case bool:
		if v {
			return []byte("True"), nil
		}
		return []byte("False"), nil
	case time.Time:
		return v.MarshalText()
	}
	return nil, fmt.Errorf("a value of type %T cannot be in an encrypted file", v)
}

// newLines returns how many line breaks there are in what was written so far.
func newLines(b []byte) int { return bytes.Count(b, []byte("\n")) }
