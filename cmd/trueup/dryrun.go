package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/trueup/trueup/health/words"
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
		return fmt.Errorf("a sync of %s/%s to %s would fail: %d of %s would be refused", s.app.Namespace, s.app.Name, revision, failed, words.Count(len(preview.Changes)+len(preview.Hooks), "object"))
	}
	would := countWords(counts)
	if n := len(preview.Hooks); n > 0 {
		would += " and run " + words.Count(n, "hook")
	}
	fmt.Fprintf(s.out, "A sync of %s/%s to %s would %s. Nothing was changed.\n", s.app.Namespace, s.app.Name, revision, would)
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
	var parts []string
	for _, op := range []sync.Op{sync.OpCreate, sync.OpUpdate, sync.OpHeal, sync.OpPrune} {
		if n := counts[op]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", strings.ToLower(string(op)), n))
		}
	}
	if len(parts) == 0 {
		return "change nothing"
	}
	return strings.Join(parts, ", ")
}
