package health

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

// pod does not look at observedGeneration: kubelets before 1.33 never write it, and a pod's containers hardly change.
func pod(_ *Judge, o, status fields.Map) Result {
	spec := o.At("spec")
	switch status.Str("phase") {
	case "Succeeded":
		return healthy("Completed", "completed")
	case "Failed":
		return podFailed(status)
	case "Unknown":
		return Result{Code: Unknown, Reason: "NodeLost", Message: "its node does not report"}
	}
	if c := status.Condition("PodScheduled"); c.IsFalse() {
		if c.Reason == "SchedulingGated" {
			return suspended(c.Reason, "not scheduled: %s", c.Text())
		}
		return progressing(c.ReasonOr("Unschedulable"), "not scheduled: %s", c.Text())
	}
	if r, ok := failingContainer(status.List("initContainerStatuses"), "init container"); ok {
		return r
	}
	if r, ok := failingContainer(status.List("containerStatuses"), "container"); ok {
		return r
	}
	if r, ok := initializing(spec, status); ok {
		return r
	}
	if status.Str("phase") != "Running" {
		return progressing("Pending", "%s", creating(spec, status))
	}
	if policy := spec.Str("restartPolicy"); policy == "Never" || policy == "OnFailure" {
		return progressing("Running", "running to completion")
	}
	if status.Condition("Ready").IsTrue() {
		return healthy("Ready", "%d of %d containers ready", countReady(status), len(spec.List("containers")))
	}
	return podNotReady(spec, status)
}

func podFailed(status fields.Map) Result {
	for _, key := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, v := range status.List(key) {
			c := fields.Of(v)
			if t := c.At("state", "terminated"); t.Num("exitCode") != 0 {
				return degraded(cmp.Or(t.Str("reason"), "Failed"), "container %s failed: %s", c.Str("name"), exit(t))
			}
		}
	}
	reason := cmp.Or(status.Str("reason"), "Failed")
	return degraded(reason, "%s", cmp.Or(status.Str("message"), "failed"))
}

// failingContainer returns the first container of the list that keeps failing: it waits with an error, or it has exited with
// one and is not ready again.
func failingContainer(list []any, what string) (Result, bool) {
	for _, v := range list {
		c := fields.Of(v)
		waiting, terminated := c.At("state", "waiting"), c.At("state", "terminated")
		last := c.At("lastState", "terminated")
		switch reason := waiting.Str("reason"); {
		case isWaitError(reason):
			return degraded(reason, "%s %s: %s%s", what, c.Str("name"), waitText(waiting), lastExit(c, last)), true
		case terminated.Num("exitCode") != 0:
			return degraded(cmp.Or(terminated.Str("reason"), "Error"), "%s %s exited: %s", what, c.Str("name"), exit(terminated)), true
		case last.Num("exitCode") != 0 && !c.Bool("ready") && terminated == nil && c.Num("restartCount") > 0:
			return degraded(cmp.Or(last.Str("reason"), "Error"), "%s %s is not ready%s", what, c.Str("name"), lastExit(c, last)), true
		}
	}
	return Result{}, false
}

// isWaitError tells the reasons with which a container waits for something that went wrong, as the kubelet names them:
// ErrImagePull, ImagePullBackOff, CreateContainerConfigError, InvalidImageName …
func isWaitError(reason string) bool {
	return strings.HasPrefix(reason, "Err") || strings.HasSuffix(reason, "Error") || strings.HasSuffix(reason, "BackOff") ||
		reason == "InvalidImageName" || reason == "ImageInspectError" || reason == "RegistryUnavailable"
}

func waitText(waiting fields.Map) string {
	if m := waiting.Str("message"); m != "" {
		return waiting.Str("reason") + ": " + m
	}
	return waiting.Str("reason")
}

func lastExit(c, last fields.Map) string {
	if last == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, last exit: %s)", words.Count(c.Num("restartCount"), "restart"), exit(last))
}

// exit describes how a container ended: "OOMKilled, exit code 137".
func exit(terminated fields.Map) string {
	s := fmt.Sprintf("exit code %d", terminated.Num("exitCode"))
	if signal := terminated.Num("signal"); signal != 0 {
		s = fmt.Sprintf("signal %d", signal)
	}
	if reason := terminated.Str("reason"); reason != "" && reason != "Error" {
		s = reason + ", " + s
	}
	return s
}

// initializing returns a result while init containers have to finish, or to start where they are sidecars.
func initializing(spec, status fields.Map) (Result, bool) {
	all := spec.List("initContainers")
	if len(all) == 0 || !status.Condition("Initialized").IsFalse() {
		return Result{}, false
	}
	done, current := 0, ""
	for _, v := range status.List("initContainerStatuses") {
		c := fields.Of(v)
		if c.Bool("ready") || c.Bool("started") && c.At("state", "running") != nil {
			done++
		} else if current == "" {
			current = c.Str("name")
		}
	}
	return progressing("Initializing", "%d of %d init containers done, at %s", done, len(all), current), true
}

func creating(spec, status fields.Map) string {
	for _, v := range status.List("containerStatuses") {
		if reason := fields.Of(v).At("state", "waiting").Str("reason"); reason != "" {
			return fmt.Sprintf("container %s: %s", fields.Of(v).Str("name"), reason)
		}
	}
	if spec.Str("nodeName") != "" {
		return "waiting for the kubelet of node " + spec.Str("nodeName")
	}
	return "waiting to be scheduled"
}

func podNotReady(spec, status fields.Map) Result {
	total, ready := len(spec.List("containers")), countReady(status)
	for _, v := range status.List("containerStatuses") {
		c := fields.Of(v)
		if c.Bool("ready") {
			continue
		}
		probe := "readiness"
		if c["started"] == false {
			probe = "startup"
		}
		return progressing("ContainersNotReady", "%d of %d containers ready; %s has not passed its %s probe", ready, total, c.Str("name"), probe)
	}
	for _, v := range spec.List("readinessGates") {
		gate := fields.Of(v).Str("conditionType")
		if !status.Condition(gate).IsTrue() {
			return progressing("ReadinessGatesNotReady", "%d of %d containers ready; readiness gate %s is not True", ready, total, gate)
		}
	}
	return progressing("ContainersNotReady", "%d of %d containers ready", ready, total)
}

func countReady(status fields.Map) int {
	ready := 0
	for _, v := range status.List("containerStatuses") {
		if fields.Of(v).Bool("ready") {
			ready++
		}
	}
	return ready
}
