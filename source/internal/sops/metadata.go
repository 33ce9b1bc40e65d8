package sops

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// metadata is what SOPS keeps in a file besides its content.
type metadata struct {
	keyGroup
	KeyGroups               []keyGroup `json:"key_groups"`
	ShamirThreshold         int        `json:"shamir_threshold"`
	LastModified            string     `json:"lastmodified"`
	MAC                     string     `json:"mac"`
	MACOnlyEncrypted        bool       `json:"mac_only_encrypted"`
	UnencryptedSuffix       string     `json:"unencrypted_suffix"`
	EncryptedSuffix         string     `json:"encrypted_suffix"`
	UnencryptedRegex        string     `json:"unencrypted_regex"`
	EncryptedRegex          string     `json:"encrypted_regex"`
	UnencryptedCommentRegex string     `json:"unencrypted_comment_regex"`
	EncryptedCommentRegex   string     `json:"encrypted_comment_regex"`

	rule *regexp.Regexp // whichever of the four is set
}

// keyGroup are keys of which each alone opens the data key, or the group's part of it.
type keyGroup struct {
	Age []struct {
		Recipient string `json:"recipient"`
		Enc       string `json:"enc"`
	} `json:"age"`
	PGP []struct {
		Fingerprint string `json:"fp"`
		Enc         string `json:"enc"`
	} `json:"pgp"`
	KMS     []any `json:"kms"`
	GCPKMS  []any `json:"gcp_kms"`
	AzureKV []any `json:"azure_kv"`
	Vault   []any `json:"hc_vault"`
	HCKMS   []any `json:"hckms"`
}

const (
	metadataKey    = "sops"
	metadataPrefix = "sops_" // of a dotenv file's keys
)

// takeMetadata takes the metadata out of documents; it is that of the first. It returns nil if there is none.
func takeMetadata(f format, docs []document) (*metadata, error) {
	var found any
	for i, d := range docs {
		var rest branch
		flat := map[string]string{}
		for _, it := range d.root {
			switch {
			case it.comment != nil:
			case f == formatDotenv && strings.HasPrefix(it.key, metadataPrefix):
				flat[strings.TrimPrefix(it.key, metadataPrefix)], _ = it.value.(string)
				continue
			case f != formatDotenv && it.key == metadataKey:
				if i == 0 {
					found = plainValue(it.value)
				}
				continue
			}
			rest = append(rest, it)
		}
		if len(flat) > 0 {
			found = unflatten(flat)
		}
		docs[i].root = rest
	}
	if m, ok := found.(map[string]any); !ok || m["mac"] == nil {
		return nil, nil
	}
	raw, err := json.Marshal(found)
	if err != nil {
		return nil, errors.New("its SOPS metadata is malformed")
	}
	meta := &metadata{}
	if err := json.Unmarshal(raw, meta); err != nil {
		return nil, errors.New("its SOPS metadata is malformed")
	}
	return meta, meta.complete()
}

// defaultUnencryptedSuffix is that of keys whose values are not encrypted, where a file has no rule of its own.
const defaultUnencryptedSuffix = "_unencrypted"

func (m *metadata) complete() error {
	at, err := time.Parse(time.RFC3339, m.LastModified)
	if err != nil {
		return errors.New("its SOPS metadata is malformed: lastmodified is no time")
	}
	m.LastModified = at.Format(time.RFC3339)
	rules := 0
	for _, rule := range []string{m.UnencryptedSuffix, m.EncryptedSuffix, m.UnencryptedRegex, m.EncryptedRegex, m.UnencryptedCommentRegex, m.EncryptedCommentRegex} {
		if rule != "" {
			rules++
		}
	}
	switch {
	case rules > 1:
		return errors.New("its SOPS metadata has more than one rule of what is encrypted")
	case rules == 0:
		m.UnencryptedSuffix = defaultUnencryptedSuffix
	}
	for _, pattern := range []string{m.UnencryptedRegex, m.EncryptedRegex, m.UnencryptedCommentRegex, m.EncryptedCommentRegex} {
		if pattern == "" {
			continue
		}
		if m.rule, err = regexp.Compile(pattern); err != nil {
			return fmt.Errorf("its SOPS metadata has a rule that is no regular expression: %q", pattern)
		}
	}
	return nil
}

// plainValue returns a value as JSON has it, without comments.
func plainValue(v any) any {
	switch v := v.(type) {
	case branch:
		m := map[string]any{}
		for _, it := range v {
			if it.comment == nil {
				m[it.key] = plainValue(it.value)
			}
		}
		return m
	case []any:
		list := []any{}
		for _, child := range v {
			if _, ok := child.(comment); !ok {
				list = append(list, plainValue(child))
			}
		}
		return list
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return v
}

// unflatten makes of keys such as age__list_0__map_enc what they stand for.
func unflatten(flat map[string]string) any {
	root := map[string]any{}
	for key, value := range flat {
		key = strings.NewReplacer("__map_", "\x00m", "__list_", "\x00l").Replace(key)
		at := root
		steps := strings.Split("m"+key, "\x00")
		for _, step := range steps[:len(steps)-1] {
			next, ok := at[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
		at[steps[len(steps)-1]] = strings.ReplaceAll(value, "\\n", "\n")
	}
	return unflattened(root)
}

func unflattened(v any) any {
	at, ok := v.(map[string]any)
	if !ok {
		switch v {
		case "true", "false":
			return v == "true"
		}
		if s, ok := v.(string); ok {
			if n, err := strconv.Atoi(s); err == nil {
				return n
			}
		}
		return v
	}
	list, m := []any{}, map[string]any{}
	for i := 0; ; i++ {
		item, ok := at["l"+strconv.Itoa(i)]
		if !ok {
			break
		}
		list = append(list, unflattened(item))
	}
	if len(list) > 0 {
		return list
	}
	for key, value := range at {
		m[key[1:]] = unflattened(value)
	}
	return m
}
