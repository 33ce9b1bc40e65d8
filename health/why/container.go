package why

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

// container is one container of a pod, from its spec and its status.
type container struct {
	name         string
	init         bool
	spec, status fields.Map
}

// title returns "container app" or "init container migrate".
func (c container) title() string {
	if c.init {
		return "init container " + c.name
	}
	return "container " + c.name
}

// containers returns those of the pod that have a status: init containers first, as they run first.
func containers(p *object) []container {
	var all []container
	for _, list := range []struct {
		spec, status string
		init         bool
	}{{"initContainers", "initContainerStatuses", true}, {"containers", "containerStatuses", false}} {
		specs := make(map[string]fields.Map)
		for _, v := range p.spec.List(list.spec) {
			specs[fields.Of(v).Str("name")] = fields.Of(v)
		}
		for _, v := range p.status.List(list.status) {
			name := fields.Of(v).Str("name")
			all = append(all, container{name: name, init: list.init, spec: specs[name], status: fields.Of(v)})
		}
	}
	return all
}

var imageReasons = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true,
	"ImageInspectError": true, "RegistryUnavailable": true, "SignatureValidationFailed": true,
}

// noImage is a container whose image cannot be pulled.
func (w *walk) noImage(p *object) (finding, bool) {
	for _, c := range containers(p) {
		waiting := c.status.At("state", "waiting")
		reason := waiting.Str("reason")
		if !imageReasons[reason] {
			continue
		}
		image := cmp.Or(c.spec.Str("image"), c.status.Str("image"))
		detail := waiting.Str("message")
		if e, ok := w.latest(p.Ref, "Failed to pull image", "Failed"); ok {
			detail = e.Message
		}
		return finding{
			state: fmt.Sprintf("image pull: %s of %s: %s", c.title(), image, reason),
			key:   fmt.Sprintf("image %s of %s", image, c.title()),
			cause: fmt.Sprintf("cannot pull image %s of %s: %s", image, c.title(), pullError(detail, image, reason)),
			since: transition(p.status, "PodScheduled"), next: describe(p.Ref),
		}, true
	}
	return finding{}, false
}

// pullError cuts what the kubelet and the runtime put in front of a registry's answer.
func pullError(detail, image, reason string) string {
	detail = strings.TrimPrefix(detail, fmt.Sprintf("Failed to pull image %q: ", image))
	return cmp.Or(wrapping.ReplaceAllString(detail, ""), reason)
}

// wrapping is what components put in front of an error that comes from further down.
var wrapping = regexp.MustCompile(`rpc error: code = \w+ desc = |failed to pull and unpack image "[^"]*": |failed to resolve reference "[^"]*": `)

// notCreated is a container that the kubelet cannot create: a ConfigMap or Secret is not there, a command is wrong.
func (w *walk) notCreated(p *object) (finding, bool) {
	for _, c := range containers(p) {
		waiting := c.status.At("state", "waiting")
		reason := waiting.Str("reason")
		if !strings.HasSuffix(reason, "Error") && !strings.HasPrefix(reason, "Err") {
			continue
		}
		return finding{
			state: fmt.Sprintf("container creation: %s: %s", c.title(), reason),
			cause: fmt.Sprintf("cannot create %s: %s", c.title(), cmp.Or(waiting.Str("message"), reason)),
			since: transition(p.status, "PodScheduled"), next: describe(p.Ref),
		}, true
	}
	return finding{}, false
}

// crashing is a container that has ended although it should run.
func (w *walk) crashing(p *object) (finding, bool) {
	for _, c := range containers(p) {
		now, last := c.status.At("state", "terminated"), c.status.At("lastState", "terminated")
		waits := c.status.At("state", "waiting").Str("reason") == "CrashLoopBackOff"
		switch {
		case now.Num("exitCode") != 0:
			return w.exited(p, c, now), true
		case waits, last.Num("exitCode") != 0 && !c.status.Bool("ready") && now == nil:
			return w.exited(p, c, last), true
		}
	}
	return finding{}, false
}

