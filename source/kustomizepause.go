package source

import (
	"errors"
	"fmt"
	gosync "sync"
)

// errPaused stops a build of kustomize for work that is done before the next one, which gets further.
var errPaused = errors.New("the build of the kustomization waits for something")

// pauses is the work that the builds of one render stop for. While a build runs, it holds what all kustomizations of the
// process share; so what waits for a server or a child process is done between two builds.
type pauses struct {
	mu     gosync.Mutex
	done   map[string]bool // false for what is still to be done
	todo   []func()
	charts map[string]inflation // by kustomization
	count  int                  // of charts
}

// maxPauses bounds how often one render begins anew: kustomizations that configure plugins count their remotes on their own.
const maxPauses = maxRemotes + maxCharts

// first returns nil when the work of that name has been done, and else has it done after this build, whose outcome is lost:
// the error is for what cannot go on without.
func (p *pauses) first(name string, work func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch done, known := p.done[name]; {
	case done:
		return nil
	case known:
		return errPaused
	case len(p.done) == maxPauses:
		return fmt.Errorf("more than %d remote references and kustomizations with charts are in one render", maxPauses)
	}
	p.done[name] = false
	p.todo = append(p.todo, func() {
		work()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done[name] = true
	})
	return errPaused
}

// inflation returns what the charts of a kustomization render to, nothing before that was done.
func (p *pauses) inflation(file string) inflation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charts[file]
}

// inflated notes what the charts of a kustomization render to.
func (p *pauses) inflated(file string, rendered inflation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charts[file] = rendered
}

// counted counts charts, and returns how many there have been with them.
func (p *pauses) counted(charts int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count += charts
	return p.count
}

// work does what the last build stopped for, and reports whether there was anything.
func (p *pauses) work() bool {
	p.mu.Lock()
	todo := p.todo
	p.todo = nil
	p.mu.Unlock()
	for _, do := range todo {
		do()
	}
	return len(todo) > 0
}

// again makes the file system as it was before the first build, of which so much has been read.
func (k *kustomizeFS) again(reads int, bytes int64) {
	k.tree.rec.uncount(reads, bytes) // the next build reads it again
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused, k.schema, k.admitted, k.remoteCount = nil, schemaShared, 0, 0
}
