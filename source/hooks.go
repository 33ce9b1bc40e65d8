package source

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trueup/trueup/source/internal/manifest"
)

// HookPhase is the part of a sync in which a hook runs, in Argo CD's words.
type HookPhase string

const (
	PreSync  HookPhase = "PreSync"
	Sync     HookPhase = "Sync"
	PostSync HookPhase = "PostSync"
	SyncFail HookPhase = "SyncFail"
)

// HookDelete is when the object of a hook is deleted, in Argo CD's words.
type HookDelete string

const (
	BeforeHookCreation HookDelete = "BeforeHookCreation" // when the hook runs again; the default
	HookSucceeded      HookDelete = "HookSucceeded"
	HookFailed         HookDelete = "HookFailed"
)

// A Hook says that an object is not kept but made at a moment of a sync, which waits until it has done its work.
type Hook struct {
	Phases   []HookPhase
	Weight   int // lower ones run first, one weight after the other
	Delete   []HookDelete
	Deadline time.Duration // how long it may take; 0 where it does not say
}

// Annotations beside those that make an object a hook. Of two that say the same, the first is used.
const (
	// AnnotationHookDeadline is how long a hook may take, such as 2h.
	AnnotationHookDeadline = "trueup.dev/hook-deadline"

	argoWave   = "argocd.argoproj.io/sync-wave"
	argoDelete = "argocd.argoproj.io/hook-delete-policy"
	helmWeight = "helm.sh/hook-weight"
	helmDelete = "helm.sh/hook-delete-policy"
)

// hookMoment is what one word of a hook annotation means.
type hookMoment struct {
	phase  HookPhase
	object bool // it is an object to keep
	skip   bool // it is nothing to apply
	left   bool // nothing is run at that moment
}

// hookMoments are the words of Argo CD, and in small letters those of Helm, as Argo CD maps them.
var hookMoments = map[string]hookMoment{
	"PreSync":    {phase: PreSync},
	"Sync":       {phase: Sync},
	"PostSync":   {phase: PostSync},
	"SyncFail":   {phase: SyncFail},
	"Skip":       {skip: true},
	"PreDelete":  {left: true},
	"PostDelete": {left: true},

	"pre-install":   {phase: PreSync},
	"pre-upgrade":   {phase: PreSync},
	"post-install":  {phase: PostSync},
	"post-upgrade":  {phase: PostSync},
	"crd-install":   {object: true},
	"test":          {},
	"test-success":  {},
	"test-failure":  {},
	"pre-delete":    {left: true},
	"post-delete":   {left: true},
	"pre-rollback":  {left: true},
	"post-rollback": {left: true},
}

var hookDeletes = map[string]HookDelete{
	"BeforeHookCreation": BeforeHookCreation, "before-hook-creation": BeforeHookCreation,
	"HookSucceeded": HookSucceeded, "hook-succeeded": HookSucceeded,
	"HookFailed": HookFailed, "hook-failed": HookFailed,
}

// hookReading is what the annotations of an object say of it as a hook.
type hookReading struct {
	hook *Hook    // nil where nothing is run
	keep bool     // it is an object to keep
	left []string // moments at which nothing is run
}

// readHook reads the annotations of an object.
func readHook(object map[string]any) (r hookReading, err error) {
	metadata, _ := object["metadata"].(map[string]any)
	raw, _ := metadata["annotations"].(map[string]any)
	name, value, err := hookAnnotation(raw)
	if err != nil || name == "" {
		return hookReading{keep: true}, err
	}
	var phases []HookPhase
	for _, word := range hookWords(name, value) {
		m, ok := hookMoments[word]
		switch {
		case !ok || isHelms(word) != (name == manifest.HelmHook):
			return r, fmt.Errorf("the annotation %s: %q is no phase of a sync: use %s", name, word, hookPhaseWords(name))
		case m.object:
			return hookReading{keep: true}, nil
		case m.skip:
			return hookReading{}, nil
		case m.left:
			r.left = append(r.left, word)
		case m.phase != "" && !slices.Contains(phases, m.phase):
			phases = append(phases, m.phase)
		}
	}
	if len(phases) == 0 {
		return r, nil
	}
	r.hook = &Hook{Phases: phases}
	return r, r.hook.read(raw)
}

