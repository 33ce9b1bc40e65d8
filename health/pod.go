package health

import (
	"cmp"
	"fmt"
	"strings"
)

// pod does not look at observedGeneration: kubelets before 1.33 never write it, and a pod's containers hardly change.
func pod(_ *Judge, o, status fields) Result {
	spec := o.at("spec")
	switch status.str("phase") {
	case "Succeeded":
		return healthy("Completed", "completed")
	case "Failed":
		return podFailed(status)
	case "Unknown":
		return Result{Code: Unknown, Reason: "NodeLost", Message: "its node does not report"}
	}
	if c := status.condition("PodScheduled"); c.isFalse() {
		if c.reason == "SchedulingGated" {
			return suspended(c.reason, "not scheduled: %s", c.text())
		}
		return progressing(c.reasonOr("Unschedulable"), "not scheduled: %s", c.text())
	}
	if r, ok := failingContainer(status.list("initContainerStatuses"), "init container"); ok {
		return r
	}
	if r, ok := failingContainer(status.list("containerStatuses"), "container"); ok {
		return r
	}
	if r, ok := initializing(spec, status); ok {
		return r
	}
	if status.str("phase") != "Running" {
		return progressing("Pending", "%s", creating(spec, status))
	}
	if policy := spec.str("restartPolicy"); policy == "Never" || policy == "OnFailure" {
		return progressing("Running", "running to completion")
	}
	if status.condition("Ready").isTrue() {
		return healthy("Ready", "%d of %d containers ready", countReady(status), len(spec.list("containers")))
	}
	return podNotReady(spec, status)
}

func podFailed(status fields) Result {
	for _, key := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, v := range status.list(key) {
			c := asFields(v)
			if t := c.at("state", "terminated"); t.num("exitCode") != 0 {
				return degraded(cmp.Or(t.str("reason"), "Failed"), "container %s failed: %s", c.str("name"), exit(t))
			}
		}
	}
	reason := cmp.Or(status.str("reason"), "Failed")
	return degraded(reason, "%s", cmp.Or(status.str("message"), "failed"))
}

// failingContainer returns the first container of the list that keeps failing: it waits with an error, or it has exited with
// one and is not ready again.
func failingContainer(list []any, what string) (Result, bool) {
	for _, v := range list {
		c := asFields(v)
		waiting, terminated := c.at("state", "waiting"), c.at("state", "terminated")
		last := c.at("lastState", "terminated")
		switch reason := waiting.str("reason"); {
		case isWaitError(reason):
			return degraded(reason, "%s %s: %s%s", what, c.str("name"), waitText(waiting), lastExit(c, last)), true
		case terminated.num("exitCode") != 0:
			return degraded(cmp.Or(terminated.str("reason"), "Error"), "%s %s exited: %s", what, c.str("name"), exit(terminated)), true
		case last.num("exitCode") != 0 && !c.bool("ready") && terminated == nil && c.num("restartCount") > 0:
			return degraded(cmp.Or(last.str("reason"), "Error"), "%s %s is not ready%s", what, c.str("name"), lastExit(c, last)), true
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

func waitText(waiting fields) string {
	if m := waiting.str("message"); m != "" {
		return waiting.str("reason") + ": " + m
	}
	return waiting.str("reason")
}

func lastExit(c, last fields) string {
	if last == nil {
		return ""
	}
	return fmt.Sprintf(" (%d restarts, last exit: %s)", c.num("restartCount"), exit(last))
}

// exit describes how a container ended: "OOMKilled, exit code 137".
func exit(terminated fields) string {
	s := fmt.Sprintf("exit code %d", terminated.num("exitCode"))
	if signal := terminated.num("signal"); signal != 0 {
		s = fmt.Sprintf("signal %d", signal)
	}
	if reason := terminated.str("reason"); reason != "" && reason != "Error" {
		s = reason + ", " + s
	}
	return s
}

// initializing returns a result while init containers have to finish, or to start where they are sidecars.
func initializing(spec, status fields) (Result, bool) {
	all := spec.list("initContainers")
	if len(all) == 0 || !status.condition("Initialized").isFalse() {
		return Result{}, false
	}
	done, current := 0, ""
	for _, v := range status.list("initContainerStatuses") {
		c := asFields(v)
		if c.bool("ready") || c.bool("started") && c.at("state", "running") != nil {
			done++
		} else if current == "" {
			current = c.str("name")
		}
	}
	return progressing("Initializing", "%d of %d init containers done, at %s", done, len(all), current), true
}

func creating(spec, status fields) string {
	for _, v := range status.list("containerStatuses") {
		if reason := asFields(v).at("state", "waiting").str("reason"); reason != "" {
			return fmt.Sprintf("container %s: %s", asFields(v).str("name"), reason)
		}
	}
	if spec.str("nodeName") != "" {
		return "waiting for the kubelet of node " + spec.str("nodeName")
	}
	return "waiting to be scheduled"
}

func podNotReady(spec, status fields) Result {
	total, ready := len(spec.list("containers")), countReady(status)
	for _, v := range status.list("containerStatuses") {
		c := asFields(v)
		if c.bool("ready") {
			continue
		}
		probe := "readiness"
		if c["started"] == false {
			probe = "startup"
		}
		return progressing("ContainersNotReady", "%d of %d containers ready; %s has not passed its %s probe", ready, total, c.str("name"), probe)
	}
	for _, v := range spec.list("readinessGates") {
		gate := asFields(v).str("conditionType")
		if !status.condition(gate).isTrue() {
			return progressing("ReadinessGatesNotReady", "%d of %d containers ready; readiness gate %s is not True", ready, total, gate)
		}
	}
	return progressing("ContainersNotReady", "%d of %d containers ready", ready, total)
}

func countReady(status fields) int {
	ready := 0
	for _, v := range status.list("containerStatuses") {
		if asFields(v).bool("ready") {
			ready++
		}
	}
	return ready
}
