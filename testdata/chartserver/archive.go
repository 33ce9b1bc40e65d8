package chartserver

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
)

// Archive returns the archive of a chart with the given files, by their path in the archive, in the order of their names.
func Archive(files map[string]string) []byte {
	var headers []tar.Header
	for _, name := range slices.Sorted(maps.Keys(files)) {
		headers = append(headers, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name]))})
	}
	return ArchiveOf(headers, func(h tar.Header) []byte { return []byte(files[h.Name]) })
}

// ArchiveOf returns an archive with the given entries.
func ArchiveOf(headers []tar.Header, content func(tar.Header) []byte) []byte {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, h := range headers {
		must(w.WriteHeader(&h))
		_, err := w.Write(content(h))
		must(err)
	}
	must(w.Close())
	must(zipped.Close())
	return out.Bytes()
}

// must is for what is written to memory.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Digest returns the SHA-256 of content, in hex.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
