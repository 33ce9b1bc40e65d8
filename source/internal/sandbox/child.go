package sandbox

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Exit codes of a child.
const (
	exitProtocol = 90 + iota // it was not started by Run, or its parent is gone
	exitMemory
	exitOutput
)

// watchEvery is how often a child looks at its memory. At ten gigabytes a second, the fastest that memory fills, it can
// grow by 20 MB between two looks.
const watchEvery = 2 * time.Millisecond

// maxStack bounds recursion: far more than renderers need, far less than the gigabyte that Go would give.
const maxStack = 64 << 20

// child answers one request, and returns the exit code.
func child(name string, memory int64, cpu time.Duration) int {
	c := newConn(os.Stdin, os.Stdout)
	// A library that prints must not write into the conversation.
	os.Stdout = os.Stderr
	slog.SetDefault(slog.New(slog.DiscardHandler))
	debug.SetMemoryLimit(memory - memory/8)
	debug.SetMaxStack(maxStack)
	drop(memory, cpu)
	go watch(uint64(memory))

	w, ok := workers[name]
	o, request, err := c.receive(anySize)
	if !ok || err != nil || o != opRequest {
		return exitProtocol
	}
	files := tools{remoteFiles{c}, func(place string) { _ = c.send(opAt, []byte(place[:min(len(place), maxText)])) }}
	answer, err := work(w, request, files)
	if err == nil {
		err = c.send(opAnswer, answer)
	} else {
		err = c.send(opError, errorText(err))
	}
	switch {
	case errors.Is(err, errOutput):
		return exitOutput
	case err != nil:
		return exitProtocol
	}
	// The parent ends the conversation: nothing is cut off.
	_, _ = io.Copy(io.Discard, c.in)
	return 0
}

// work turns a panic of the libraries that parse what a repository holds into an error.
func work(w Worker, request []byte, files Files) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the renderer panicked on its content: %v", p)
		}
	}()
	return w(request, files)
}

// watch ends the process when it has more memory than it may. What is mapped and not yet touched counts: it is about to
// be touched.
func watch(limit uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		metrics.Read(sample)
		if total, released := sample[0].Value.Uint64(), sample[1].Value.Uint64(); total > released && total-released > limit {
			os.Exit(exitMemory)
		}
		time.Sleep(watchEvery)
	}
}
