package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// lineWriters says who else wrote each line of an object as changeDiff shows it, by the line's number.
func lineWriters(change sync.Change) (map[int]string, error) {
	if change.Live == nil {
		return nil, nil
	}
	blame, err := diff.NewBlame(change.Live, change.Managed, v1alpha1.FieldManager)
	if err != nil {
		return nil, err
	}
	live, next := withoutNoise(change.Live), withoutNoise(change.Next)
	maskSecret(live, next) // values of several lines are one
	change.Hide(live, next)
	text, err := objectText(live)
	if err != nil {
		return nil, err
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", change.ID, err)
	}
	places := map[int][]string{}
	notePlaces(places, &document, nil)
	writers := map[int]string{}
	var place []string
	for line := range strings.Count(text, "\n") {
		if at, ok := places[line+1]; ok { // else it goes on with the value of the line before
			place = at
		}
		if owner, ok := blame.Of(place); ok {
			writers[line+1] = ownerSince(owner)
		}
	}
	return writers, nil
}

// notePlaces notes of each line that begins a value the JSON pointer to it, the deepest of those that begin there.
func notePlaces(places map[int][]string, n *yamlv3.Node, pointer []string) {
	below := func(element string) []string { return append(slices.Clip(pointer), element) }
	switch n.Kind {
	case yamlv3.DocumentNode:
		notePlaces(places, n.Content[0], pointer)
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			places[key.Line] = below(key.Value)
			notePlaces(places, n.Content[i+1], below(key.Value))
		}
	case yamlv3.SequenceNode:
		for i, item := range n.Content {
			places[item.Line] = below(strconv.Itoa(i))
			notePlaces(places, item, below(strconv.Itoa(i)))
		}
	}
}
