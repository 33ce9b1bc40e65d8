package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	// Processes are the process ids of the components, as they were started first.
	Processes map[string]int `json:"processes"`
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

// commands returns the lines of in, and a context that ends when in is closed. A program that starts a
// cluster keeps in open: when it dies, however it does, even a start or a build is given up.
func commands(ctx context.Context, in io.Reader) (context.Context, <-chan []byte) {
	ctx, cancel := context.WithCancel(ctx)
	lines := make(chan []byte)
	go func() {
		defer cancel()
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- bytes.Clone(scanner.Bytes())
		}
	}()
	return ctx, lines
}

// control says that the cluster is ready and obeys commands until ctx ends or a component dies.
func control(ctx context.Context, c *cluster, commands <-chan []byte, out io.Writer) error {
	say := json.NewEncoder(out).Encode // who no longer listens has also closed the input
	processes := map[string]int{}
	for name, component := range c.components {
		processes[name] = component.cmd.Process.Pid
	}
	say(event{Ready: &readyEvent{
		Server: c.server, Version: c.version, Kubeconfig: c.kubeconfig("admin"), AdminToken: c.identities["admin"].token,
		Kubectl: c.bin.path("kubectl"), AuditLog: c.path("audit.log"), Dir: c.dir,
		Processes: processes,
	}})
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-commands:
			say(c.obey(ctx, line))
		case err := <-c.died:
			say(event{Died: err.Error()})
			return err
		}
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
