package sync

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A template is a value with choices in it; sample makes one value of it.
type (
	obj    map[string]any // an object
	list   []any          // a list of all these
	oneOf  []any          // one of these
	some   struct{ v any }
	subset []any // some of these, in any order
)

// absent is what a choice gives that leaves its field out.
type absent struct{}

func sample(r *rand.Rand, template any) any {
	switch t := template.(type) {
	case obj:
		out := map[string]any{}
		for _, k := range sortedKeys(t) {
			if v := sample(r, t[k]); v != (absent{}) {
				out[k] = v
			}
		}
		return out
	case list:
		out := []any{}
		for _, x := range t {
			if v := sample(r, x); v != (absent{}) {
				out = append(out, v)
			}
		}
		return out
	case subset:
		out := []any{}
		for _, i := range r.Perm(len(t)) {
			if r.IntN(2) == 0 {
				out = append(out, sample(r, t[i]))
			}
		}
		return out
	case oneOf:
		return sample(r, t[r.IntN(len(t))])
	case some:
		if r.IntN(2) == 0 {
			return absent{}
		}
		return sample(r, t.v)
	case int:
		return int64(t)
	}
	return template
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// subject is a kind of objects for the oracle.
type subject struct {
	gvk    schema.GroupVersionKind
	body   obj    // of the object beside its identity
	scaled bool   // has a scale subresource
	status obj    // what somebody may write there
	older  string // another version in which others write
}

func pair(name string, values ...any) obj { return obj{"name": name, "value": oneOf(values)} }

// pod is a pod template whose controller has nothing to run.
var pod = obj{
	"metadata": obj{"labels": obj{"app": "x", "tier": some{oneOf{"front", "back"}}}, "annotations": some{obj{"note": some{oneOf{"1", "2"}}}}},
	"spec": obj{
		"containers": list{
			obj{
				"name": "web", "image": oneOf{"nginx:1", "nginx:2"},
				"env":          some{subset{pair("A", "1", "2", ""), pair("B", "1"), obj{"name": "C"}}},
				"ports":        some{subset{obj{"containerPort": 53, "protocol": oneOf{"UDP"}}, obj{"containerPort": 53, "protocol": some{"TCP"}}, obj{"containerPort": 80, "name": some{"http"}}}},
				"args":         some{oneOf{list{"-v"}, list{"-v", "-q"}, list{}}},
				"resources":    some{oneOf{obj{}, obj{"requests": obj{"cpu": oneOf{"1000m", "1", 1, "500m"}, "memory": some{oneOf{"1024Mi", "1Gi"}}}}, obj{"limits": some{obj{"cpu": "2"}}}}},
				"volumeMounts": some{subset{obj{"name": "v1", "mountPath": "/a"}}},
			},
			some{obj{"name": "side", "image": oneOf{"busybox:1", "busybox:2"}}},
		},
		"volumes":                       list{obj{"name": "v1", "emptyDir": oneOf{obj{}, obj{"medium": "Memory"}}}, some{obj{"name": "v2", "configMap": obj{"name": "c", "optional": some{true}}}}},
		"tolerations":                   some{subset{obj{"key": "a", "operator": "Exists"}, obj{"key": "b", "operator": "Exists", "effect": "NoSchedule"}}},
		"nodeSelector":                  some{oneOf{obj{}, obj{"disk": oneOf{"ssd", "hdd"}}}},
		"terminationGracePeriodSeconds": some{oneOf{30, 60}},
		"securityContext":               some{oneOf{obj{}, obj{"runAsUser": oneOf{1, 2}, "supplementalGroups": some{list{1, 2}}}}},
		"topologySpreadConstraints":     some{list{obj{"maxSkew": oneOf{1, 2}, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}}},
		"hostAliases":                   some{subset{obj{"ip": "10.0.0.1", "hostnames": list{"a"}}, obj{"ip": "10.0.0.2"}}},
	},
}

var selector = obj{"matchLabels": obj{"app": "x"}}

// withTemplate adds pod to a workload's spec.
func withTemplate(spec obj) obj {
	spec["selector"], spec["template"] = selector, pod
	return obj{"spec": spec}
}

var jobPod = obj{"spec": obj{
	"restartPolicy": "Never",
	"containers":    list{obj{"name": "job", "image": oneOf{"a:1", "a:2"}, "env": some{subset{pair("A", "1", "2"), pair("B", "1")}}}},
}}

// subjects are the kinds that the oracle drives. group is that of the custom resource.
func subjects(group string) []subject {
	metric := func(name string) obj {
		return obj{"type": "Resource", "resource": obj{"name": name, "target": obj{"type": "Utilization", "averageUtilization": oneOf{50, 80}}}}
	}
	return []subject{
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, body: obj{
			"data":       some{obj{"a": some{oneOf{"1", "2", ""}}, "b.c": some{"x"}, "c": some{oneOf{"1", "long\ntext"}}}},
			"binaryData": some{obj{"z": some{oneOf{"AA==", "AQ=="}}}},
		}},
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, body: obj{
			"type": "Opaque", "stringData": some{obj{"a": some{oneOf{"1", "2"}}, "b": some{"x"}}}, "data": some{obj{"c": some{oneOf{"AA==", "AQ=="}}}},
		}},
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, body: obj{
			"automountServiceAccountToken": some{oneOf{true, false}},
			"imagePullSecrets":             some{subset{obj{"name": "a"}, obj{"name": "b"}}},
			"secrets":                      some{subset{obj{"name": "s"}, obj{"name": "t", "namespace": some{"n"}}}},
		}},
		{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, body: obj{"spec": obj{
			"selector": some{obj{"app": oneOf{"x", "y"}}}, "type": some{oneOf{"ClusterIP", "NodePort"}}, "sessionAffinity": some{oneOf{"None", "ClientIP"}},
			"externalIPs": some{subset{"1.2.3.4", "1.2.3.5"}},
			"ports": list{
				obj{"name": "http", "port": oneOf{80, 83}, "targetPort": some{oneOf{8080, "http"}}, "appProtocol": some{"http"}},
				some{obj{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": some{oneOf{53, "dns"}}}},
				some{obj{"name": "dns-tcp", "port": 53, "protocol": some{"TCP"}}},
			},
		}}, status: obj{"loadBalancer": obj{}}},
		{gvk: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, scaled: true, body: withTemplate(obj{
			"replicas": some{oneOf{0, 1, 2}}, "paused": true, "minReadySeconds": some{oneOf{0, 5}}, "revisionHistoryLimit": some{oneOf{1, 10}},
			"strategy": some{oneOf{obj{"type": "Recreate"}, obj{"type": "RollingUpdate", "rollingUpdate": some{obj{"maxSurge": oneOf{1, "25%", 2}}}}}},
		})},
		{gvk: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, scaled: true, body: withTemplate(obj{
			"replicas": some{oneOf{0, 1}}, "serviceName": "x", "updateStrategy": obj{"type": "OnDelete"}, "podManagementPolicy": some{"OrderedReady"},
			"volumeClaimTemplates": list{obj{"metadata": obj{"name": "disk"}, "spec": obj{"accessModes": list{"ReadWriteOnce"}, "resources": obj{"requests": obj{"storage": "1Gi"}}}}},
		})},
		{gvk: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"}, body: obj{"spec": obj{
			"schedule": oneOf{"0 0 1 1 *", "0 0 2 1 *"}, "suspend": true, "concurrencyPolicy": some{oneOf{"Allow", "Forbid"}},
			"successfulJobsHistoryLimit": some{oneOf{0, 3}}, "jobTemplate": obj{"spec": obj{"backoffLimit": some{oneOf{0, 6}}, "template": jobPod}},
		}}},
		{gvk: schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, body: obj{"spec": obj{
			"ingressClassName": some{oneOf{"a", "b"}},
			"defaultBackend":   obj{"service": obj{"name": oneOf{"a", "b"}, "port": obj{"number": oneOf{80, 81}}}},
			"tls":              some{subset{obj{"hosts": list{"a.example"}, "secretName": some{"a"}}, obj{"secretName": "b"}}},
			"rules":            some{subset{obj{"host": "a.example"}, obj{"host": "b.example", "http": obj{"paths": list{obj{"path": "/", "pathType": "Prefix", "backend": obj{"service": obj{"name": "x", "port": obj{"name": "http"}}}}}}}}},
		}}},
		{gvk: schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, older: "v1", body: obj{"spec": obj{
			"scaleTargetRef": obj{"apiVersion": "apps/v1", "kind": "Deployment", "name": oneOf{"none", "nobody"}},
			"minReplicas":    some{oneOf{1, 2}}, "maxReplicas": oneOf{3, 4},
			"metrics":  some{subset{metric("cpu"), metric("memory")}},
			"behavior": some{obj{"scaleDown": obj{"stabilizationWindowSeconds": oneOf{0, 300}, "policies": some{list{obj{"type": "Pods", "value": oneOf{1, 4}, "periodSeconds": 60}}}}}},
		}}},
		{gvk: schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}, body: obj{"spec": obj{
			"podSelector": oneOf{obj{}, selector}, "policyTypes": some{subset{"Ingress", "Egress"}},
			"ingress": some{oneOf{list{}, list{obj{}}, list{obj{"ports": list{obj{"port": oneOf{80, "http"}, "protocol": some{oneOf{"TCP", "UDP"}}}}}}}},
		}}},
		{gvk: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, body: obj{
			"rules": oneOf{list{}, subset{obj{"apiGroups": list{""}, "resources": list{"pods"}, "verbs": oneOf{list{"get"}, list{"get", "list"}}}, obj{"apiGroups": list{"apps"}, "resources": list{"deployments"}, "verbs": list{"get"}}}},
		}},
		{gvk: schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, body: obj{"spec": obj{
			"selector": oneOf{selector, obj{"matchLabels": obj{"app": "y"}}}, "maxUnavailable": oneOf{1, "50%"}, "unhealthyPodEvictionPolicy": some{"AlwaysAllow"},
		}}},
		{gvk: schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gadget"}, scaled: true, older: "v1beta1", status: obj{"phase": oneOf{"Up", "Down"}}, body: obj{"spec": obj{
			"replicas": some{oneOf{0, 1, 5}}, "mode": some{oneOf{"fast", "slow"}},
			"set":    some{subset{"a", "b", "c"}},
			"atomic": some{subset{"a", "b"}},
			"keyed":  some{subset{obj{"name": "a", "zone": some{"here"}, "weight": some{oneOf{1, 2}}}, obj{"name": "b", "zone": "there", "tags": some{subset{"x", "y"}}}, obj{"name": "a", "zone": "there"}}},
			"whole":  some{obj{"a": some{oneOf{1, 2}}, "b": some{3}}},
			"free":   some{oneOf{obj{}, obj{"deep": some{obj{"er": oneOf{1, "x", nil}}}, "list": some{list{1, 2}}}}},
			"nested": some{obj{"enabled": some{oneOf{true, false}}, "size": some{oneOf{"1", 1}}}},
		}}},
	}
}

// gadgets is a kind with each kind of list and map that a schema can declare.
func gadgets(group string) string {
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`
    - name: %s
      served: true
      storage: %v
      subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
            spec:
              type: object
              properties:
                replicas: {type: integer, default: 1}
                mode: {type: string, default: slow}
                set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
                atomic: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
                keyed:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name, zone]
                  items:
                    type: object
                    required: [name]
                    properties:
                      name: {type: string}
                      zone: {type: string, default: here}
                      weight: {type: integer, default: 1}
                      tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
                whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: integer}}
                free: {type: object, x-kubernetes-preserve-unknown-fields: true}
                nested: {type: object, default: {}, properties: {enabled: {type: boolean, default: true}, size: {x-kubernetes-int-or-string: true}}}`, name, storage)
	}
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:%[2]s%[3]s
`, group, version("v1", true), version("v1beta1", false))
}
