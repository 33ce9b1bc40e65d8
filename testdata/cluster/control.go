package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// readyEvent is the first line on standard output, once the cluster is up.
type readyEvent struct {
	Server     string `json:"server"`
	Version    string `json:"version"`
	Kubeconfig string `json:"kubeconfig"`
	AdminToken string `json:"adminToken"`
	Kubectl    string `json:"kubectl"`
	AuditLog   string `json:"auditLog"`
	Dir        string `json:"dir"`
}

// command is a line on standard input: one of its fields names a component.
type command struct {
	Stop  string `json:"stop,omitempty"`  // end it with SIGTERM
	Kill  string `json:"kill,omitempty"`  // end it with SIGKILL
	Start string `json:"start,omitempty"` // start it again, and wait until it serves
}

// event is a line on standard output. Each command is answered by one, with Done or Error; Died comes
// unasked.
type event struct {
	Ready *readyEvent `json:"ready,omitempty"`
	Done  *command    `json:"done,omitempty"`
	Error string      `json:"error,omitempty"`
	Died  string      `json:"died,omitempty"`
}

// control obeys commands, one JSON object a line, until in is closed, ctx ends or a component dies. A
// program that starts a cluster keeps in open: when it dies, however it does, the cluster ends.
func control(ctx context.Context, c *cluster, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	say := func(e event) {
		mu.Lock()
		defer mu.Unlock()
		json.NewEncoder(out).Encode(e) // who has gone away also closed in
	}
	say(event{Ready: &readyEvent{
		Server: c.server, Version: c.version, Kubeconfig: c.kubeconfig("admin"), AdminToken: c.identities["admin"].token,
		Kubectl: c.bin.path("kubectl"), AuditLog: c.path("audit.log"), Dir: c.dir,
	}})
	closed := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			say(c.obey(ctx, lines.Bytes()))
		}
		closed <- lines.Err()
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-closed:
		return err
	case err := <-c.died:
		say(event{Died: err.Error()})
		return err
	}
}

// obey does what one line asks for and returns the answer.
func (c *cluster) obey(ctx context.Context, line []byte) event {
	var cmd command
	err := json.Unmarshal(line, &cmd)
	switch {
	case err != nil:
		err = fmt.Errorf("reading a command: %w", err)
	case cmd.Stop != "":
		err = c.stopComponent(cmd.Stop, false)
	case cmd.Kill != "":
		err = c.stopComponent(cmd.Kill, true)
	case cmd.Start != "":
		err = c.startComponent(ctx, cmd.Start)
	default:
		err = fmt.Errorf(`reading a command: %s has none of "stop", "kill" and "start"`, line)
	}
	if err != nil {
		return event{Error: err.Error()}
	}
	return event{Done: &cmd}
}
