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

// A Store keeps blobs in a folder, which is made when it is needed, each in a file named by its SHA-256 in hex. It may be
// used concurrently, and goes on with what an earlier process has left; two processes must not use a folder at a time.
type Store struct {
	dir   string
	clock clock.PassiveClock

	mu   gosync.Mutex
	read map[string]time.Time // blobs whose content was checked, and when that they are used was noted on disk
}

// NewStore returns the Store in a folder.
func NewStore(dir string, clock clock.PassiveClock) *Store {
	return &Store{dir: dir, clock: clock, read: map[string]time.Time{}}
}

var digestName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// temporary begins the names of files that are being written.
const temporary = "tmp-"

// Has reports whether a blob is there, whole: the first time it reads it.
func (s *Store) Has(digest string) bool {
	s.mu.Lock()
	_, checked := s.read[digest]
	s.mu.Unlock()
	if !checked {
		f, err := s.Open(digest)
		if err != nil {
			return false
		}
		return f.Close() == nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, digest)); err != nil {
		s.forget(digest)
		return false
	}
	s.touch(digest)
	return true
}

// Open returns a blob, which was read whole to check it. One that is damaged is taken away; the error wraps ErrNotStored
// then, as where there is none.
func (s *Store) Open(digest string) (*os.File, error) {
	if !digestName.MatchString(digest) {
		return nil, fmt.Errorf("%w: %.100q is no SHA-256 digest in hex", ErrNotStored, digest)
	}
	f, err := os.Open(filepath.Join(s.dir, digest))
	if errors.Is(err, fs.ErrNotExist) {
		s.forget(digest)
		return nil, ErrNotStored
	}
	if err != nil {
		s.forget(digest)
		return nil, fmt.Errorf("%w: %w", ErrNotStored, err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err == nil && hex.EncodeToString(sum.Sum(nil)) == digest {
		_, err = f.Seek(0, io.SeekStart)
	} else {
		err = fmt.Errorf("%w: what was there is damaged and will be fetched anew", ErrNotStored)
	}
	if err != nil {
		f.Close()
		s.Remove(digest)
		return nil, err
	}
	s.touch(digest)
	return f, nil
}

// Read returns the content of a blob; errors are those of Open.
func (s *Store) Read(digest string) ([]byte, error) {
	f, err := s.Open(digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// touch notes that a blob is whole and in use, once an hour on disk too, where the next process finds it.
func (s *Store) touch(digest string) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.read[digest]) > time.Hour {
		_ = os.Chtimes(filepath.Join(s.dir, digest), now, now) // at worst it is fetched again
		s.read[digest] = now
	}
}

func (s *Store) forget(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, digest)
}

// Remove takes a blob away, if it is there.
func (s *Store) Remove(digest string) {
	s.forget(digest)
	if digestName.MatchString(digest) {
		_ = os.Remove(filepath.Join(s.dir, digest)) // what is left is removed by Prune, or damaged and found so
	}
}

// Put keeps what r has, of at most so many bytes, and returns its digest. Where one is wanted, anything else is an
// ErrDigest and not kept. It makes room by taking away what was not used for the longest time.
func (s *Store) Put(r io.Reader, want string, most int64) (digest string, err error) {
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
	if err := os.Rename(f.Name(), filepath.Join(s.dir, digest)); err != nil {
		return "", err
	}
	s.touch(digest)
	_, err = s.prune(func(info fs.FileInfo, kept int64) bool { return kept > maxStored && info.Name() != digest })
	return digest, err
}

// PutBytes is Put of what is in memory already.
func (s *Store) PutBytes(content []byte) (digest string, err error) {
	return s.Put(bytes.NewReader(content), "", int64(len(content))+1)
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
