package sandbox

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
)

// A message is one byte that says what it is, the length of its payload in four, and the payload.
type op byte

const (
	opRequest  op = 'q' // to the child, once, first
	opReadFile op = 'f' // from the child: a name; it waits for a result
	opReadDir  op = 'd' // from the child: a name; it waits for a result
	opAt       op = '@' // from the child: what it is at work on
	opAnswer   op = 'a' // from the child, last
	opError    op = 'e' // from the child, last; or to it, as a result
	opResult   op = 'r' // to the child
	opMissing  op = 'm' // to the child, as a result: there is no such file; the payload is the error's text
)

var errOutput = errors.New("the message is too large")

// maxText bounds what a child says besides its answer: names of files, and an error, which may repeat what a repository
// holds as often as it likes.
const maxText = 64 << 10

// limit returns how large a message of the child may be.
func (o op) limit(output int64) int64 {
	if o == opAnswer {
		return output
	}
	return maxText
}

// errorText returns the text of an error, as much of its beginning and of its end as may be said.
func errorText(err error) []byte {
	text := err.Error()
	if len(text) > maxText {
		const cut, half = " … ", maxText/2 - 4
		text = strings.ToValidUTF8(text[:half], "") + cut + strings.ToValidUTF8(text[len(text)-half:], "")
	}
	return []byte(text)
}

type conn struct {
	in  *bufio.Reader
	out io.Writer
}

func newConn(in io.Reader, out io.Writer) conn { return conn{bufio.NewReaderSize(in, 64<<10), out} }

func (c conn) send(o op, payload []byte) error {
	if int64(len(payload)) > int64(^uint32(0)) {
		return errOutput
	}
	head := binary.BigEndian.AppendUint32([]byte{byte(o)}, uint32(len(payload)))
	if len(payload) < 4<<10 {
		_, err := c.out.Write(append(head, payload...)) // one system call is less than two
		return err
	}
	if _, err := c.out.Write(head); err != nil {
		return err
	}
	_, err := c.out.Write(payload)
	return err
}

// receive refuses a message whose payload is larger than limit says before it makes room for it.
func (c conn) receive(limit func(op) int64) (op, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	if size > limit(op(head[0])) {
		return 0, nil, errOutput
	}
	payload := make([]byte, size)
	_, err := io.ReadFull(c.in, payload)
	return op(head[0]), payload, err
}

// anySize is the limit for what the parent sends.
func anySize(op) int64 { return int64(^uint32(0)) }

// sendResult answers what the child asked for.
func (c conn) sendResult(content []byte, err error) error {
	switch {
	case err == nil:
		return c.send(opResult, content)
	case errors.Is(err, fs.ErrNotExist):
		return c.send(opMissing, errorText(err))
	default:
		return c.send(opError, errorText(err))
	}
}

// workerError is the text of an error from the other side.
type workerError string

func (e workerError) Error() string { return string(e) }

// missingError is one that wraps fs.ErrNotExist there.
type missingError string

func (e missingError) Error() string { return string(e) }
func (e missingError) Unwrap() error { return fs.ErrNotExist }

// Names of files have no zero byte in them.
func joinNames(names []string) []byte { return []byte(strings.Join(names, "\x00")) }

func splitNames(joined []byte) []string {
	if len(joined) == 0 {
		return nil
	}
	return strings.Split(string(joined), "\x00")
}

// remoteFiles are the parent's files as the child sees them.
type remoteFiles struct{ conn conn }

func (r remoteFiles) ReadFile(name string) ([]byte, error) { return r.ask(opReadFile, name) }

func (r remoteFiles) ReadDir(name string) ([]string, error) {
	joined, err := r.ask(opReadDir, name)
	return splitNames(joined), err
}

func (r remoteFiles) ask(what op, name string) ([]byte, error) {
	if len(name) > maxText {
		return nil, errors.New("the name of a file is too long")
	}
	if err := r.conn.send(what, []byte(name)); err != nil {
		return nil, err
	}
	o, payload, err := r.conn.receive(anySize)
	if err != nil {
		return nil, err
	}
	switch o {
	case opResult:
		return payload, nil
	case opMissing:
		return nil, missingError(payload)
	case opError:
		return nil, workerError(payload)
	}
	return nil, fmt.Errorf("an unknown answer %q to the question for %s", o, name)
}

// What Go's runtime may say last, by what it means.
const (
	fatalMemory = "out of memory"
	fatalStack  = "stack overflow"
)

var fatalLine = regexp.MustCompile(`(?m)^(?:fatal error: |runtime: )([a-z][a-zA-Z -]{0,80})`)

// fatal returns what Go's runtime said of the end, "" if nothing. A panic's text is not returned: it may have anything
// in it.
func (t *tail) fatal() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case bytes.Contains(t.text, []byte("cannot allocate memory")), bytes.Contains(t.text, []byte("fatal error: runtime: out of memory")),
		bytes.Contains(t.text, []byte("failed to reserve")), bytes.Contains(t.text, []byte("out of memory")):
		return fatalMemory
	case bytes.Contains(t.text, []byte("fatal error: stack overflow")):
		return fatalStack
	}
	if m := fatalLine.FindSubmatch(t.text); m != nil {
		return "(" + string(m[1]) + ")"
	}
	return ""
}
