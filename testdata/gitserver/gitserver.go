// Package gitserver serves a Git repository on loopback for tests and demos: real git behind smart HTTP, HTTPS and SSH,
// with authentication, outages and counters. Start reading at New. It needs the git program.
package gitserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Reporter is told of what must not happen; a *testing.T is one.
type Reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Options say how the repository is served. The zero value serves it over HTTP to anyone.
type Options struct {
	Username, Password string // ask for HTTP basic authentication
	Token              string // ask for HTTP bearer authentication
	TLS                bool   // HTTPS, with a certificate of a CA of its own: see CA
	SSH                bool   // serve over SSH as well: see SSHURL
	SHA256             bool   // name objects by SHA-256
}

// DefaultBranch is the branch of Commit, and HEAD.
const DefaultBranch = "main"

// A Repository is a bare repository that is served until Stop.
type Repository struct {
	t    Reporter
	dir  string // of the bare repository
	opts Options
	http *httpServer
	ssh  *sshServer

	mu    sync.Mutex
	clock time.Time // of the latest commit
}

// New makes the bare repository repo.git in the folder dir, with no commits, and serves it. Failures go to t.
func New(t Reporter, dir string, opts Options) *Repository {
	t.Helper()
	r := &Repository{t: t, dir: filepath.Join(dir, "repo.git"), opts: opts, clock: time.Now().Truncate(time.Second)}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatalf("making the repository: %v", err)
	}
	format := "sha1"
	if opts.SHA256 {
		format = "sha256"
	}
	r.git(nil, "init", "--quiet", "--bare", "--initial-branch="+DefaultBranch, "--object-format="+format)
	// As the large hosting services have it.
	r.Config("uploadpack.allowAnySHA1InWant", "true")
	var err error
	if r.http, err = newHTTPServer(r.dir, opts); err != nil {
		t.Fatalf("starting the HTTP server: %v", err)
	}
	if opts.SSH {
		if r.ssh, err = newSSHServer(r.dir); err != nil {
			t.Fatalf("starting the SSH server: %v", err)
		}
	}
	r.Start()
	return r
}

// Start serves the repository again, on the same ports as before.
func (r *Repository) Start() {
	r.t.Helper()
	if err := r.http.start(); err != nil {
		r.t.Fatalf("starting the HTTP server: %v", err)
	}
	if r.ssh != nil {
		if err := r.ssh.start(); err != nil {
			r.t.Fatalf("starting the SSH server: %v", err)
		}
	}
}

// Stop ends all connections and refuses new ones.
func (r *Repository) Stop() {
	r.http.stop()
	if r.ssh != nil {
		r.ssh.stop()
	}
}

// URL returns the repository's URL over HTTP or HTTPS.
func (r *Repository) URL() string { return r.http.url() }

// FileURL returns the repository's URL for this machine.
func (r *Repository) FileURL() string { return "file://" + r.dir }

// Dir returns the folder of the bare repository.
func (r *Repository) Dir() string { return r.dir }

// SSHURL returns the repository's URL over SSH.
func (r *Repository) SSHURL() string { return r.ssh.url() }

// KnownHosts returns the SSH server's key as a line of known_hosts.
func (r *Repository) KnownHosts() []byte { return r.ssh.knownHosts }

// Identity returns the one private key that the SSH server lets in, in PEM.
func (r *Repository) Identity() []byte { return r.ssh.identity }

// CA returns the PEM certificate of the authority that signed the HTTPS server's.
func (r *Repository) CA() []byte { return r.http.ca }

// A Change of one file in a commit.
type Change struct {
	Path    string
	Content string
	Symlink bool // Content is the target of a symbolic link
	Gitlink bool // Content is the commit of a submodule
	Delete  bool
}

// Commit sets the content of files on the default branch and returns the new commit.
func (r *Repository) Commit(files map[string]string, message string) string {
	r.t.Helper()
	var changes []Change
	for name, content := range files {
		changes = append(changes, Change{Path: name, Content: content})
	}
	return r.CommitTo(DefaultBranch, message, changes...)
}

// Remove deletes files, or folders with all in them, on the default branch and returns the new commit.
func (r *Repository) Remove(message string, paths ...string) string {
	r.t.Helper()
	var changes []Change
	for _, p := range paths {
		changes = append(changes, Change{Path: p, Delete: true})
	}
	return r.CommitTo(DefaultBranch, message, changes...)
}

// CommitTo adds a commit to a branch, which is made if it is not there, and returns the commit.
func (r *Repository) CommitTo(branch, message string, changes ...Change) string {
	r.t.Helper()
	r.mu.Lock()
	r.clock = r.clock.Add(time.Second)
	now := r.clock.Unix()
	r.mu.Unlock()
	ref := "refs/heads/" + branch
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit %s\ncommitter Ada <ada@example.com> %d +0000\ndata %d\n%s\n", ref, now, len(message), message)
	if r.exists(ref) {
		fmt.Fprintf(&in, "from %s^0\n", ref)
	}
	for _, c := range changes {
		switch {
		case c.Delete:
			fmt.Fprintf(&in, "D %s\n", c.Path)
		case c.Symlink:
			fmt.Fprintf(&in, "M 120000 inline %s\ndata %d\n%s\n", c.Path, len(c.Content), c.Content)
		case c.Gitlink:
			fmt.Fprintf(&in, "M 160000 %s %s\n", c.Content, c.Path)
		default:
			fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", c.Path, len(c.Content), c.Content)
		}
	}
	r.git(&in, "fast-import", "--quiet", "--force")
	return r.Rev(ref)
}

// Branch makes a branch at a commit, or moves it there.
func (r *Repository) Branch(name, commit string) {
	r.t.Helper()
	r.git(nil, "update-ref", "refs/heads/"+name, commit)
}

// ForcePush moves a branch to any commit.
func (r *Repository) ForcePush(branch, commit string) {
	r.t.Helper()
	r.Branch(branch, commit)
}

// DeleteBranch deletes a branch.
func (r *Repository) DeleteBranch(name string) {
	r.t.Helper()
	r.git(nil, "update-ref", "-d", "refs/heads/"+name)
}

// Tag makes a lightweight tag at a commit, or moves it there.
func (r *Repository) Tag(name, commit string) {
	r.t.Helper()
	r.git(nil, "tag", "--force", name, commit)
}

// AnnotatedTag makes an annotated tag at a commit, or moves it there.
func (r *Repository) AnnotatedTag(name, commit, message string) {
	r.t.Helper()
	r.git(nil, "tag", "--force", "--annotate", "--message", message, name, commit)
}

// SetHead makes a branch the default one.
func (r *Repository) SetHead(branch string) {
	r.t.Helper()
	r.git(nil, "symbolic-ref", "HEAD", "refs/heads/"+branch)
}

// Config sets a key of the repository's configuration.
func (r *Repository) Config(key, value string) {
	r.t.Helper()
	r.git(nil, "config", key, value)
}

// Rev returns the commit that a revision stands for.
func (r *Repository) Rev(revision string) string {
	r.t.Helper()
	return r.git(nil, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
}

// Git runs git in the repository and returns what it prints.
func (r *Repository) Git(args ...string) string {
	r.t.Helper()
	return r.git(nil, args...)
}

func (r *Repository) exists(ref string) bool {
	return command(r.dir, "show-ref", "--verify", "--quiet", ref).Run() == nil
}

func (r *Repository) git(stdin *bytes.Buffer, args ...string) string {
	r.t.Helper()
	cmd := command(r.dir, args...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}

func command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = environment()
	return cmd
}

// environment keeps the user's own configuration out.
func environment() []string {
	return append(os.Environ(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
	)
}
