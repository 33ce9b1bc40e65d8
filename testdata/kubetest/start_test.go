package kubetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trueup/trueup/testdata/kubetest"
)

func TestStartThatFailsSaysWhatTheLauncherSaid(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	var log strings.Builder
	c, err := kubetest.Start(t.Context(), kubetest.Options{Log: &log})
	if err == nil {
		c.Stop()
		t.Fatal("got a cluster from a folder without binaries")
	}
	for _, want := range []string{"starting a cluster: ", "which has no program etcd"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want in it %q", err, want)
		}
	}
	if !strings.Contains(log.String(), "which has no program etcd") {
		t.Errorf("the log is %q, want what the launcher said", log.String())
	}
}

func TestClusterEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := kubetest.Start(ctx, kubetest.Options{Nodes: 2, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if got := c.Kubectl(t, "", "get", "nodes", "-o", "name"); got != "node/node-0\nnode/node-1\n" {
		t.Errorf("the nodes are %q, want two", got)
	}
	cancel()
	kubetest.Eventually(t, 30*time.Second, func() error {
		if _, err := os.Stat(c.Kubeconfig()); err == nil {
			return fmt.Errorf("%s is still there", c.Kubeconfig())
		}
		return nil
	})
	if err := c.StopComponent(kubetest.APIServer); err == nil {
		t.Error("stopping a component of a cluster that is gone: got no error")
	}
}

// failingTB is a test that is expected to fail.
type failingTB struct {
	testing.TB
	message string
}

func (t *failingTB) Helper() {}

func (t *failingTB) Fatalf(format string, args ...any) {
	t.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestEventuallyTriesUntilItSucceedsOrTimeIsUp(t *testing.T) {
	tries := 0
	kubetest.Eventually(t, time.Minute, func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if tries != 3 {
		t.Errorf("tried %d times, want 3", tries)
	}
	failing := &failingTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		kubetest.Eventually(failing, time.Millisecond, func() error { return errors.New("the pod is pending") })
	}()
	<-done
	if want := "after 1ms: the pod is pending"; failing.message != want {
		t.Errorf("the test fails with %q, want %q", failing.message, want)
	}
}
