package health

import (
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

func service(_ *Judge, o, status fields.Map) Result {
	spec := o.At("spec")
	kind := spec.Str("type")
	if kind != "LoadBalancer" {
		if kind == "" {
			kind = "ClusterIP"
		}
		return healthy("Present", "present, of type %s", kind)
	}
	if c := status.Condition("LoadBalancerPortsError"); c.IsTrue() {
		return degraded(c.ReasonOr("LoadBalancerPortsError"), "%s", c.Text())
	}
	if addresses := loadBalancerAddresses(status); addresses != "" {
		return healthy("LoadBalancerReady", "load balancer at %s", addresses)
	}
	return progressing("LoadBalancerPending", "waiting for its load balancer's address")
}

func ingress(j *Judge, _, status fields.Map) Result {
	if addresses := loadBalancerAddresses(status); addresses != "" {
		return healthy("LoadBalancerReady", "served at %s", addresses)
	}
	if j.opts.IngressNeedsAddress {
		return progressing("LoadBalancerPending", "waiting for its load balancer's address")
	}
	return healthy("Present", "present, without a load balancer address")
}

func loadBalancerAddresses(status fields.Map) string {
	var addresses []string
	for _, v := range status.At("loadBalancer").List("ingress") {
		f := fields.Of(v)
		if a := f.Str("hostname"); a != "" {
			addresses = append(addresses, a)
		} else if a := f.Str("ip"); a != "" {
			addresses = append(addresses, a)
		}
	}
	return strings.Join(addresses, ", ")
}

func endpointSlice(_ *Judge, o, _ fields.Map) Result {
	endpoints, ready := o.List("endpoints"), 0
	for _, v := range endpoints {
		if fields.Of(v).At("conditions")["ready"] != false { // absent means ready
			ready++
		}
	}
	if ready == 0 && len(endpoints) > 0 {
		return progressing("EndpointsNotReady", "0 of %d endpoints ready", len(endpoints))
	}
	return healthy("EndpointsReady", "%d of %d endpoints ready", ready, len(endpoints))
}

// webhookConfiguration waits for the CA bundle that an injector patches in: until then the API server cannot call a
// webhook that is a Service.
func webhookConfiguration(_ *Judge, o, _ fields.Map) Result {
	webhooks := o.List("webhooks")
	var without []string
	for _, v := range webhooks {
		client := fields.Of(v).At("clientConfig")
		if client["service"] != nil && client.Str("caBundle") == "" {
			without = append(without, fields.Of(v).Str("name"))
		}
	}
	if len(without) > 0 {
		return progressing("CABundleMissing", "%d of %d webhooks have no CA bundle yet: %s", len(without), len(webhooks), strings.Join(without, ", "))
	}
	return healthy("Present", "present with %s", words.Count(len(webhooks), "webhook"))
}