// hookAnnotation returns the annotation that makes an object a hook; "" where there is none.
func hookAnnotation(annotations map[string]any) (name, value string, err error) {
	for _, name := range manifest.HookAnnotations {
		v, there := annotations[name]
		if !there {
			continue
		}
		if value, err = hookText(annotations, name); err != nil {
			return "", "", err
		}
		if strings.Trim(value, ", ") == "" {
			if name == manifest.HelmHook && v != nil {
				continue // as charts have it that turn a hook off by a value
			}
			return "", "", fmt.Errorf("the annotation %s is empty: it names the phase of a sync, such as PreSync", name)
		}
		return name, value, nil
	}
	return "", "", nil
}

func hookText(annotations map[string]any, name string) (string, error) {
	text, ok := annotations[name].(string)
	if !ok && annotations[name] != nil {
		return "", fmt.Errorf("the annotation %s must be a string: put it in quotes", name)
	}
	return text, nil
}

func hookWords(name, value string) []string {
	if name == manifest.HelmHook {
		value = strings.ToLower(value)
	}
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
}

func isHelms(word string) bool { return word == strings.ToLower(word) }

func hookPhaseWords(name string) string {
	if name == manifest.HelmHook {
		return "pre-install, pre-upgrade, post-install, post-upgrade, crd-install or test"
	}
	return "PreSync, Sync, PostSync, SyncFail or Skip"
}

// read takes in what the other annotations say.
func (h *Hook) read(annotations map[string]any) error {
	for _, name := range []string{argoWave, helmWeight} {
		text, err := hookText(annotations, name)
		if err != nil {
			return err
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if h.Weight, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("the annotation %s: %q is no whole number", name, text)
		}
		break
	}
	for _, name := range []string{argoDelete, helmDelete} {
		text, err := hookText(annotations, name)
		if err != nil {
			return err
		}
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
			policy, ok := hookDeletes[word]
			if !ok {
				return fmt.Errorf("the annotation %s: %q is no delete policy: use BeforeHookCreation, HookSucceeded or HookFailed", name, word)
			}
			if !slices.Contains(h.Delete, policy) {
				h.Delete = append(h.Delete, policy)
			}
		}
	}
	if len(h.Delete) == 0 {
		h.Delete = []HookDelete{BeforeHookCreation}
	}
	text, err := hookText(annotations, AnnotationHookDeadline)
	if err != nil || text == "" {
		return err
	}
	if h.Deadline, err = time.ParseDuration(text); err != nil || h.Deadline <= 0 {
		return fmt.Errorf("the annotation %s: %q is no time such as 30m or 2h", AnnotationHookDeadline, text)
	}
	return nil
}

// sortHooks notes which objects are hooks, and takes out what is nothing to apply, with a warning where something is
// left out that others would do. dir is the folder that was rendered.
func (r *Rendered) sortHooks(dir string) error {
	var left []string
	kept := make([]Object, 0, len(r.Objects))
	for _, o := range r.Objects {
		reading, err := readHook(o.Object)
		if err == nil && reading.hook != nil && slices.Contains(o.Random, "") {
			err = fmt.Errorf("%s %s is a hook that is another object in each render, so that it cannot be told whether it has run: give it a name that stays, or metadata.generateName", o.GetKind(), o.GetName())
		}
		if err != nil {
			return fmt.Errorf("rendering %s: %w", cmp.Or(dir, "."), &manifest.Error{File: o.File, Line: o.Line, Msg: err.Error()})
		}
		if len(reading.left) > 0 {
			left = append(left, fmt.Sprintf("%s %s (%s)", o.GetKind(), cmp.Or(o.GetName(), o.GetGenerateName()), strings.Join(reading.left, ",")))
		}
		if o.Hook = reading.hook; o.Hook != nil || reading.keep {
			kept = append(kept, o)
		} else {
			r.LeftOut = append(r.LeftOut, o)
		}
	}
	if len(left) > 0 {
		r.Warnings = append(r.Warnings, "hooks are left out that are not for a sync: "+some(left))
	}
	if len(kept) == 0 && len(r.Objects) > 0 {
		r.Empty = fmt.Sprintf("%s has nothing but hooks that are left out", cmp.Or(dir, "."))
	}
	r.Objects = kept
	return nil
}
