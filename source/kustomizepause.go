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
	mu      gosync.Mutex
	done    map[string]bool // false for what is still to be done
	todo    []func()
	fetches []func()             // what of it waits for servers, and may be done at once
	charts  map[string]inflation // by kustomization
	count   int                  // of charts
}

// fetchesAtOnce bounds the requests of one render that wait for servers.
const fetchesAtOnce = 4

// maxPauses bounds how often one render begins anew: kustomizations that configure plugins count their remotes on their own.
const maxPauses = maxRemotes + maxCharts

// first returns nil when the work of that name has been done, and else has it done after this build, whose outcome is lost:
// the error is for what cannot go on without.
func (p *pauses) first(name string, work func()) error { return p.before(&p.todo, name, work) }

// fetched is first for work that other such work may be done beside of.
func (p *pauses) fetched(name string, work func()) error { return p.before(&p.fetches, name, work) }

func (p *pauses) before(list *[]func(), name string, work func()) error {
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
	*list = append(*list, func() {
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
	todo, fetches := p.todo, p.fetches
	p.todo, p.fetches = nil, nil
	p.mu.Unlock()
	atOnce(fetches)
	for _, do := range todo {
		do()
	}
	return len(todo)+len(fetches) > 0
}

// atOnce does all of the work, a few at a time. One that panics does so here, where it is told as an error of the render.
func atOnce(work []func()) {
	panics := make([]any, len(work))
	slots := make(chan struct{}, fetchesAtOnce)
	var wg gosync.WaitGroup
	for i, do := range work {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() {
				panics[i] = recover()
				<-slots
			}()
			do()
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}

// again makes the file system as it was before the first build, of which so much has been read.
func (k *kustomizeFS) again(reads int, bytes int64) {
	k.tree.rec.uncount(reads, bytes) // the next build reads it again
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused, k.schema, k.admitted, k.remoteCount = nil, schemaShared, 0, 0
}
