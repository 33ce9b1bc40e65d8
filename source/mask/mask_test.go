package mask

import (
	"errors"
	"fmt"
	"testing"
)

func TestMask(t *testing.T) {
	m := New([]string{"hunter2", "hunter2-long", "80", `quo"ted`, "line\nbreak"})
	for in, want := range map[string]string{
		"":                                 "",
		"nothing":                          "nothing",
		`Invalid value: "hunter2": no`:     `Invalid value: "***": no`,
		"xhunter2y hunter2-long":           "x***y ***",
		"port 80 of 8080 and 80":           "port *** of 8080 and ***",
		`Invalid value: "quo\"ted": no`:    `Invalid value: "***": no`,
		`Invalid value: "line\nbreak": no`: `Invalid value: "***": no`,
		"data aHVudGVyMg== is what it is":  "data *** is what it is",
		"got line break":                   "got ***",
	} {
		if got := m.Text(in); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
	// Marks are everywhere, and so are blanks: that one of them is secret is told by what stands alone.
	m = New([]string{"/", "--", " \n", "é"})
	for in, want := range map[string]string{
		"rendering app/base\nfailed -- a": "rendering app/base\nfailed *** a",
		"/":                               "***",
		`base path "/" and "/"`:           `base path "***" and "***"`,
		"/ / -- a/b --c":                  "*** *** *** a/b --c",
		"café":                            "caf***",
	} {
		if got := m.Text(in); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
	if m := New([]string{"\n"}); m != nil {
		t.Errorf("a blank is hidden: %q", m.Text("a\nb"))
	}
	err := fmt.Errorf("doing: %w", errors.New("no"))
	if got := m.Error(err); got != err {
		t.Errorf("an error without secrets is changed: %v", got)
	}
	if got := New(nil).Text("hunter2"); got != "hunter2" {
		t.Errorf("nothing to hide, yet: %s", got)
	}
}
