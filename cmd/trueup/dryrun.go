package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/trueup/trueup/sync"
)

// dryRun tells what a sync would do to each object, and does nothing.
func (s *syncing) dryRun(ctx context.Context, prune bool) error {
	preview, err := s.cl.preview(ctx, s.app, sync.Newest, prune)
	if err != nil {
		return err
	}
	t := table{}
	counts := make(map[sync.Op]int)
	failed := 0
	for _, change := range preview.Changes {
		switch {
		case change.Err != nil:
			failed++
			t.add(cell{"Refused", red}, cell{text: change.ID.String()}, cell{text: firstLine(change.Err.Error())})
		case change.Op != sync.OpNone:
			counts[change.Op]++
			t.add(cell{string(change.Op), opStyle(change.Op)}, cell{text: change.ID.String()}, cell{text: firstLine(change.Message)})
		case !isInSync(change):
			t.add(cell{"Leave", dim}, cell{text: change.ID.String()}, cell{text: firstLine(change.Message)})
		}
	}
	for _, hook := range preview.Hooks {
		name := fmt.Sprintf("%s hook %s", hook.Phase, hook.ID)
		if hook.Err != nil {
			failed++
			t.add(cell{"Refused", red}, cell{text: name}, cell{text: firstLine(hook.Err.Error())})
		} else {
			t.add(cell{"Run", yellow}, cell{text: name}, cell{})
		}
	}
	t.write(s.out, s.palette)
	revision := shortRevision(preview.Revision)
	if failed > 0 {
		return fmt.Errorf("a sync of %s/%s to %s would fail: %d of %d objects would be refused", s.app.Namespace, s.app.Name, revision, failed, len(preview.Changes)+len(preview.Hooks))
	}
	words := countWords(counts)
	switch n := len(preview.Hooks); n {
	case 0:
	case 1:
		words += " and run 1 hook"
	default:
		words += fmt.Sprintf(" and run %d hooks", n)
	}
	fmt.Fprintf(s.out, "A sync of %s/%s to %s would %s. Nothing was changed.\n", s.app.Namespace, s.app.Name, revision, words)
	return nil
}

func opStyle(op sync.Op) style {
	switch op {
	case sync.OpCreate:
		return green
	case sync.OpPrune:
		return red
	}
	return yellow
}

func countWords(counts map[sync.Op]int) string {
	var words []string
	for _, op := range []sync.Op{sync.OpCreate, sync.OpUpdate, sync.OpHeal, sync.OpPrune} {
		if n := counts[op]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", strings.ToLower(string(op)), n))
		}
	}
	if len(words) == 0 {
		return "change nothing"
	}
	return strings.Join(words, ", ")
}
