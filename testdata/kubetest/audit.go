package kubetest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// AuditEvent is a request that the API server has answered, or, for a watch, begun to answer.
type AuditEvent struct {
	User      string // such as system:serviceaccount:NAMESPACE:NAME
	UserAgent string
	Verb      string // get, list, watch, create, update, patch, delete, deletecollection
	URI       string // with its query, so that a dry-run can be told
	Resource  string // such as deployments; empty for a request like /version
	Subresource,
	Namespace, Name string
	Code int // the HTTP status
	Time time.Time
}

// AuditMark is a place in the audit log.
type AuditMark int64

// barrierURI is what the requests ask for that only flush the log.
const barrierURI = "/version?kubetest-barrier="

// AuditMark returns the place in the audit log behind every request that was answered before the call.
func (c *Cluster) AuditMark(t testing.TB) AuditMark {
	t.Helper()
	return AuditMark(c.auditOffset(t))
}

// AuditEvents returns, in order, the requests since a mark for which keep is true, each once, up to those that
// were answered before the call. A nil keep keeps all.
func (c *Cluster) AuditEvents(t testing.TB, since AuditMark, keep func(AuditEvent) bool) []AuditEvent {
	t.Helper()
	end := c.auditOffset(t)
	log, err := c.readAudit(int64(since), end)
	if err != nil {
		t.Fatal(err)
	}
	var events []AuditEvent
	for line := range bytes.Lines(log) {
		event, ok, err := parseAudit(line)
		if err != nil {
			t.Fatal(err)
		}
		if ok && (keep == nil || keep(event)) {
			events = append(events, event)
		}
	}
	return events
}

// auditOffset sends a request and returns where in the log the line about it ends. The log is written
// before an answer is complete, so what was answered earlier is before that.
func (c *Cluster) auditOffset(t testing.TB) int64 {
	t.Helper()
	start, err := os.Stat(c.auditLog)
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	token := rand.Text()
	if err := c.client(t).RESTClient().Get().RequestURI(barrierURI + token).Do(t.Context()).Error(); err != nil {
		t.Fatalf("flushing the audit log: %v", err)
	}
	var offset int64
	Eventually(t, 10*time.Second, func() error {
		log, err := c.readAudit(start.Size(), -1)
		if err != nil {
			return err
		}
		at := bytes.Index(log, []byte(token))
		if at < 0 {
			return fmt.Errorf("the audit log %s has no line about a request that was answered", c.auditLog)
		}
		end := bytes.IndexByte(log[at:], '\n')
		if end < 0 {
			return fmt.Errorf("the last line of the audit log %s is not whole", c.auditLog)
		}
		offset = start.Size() + int64(at+end+1)
		return nil
	})
	return offset
}

// readAudit returns a part of the audit log; an end below zero means all there is.
func (c *Cluster) readAudit(start, end int64) ([]byte, error) {
	file, err := os.Open(c.auditLog)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer file.Close()
	if end < 0 {
		info, err := file.Stat()
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		end = info.Size()
	}
	data, err := io.ReadAll(io.NewSectionReader(file, start, end-start))
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return data, nil
}

// parseAudit returns false for lines that would count a request twice, and for barriers. A watch is
// logged when it starts and again when it ends.
func parseAudit(line []byte) (AuditEvent, bool, error) {
	var raw struct {
		Stage, Verb, RequestURI, UserAgent string
		User                               struct{ Username string }
		ObjectRef                          struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus                     struct{ Code int }
		StageTimestamp                     time.Time
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return AuditEvent{}, false, fmt.Errorf("reading the audit log: %w: %s", err, line)
	}
	event := AuditEvent{
		User: raw.User.Username, UserAgent: raw.UserAgent, Verb: raw.Verb, URI: raw.RequestURI,
		Resource: raw.ObjectRef.Resource, Subresource: raw.ObjectRef.Subresource,
		Namespace: raw.ObjectRef.Namespace, Name: raw.ObjectRef.Name,
		Code: raw.ResponseStatus.Code, Time: raw.StageTimestamp,
	}
	repeated := raw.Verb == "watch" && raw.Stage == "ResponseComplete" && event.Code < 300
	barrier := bytes.HasPrefix([]byte(raw.RequestURI), []byte(barrierURI))
	return event, !repeated && !barrier, nil
}
