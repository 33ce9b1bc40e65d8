package main

import (
	"errors"
	"fmt"
	"strings"
)

// list is a setting that is a list of words: separated by commas, or a list in the configuration file.
type list struct{ words *[]string }

func (l list) Type() string { return "list" }

func (l list) String() string {
	if l.words == nil {
		return ""
	}
	return strings.Join(*l.words, ",")
}

func (l list) Set(text string) error {
	words := []string{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	*l.words = words
	return nil
}

// setValue sets a setting that is no single value in the configuration file.
func (l list) setValue(value any) error {
	items, ok := value.([]any)
	if !ok {
		return errors.New("must be a list")
	}
	words := []string{}
	for _, item := range items {
		word, ok := item.(string)
		if !ok {
			return fmt.Errorf("must be a list of words, and %v is none", item)
		}
		words = append(words, word)
	}
	*l.words = words
	return nil
}