// exited tells how a container ended, and who ended it.
func (w *walk) exited(p *object, c container, t fields.Map) finding {
	how := fmt.Sprintf("exit code %d", t.Num("exitCode"))
	if reason := t.Str("reason"); reason != "" && reason != "Error" && reason != "Completed" {
		how += ", " + reason
	}
	if t.Str("reason") == "OOMKilled" {
		if limit, _ := c.spec.At("resources", "limits")["memory"].(string); limit != "" {
			how += fmt.Sprintf(" at its memory limit of %s", limit)
		}
	}
	key := c.title() + " " + how
	if restarts := c.status.Num("restartCount"); restarts > 0 {
		how += ", " + words.Count(restarts, "restart")
	}
	cause := fmt.Sprintf("crashes in %s: %s", c.title(), how)
	if t.Num("exitCode") == 0 {
		cause = fmt.Sprintf("has %s, which ends without an error and is started again: %s", c.title(), how)
	}
	if _, killed := w.latest(p.Ref, c.name+" failed liveness probe", "Killing"); killed {
		cause = fmt.Sprintf("has %s killed by its liveness probe (%s)%s", c.title(), how, w.probeError(p, "Liveness"))
	} else if said := lastLine(t.Str("message")); said != "" {
		cause += ": " + said
	}
	logs := fmt.Sprintf("kubectl logs -n %s %s -c %s", p.Namespace, p.Name, c.name)
	if c.status.At("state", "terminated") == nil {
		logs += " --previous"
	}
	return finding{state: fmt.Sprintf("crash: %s: %s", c.title(), how), cause: cause, key: key, since: parseTime(t.Str("finishedAt")), next: logs}
}

// lastLine returns the last line of a termination message that says anything.
func lastLine(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	return fields.Clip(strings.TrimSpace(lines[len(lines)-1]), 200)
}

// initializing is an init container that has not come to its end.
func (w *walk) initializing(p *object) (finding, bool) {
	if !p.status.Condition("Initialized").IsFalse() {
		return finding{}, false
	}
	for _, c := range containers(p) {
		running := c.status.At("state", "running")
		if !c.init || running == nil || c.status.Bool("ready") || c.status.Bool("started") && c.spec.Str("restartPolicy") == "Always" {
			continue
		}
		since := parseTime(running.Str("startedAt"))
		state, cause := "runs", "waits for "+c.title()
		if !since.IsZero() {
			state = "has run for " + roughly(w.now.Sub(since))
		}
		return finding{
			state: fmt.Sprintf("init: %s %s", c.title(), state), cause: fmt.Sprintf("%s, which %s", cause, state), key: cause, since: since,
			next: fmt.Sprintf("kubectl logs -n %s %s -c %s", p.Namespace, p.Name, c.name),
		}, true
	}
	return finding{}, false
}

// probing is a container that runs and does not pass its probe.
func (w *walk) probing(p *object) (finding, bool) {
	for _, c := range containers(p) {
		if c.init || c.status.Bool("ready") || c.status.At("state", "running") == nil {
			continue
		}
		probe := "Readiness"
		if c.status["started"] == false {
			probe = "Startup"
		}
		said := w.probeError(p, probe)
		return finding{
			state: fmt.Sprintf("probe: %s: %s", c.title(), strings.ToLower(probe)),
			cause: fmt.Sprintf("is not ready: %s does not pass its %s probe%s", c.title(), strings.ToLower(probe), said),
			since: cmp.Or(transition(p.status, "Ready"), parseTime(c.status.At("state", "running").Str("startedAt"))),
			next:  fmt.Sprintf("kubectl logs -n %s %s -c %s", p.Namespace, p.Name, c.name),
		}, true
	}
	return finding{}, false
}

// probeError returns ": " and what the probe got last, or "".
func (w *walk) probeError(p *object, probe string) string {
	prefix := probe + " probe failed: "
	if e, ok := w.latest(p.Ref, prefix, "Unhealthy"); ok {
		return ": " + strings.TrimSpace(strings.TrimPrefix(e.Message, prefix))
	}
	return ""
}

// roughly returns a duration as people say it: 45s, 12m, 3h, 2d.
func roughly(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
