package gitserver

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// sshServer lets one key in and runs git-upload-pack on one repository for it.
type sshServer struct {
	dir        string
	addr       string
	config     *ssh.ServerConfig
	host       ssh.Signer
	knownHosts []byte
	identity   []byte

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	counts   Requests
}

func newSSHServer(dir string) (*sshServer, error) {
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	host, err := ssh.NewSignerFromSigner(hostKey)
	if err != nil {
		return nil, err
	}
	_, clientKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	client, err := ssh.NewSignerFromSigner(clientKey)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(clientKey, "")
	if err != nil {
		return nil, err
	}
	s := &sshServer{dir: dir, addr: "127.0.0.1:0", host: host, identity: pem.EncodeToMemory(block)}
	s.config = &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), client.PublicKey().Marshal()) {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	s.config.AddHostKey(host)
	return s, nil
}

func (s *sshServer) url() string { return "ssh://git@" + s.addr + "/repo.git" }

func (s *sshServer) start() error {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr, s.listener, s.conns = l.Addr().String(), l, map[net.Conn]struct{}{}
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	s.knownHosts = fmt.Appendf(nil, "[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(s.host.PublicKey()))
	go s.accept(l)
	return nil
}

func (s *sshServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener.Close()
	for conn := range s.conns {
		conn.Close()
	}
}

func (s *sshServer) requests() Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *sshServer) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		go func() {
			s.serve(conn)
			conn.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, conn)
		}()
	}
}

func (s *sshServer) serve(conn net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			c.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go s.session(channel, requests)
	}
}

func (s *sshServer) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for req := range requests {
		if req.Type != "exec" {
			req.Reply(false, nil)
			continue
		}
		var exec struct{ Command string }
		if err := ssh.Unmarshal(req.Payload, &exec); err != nil {
			return
		}
		req.Reply(true, nil)
		channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{s.run(channel, exec.Command)}))
		return
	}
}

func (s *sshServer) run(channel ssh.Channel, line string) uint32 {
	if line != "git-upload-pack '/repo.git'" {
		fmt.Fprintln(channel.Stderr(), "fatal: no such repository")
		return 128
	}
	s.mu.Lock()
	s.counts.Refs++
	s.mu.Unlock()
	cmd := command(s.dir, "upload-pack", s.dir)
	cmd.Stdout = &sshWriter{channel, s}
	cmd.Stderr = channel.Stderr()
	// A pipe of our own: the command's would keep Wait waiting for the client to hang up.
	stdin, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go io.Copy(stdin, &wantReader{channel, s})
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

// wantReader counts a request for objects when the client wants one.
type wantReader struct {
	ssh.Channel
	server *sshServer
}

func (r *wantReader) Read(p []byte) (int, error) {
	n, err := r.Channel.Read(p)
	if n > 4 && strings.HasPrefix(string(p[4:n]), "want ") {
		r.server.mu.Lock()
		defer r.server.mu.Unlock()
		r.server.counts.Packs++
	}
	return n, err
}

type sshWriter struct {
	ssh.Channel
	server *sshServer
}

func (w *sshWriter) Write(p []byte) (int, error) {
	n, err := w.Channel.Write(p)
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.counts.Bytes += n
	return n, err
}
