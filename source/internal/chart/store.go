package chart

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	gosync "sync"
	"time"

	"k8s.io/utils/clock"
)

// maxStored is how much a Store keeps; what was used last stays.
const maxStored = 512 << 20

// Errors of a Store that callers tell apart.
var (
	// ErrNotStored says that a blob is not there, or was damaged and has been taken away.
	ErrNotStored = errors.New("it is not in the cache")
	// ErrDigest says that something is not what its digest says.
	ErrDigest = errors.New("digest mismatch")
)

// A Store keeps blobs in a folder, which is made when it is needed, each in a file that Name names. It may be used
// concurrently, and goes on with what an earlier process has left; two processes must not use a folder at a time.
type Store struct {
	dir   string
	clock clock.PassiveClock

	mu   gosync.Mutex
	read map[string]time.Time // blobs whose content was checked, by name, and when that they are used was noted on disk
}

// NewStore returns the Store in a folder.
func NewStore(dir string, clock clock.PassiveClock) *Store {
	return &Store{dir: dir, clock: clock, read: map[string]time.Time{}}
}

// Name names a blob by its SHA-256 in hex, and by whose it is: who only knows a digest is not to find what others were given.
func Name(digest, owner string) string { return digest + "-" + owner }

// Owner returns a name for owners by what tells them apart, without telling what that is.
func Owner(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

var blobName = regexp.MustCompile(`^[0-9a-f]{64}-[0-9a-f]{16}$`)

func digestOf(name string) string {
	digest, _, _ := strings.Cut(name, "-")
	return digest
}

// temporary begins the names of files that are being written.
const temporary = "tmp-"

// Has reports whether a blob is there, whole: the first time it reads it.
func (s *Store) Has(name string) bool {
	s.mu.Lock()
	_, checked := s.read[name]
	s.mu.Unlock()
	if !checked {
		f, err := s.Open(name)
		if err != nil {
			return false
		}
		return f.Close() == nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
		s.forget(name)
		return false
	}
	s.touch(name)
	return true
}

// Owners returns all owners of a blob that is there.
func (s *Store) Owners(digest string) (owners []string) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if d, owner, _ := strings.Cut(e.Name(), "-"); d == digest && s.Has(e.Name()) {
			owners = append(owners, owner)
		}
	}
	return owners
}

// Open returns a blob, which was read whole to check it. One that is damaged is taken away; the error wraps ErrNotStored
// then, as where there is none.
func (s *Store) Open(name string) (*os.File, error) {
	if !blobName.MatchString(name) {
		return nil, fmt.Errorf("%w: %.100q begins with no SHA-256 digest in hex", ErrNotStored, name)
	}
	f, err := os.Open(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		s.forget(name)
		return nil, ErrNotStored
	}
	if err != nil {
		s.forget(name)
		return nil, fmt.Errorf("%w: %w", ErrNotStored, err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err == nil && hex.EncodeToString(sum.Sum(nil)) == digestOf(name) {
		_, err = f.Seek(0, io.SeekStart)
	} else {
		err = fmt.Errorf("%w: what was there is damaged and will be fetched anew", ErrNotStored)
	}
	if err != nil {
		f.Close()
		s.Remove(name)
		return nil, err
	}
	s.touch(name)
	return f, nil
}

// Read returns the content of a blob; errors are those of Open.
func (s *Store) Read(name string) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// touch notes that a blob is whole and in use, once an hour on disk too, where the next process finds it.
func (s *Store) touch(name string) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.read[name]) > time.Hour {
		_ = os.Chtimes(filepath.Join(s.dir, name), now, now) // at worst it is fetched again
		s.read[name] = now
	}
}

func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, name)
}

// Remove takes a blob away, if it is there.
func (s *Store) Remove(name string) {
	s.forget(name)
	if blobName.MatchString(name) {
		_ = os.Remove(filepath.Join(s.dir, name)) // what is left is removed by Prune, or damaged and found so
	}
}

// Put keeps what r has, of at most so many bytes, for an owner, and returns its digest. Where one is wanted, anything else is an
// ErrDigest and not kept. It makes room by taking away what was not used for the longest time.
func (s *Store) Put(r io.Reader, owner, want string, most int64) (digest string, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(s.dir, temporary)
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), tooLarge(r, most))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	digest = hex.EncodeToString(sum.Sum(nil))
	if want != "" && digest != want {
		return "", fmt.Errorf("%w: it is to have sha256:%s and has sha256:%s", ErrDigest, want, digest)
	}
	name := Name(digest, owner)
	if err := os.Rename(f.Name(), filepath.Join(s.dir, name)); err != nil {
		return "", err
	}
	s.touch(name)
	_, err = s.prune(func(info fs.FileInfo, kept int64) bool { return kept > maxStored && info.Name() != name })
	return digest, err
}

// PutBytes is Put of what is in memory already.
func (s *Store) PutBytes(content []byte, owner string) (digest string, err error) {
	return s.Put(bytes.NewReader(content), owner, "", int64(len(content))+1)
}

// Prune takes away what nobody has used for a while, and returns how many blobs.
func (s *Store) Prune(unused time.Duration) (removed int, err error) {
	return s.prune(func(info fs.FileInfo, kept int64) bool {
		return kept > maxStored || s.clock.Since(info.ModTime()) > unused+time.Hour
	})
}

// prune takes away what drop tells it to, which is asked of the latest first and told how much is kept with it.
func (s *Store) prune(drop func(info fs.FileInfo, kept int64) bool) (removed int, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		// What is being written counts only once an hour has passed: then nobody writes it any more.
		if err == nil && (!strings.HasPrefix(e.Name(), temporary) || s.clock.Since(info.ModTime()) > time.Hour) {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	var kept int64
	var errs []error
	for _, info := range infos {
		if !drop(info, kept+info.Size()) && !strings.HasPrefix(info.Name(), temporary) {
			kept += info.Size()
			continue
		}
		s.forget(info.Name())
		if err := os.RemoveAll(filepath.Join(s.dir, info.Name())); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
