package words

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 pods", 1: "1 pod", 2: "2 pods", -1: "-1 pods"} {
		if got := Count(n, "pod"); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func TestAre(t *testing.T) {
	for n, want := range map[int]string{0: "0 pods are", 1: "1 pod is", 2: "2 pods are"} {
		if got := Are(n, "pod"); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
