package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Served is what an API server says of itself.
type Served struct {
	KubeVersion string   // v1.33.4
	APIVersions []string // apps/v1 and apps/v1/Deployment, and so on, in order. They must not be changed
	Digest      string   // of the other two
}

// versionAgain is how long an API server is believed to have the version that it said.
const versionAgain = 10 * time.Minute

// Served returns what the API server is and serves, as it said when it was last asked for kinds. It asks where it has
// not been asked yet or is known to have changed, and blocks while it does.
func (k *Kinds) Served() (Served, error) {
	k.mu.Lock()
	fresh := k.kinds != nil && !k.stale
	version, versionAt := k.version, k.versionAt
	k.mu.Unlock()
	if !fresh {
		if err := k.ask(); err != nil {
			return Served{}, err
		}
	}
	if version == "" || k.clock.Since(versionAt) > versionAgain {
		info, err := k.client.ServerVersion()
		if err != nil {
			return Served{}, fmt.Errorf("asking the API server for its version: %w", err)
		}
		version = info.GitVersion
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if version != k.version {
		k.served = nil
	}
	if version != k.version || k.clock.Since(k.versionAt) > versionAgain {
		k.version, k.versionAt = version, k.clock.Now()
	}
	if k.served == nil {
		k.served = newServed(version, k.kinds)
	}
	return *k.served, nil
}

func newServed(version string, kinds map[schema.GroupVersionKind]Kind) *Served {
	seen := map[string]bool{}
	for gvk := range kinds {
		gv := gvk.GroupVersion().String()
		seen[gv], seen[gv+"/"+gvk.Kind] = true, true
	}
	s := &Served{KubeVersion: version}
	for v := range seen {
		s.APIVersions = append(s.APIVersions, v)
	}
	slices.Sort(s.APIVersions)
	sum := sha256.Sum256([]byte(version + "\n" + strings.Join(s.APIVersions, "\n")))
	s.Digest = hex.EncodeToString(sum[:])
	return s
}
