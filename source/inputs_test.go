package source

import (
	"strings"
	"testing"
)

// TestRemotesCountForTheRenderThatNamesThem guards that 50 remotes do not get 50 times what one render may read.
func TestRemotesCountForTheRenderThatNamesThem(t *testing.T) {
	render := newRecorder()
	var err error
	for range 3 {
		base := newRecorder()
		base.within = render
		for range 10 {
			if err == nil {
				err = base.add(Input{Path: "a.yaml", Kind: InputFile, Hash: "1"}, maxFileBytes)
			}
		}
	}
	if err == nil || !strings.Contains(err.Error(), "more than 256 MiB are read by one render") {
		t.Errorf("got %v", err)
	}
	if n := len(render.inputs()); n != 0 {
		t.Errorf("the render has %d inputs that are those of its remotes", n)
	}
	render = newRecorder()
	for range 26 {
		err = render.remote("https://git.example.com/a.yaml", "1", maxFileBytes)
	}
	if err == nil {
		t.Error("files that are fetched by URL count for nothing")
	}
}
